"""Searching in sorted rows and finding distinct values, on vectors, rows and slices.

Layer 1. NaN differs from everything, itself included, as in torch.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import Array


def ascending(xp: Any, array: Array, axis: int = -1) -> Array:
    """The stable order of the elements along an axis; NaN counts as the largest."""
    return xp.argsort(comparable(xp, array), axis=axis, kind="stable")


def comparable(xp: Any, array: Array) -> Array:
    """An array that sorts as this one should: of bfloat16, NumPy leaves NaN anywhere."""
    return array.astype(xp.float32) if array.dtype.kind == "V" else array


def positions(xp: Any, rows: Array, values: Array, right: bool, sorter: Array | None) -> Array:
    """Where each value would be inserted into its row so that the row stays sorted (int64).

    rows has one dimension (a row for all values), or all but the last as `values` has. right:
    behind equal elements instead of before them. NaN comes last. sorter: what sorts the rows.
    """
    n = rows.shape[-1]
    low = xp.zeros(values.shape, xp.int64)
    high = xp.full(values.shape, n, xp.int64)
    if values.size == 0 or n == 0:
        return low

    def at(array: Array, index: Array) -> Array:
        return array[index] if array.ndim == 1 else xp.take_along_axis(array, index, axis=-1)

    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        place = xp.minimum(middle, n - 1)
        found = at(rows, place if sorter is None else at(sorter, place))
        beyond = ~((found > values) if right else (found >= values)) & (low < high)
        high = xp.where(beyond, high, middle)
        low = xp.where(beyond, middle + 1, low)
    return low


def _groups(xp: Any, first: Array, order: Array | None) -> tuple[Array, Array, Array]:
    """Of elements in `order`, `first` true at a new one: places of the new ones, groups, counts."""
    at = xp.flatnonzero(first)
    group = first.astype(xp.int64).cumsum() - 1
    inverse = group
    if order is not None:
        inverse = xp.empty_like(group)
        inverse[order] = group
    ends = xp.concatenate([at[1:], xp.asarray([first.size])]) if at.size else at
    return at, inverse, (ends - at).astype(xp.int64, copy=False)


def distinct(xp: Any, values: Array, ordered: bool) -> tuple[Array, Array, Array]:
    """The distinct elements of a vector in ascending order, which one each is, and how often.

    ordered: take the vector as it is, and count a value anew after another one.
    """
    order = None if ordered else ascending(xp, values)
    line = values if order is None else values[order]
    first = xp.concatenate([xp.ones((min(line.size, 1),), bool), line[1:] != line[:-1]])
    at, inverse, counts = _groups(xp, first, order)
    return line[at], inverse, counts


def distinct_rows(xp: Any, rows: Array, ordered: bool) -> tuple[Array, Array, Array]:
    """`distinct` of the rows of a matrix, in lexicographic order."""
    order = None
    if not ordered and rows.shape[0]:
        order = xp.lexsort(xp.ascontiguousarray(comparable(xp, rows).T[::-1]))
    sorted_ = rows if order is None else rows[order]
    start = xp.ones((min(rows.shape[0], 1),), bool)
    first = xp.concatenate([start, (sorted_[1:] != sorted_[:-1]).any(axis=1)])
    at, inverse, counts = _groups(xp, first, order)
    return sorted_[at], inverse, counts
