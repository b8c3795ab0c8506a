"""The backward pass: dependency counts, then nodes by descending sequence number.

AccumulateGrad runs as soon as it is ready. Nothing here recurses. While no graph is recorded,
gradients are plain arrays and nodes run their raw face; otherwise Tensors and the traced face.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf as INFINITY
from sys import _current_frames, _getframe, getrefcount
from threading import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any

import numpy
from numpy import add, asarray, generic, ndarray

from ag_visual.arrays import backend as backends
from ag_visual.arrays.quiet import IGNORE, errors
from ag_visual.core import modes, seam
from ag_visual.core import node as nodes
from ag_visual.core.bell import Bell
from ag_visual.core.node import AccumulateGrad, Edge, Replaced
from ag_visual.core.seam import SMALL
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import validate_grad
from ag_visual.dispatch.table import raw, raw_numpy, traced
from ag_visual.engine import accumulate, anomaly, hook_calls
from ag_visual.engine.accumulate import ALONE
from ag_visual.engine.hook_calls import squares

_ids = itertools.count(1)
_LATER: dict[str, Callable[[], Any]] = {"captures": dict, "captured": set, "quiet": set}
_F32, _F64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)
_C64, _C128 = numpy.dtype(numpy.complex64), numpy.dtype(numpy.complex128)


MAX_DEPTH = 20
"""Backwards nested deeper than this go on in a fresh thread: each level costs Python frames."""


def _in_fresh_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """The result of `work`, run in a thread with this one's modes and an empty stack.

    What interrupts this thread goes on to that one: the backward has ended there before it is
    raised here.
    """
    inherited = modes.snapshot()
    outcome: list[tuple[list[Any], BaseException | None]] = []
    ended = Bell()
    idents: list[int] = []
    interrupts: list[BaseException] = []

    def run() -> None:
        found: tuple[list[Any], BaseException | None]
        try:
            idents.append(get_ident())
            modes.take_over(inherited)
            found = work(), None
        except BaseException as error:
            found = [], error
        outcome.append(found)
        ended.set()

    try:
        # Not by `threading.Thread`, whose `start` an interrupt can leave half done.
        start_new_thread(run, ())
    except Exception:
        raise
    except BaseException as interrupt:
        interrupts.append(interrupt)
    passed_on = 0
    # That thread may end without an outcome, where an interrupt met it at its end.
    while not outcome and (not interrupts or not idents or idents[0] in _current_frames()):
        try:
            if passed_on < len(interrupts) and idents:
                target, kind = ctypes.c_ulong(idents[0]), ctypes.py_object(type(interrupts[-1]))
                passed_on = len(interrupts)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, kind)
            ended.wait(0.01 if interrupts else None)
        except BaseException as interrupt:
            interrupts.append(interrupt)
    result, error = outcome[0] if outcome else ([], None)
    if error is None and interrupts:
        error = interrupts[0]
    if error is not None:
        raise error
    return result


class GraphTask:
    """One run of backward: what it was asked for and how far it is."""

    __slots__ = (
        "__weakref__",
        "before",
        "callbacks",
        "captured",
        "captures",
        "counts",
        "create_graph",
        "depth",
        "id",
        "modes",
        "needed",
        "order",
        "parent",
        "place",
        "quiet",
        "retain",
        "roots",
        "starts",
        "thread",
        "total",
    )

    id: int
    starts: Sequence[Any]  # the edges it began with
    retain: bool
    create_graph: bool
    place: Any
    thread: int
    parent: GraphTask | None
    depth: int  # how many backwards it is nested in on its thread's stack
    order: int
    total: int
    counts: dict[Any, int]
    needed: set[Any] | None  # the nodes that run; None: all of the graph
    callbacks: list[Callable[[], None]] | None  # to call when it has ended
    before: bool  # the grad mode of who called it
    modes: dict[str, Any] | None  # what all modes were before a hook changed one
    # Made when first asked for, as a small backward takes no longer than making them all:
    roots: tuple[Any, ...]
    captures: dict[Any, list[Any]]
    captured: set[Any]  # the nodes whose gradients are returned
    quiet: set[Any]  # of the nodes that run: those of which no input's gradient is wanted

    # No __init__, as a class without one makes its objects faster: `run_backward` fills one in.

    def __getattr__(self, name: str) -> Any:
        if name == "roots":
            value: Any = tuple(edge[0] for edge in self.starts)
        elif name in _LATER:
            value = _LATER[name]()
        else:
            raise AttributeError(name)
        setattr(self, name, value)
        return value

    def call_back(self) -> None:
        """Call what was queued for the end, what that queues included."""
        for callback in self.callbacks or ():
            callback()

    def will_run(self, node: Any) -> bool:
        """Whether this backward runs a node."""
        if node.leaf and node in self.captured and node in self.counts:
            raise RuntimeError(
                "A leaf node was passed to _will_engine_execute_node but we are currently "
                "running autograd.grad(). This is currently not supported."
            )
        return node in self.counts and self.reaches(node)

    def reaches(self, node: Any) -> bool:
        """Whether a gradient is passed on to a node of the graph."""
        return self.needed is None or node in self.needed or node in self.captured

    def whole(self) -> bool:
        """Does this backward, and every one it is nested in, run its whole graph?"""
        task: GraphTask | None = self
        while task is not None:
            if task.needed is not None:
                return False
            task = task.parent
        return True

    def execution_order(self) -> list[Any]:
        """All nodes in the order in which this backward runs them."""
        counts = dependencies([(root, 0) for root in self.roots])
        ranks = _ranks(counts) or {n: n.seq for n in counts}
        ready = [(-ranks[n], n) for n in dict.fromkeys(self.roots) if not counts[n] and not n.leaf]
        heapify(ready)
        leaves = [n for n in dict.fromkeys(self.roots) if not counts[n] and n.leaf]
        order: list[Any] = []
        while leaves or ready:
            node = leaves.pop(0) if leaves else heappop(ready)[1]
            if self.reaches(node):
                order.append(node)
            for edge in node.next:
                if edge is None:
                    continue
                following = edge[0]
                counts[following] -= 1
                if counts[following]:
                    continue
                if following.leaf:
                    leaves.append(following)
                else:
                    heappush(ready, (-ranks[following], following))
        return order


def dependencies(roots: Sequence[Any]) -> dict[Any, int]:
    """How many gradients each reachable node waits for."""
    counts: dict[Any, int] = {edge[0]: 0 for edge in roots}
    # It grows while it is read: quicker than a stack, and the nodes hold its tuples anyway.
    waiting = [node.next for node in counts]
    for nexts in waiting:
        for edge in nexts:
            if edge is not None:
                node = edge[0]
                if node in counts:
                    counts[node] += 1
                else:
                    counts[node] = 1
                    waiting.append(node.next)
    return counts


_by_age = operator.attrgetter("seq")


def _needed(counts: dict[Any, int], captured: set[Any]) -> set[Any]:
    """The nodes that must run so that every captured node gets its gradient."""
    needed: set[Any] = set()
    # Inputs have lower sequence numbers than what uses them; leaves lead nowhere.
    for node in sorted([n for n in counts if type(n) is not AccumulateGrad], key=_by_age):
        for edge in node.next:
            if edge is not None and (edge[0] in needed or edge[0] in captured):
                needed.add(node)
                break
    return needed


def _ranks(counts: dict[Any, int]) -> dict[Any, int] | None:
    """The place of each node in the order of sequence numbers; None where that is their age's."""
    given = nodes.renumbered
    if given is None or not any(node in counts for node in given):
        return None
    order = sorted(counts, key=lambda node: (given.get(node, node.seq), node.seq))
    return {node: rank for rank, node in enumerate(order)}


