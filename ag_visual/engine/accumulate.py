"""AccumulateGrad: how a gradient becomes `.grad`, with torch's layout rules.

A gradient is adopted without a copy only when nobody else can hold it; one that is there already
is added to in place, unless a graph is being recorded.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of
from ag_visual.core.modes import grad_enabled
from ag_visual.core.node import AccumulateGrad
from ag_visual.core.source import here
from ag_visual.core.tensor import InferenceTensor, Tensor, before_write, from_array
from ag_visual.dispatch.memory_overlap import refuse_internal
from ag_visual.dispatch.table import traced


def _probe() -> int:
    fresh = numpy.empty(1)
    return sys.getrefcount(fresh)


# How many references sys.getrefcount counts for an array that only one local variable holds.
ALONE = _probe()


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


def accumulate(xp: Any, variable: Any, g: Any, alone: bool, place: Any) -> None:
    """Add the array `g` to `variable.grad`; `alone`: nobody else holds it."""
    old = variable._grad
    if old is None:
        array = variable._array
        if g.shape != array.shape:
            raise _other_shape(array, g, "its data was replaced since the forward; run that again")
        adopt = alone and g.base is None and g.flags.c_contiguous and array.flags.c_contiguous
        variable._grad = from_array(g if adopt else laid_out(xp, g, array))
        return
    if type(old) is InferenceTensor:
        before_write(old)
    refuse_internal(old, "accumulating into .grad")
    if old._array.shape != g.shape:
        raise _other_shape(
            old._array,
            g,
            "the tensor has another shape than its .grad since its .data was replaced; set .grad "
            "to None",
        )
    # Counted first: an interrupt in between must not leave a write that nobody knows of.
    old._storage.wrote("accumulate_grad", place, old._array)
    xp.add(old._array, g, out=old._array)


def _other_shape(have: Any, g: Any, why: str) -> RuntimeError:
    return RuntimeError(
        f"The size of tensor a {tuple(have.shape)} must match the size of tensor b "
        f"{tuple(g.shape)}: {why}."
    )


def accumulate_traced(F: Any, variable: Any, g: Tensor) -> None:
    """The same while a graph is recorded: out of place, and the gradient stays in the graph."""
    old, array = variable._grad, variable._array
    if old is not None:
        variable._grad = F.add(old, g)
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
                accumulate(backend_of(g._array).xp, variable, g._array, False, here())
    for hook in list(leaf.post_accumulate.values()) if leaf is not None else ():
        hook(variable)
    return ()


AccumulateGrad.traced = _called  # type: ignore[assignment,method-assign]
