"""Runs of equal values, which NumPy has by ufunc methods that CuPy lacks.

Layer 1.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.scans import running_extreme
from ag_visual.arrays.kernels.search import ascending


def starts(xp: Any, first: Array) -> Array:
    """For each place along the last dimension the latest one, up to it, where `first` is true."""
    places = xp.where(first, xp.arange(first.shape[-1]), 0)
    if places.shape[-1] < 2:
        return places
    return running_extreme(xp, places, places.ndim - 1, True)[0]


def ranks(xp: Any, keys: Array) -> Array:
    """How many equal keys stand before each one, in a vector of keys."""
    if keys.size == 0:
        return keys
    order = xp.argsort(keys, kind="stable")
    ordered = keys[order]
    first = xp.concatenate([xp.ones((1,), bool), ordered[1:] != ordered[:-1]])
    result = xp.empty_like(keys)
    result[order] = xp.arange(keys.size) - starts(xp, first)
    return result


def multiply_at(xp: Any, target: Array, positions: Array, values: Array) -> None:
    """`target[positions] *= values` in place on vectors; positions that occur twice count twice."""
    rank = ranks(xp, positions)
    order = xp.argsort(positions, kind="stable")
    rank, positions, values = rank[order], positions[order], values[order]
    # Neighbours of one position are multiplied in pairs: a pass for each bit of the longest run.
    while rank.size and int(rank.max()):
        odd = rank % 2 == 1
        values = values.copy()
        second = xp.nonzero(odd)[0]
        values[second - 1] = values[second - 1] * values[second]
        rank, positions, values = rank[~odd] // 2, positions[~odd], values[~odd]
    target[positions] = target[positions] * values


def mode(xp: Any, self: Array, dim: int) -> tuple[Array, Array]:
    """The most frequent value along `dim` (the smallest of several) and its last place, kept."""
    last = xp.moveaxis(self, dim, -1)
    order = ascending(xp, last)
    ordered = xp.take_along_axis(last, order, axis=-1)
    n = ordered.shape[-1]
    changes = ordered[..., 1:] != ordered[..., :-1]
    first = xp.concatenate([xp.ones((*ordered.shape[:-1], 1), bool), changes], axis=-1)
    lengths = xp.arange(n) - starts(xp, first)
    at = xp.expand_dims(lengths.argmax(axis=-1), -1)
    values = xp.take_along_axis(ordered, at, axis=-1)
    indices = xp.take_along_axis(order, at, axis=-1).astype(xp.int64, copy=False)
    return xp.moveaxis(values, -1, dim), xp.moveaxis(indices, -1, dim)