def run_backward(
    roots: Sequence[Any],
    grads: Sequence[Any],
    *,
    retain: bool,
    create_graph: bool,
    place: Any,
    inputs: Sequence[Edge] | None = None,
    into_leaves: bool = True,
) -> list[Any]:
    """Run backward from `roots` (edges) with `grads` (Tensors; arrays will do without a graph).

    inputs: edges whose gradients are wanted; only what leads to them runs. into_leaves: with
    `inputs`, accumulate (backward) instead of only returning (grad). Returns the gradients of
    `inputs` as Tensors, None where nothing arrived.
    """
    state = modes.state
    thread = get_ident()
    parent = state.task
    if parent is None:
        depth = 0
    else:
        parent = running()
        depth = parent.depth + 1 if parent is not None and parent.thread == thread else 0
    if depth >= MAX_DEPTH:
        return _in_fresh_thread(
            lambda: run_backward(
                roots,
                grads,
                retain=retain,
                create_graph=create_graph,
                place=place,
                inputs=inputs,
                into_leaves=into_leaves,
            )
        )
    task = GraphTask()
    task.id = next(_ids)
    task.starts = roots
    task.retain = retain
    task.create_graph = create_graph
    task.place = place
    task.thread = thread
    task.parent = parent
    task.depth = depth
    task.order = task.total = 0
    nothing: Any = None  # mypy does not see what hooks may store there
    task.needed = task.callbacks = task.modes = nothing
    task.before = previous = state.grad
    told = errors.get()
    error = ""
    try:
        state.task = task
        modes.set_grad(create_graph)
        errors.set(IGNORE)
        counts = task.counts = dependencies(roots)
        if seam.begin is not None:
            seam.begin(task)
        sink = seam.sink
        task.total = len(counts)
        if inputs is not None:
            ends = {edge[0] for edge in inputs if edge is not None}
            needed = task.needed = _needed(counts, ends)
            if into_leaves:
                # As in torch: these run, too, if only for their hooks.
                more = {node for node in ends if node in counts and node not in needed}
                task.quiet = {node for node in more if node.skips}
                needed |= more
            else:
                task.captured = ends
            task.total = len(needed)
        if sink is not None:
            code, lasti = place or (None, 0)
            starts = tuple([edge[0].seq for edge in roots])
            now = perf_counter_ns()
            begun = (thread, task.id, code, lasti, starts, task.total, retain)
            sink.tell((seam.BEGIN, now, *begun))
        _loop(task, counts, roots, grads)
        errors.set(told)
        if task.callbacks is not None:
            if task.modes is not None:
                modes.put_back(task.modes)
            task.call_back()
    except BaseException as caught:
        error = type(caught).__name__
        raise
    finally:
        # No call before all of it is done, as a signal may end the program at any.
        state.task = parent
        kept = task.modes
        if kept is not None:  # `modes.put_back(kept)`, but for its last line
            modes.special += kept["slow"] - state.slow
            state.slow = kept["slow"]
        if kept is not None or state.grad is not previous:
            modes.special += state.grad - previous
            state.grad = previous
            state.fast = None if state.slow else previous
        try:
            if kept is not None:
                kept["grad"] = previous
                state.__dict__.update(kept)
            errors.set(told)
            if seam.sink is not None or seam.end is not None:
                _tell_end(task, error)
        except Exception:
            raise
        except BaseException:
            errors.set(told)
            _tell_end(task, error)  # an interrupt: observers count on being told
            raise
    if inputs is None:
        return []
    found: dict[Any, Any] = {}
    return [None if edge is None else _captured(task, edge[0], edge[1], found) for edge in inputs]


