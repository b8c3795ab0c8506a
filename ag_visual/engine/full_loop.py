"""The backward pass with all that may happen in it, a function for each stage.

It is `plain_loop`, and around each node: tensor hooks and retain_grad, capture, pre-hooks, the
observer's gate, anomaly mode, a record, hooks. A node may run for its hooks alone, or not at all
where only what leads to some inputs is wanted; gradients may be Tensors with a graph.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from numpy import ndarray

from ag_visual.core import modes
from ag_visual.core.node import AccumulateGrad
from ag_visual.engine import anomaly, stages
from ag_visual.engine.compute import compute
from ag_visual.engine.input_buffer import fitted, gathered
from ag_visual.engine.leaf import run_leaf, run_leaf_timed
from ag_visual.engine.task import GraphTask
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns


def full_loop(task: GraphTask, call_site: Any) -> None:
    """Run the nodes that are left, or until the plain loop can go on.

    call_site: of who frees what nodes saved; None keeps that.
    """
    ready, leaves = task.ready, task.leaves
    needed, captured, quiet = task.needed, task.captured, task.quiet
    streams = task.streams
    idle = False
    while leaves or ready:
        for leaf in leaves:
            if streams is not None:
                streams.arrive(leaf)
            if task.reaches(leaf) or len(task.counts) == 1:
                if instrument.spans is None:
                    run_leaf(task, leaf)
                else:
                    run_leaf_timed(task, leaf)
        leaves.clear()
        if not ready:
            return
        _, node, g = heappop(ready)
        spans = instrument.spans
        evaluated = 0 if spans is None else perf_counter_ns()
        if spans is not None and spans.began is not None:
            spans.began((spans.nodes.get(type(node)) or spans.of_node(node))[0], node.seq)
        try:
            if task.modes is not None:
                stages.as_at_first(task)
            if streams is not None:
                streams.enter(node)
            hooks = node.hooks
            arrived = g
            if hooks is not None:
                g = stages.tensor_hooks(task, node, g)
            if needed is not None:
                runs = node in needed
                if node in captured:
                    # As in torch: it has passed the tensor hooks, unless the node runs.
                    _capture(task, node, arrived if runs else g)
                if not runs:
                    continue
                idle = node in quiet
            sink = instrument.sink
            started = 0 if sink is None else perf_counter_ns()
            if hooks is not None and hooks.pre:
                g = stages.pre_hooks(task, node, g)
            if instrument.gate is not None:
                asked = perf_counter_ns()
                g = stages.gated(task, node, g)
                # What the reader of a stop took is none of the node's time.
                started += perf_counter_ns() - asked
            if idle:
                results = node.skip(call_site)
            elif modes.anomaly is None:
                results = compute(task, node, g, call_site)
            else:
                results = _run_carefully(task, node, g, call_site)
            if sink is not None:
                stages.record(sink, task, node, g, started)
            task.order += 1
            if node.hooks is not None and node.hooks.post:
                results = stages.post_hooks(task, node, results, g)
            _pass_on(task, node, results, g)
        finally:
            if streams is not None:
                streams.leave()
            if spans is not None:
                now = perf_counter_ns()
                label, _ = spans.nodes.get(type(node)) or spans.of_node(node)
                spans.put((label, evaluated, now, task.thread, node.seq, 0))
        # No name may keep a gradient alive that a leaf could adopt.
        results = arrived = g = None
        if task.plain and instrument.gate is None and modes.anomaly is None:
            return


def _capture(task: GraphTask, node: Any, g: Any) -> None:
    """Keep what has arrived at a node whose gradient is to be returned."""
    task.captures[node] = list(g) if node.outs is not None and g else [g]


def _run_carefully(task: GraphTask, node: Any, g: Any, call_site: Any) -> Any:
    """Run a node in anomaly mode."""
    if g is None and not node.runs_undefined:
        return node.skip(call_site)
    hooked = node.hooks is not None and bool(node.hooks.post)  # they may still mend what is NaN
    return anomaly.run(node, lambda: compute(task, node, g, call_site), checks=not hooked)


def _pass_on(task: GraphTask, node: Any, results: Any, like: Any) -> None:
    """Give the gradients of a node's inputs to the nodes behind its edges."""
    counts, buffers, reached = task.counts, task.buffers, task.reached
    for edge, g in zip(node.next, results):  # noqa: B905 - strict costs 60 ns a node
        if edge is None:
            continue
        following, _, shape, dtype = edge
        left = counts[following] = counts[following] - 1
        if reached is not None and following not in reached:
            continue
        if g is not None:
            array = g._array if task.traced else g
            kind = task.traced or type(array) is ndarray
            if not kind or array.shape != shape or array.dtype is not dtype:
                g = fitted(node, edge, g, like)
            array = None
        if task.streams is not None:
            task.streams.arrive(following)  # what has arrived is added to
            task.streams.passed(following, g)
        if shape is None or following in buffers:
            g = gathered(task, edge, g)
        if left or type(following) is AccumulateGrad:
            buffers[following] = g
            if not left:
                task.leaves.append(following)
        else:
            rank = following.seq if task.ranks is None else task.ranks[following]
            heappush(task.ready, (-rank, following, g))
