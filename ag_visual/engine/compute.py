"""The gradients of a node's inputs from those of its outputs, whatever these are."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import ndarray

from ag_visual.core.node import Replaced
from ag_visual.core.source import inside, is_inside, is_of_arrays
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.table import raw, raw_numpy
from ag_visual.engine.input_buffer import any_of, namespace
from ag_visual.engine.task import GraphTask
from ag_visual.errors import out_of_memory
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import SpanLog

COMPLEX64, COMPLEX128 = numpy.dtype(numpy.complex64), numpy.dtype(numpy.complex128)


def compute(task: GraphTask, node: Any, g: Any, call_site: Any) -> Any:
    """Run a node on what has arrived at it. call_site: of who frees what it saved, None: nobody."""
    spans = instrument.spans
    if spans is not None:
        return _timed(task, node, g, call_site, spans)
    return _compute(task, node, g, call_site, None)


def _timed(task: GraphTask, node: Any, g: Any, call_site: Any, spans: SpanLog) -> Any:
    """The same while somebody profiles."""
    if spans.began is not None:
        spans.began((spans.nodes.get(type(node)) or spans.of_node(node))[1], node.seq)
    facts = 0 if spans.arrived is None else spans.arrived(g)
    started = perf_counter_ns()
    try:
        results = _compute(task, node, g, call_site, spans)
    finally:
        ended = perf_counter_ns()
        _, label = spans.nodes.get(type(node)) or spans.of_node(node)
        spans.put((label, started, ended, task.thread, node.seq, facts))
    if spans.made is not None:
        spans.made(g, results, ended)
    return results


def _compute(task: GraphTask, node: Any, g: Any, call_site: Any, spans: SpanLog | None) -> Any:
    if g is None and not node.runs_undefined:
        return node.skip(call_site)
    if task.traced:
        if call_site is not None:
            node.acquire(call_site)
        results = node.traced(g)
        if call_site is not None:
            node.release()
        return results
    if type(g) is ndarray:
        F, dtype = raw_numpy, g.dtype
    else:
        first = any_of(g)
        F, dtype = raw_numpy if first is None else raw(namespace(first)), node.dtype
    try:
        if (dtype is COMPLEX64 or dtype is COMPLEX128) and node.holomorphic:
            return conjugated(F, node, g, call_site)
        if spans is not None:
            return node.timed(spans.namespaces[F], g, call_site)
        return node.raw(F, g) if call_site is None else node.take(F, g, call_site)
    except ValueError as error:
        raise unlike(node, error) from error.__cause__
    except MemoryError as error:
        raise too_large(node, error) from error.__cause__


def too_large(node: Any, error: MemoryError) -> MemoryError:
    """What to raise where a node's formula has no memory; what a hook of a user raises stays."""
    trace = error.__traceback__
    while trace is not None:
        if not is_inside(trace) and not is_of_arrays(trace):
            return error
        trace = trace.tb_next
    return out_of_memory(error, node.name())


def unlike(node: Any, error: ValueError) -> Exception:
    """What to raise where arrays did not fit together in a node's formula."""
    if not (Replaced.ever and isinstance(node, OpNode)):
        return error
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not inside[trace.tb_frame.f_code.co_filename]:
        return error  # of a hook that unpacks what was saved
    return RuntimeError(
        f"{node.name()} cannot compute its gradient: {error}. The data of a tensor that it saved "
        "was replaced by one of another shape (x.data = y) since the forward; run that again."
    )


def conjugated(F: Any, node: Any, g: Any, call_site: Any) -> list[Any]:
    """Run a holomorphic node on conjugated gradients (docs/notes/holomorphic-rules)."""
    given = [None if x is None else F.conj(x) for x in g] if node.outs is not None else F.conj(g)
    results = node.raw(F, given) if call_site is None else node.take(F, given, call_site)
    return [None if x is None else F.conj(x) for x in results]