def running() -> GraphTask | None:
    """The backward that runs in this thread.

    One whose frame is gone from the stack is forgotten, and the grad mode that it left put back.
    """
    state = modes.state
    task = state.task
    if task is None:
        return None
    thread = get_ident()
    frames = 0
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        frames += frame.f_code is run_backward.__code__
        frame = frame.f_back
    if _getframe(1).f_code is run_backward.__code__:
        frames -= 1  # which is about to begin
    while task is not None and task.thread == thread and task.depth >= frames:
        if state.grad is task.create_graph:
            modes.set_grad(task.before)
        state.task = task = task.parent
    return task  # type: ignore[no-any-return]


def _tell_end(task: GraphTask, error: str) -> None:
    """Tell observers that a backward has ended."""
    sink = seam.sink
    if sink is not None:
        sink.tell((seam.END, perf_counter_ns(), task.thread, task.id, error))
    if seam.end is not None:
        seam.end(task)


def _captured(task: GraphTask, node: Any, number: int, found: dict[Any, Any]) -> Any:
    """The gradient of an input: one object, however often that input was given."""
    if (node, number) not in found:
        values = task.captures.get(node)
        found[node, number] = None if values is None else hook_calls.wrap(values[number])
    return found[node, number]


def _loop(
    task: GraphTask,
    counts: dict[Any, int],
    roots: Sequence[Any],
    grads: Sequence[Any],
) -> None:
    recording, id_ = task.create_graph, task.id
    retain, place = task.retain, task.place or (None, 0)
    needed = task.needed
    quiet = task.quiet if needed is not None else ()
    idle = False
    ranks = None if nodes.renumbered is None else _ranks(counts)
    # The nodes that a gradient is passed on to; None: all.
    reached = None if needed is None else needed | task.captured
    buffers: dict[Any, Any] = {}
    # The nodes whose buffer holds a sum that was made here, to which one may add in place.
    owned: set[Any] = set()
    ready: list[tuple[int, Any, Any]] = []  # with what arrived; sequence numbers are unique
    leaves: list[Any] = []
    # The ready node that comes before all in the heap, and its gradient: a chain needs no heap.
    only: Any = None
    arrived: Any = None
    if len(roots) == 1 and roots[0][0].outs is None and not roots[0][0].leaf:
        only, arrived = roots[0][0], _bare(grads[0], recording)
    else:
        for edge, grad in zip(roots, grads, strict=True):
            if reached is not None and len(roots) > 1 and edge[0] not in reached:
                # As in torch, where only a lone root that leads nowhere runs its hooks.
                continue
            _add(buffers, edge[0], edge[1], _bare(grad, recording))
        single = len(buffers) == 1
        for node in list(buffers):
            if counts[node] == 0:
                if node.leaf:
                    leaves.append(node)
                elif single:
                    only, arrived = node, buffers.pop(node)
                else:
                    rank = node.seq if ranks is None else ranks[node]
                    heappush(ready, (-rank, node, buffers.pop(node)))
    while True:
        if leaves:
            for node in leaves:
                if task.modes is not None:
                    _as_at_first(task)
                if reached is None or node in reached or len(counts) == 1:
                    _leaf(task, node, buffers)
            leaves.clear()
        if only is not None:
            node, g = only, arrived
            only = arrived = None
        elif ready:
            _, node, g = heappop(ready)
        else:
            return
        if task.modes is not None:
            _as_at_first(task)
        # Each attribute of a node costs 20 ns here, where nodes of many classes come by.
        hooks = node.hooks
        if needed is None:
            if hooks is not None:
                g = _hooks_before(task, node, g)
        else:
            # As in torch: a captured gradient has passed the tensor hooks, unless its node runs.
            runs = node in needed
            before = g
            if hooks is not None:
                g = _hooks_before(task, node, g)
            if node in task.captured:
                kept = before if runs else g
                task.captures[node] = list(kept) if node.outs is not None and kept else [kept]
            if not runs:
                continue
            idle = node in quiet
        sink = seam.sink
        if sink is not None:
            started = perf_counter_ns()
        if hooks is not None and hooks.pre:
            g = _pre(task, node, g)
        if seam.gate is not None:
            g = _gate(task, node, g)
        # The gradients of the node's inputs.
        if idle or (g is None and not node.runs_undefined):
            results: Any = node.skip(None if retain else place)
        elif modes.anomaly is not None:
            results = _careful(task, node, g, place)
        elif recording:
            if not retain:
                node.claim(place)
            results = node.traced(g)
            if not retain:
                node.release()
        else:
            if type(g) is ndarray:
                F, dtype = raw_numpy, g.dtype
            else:
                F, dtype = _face(g), node.dtype
            if (dtype is _C128 or dtype is _C64) and node.holomorphic:
                results = conjugated(F, node, g, None if retain else place)
            else:
                results = node.raw(F, g) if retain else node.take(F, g, place)
        if sink is not None:
            if type(g) is ndarray and 0 < g.nbytes <= SMALL:  # `_record`, written out
                now = perf_counter_ns()
                sink.run((node.seq, id_, task.order, started, now, g.tobytes(), g.dtype))
            else:
                _record(sink, task, node, g, started)
        task.order += 1
        if node.hooks is not None and node.hooks.post:
            results = _post(task, node, results, g)
        for edge, result in zip(node.next, results):  # noqa: B905 - strict costs 60 ns a node
            if edge is None:
                continue
            following, number, shape, dtype = edge
            left = counts[following] - 1
            if left:
                counts[following] = left
            if reached is not None and following not in reached:
                continue
            if result is not None:
                if recording:
                    array = result._array
                    if shape is None or array.shape != shape or array.dtype is not dtype:
                        result = _fit_traced(node, edge, result)
                    if shape is None:
                        _add(buffers, following, number, result)
                        result = None
                    elif following in buffers:
                        buffers[following] = buffers[following] + result
                        result = None
                else:
                    if type(result) is not ndarray:
                        result = _array(result, g)
                    if shape is not None:
                        if result.shape != shape or result.dtype is not dtype:
                            xp = numpy if type(result) is ndarray else _xp(result)
                            if type(shape) is Replaced:
                                result = validate_grad.fit_edge(
                                    validate_grad.fit, xp, node, edge, result
                                )
                            else:
                                result = validate_grad.fit(xp, result, shape, dtype)
                        if following in buffers:
                            if following in owned:
                                total = buffers[following]
                                add(total, result, total)
                            else:
                                total = buffers[following] = _sum(buffers[following], result)
                                if type(total) is ndarray:
                                    owned.add(following)
                            result = None
                    else:
                        result = validate_grad.fit(_xp(result), result, *following.outs[number])
                        _add(buffers, following, number, result)
                        result = None
            # `result` is now what has arrived at that node alone, or None: look in the buffers.
            if left:
                pass
            elif type(following) is AccumulateGrad:
                leaves.append(following)
            else:
                if result is None:
                    result = buffers.pop(following, None)
                if ranks is not None:
                    heappush(ready, (-ranks[following], following, result))
                    continue
                if only is None and not ready:
                    only, arrived = following, result
                    continue
                seq = following.seq
                if only is not None and seq > only.seq:
                    heappush(ready, (-only.seq, only, arrived))
                    only, arrived = following, result
                    continue
                if only is None and seq > -ready[0][0]:
                    only, arrived = following, result
                    continue
                heappush(ready, (-seq, following, result))
                continue
            if result is not None:
                buffers[following] = result
        # No name may keep a gradient alive that a leaf could adopt.
        results = result = array = total = g = None


