"""An AccumulateGrad runs: hooks of the leaf, and of it, around the accumulation."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from ag_visual.core import modes
from ag_visual.dispatch.table import traced
from ag_visual.engine import accumulate, hook_calls, stages
from ag_visual.engine.accumulate import ALONE
from ag_visual.engine.input_buffer import namespace
from ag_visual.engine.task import GraphTask
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import SpanLog


def run_leaf(task: GraphTask, node: Any) -> None:
    """Leaf hooks, pre-hooks, accumulate, post-accumulate hooks, hooks."""
    if task.modes is not None:
        stages.as_at_first(task)
    g = task.buffers.pop(node, None)
    variable = node.variable
    leaf = variable._leaf
    if leaf is not None and leaf.hooks:
        g = hook_calls.tensor_hooks(leaf.hooks, hook_calls.wrap(g), node, task)
        g = stages.bare(g, task)
    if task.needed is not None and node not in task.needed:
        task.captures[node] = [g]
        return
    hooked = node.hooks is not None or (leaf is not None and leaf.post_accumulate)
    if g is None and not hooked:
        return
    sink = instrument.sink
    started = perf_counter_ns() if sink is not None else 0
    if node.hooks is not None and node.hooks.pre:
        g = stages.pre_hooks(task, node, g)
    if instrument.gate is not None:
        asked = perf_counter_ns()
        g = stages.gated(task, node, g)
        started += perf_counter_ns() - asked
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
            array = g._array if task.traced else g
            alone = alone and array is g
            if task.traced and modes.duals and variable._grad is not None:
                variable._grad.add_(g)  # with its tangent
            else:
                accumulate.accumulate(namespace(array), variable, array, alone, task.call_site)
    if sink is not None:
        stages.record(sink, task, node, g, started)
    task.order += 1
    if leaf is not None and leaf.post_accumulate:
        hook_calls.post_accumulate_hooks(node, task)
    if node.hooks is not None and node.hooks.post:
        hook_calls.node_hooks("post", node, [], task, (hook_calls.wrap(g),))


def run_leaf_timed(task: GraphTask, node: Any) -> None:
    """The same while somebody profiles."""
    spans = instrument.spans
    if spans is not None and spans.began is not None:
        for label in spans.nodes.get(type(node)) or spans.of_node(node):
            spans.began(label, -1)  # made by no op
    started = perf_counter_ns()
    facts = 0
    if spans is not None:
        _report_memory(spans, node, new=False)
        if spans.arrived is not None:
            facts = spans.arrived(task.buffers.get(node))
    try:
        run_leaf(task, node)
    finally:
        if spans is not None:
            _report_memory(spans, node, new=True)
            ended = perf_counter_ns()
            thread = task.thread
            outer, inner = spans.nodes.get(type(node)) or spans.of_node(node)
            if task.needed is None or node in task.needed:
                spans.put((inner, started, ended, thread, node.seq, facts))
            spans.put((outer, started, ended, thread, node.seq, 0))


def _report_memory(spans: SpanLog, node: Any, *, new: bool) -> None:
    grad = node.variable._grad
    if spans.held is not None and grad is not None:
        spans.held("gradient", [grad], new)
