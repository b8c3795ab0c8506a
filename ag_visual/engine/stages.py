"""What may happen around a node: hooks, the observer's gate, a record. Each stage is a function."""

from __future__ import annotations

from math import inf as INFINITY
from typing import Any

import numpy
from numpy import ndarray

from ag_visual.core import modes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import validate_grad
from ag_visual.engine import anomaly, hook_calls
from ag_visual.engine.input_buffer import as_array, namespace
from ag_visual.engine.norms import norm2, squares
from ag_visual.engine.task import GraphTask
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.log import SMALL, TINY, run_record

F32, F64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


def as_at_first(task: GraphTask) -> None:
    """Undo what a hook did to the modes: each node begins with those of the backward."""
    assert task.modes is not None
    modes.put_back(task.modes)
    task.modes = None


def bare(value: Any, task: GraphTask) -> Any:
    """What the loop passes on: the array of a Tensor, unless it goes on as Tensors."""
    return value._array if not task.traced and isinstance(value, Tensor) else value


def _per_output(node: Any, g: Any) -> list[Any]:
    """What arrived at a node as a list with one entry for each of its outputs."""
    if node.outs is None:
        return [g]
    return [None] * len(node.outs) if g is None else list(g)


def tensor_hooks(task: GraphTask, node: Any, g: Any) -> Any:
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
        values[number] = bare(tensor, task)
    if g is None:
        return None
    return values if node.outs is not None else values[0]


def pre_hooks(task: GraphTask, node: Any, g: Any) -> Any:
    """Hooks of a node that is about to run: they see, and may replace, what has arrived."""
    values = _per_output(node, g)
    values = hook_calls.node_hooks("pre", node, [hook_calls.wrap(v) for v in values], task)
    values = [bare(v, task) for v in values]
    if all(v is None for v in values):
        return None
    return values if node.outs is not None else values[0]


def post_hooks(task: GraphTask, node: Any, results: Any, g: Any) -> Any:
    """Hooks of a node that has run: they see, and may replace, what it gives."""
    if modes.anomaly is None:
        return _posted(task, node, results, g)
    return anomaly.run(node, lambda: _posted(task, node, results, g))


def _posted(task: GraphTask, node: Any, results: Any, g: Any) -> Any:
    given = tuple(hook_calls.wrap(v) for v in _per_output(node, g))
    wrapped = []
    for edge, result in zip(node.next, results, strict=True):
        if result is not None and not isinstance(result, Tensor):
            result = as_array(result, g)
            if edge is not None:
                result = validate_grad.fit_edge(
                    validate_grad.fit, namespace(result), node, edge, result
                )
        wrapped.append(hook_calls.wrap(result))
    values = hook_calls.node_hooks("post", node, wrapped, task, given)
    return [bare(v, task) for v in values]


def gated(task: GraphTask, node: Any, g: Any) -> Any:
    """Let the observer look, wait or replace the gradients before the node runs."""
    gate = instrument.gate
    if gate is None:
        return g
    values = list(g) if node.outs is not None and g is not None else [g]
    values = gate(task, node, values)
    return values if node.outs is not None else values[0]


def record(sink: Any, task: GraphTask, node: Any, g: Any, started: int) -> None:
    """Tell observers that a node has run."""
    now = perf_counter_ns()
    # The norm is all that live recording computes of values; of small gradients, who reads it.
    if type(g) is ndarray:
        dtype = g.dtype
        size = g.nbytes
        if size <= SMALL:
            numbers = run_record(node.seq, task.id, task.order, started, now, size)
            sink.run((numbers, g.tobytes(), dtype))
            return
        total = INFINITY
        if dtype is F32 or dtype is F64:  # `squares`, where it is as simple as this
            flat = g.ravel("K")
            total = float(flat.dot(flat))
        if not TINY < total < INFINITY:
            total = squares(g)
    elif g is None:
        total = -1.0
    else:
        known = [norm2(x) for x in (g if isinstance(g, list) else [g]) if x is not None]
        total = sum(known) if known else -1.0
    sink.run((run_record(node.seq, task.id, task.order, started, now, 0), total, None))