def _as_at_first(task: GraphTask) -> None:
    """Undo what a hook did to the modes: each node begins with those of the backward."""
    assert task.modes is not None
    modes.put_back(task.modes)
    task.modes = None


def _add(buffers: dict[Any, Any], node: Any, number: int, g: Any) -> None:
    """Add a gradient to what has arrived at one output of a node."""
    if node.outs is not None:
        slots = buffers.get(node)
        if slots is None:
            slots = buffers[node] = [None] * len(node.outs)
        old = slots[number]
        slots[number] = g if old is None else _sum(old, g)
        return
    old = buffers.get(node)
    buffers[node] = g if old is None else _sum(old, g)


def _sum(a: Any, b: Any) -> Any:
    result = a + b
    return asarray(result) if isinstance(result, generic) else result


def _careful(task: GraphTask, node: Any, g: Any, place: Any) -> Any:
    """Run a node in anomaly mode."""

    def compute() -> Any:
        if task.create_graph:
            if not task.retain:
                node.claim(place)
            results = node.traced(g)
            if not task.retain:
                node.release()
            return results
        kept = None if task.retain else place
        if node.dtype.kind == "c" and node.holomorphic:
            return conjugated(_face(g), node, g, kept)
        return node.raw(_face(g), g) if kept is None else node.take(_face(g), g, kept)

    hooked = node.hooks is not None and bool(node.hooks.post)  # they may still mend what is NaN
    return anomaly.run(node, compute, checks=not hooked)


