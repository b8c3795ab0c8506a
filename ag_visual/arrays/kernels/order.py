"""The order in memory of copies and of what is made like another array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_visual.arrays.backend import Array


def expanded(array: Array) -> bool:
    """Whether a stride is 0 where there are several elements.

    NumPy's `order="K"` lets such a dimension change fastest: rows of a copy of `x.expand(n, -1)`
    would not lie one behind the other.
    """
    if 0 not in array.strides:
        return False
    pairs = zip(array.strides, array.shape, strict=True)
    return any(stride == 0 and n > 1 for stride, n in pairs)


def sorted_dims(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dimensions from the one that changes slowest on: by stride, where both have one.

    As in torch's TensorIterator: an insertion sort from row-major order, in which a dimension
    whose stride is 0 says nothing of its place; of two with one stride the larger one goes first.
    """
    dims = list(range(len(strides)))
    for last in range(len(dims) - 2, -1, -1):
        at = last
        for other in range(last + 1, len(dims)):
            mine, its = strides[dims[at]], strides[dims[other]]
            if mine == 0 or its == 0:
                continue
            if mine > its:
                break
            if mine == its and shape[dims[at]] >= shape[dims[other]]:
                continue
            dims[at], dims[other] = dims[other], dims[at]
            at = other
    return dims


def arranged(xp: Any, shape: Sequence[int], dims: Sequence[int], dtype: Any) -> Array:
    """Fresh memory of a shape that runs through the dimensions in an order, slowest first."""
    fresh = xp.empty(tuple(shape[d] for d in dims), dtype)
    return fresh.transpose(sorted(range(len(dims)), key=dims.__getitem__))


def empty_as(xp: Any, array: Array, dtype: Any = None) -> Array:
    """Fresh memory like an array: in its order, and dense."""
    dtype = array.dtype if dtype is None else dtype
    if not expanded(array):
        return xp.empty_like(array, dtype=dtype)
    return arranged(xp, array.shape, sorted_dims(array.shape, array.strides), dtype)


def copied(xp: Any, array: Array, dtype: Any = None) -> Array:
    """A copy in the array's own order, and dense."""
    if not expanded(array):
        return array.astype(array.dtype if dtype is None else dtype)
    fresh = empty_as(xp, array, dtype)
    fresh[...] = array
    return fresh
