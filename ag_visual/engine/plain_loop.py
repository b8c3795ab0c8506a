"""The backward pass where nothing interferes: no hooks, and no capture but of leaves.

This is all of reverse mode. What is unusual is left to `full_loop`, which goes on from the same
GraphTask; both must give the same (tests/engine/test_loops.py).
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf as INFINITY
from sys import getrefcount
from typing import Any

from numpy import add, ndarray

from ag_visual.core import modes
from ag_visual.core.node import AccumulateGrad
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import raw_numpy
from ag_visual.engine import stages
from ag_visual.engine.accumulate import ALONE
from ag_visual.engine.compute import COMPLEX64, COMPLEX128, compute, too_large, unlike
from ag_visual.engine.input_buffer import fitted, gathered, meets
from ag_visual.engine.leaf import run_leaf
from ag_visual.engine.norms import squares
from ag_visual.engine.stages import F32, F64, record
from ag_visual.engine.task import GraphTask
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.log import SMALL, TINY, run_record

blank = object.__new__


def plain_loop(task: GraphTask, call_site: Any) -> None:
    """Run nodes until none is left, or until something unusual comes.

    call_site: of who frees what nodes saved; None keeps that.
    """
    if not task.plain:
        return
    counts, buffers, owned = task.counts, task.buffers, task.owned
    ready, leaves = task.ready, task.leaves
    reached, traced = task.reached, task.traced
    state = modes.state
    # Whether a first gradient becomes a Tensor like any other (`from_array`).
    adopting = not (traced or task.needed is not None or state.inference or state.differentiating)
    # One ready node, and what has arrived at it, is not in the heap: a chain needs none.
    only: Any = None
    arrived: Any = None
    total: Any = None
    # When the node before ended, where no work on gradients came after: a look at the clock less.
    ended = 0
    while True:
        for leaf in leaves:
            # A first gradient that nothing looks at becomes `.grad`: `run_leaf`, without its calls.
            variable = leaf.variable
            own = variable._leaf
            if (
                adopting
                and leaf.hooks is None
                and variable._grad is None
                and variable._edge is None
                and variable._rg
                and task.modes is None
                and instrument.gate is None
                and not own.hooks
                and not own.post_accumulate
                and type(part := buffers[leaf]) is ndarray
                and part.flags.carray
                and (array := variable._array).flags.c_contiguous
                and part.shape == array.shape
            ):
                sink = instrument.sink
                started = 0 if sink is None else ended or perf_counter_ns()
                del buffers[leaf]
                if part.base is None and getrefcount(part) == ALONE:
                    with leaf.lock:
                        if variable._grad is None:
                            # `from_array`, without a call.
                            grad: Any = blank(Tensor)
                            grad._array = part
                            kind = part.dtype
                            grad._plain = kind if kind is F32 or kind is F64 else None
                            grad._store = FRESH
                            grad._view = grad._memory = grad._edge = grad._grad = grad._leaf = None
                            grad._rg = False
                            variable._grad = grad
                            if sink is not None:
                                record(sink, task, leaf, part, started)
                                ended = 0
                            task.order += 1
                            continue
                buffers[leaf] = part
            part = None
            run_leaf(task, leaf)
            ended = 0
        part = array = grad = None
        leaves.clear()
        if only is not None and (not ready or only.seq > -ready[0][0]):
            node, g = only, arrived
            only = arrived = None
        elif ready:
            _, node, g = heappop(ready)
        else:
            return
        if (
            instrument.gate is not None
            or modes.anomaly is not None
            or node.hooks is not None
            or task.modes is not None
        ):
            heappush(ready, (-node.seq, node, g))
            if only is not None:
                heappush(ready, (-only.seq, only, arrived))
            return

        sink = instrument.sink
        if sink is None:
            ended = 0
        else:
            started = ended or perf_counter_ns()
        kind = g.dtype if type(g) is ndarray else COMPLEX64
        if kind is F32 or (kind is not COMPLEX64 and kind is not COMPLEX128):
            real = True
            try:
                results = (
                    node.raw(raw_numpy, g)
                    if call_site is None
                    else node.take(raw_numpy, g, call_site)
                )
            except ValueError as error:
                raise unlike(node, error) from error.__cause__
            except MemoryError as error:
                raise too_large(node, error) from error.__cause__
        else:  # several outputs, no gradient, complex numbers, another array library, ...
            real = False
            if traced and call_site is None and g is not None:
                results = node.traced(g)
            else:
                results = compute(task, node, g, call_site)
        if sink is not None:
            # `record`, without a call.
            if real and (size := g.nbytes) <= SMALL:
                ended = perf_counter_ns()
                numbers = run_record(node.seq, task.id, task.order, started, ended, size)
                sink.run((numbers, g.tobytes(), kind))
            elif real and (kind is F32 or kind is F64):
                ended = perf_counter_ns()
                flat = g.ravel("K")
                total = float(flat.dot(flat))
                if not TINY < total < INFINITY:
                    total = squares(g)
                numbers = run_record(node.seq, task.id, task.order, started, ended, 0)
                sink.run((numbers, total, None))
                flat = None
                ended = 0
            else:
                record(sink, task, node, g, started)
                ended = 0
        hooks: Any = node.hooks
        if hooks is not None:  # its own run has registered some
            results = stages.post_hooks(task, node, results, g)
            ended = 0
        task.order += 1

        for edge, part in zip(node.next, results):  # noqa: B905 - strict costs 60 ns a node
            if edge is None:
                continue
            # Each attribute of a node costs 20 ns here, where nodes of many classes come by.
            following, _, shape, dtype = edge
            if reached is not None and following not in reached:
                continue
            if (
                type(part) is ndarray and part.shape == shape and part.dtype is dtype
            ) or part is None:
                pass
            elif traced:
                array = part._array
                if array.shape != shape or array.dtype is not dtype:
                    part = fitted(node, edge, part, g)
            elif shape is not None or not meets(edge, part):
                part = fitted(node, edge, part, g)
            if shape is None or following in buffers:
                ended = 0
                if part is not None and following in owned:
                    total = buffers[following]
                    part = add(total, part, total)
                else:
                    part = gathered(task, edge, part)
            left = counts[following] - 1
            if left:
                counts[following] = left
                buffers[following] = part
            elif type(following) is AccumulateGrad:
                buffers[following] = part
                leaves.append(following)
            elif only is None:
                only, arrived = following, part
            else:
                heappush(ready, (-following.seq, following, part))
        # No name may keep a gradient alive that a leaf could adopt.
        results = part = array = total = g = None