def conjugated(F: Any, node: Any, g: Any, place: Any) -> list[Any]:
    """Run a holomorphic node on conjugated gradients (docs/notes/holomorphic-rules)."""
    given = [None if x is None else F.conj(x) for x in g] if node.outs is not None else F.conj(g)
    results = node.raw(F, given) if place is None else node.take(F, given, place)
    return [None if x is None else F.conj(x) for x in results]


def _first(g: Any) -> Any:
    return next((x for x in g if x is not None), None) if isinstance(g, list) else g


def _xp(array: Any) -> Any:
    return numpy if type(array) is ndarray else backends.backend_of(array).xp


def _face(g: Any) -> Any:
    first = _first(g)
    return raw_numpy if first is None else raw(_xp(first))


def _array(result: Any, like: Any) -> Any:
    """Scalars that NumPy returns for 0-d arithmetic, as arrays; other backends' arrays as is."""
    if isinstance(result, numpy.generic) or not hasattr(result, "shape"):
        first = _first(like)
        backend = backends.backend_of(first) if first is not None else None
        return asarray(result) if backend is None else backend.asarray(result)
    return result


def _fit_traced(node: Any, edge: Any, g: Any) -> Any:
    return validate_grad.fit_edge(validate_grad.fit_traced, traced, node, edge, g)


