"""The gradients of a node's inputs from those of its outputs, whatever these are."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import ndarray

from ag_visual.dispatch.table import raw, raw_numpy
from ag_visual.engine.input_buffer import any_of, namespace
from ag_visual.engine.task import GraphTask

COMPLEX64, COMPLEX128 = numpy.dtype(numpy.complex64), numpy.dtype(numpy.complex128)


def compute(task: GraphTask, node: Any, g: Any, place: Any) -> Any:
    """Run a node on what has arrived at it. place: of who frees what it saved; None keeps that."""
    if g is None and not node.runs_undefined:
        return node.skip(place)
    if task.create_graph:
        if place is not None:
            node.claim(place)
        results = node.traced(g)
        if place is not None:
            node.release()
        return results
    if type(g) is ndarray:
        F, dtype = raw_numpy, g.dtype
    else:
        first = any_of(g)
        F, dtype = raw_numpy if first is None else raw(namespace(first)), node.dtype
    if (dtype is COMPLEX64 or dtype is COMPLEX128) and node.holomorphic:
        return conjugated(F, node, g, place)
    return node.raw(F, g) if place is None else node.take(F, g, place)


def conjugated(F: Any, node: Any, g: Any, place: Any) -> list[Any]:
    """Run a holomorphic node on conjugated gradients (docs/notes/holomorphic-rules)."""
    given = [None if x is None else F.conj(x) for x in g] if node.outs is not None else F.conj(g)
    results = node.raw(F, given) if place is None else node.take(F, given, place)
    return [None if x is None else F.conj(x) for x in results]
