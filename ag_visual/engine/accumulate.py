"""AccumulateGrad: how a gradient becomes `.grad`, with torch's layout rules.

A gradient is adopted without a copy only when nobody else can hold it; one that is there already
is added to in place, unless a graph is being recorded.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import numpy

from ag_visual.arrays.coo import Coo
from ag_visual.core.modes import grad_enabled
from ag_visual.core.node import AccumulateGrad
from ag_visual.core.source import here
from ag_visual.core.sparse import SparseTensor, tensor_of
from ag_visual.core.tensor import Tensor, before_write, from_array
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.memory_overlap import check_internal_overlap
from ag_visual.dispatch.table import traced
from ag_visual.dispatch.validate_grad import compatible
from ag_visual.engine.input_buffer import namespace


def _probe() -> int:
    fresh = numpy.empty(1)
    return sys.getrefcount(fresh)


# How many references sys.getrefcount counts for an array that only one local variable holds.
ALONE = _probe()

NO_LEAF: Final = (
    "leaf variable has been moved into the graph interior: since the forward it was detached in "
    "place, and written with a tensor that requires grad. Write a clone() of it instead, or run "
    "the forward again."
)


def _dense_strides(array: Any) -> tuple[int, ...] | None:
    """The strides of a non-overlapping dense array, else None."""
    if not array.size:
        return tuple(array.strides)
    expected = array.itemsize
    order = sorted(range(array.ndim), key=lambda i: (array.strides[i], array.shape[i]))
    for i in order:
        if array.shape[i] == 1:
            continue
        if array.strides[i] != expected:
            return None
        expected *= array.shape[i]
    return tuple(array.strides)


def laid_out(xp: Any, g: Any, variable: Any) -> Any:
    """A copy of `g` in the layout of the variable (row-major when that has none of its own)."""
    if variable.flags.c_contiguous or _dense_strides(variable) is None:
        return xp.array(g, order="C", copy=True)
    order = sorted(range(variable.ndim), key=lambda i: -variable.strides[i])
    inverse = sorted(range(len(order)), key=order.__getitem__)
    fresh = xp.empty(tuple(variable.shape[i] for i in order), dtype=g.dtype)
    fresh = fresh.transpose(inverse)
    fresh[...] = g
    return fresh


def accumulate(xp: Any, variable: Any, g: Any, alone: bool, call_site: Any) -> None:
    """Add the array `g` to `variable.grad`; `alone`: nobody else holds it."""
    if variable._edge is not None:
        raise RuntimeError(NO_LEAF)
    old = variable._grad
    if old is None:
        array = variable._array
        if g.shape != array.shape:
            g = _shaped(g, array.shape)
        adopt = alone and g.base is None and g.flags.c_contiguous and array.flags.c_contiguous
        variable._grad = from_array(g) if adopt else _taken(xp, g, array, alone)
        return
    if type(old) is not Tensor:
        before_write(old)
        if type(old) is SparseTensor:
            _add_to_sparse(variable, old, g, call_site)
            return
    check_internal_overlap(old, "accumulating into .grad")
    if old._array.shape != g.shape:
        _check_broadcast(old._array.shape, g.shape)
    # Counted first: an interrupt in between must not leave a write that nobody knows of.
    old._storage.wrote("accumulate_grad", call_site, old._array)
    try:
        xp.add(old._array, g, out=old._array)
    except TypeError:
        if type(g) is not Coo:
            raise
        g.add_to(old._array)  # of a library that asks nobody else how to add


def _shaped(g: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of a leaf as it was, an array or a Tensor, in the shape that it has now.

    (A graph from before it was turned in place, or its data replaced, holds its accumulator.)
    A sparse one becomes dense. Raises RuntimeError where it has not one number for each element.
    """
    have = tuple(g.shape)
    if math.prod(have) == math.prod(shape) and compatible(shape, have):
        if type(g) is Coo:
            g = g.dense()
        elif type(g) is SparseTensor:
            g = g.to_dense()
        return g.reshape(shape)
    raise RuntimeError(
        f"The size of tensor a {tuple(shape)} must match the size of tensor b {have}: its data was "
        "replaced while an earlier result of it was alive, whose graph still has the old shape; "
        "let go of that result, and run the forward again."
    )


def _taken(xp: Any, g: Any, variable: Any, alone: bool) -> Tensor:
    """A first gradient that is copied; a sparse one that nobody else holds is not.

    As in torch it is not known to be coalesced then, but where it has compressed rows.
    """
    if type(g) is not Coo:
        return from_array(laid_out(xp, g, variable))
    return tensor_of(Coo(g.indices, g.values, g.shape, g.csr, g.csr) if alone else g.copy())


def _add_to_sparse(variable: Any, old: SparseTensor, g: Any, call_site: Any) -> None:
    """Add to a `.grad` that is sparse: in place what is sparse, too; else it becomes dense."""
    total = old._array + g
    if type(total) is Coo:
        old._storage.wrote("accumulate_grad", call_site, total.values)
        old._array = total
    else:
        variable._grad = from_array(total)


def _check_broadcast(have: tuple[int, ...], new: tuple[int, ...]) -> None:
    """Raise RuntimeError where a gradient cannot be added to `.grad` in place."""
    why = "the tensor has another shape than its .grad since its .data was replaced"
    try:
        shape = broadcast(have, new)
    except RuntimeError as error:
        raise RuntimeError(f"{error}: {why}; set .grad to None.") from None
    if shape != have:
        raise RuntimeError(
            f"output with shape {list(have)} doesn't match the broadcast shape {list(shape)}: "
            f"{why}; set .grad to None."
        )


def accumulate_traced(F: Any, variable: Any, g: Tensor) -> None:
    """The same while a graph is recorded: out of place, and the gradient stays in the graph."""
    if variable._edge is not None:
        raise RuntimeError(NO_LEAF)
    old, array = variable._grad, variable._array
    if old is None and tuple(g.shape) != array.shape:
        g = _shaped(g, array.shape)
    if old is not None:
        sparse_first = type(old) is SparseTensor and type(g) is not SparseTensor
        variable._grad = F.add(g, old) if sparse_first else F.add(old, g)
    elif type(g) is SparseTensor:
        variable._grad = F.clone(g)
    elif _dense_strides(array) is None:
        variable._grad = F.clone(g, "C")
    else:  # in the variable's layout
        variable._grad = F.copy_values(from_array(array), g)


def _called(node: AccumulateGrad, g: Any) -> tuple[()]:
    """An accumulator that is called by hand: `node(g)` adds to `.grad` and returns nothing."""
    variable, leaf = node.variable, node.variable._leaf
    if g is not None and variable.requires_grad:
        with node.lock:
            if grad_enabled():
                accumulate_traced(traced, variable, g)
            else:
                accumulate(namespace(g._array), variable, g._array, False, here())
    for hook in list(leaf.post_accumulate.values()) if leaf is not None else ():
        hook(variable)
    return ()


AccumulateGrad.traced = _called  # type: ignore[assignment,method-assign]