def _bare(value: Any, recording: bool) -> Any:
    return value._array if not recording and isinstance(value, Tensor) else value


def _per_output(node: Any, g: Any) -> list[Any]:
    """What arrived at a node as a list with one entry for each of its outputs."""
    if node.outs is None:
        return [g]
    return [None] * len(node.outs) if g is None else list(g)


def _hooks_before(task: GraphTask, node: Any, g: Any) -> Any:
    """Tensor hooks of each output (they see None where no gradient arrived), then retain_grad."""
    hooks = node.hooks
    if not (hooks.tensor or hooks.retain):
        return g
    values = _per_output(node, g)
    for number in dict.fromkeys((*hooks.tensor, *hooks.retain)):
        tensor = hook_calls.wrap(values[number])
        if number in hooks.tensor:
            tensor = hook_calls.tensor_hooks(hooks.tensor[number], tensor, node, task, number)
        if tensor is None:
            continue
        if number in hooks.retain:
            hook_calls.retain(node, number, tensor, task)
        values[number] = _bare(tensor, task.create_graph)
    if g is None:
        return None
    return values if node.outs is not None else values[0]


def _pre(task: GraphTask, node: Any, g: Any) -> Any:
    values = _per_output(node, g)
    values = hook_calls.pre_hooks(node, [hook_calls.wrap(v) for v in values], task)
    values = [_bare(v, task.create_graph) for v in values]
    if all(v is None for v in values):
        return None
    return values if node.outs is not None else values[0]


