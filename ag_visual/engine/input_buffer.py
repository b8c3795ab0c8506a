"""A gradient on its way over an edge: made to fit the input that takes it, added to what is there.

While no graph is recorded gradients are plain arrays, otherwise Tensors.
"""

from __future__ import annotations

from typing import Any

import numpy
from numpy import add, asarray, generic, ndarray

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo
from ag_visual.core.node import Replaced
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import validate_grad
from ag_visual.dispatch.sparse import SparseFirst, is_sparse
from ag_visual.dispatch.table import traced
from ag_visual.engine.task import GraphTask


def meets(edge: Any, g: Any) -> bool:
    """Whether a gradient fits an output of a node with several, as it is."""
    shape, dtype = edge[0].outs[edge[1]]
    return type(g) is ndarray and g.shape == shape and g.dtype is dtype


def fitted(node: Any, edge: Any, g: Any, like: Any) -> Any:
    """A node's gradient with the shape and dtype of the input at an edge.

    like: what arrived at the node; of its kind is the array made of a scalar.
    """
    if type(g) is ndarray and edge[2] is not None and not Replaced.ever:
        try:
            return validate_grad.fit(numpy, g, edge[2], edge[3])
        except validate_grad.Unfit:
            pass  # refused below, with the node's name
    if isinstance(g, Tensor):
        return validate_grad.fit_edge(validate_grad.fit_traced, traced, node, edge, g)
    if type(g) is not ndarray:
        g = as_array(g, like)
    return validate_grad.fit_edge(validate_grad.fit, namespace(g), node, edge, g)


def rooted(edge: Any, g: Any, at: int) -> Any:
    """What a backward begins with, for a tensor whose data was replaced since its node was made."""
    if type(g) is ndarray:
        return validate_grad.fit_root(validate_grad.fit, numpy, edge, g, at)
    if isinstance(g, Tensor):
        return validate_grad.fit_root(validate_grad.fit_traced, traced, edge, g, at)
    return validate_grad.fit_root(validate_grad.fit, namespace(g), edge, g, at)


def gathered(task: GraphTask, edge: Any, g: Any) -> Any:
    """What has arrived at the node behind an edge, `g` included: it leaves the buffer."""
    node, number = edge[0], edge[1]
    old = task.buffers.pop(node, None)
    if g is None:
        return old
    if node.outs is not None:
        slots = [None] * len(node.outs) if old is None else old
        slots[number] = g if slots[number] is None else _sum(slots[number], g)
        return slots
    if old is None:
        return g
    if node in task.owned:
        return add(old, g, old)
    total = _sum(old, g)
    if type(total) is ndarray:
        task.owned.add(node)
    return total


def _sum(a: Any, b: Any) -> Any:
    try:
        result = a + b
    except (SparseFirst, TypeError):  # a library whose arrays do not ask what is added to them
        if not is_sparse(a) and not is_sparse(b):
            raise
        result = b + a
    return asarray(result) if isinstance(result, generic) else result


def as_array(result: Any, like: Any) -> Any:
    """Scalars that NumPy returns for 0-d arithmetic, as arrays; other backends' arrays as is."""
    if isinstance(result, generic) or not hasattr(result, "shape"):
        first = any_of(like)
        backend = backend_of(first) if first is not None else None
        return asarray(result) if backend is None else backend.asarray(result)
    return result


def any_of(g: Any) -> Any:
    """One of the gradients that arrived at a node; None where none did."""
    return next((x for x in g if x is not None), None) if isinstance(g, list) else g


def namespace(array: Any) -> Any:
    """The functions of the library that an array is of."""
    if type(array) is ndarray:
        return numpy
    return array.xp if type(array) is Coo else backend_of(array).xp
