"""Searching in sorted rows and finding distinct values, on vectors, rows and slices.

Layer 1. NaN differs from everything, itself included, as in torch.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.backend import Array


def ascending(xp: Any, array: Array, axis: int = -1) -> Array:
    """The stable order of the elements along an axis; NaN counts as the largest."""
    return xp.argsort(comparable(xp, array), axis=axis, kind="stable")


def comparable(xp: Any, array: Array) -> Array:
    """An array that sorts as this one should: of bfloat16, NumPy leaves NaN anywhere."""
    return array.astype(xp.float32) if array.dtype.kind == "V" else array


def order(xp: Any, array: Array, axis: int, descending: bool) -> Array:
    """The stable order along an axis; NaN counts as the largest."""
    if not descending:
        return ascending(xp, array, axis)
    # Stable from the other end: equal elements keep their order.
    flipped = ascending(xp, xp.flip(array, axis), axis)
    return array.shape[axis] - 1 - xp.flip(flipped, axis)


# Of shorter rows, and of more than a part of them, all are put in order.
_LONG, _PART = 100, 4


def _lines(xp: Any, array: Array, axis: int) -> Array | None:
    """The lines along an axis as rows, where they can be parted: none has NaN."""
    if xp is not numpy or array.dtype.kind not in "fiu" or array.shape[axis] < _LONG:
        return None
    if not array.size or numpy.isnan(array.max()):
        return None
    return xp.ascontiguousarray(xp.moveaxis(array, axis, -1)).reshape(-1, array.shape[axis])


def _along(array: Array, rows: Array, axis: int) -> Array:
    """Rows as the lines of an array along its axis."""
    outer = array.shape[:axis] + array.shape[axis + 1 :]
    return numpy.moveaxis(rows.reshape(*outer, rows.shape[1]), -1, axis)


def leading(xp: Any, array: Array, k: int, axis: int, largest: bool) -> Array:
    """Where the first k of each line are, in the order of `order`; the rest is not put in order."""
    rows = _lines(xp, array, axis) if 0 < _PART * k <= array.shape[axis] else None
    if rows is None:
        return order(xp, array, axis, largest)[(slice(None),) * axis + (slice(0, k),)]
    n = rows.shape[1]
    at = n - k if largest else k - 1
    bound = numpy.partition(rows, at, axis=1)[:, at, None]
    taken = rows > bound if largest else rows < bound
    ties, missing = rows == bound, k - numpy.count_nonzero(taken, axis=1)
    if (numpy.count_nonzero(ties, axis=1) != missing).any():
        ties &= ties.cumsum(axis=1) <= missing[:, None]  # the first of them
    taken |= ties
    places = numpy.flatnonzero(taken).reshape(-1, k) % n
    found = order(numpy, numpy.take_along_axis(rows, places, axis=1), 1, largest)
    return _along(array, numpy.take_along_axis(places, found, axis=1), axis)


def ranked(xp: Any, array: Array, rank: int, axis: int) -> Array:
    """Where the element of a rank of each line is, in ascending order; the axis is kept."""
    rows = _lines(xp, array, axis)
    if rows is None:
        return ascending(xp, array, axis)[(slice(None),) * axis + (slice(rank, rank + 1),)]
    bound = numpy.partition(rows, rank, axis=1)[:, rank, None]
    ties, before = rows == bound, rank - numpy.count_nonzero(rows < bound, axis=1)
    if before.any():
        ties = ties.cumsum(axis=1) > before[:, None]
    return _along(array, ties.argmax(axis=1)[:, None], axis)


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