def _post(task: GraphTask, node: Any, results: Any, g: Any) -> Any:
    if modes.anomaly is None:
        return _posted(task, node, results, g)
    return anomaly.run(node, lambda: _posted(task, node, results, g))


def _posted(task: GraphTask, node: Any, results: Any, g: Any) -> Any:
    given = _per_output(node, g)
    wrapped = []
    for edge, result in zip(node.next, results, strict=True):
        if result is not None and not isinstance(result, Tensor):
            result = _array(result, g)
            if edge is not None:
                result = validate_grad.fit_edge(validate_grad.fit, _xp(result), node, edge, result)
        wrapped.append(hook_calls.wrap(result))
    values = hook_calls.post_hooks(node, wrapped, [hook_calls.wrap(v) for v in given], task)
    return [_bare(v, task.create_graph) for v in values]


def _gate(task: GraphTask, node: Any, g: Any) -> Any:
    """Let the observer look, wait or replace the gradients before the node runs."""
    gate = seam.gate
    if gate is None:
        return g
    values = list(g) if node.outs is not None and g is not None else [g]
    values = gate(task, node, values)
    return values if node.outs is not None else values[0]


def _record(sink: Any, task: GraphTask, node: Any, g: Any, started: int) -> None:
    now = perf_counter_ns()
    # The norm is all that live recording computes of values; of small gradients, who reads it.
    if type(g) is ndarray:
        dtype = g.dtype
        if 0 < g.nbytes <= SMALL:
            sink.run((node.seq, task.id, task.order, started, now, g.tobytes(), dtype))
            return
        total = INFINITY
        if dtype is _F32 or dtype is _F64:  # `squares`, where it is as simple as this
            flat = g.ravel()
            total = float(flat.dot(flat))
        if not total < INFINITY:
            total = squares(g)
    elif g is None:
        total = -1.0
    else:
        known = [hook_calls.norm2(x) for x in (g if isinstance(g, list) else [g]) if x is not None]
        total = sum(known) if known else -1.0
    sink.run((node.seq, task.id, task.order, started, now, total, None))


def _leaf(task: GraphTask, node: Any, buffers: dict[Any, Any]) -> None:
    """Run an AccumulateGrad: leaf hooks, pre-hooks, accumulate, post-accumulate hooks, hooks."""
    g = buffers.pop(node, None)
    variable = node.variable
    leaf = variable._leaf
    if leaf is not None and leaf.hooks:
        g = hook_calls.tensor_hooks(leaf.hooks, hook_calls.wrap(g), node, task)
        g = _bare(g, task.create_graph)
    if task.needed is not None and node not in task.needed:
        task.captures[node] = [g]
        return
    hooked = node.hooks is not None or (leaf is not None and leaf.post_accumulate)
    if g is None and not hooked:
        return
    sink = seam.sink
    started = perf_counter_ns() if sink is not None else 0
    if node.hooks is not None and node.hooks.pre:
        g = _pre(task, node, g)
    if seam.gate is not None:
        g = _gate(task, node, g)
    # A gradient that nobody else holds, be it a hook's result, may become .grad itself.
    alone = getrefcount(g) == ALONE
    with node.lock:
        if g is None:
            pass
        elif not (variable._rg or variable.requires_grad):
            pass  # since the forward nobody wants its gradient any more
        elif task.create_graph:
            accumulate.accumulate_traced(traced, variable, g)
        else:
            accumulate.accumulate(_xp(g), variable, g, alone, task.place)
    if sink is not None:
        _record(sink, task, node, g, started)
    task.order += 1
    if leaf is not None and leaf.post_accumulate:
        hook_calls.post_accumulate_hooks(node, task)
    if node.hooks is not None and node.hooks.post:
        hook_calls.post_hooks(node, [], [hook_calls.wrap(g)], task)


__all__ = ["GraphTask", "from_array", "run_backward", "running"]
