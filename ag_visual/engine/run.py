"""The backward pass: dependency counts, then nodes by descending sequence number.

`plain_loop` is the pass itself, `full_loop` the same with all that may look on. Nothing here
recurses. While no graph is recorded, gradients are plain arrays and nodes run their raw namespace;
otherwise Tensors and the traced namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from sys import _getframe
from threading import get_ident
from types import FrameType
from typing import Any

from ag_visual.arrays.quiet import IGNORE, errors
from ag_visual.core import modes, node as nodes, source
from ag_visual.core.node import Edge, Replaced
from ag_visual.dispatch.validate_grad import taken
from ag_visual.engine import hook_calls
from ag_visual.engine.fresh_thread import in_fresh_thread
from ag_visual.engine.full_loop import full_loop
from ag_visual.engine.input_buffer import gathered, rooted
from ag_visual.engine.plain_loop import plain_loop
from ag_visual.engine.stages import bare
from ag_visual.engine.streams import Streams
from ag_visual.engine.task import GraphTask, dependencies, leading_to, ranks_of
from ag_visual.events import instrument, live
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.log import BEGIN, END, EventLog

_NO_NODES: frozenset[Any] = frozenset()
_NOWHERE = (None, 0)

MAX_DEPTH = 20
"""Backwards nested deeper than this go on in a fresh thread: each level costs Python frames."""

for _loop in (plain_loop, full_loop):
    source.inside[_loop.__code__.co_filename] = source.LOOP


def run_backward(
    roots: Sequence[Any],
    grads: Sequence[Any],
    *,
    retain: bool,
    create_graph: bool,
    call_site: Any,
    inputs: Sequence[Edge] | None = None,
    into_leaves: bool = True,
    tensors: Sequence[Any] = (),
) -> list[Any]:
    """Run backward from `roots` (edges) with `grads` (Tensors; arrays will do without a graph).

    inputs: edges whose gradients are wanted; only what leads to them runs. into_leaves: with
    `inputs`, accumulate (backward) instead of only returning (grad). tensors: those of the roots,
    None for one not at hand, or none of them: for observers. Returns the gradients of `inputs` as
    Tensors, None where nothing arrived.
    """
    state = modes.state
    thread = get_ident()
    task = GraphTask()
    task.id = next(live.tasks)
    task.root_edges = roots
    task.tensors = tensors
    task.grads = grads
    task.retain = retain
    task.create_graph = create_graph
    task.traced = create_graph or (modes.special != 0 and _at_levels())
    if task.traced:
        task.grads = [hook_calls.wrap(g) for g in grads]
    task.call_site = call_site
    task.inputs = inputs
    task.into_leaves = into_leaves
    task.thread = thread
    task.parent = state.task
    task.depth = 0
    if task.parent is not None:
        task.parent = parent = running()
        if parent is not None and parent.thread == thread:
            task.depth = parent.depth + 1
    if task.depth < MAX_DEPTH:
        return _execute(task)
    task.depth = 0
    return in_fresh_thread(lambda: _execute(task))


def _execute(task: GraphTask) -> list[Any]:
    """Run a backward in this thread."""
    state = modes.state
    task.thread = get_ident()
    task.captured = task.quiet = _NO_NODES
    nothing: Any = None  # mypy does not see what hooks may store there
    task.needed = task.reached = task.callbacks = task.modes = nothing
    task.order = task.total = 0
    task.captures = {}
    task.buffers = {}
    task.owned = set()
    task.ready = []
    task.leaves = []
    task.before = previous = state.grad
    numpy_errors = errors.get()
    task.error = ""
    try:
        state.task = task
        modes.set_grad(task.create_graph)
        errors.set(IGNORE)
        counts = task.counts = dependencies(task.root_edges)
        if instrument.begin is not None:
            instrument.begin(task)
        task.tensors = ()
        task.total = len(counts)
        if task.inputs is not None:
            _choose(task, task.inputs)
        task.ranks = None if nodes.renumbered is None else ranks_of(counts)
        if instrument.sink is not None:
            _emit_begin(instrument.sink, task)
        task.streams = None if modes.streams is None else Streams(modes.streams)
        # `full_loop` times nodes, and goes from stream to stream.
        task.plain = task.ranks is None and instrument.spans is None and task.streams is None
        if task.needed is not None:
            task.plain &= not task.quiet and all(node.leaf for node in task.captured)
        _start(task)
        call_site = None if task.retain else task.call_site or _NOWHERE
        while task.ready or task.leaves:
            plain_loop(task, call_site)
            if task.ready or task.leaves:
                full_loop(task, call_site)
        errors.set(numpy_errors)
        if task.streams is not None:
            task.streams.join()
        if task.callbacks is not None:
            if task.modes is not None:
                modes.put_back(task.modes)
            task.call_back()
    except BaseException as caught:
        task.error = type(caught).__name__
        raise
    finally:
        # No call before all of it is done, as a signal may end the program at any.
        state.task = task.parent
        kept = task.modes
        if kept is not None:  # `modes.put_back(kept)`, but for its last line
            modes.special += kept["slow"] - state.slow
            modes.slowed += kept["slow"] - state.slow
            state.slow = kept["slow"]
        if kept is not None or state.grad is not previous:
            modes.special += state.grad - previous
            state.grad = previous
            state.fast = None if state.slow else previous
        try:
            if kept is not None:
                kept["grad"] = previous
                state.__dict__.update(kept)
            errors.set(numpy_errors)
            if instrument.sink is not None or instrument.end is not None:
                _emit_end(task)
        except Exception:
            raise
        except BaseException:
            errors.set(numpy_errors)
            _emit_end(task)  # an interrupt: observers count on being told
            raise
    if task.inputs is None:
        return []
    found: dict[Any, Any] = {}
    return [None if e is None else _captured(task, e[0], e[1], found) for e in task.inputs]


def _at_levels() -> bool:
    """Whether gradients may belong to a level of a transform, or have tangents."""
    return bool(modes.state.levels) or modes.duals > 0


def _choose(task: GraphTask, inputs: Sequence[Edge]) -> None:
    """Which nodes run so that these edges get their gradients, and whose are returned."""
    counts = task.counts
    ends = {edge[0] for edge in inputs if edge is not None}
    task.needed = leading_to(ends, counts)
    if task.into_leaves:
        # As in torch: these run, too, if only for their hooks.
        more = {node for node in ends if node in counts and node not in task.needed}
        task.quiet = {node for node in more if node.skips}
        task.needed |= more
    else:
        task.captured = ends
    task.reached = task.needed | task.captured
    task.total = len(task.needed)


def _start(task: GraphTask) -> None:
    """Give the roots what the backward begins with."""
    starts, buffers = task.root_edges, task.buffers
    if Replaced.ever:
        _fit_grads(task)
    if len(starts) == 1 and starts[0][0].outs is None and not starts[0][0].leaf:
        node = starts[0][0]
        task.ready.append((0, node, bare(task.grads[0], task)))
        return
    for edge, grad in zip(starts, task.grads, strict=True):
        # As in torch, where only a lone root that leads nowhere runs its hooks.
        if len(starts) == 1 or task.reaches(edge[0]):
            buffers[edge[0]] = gathered(task, edge, bare(grad, task))
    for node in list(buffers):
        if task.counts[node] == 0:
            if node.leaf:
                task.leaves.append(node)
            else:
                heappush(task.ready, (-task.rank(node), node, buffers.pop(node)))


def _fit_grads(task: GraphTask) -> None:
    """What the roots are given has their shapes; their nodes may take others (see `Replaced`)."""
    task.grads = [
        rooted(edge, bare(grad, task), at) if type(taken(edge)[0]) is Replaced else grad
        for at, (edge, grad) in enumerate(zip(task.root_edges, task.grads, strict=True))
    ]


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
        frames += frame.f_code is _execute.__code__
        frame = frame.f_back
    while task is not None and task.thread == thread and task.depth >= frames:
        if state.grad is task.create_graph:
            modes.set_grad(task.before)
        state.task = task = task.parent
    return task  # type: ignore[no-any-return]


def _emit_begin(sink: EventLog, task: GraphTask) -> None:
    """Tell observers that a backward begins."""
    code, lasti = task.call_site or _NOWHERE
    starts = tuple([edge[0].seq for edge in task.root_edges])
    now = perf_counter_ns()
    begun = (task.thread, task.id, code, lasti, starts, task.total, task.retain)
    sink.emit((BEGIN, now, *begun))


def _emit_end(task: GraphTask) -> None:
    """Tell observers that a backward has ended."""
    sink = instrument.sink
    if sink is not None:
        sink.emit((END, perf_counter_ns(), task.thread, task.id, task.error))
    if instrument.end is not None:
        instrument.end(task)


def _captured(task: GraphTask, node: Any, number: int, found: dict[Any, Any]) -> Any:
    """The gradient of an input: one object, however often that input was given."""
    if (node, number) not in found:
        values = task.captures.get(node)
        found[node, number] = None if values is None else hook_calls.wrap(values[number])
    return found[node, number]
