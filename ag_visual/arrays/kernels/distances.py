"""Euclidean distances of all rows from all rows, by products of matrices.

Layer 1. |a - b|^2 is |a|^2 + |b|^2 - 2 a b, which costs a product and loses digits where a and b
are near each other beside their lengths. From the mean of the rows few are; their distances, and
those that are not finite, come from differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual.arrays.backend import Array

# From so many differences on products take less time.
_MANY = 1 << 14
# A square that is less than this part of the lengths has lost two digits of binary numbers.
_NEAR = 0.25
# So many differences are made at once.
_PART = 1 << 18


def served(xp: Any, x1: Array, x2: Array) -> bool:
    """Whether these rows' distances, and their gradients, are computed here."""
    return (
        xp is numpy
        and x1.dtype.char in "fd"
        and x1.dtype == x2.dtype
        and x1.shape[:-2] == x2.shape[:-2]
        and x1.shape[-1] >= 8
        and math.prod(x1.shape) * x2.shape[-2] >= _MANY
    )


# Where more than this part of the pairs is near, products are no gain.
_MOST = 0.125


def _centered(x1: Array, x2: Array) -> tuple[Array, Array, Array]:
    """Both from the mean of the second's rows, and for each pair what less is near."""
    center = x2.mean(axis=-2, keepdims=True)
    a, b = x1 - center, x2 - center
    lengths = numpy.einsum("...i,...i", a, a), numpy.einsum("...i,...i", b, b)
    return a, b, (lengths[0][..., :, None] + lengths[1][..., None, :]) * _NEAR


def _differences(x1: Array, x2: Array, pairs: tuple[Array, ...]) -> Iterator[tuple[Any, Array]]:
    """Some of the pairs after others, each with the differences of their rows."""
    step = max(1, _PART // x1.shape[-1])
    for at in range(0, len(pairs[0]), step):
        *batch, first, second = some = tuple([each[at : at + step] for each in pairs])
        yield some, x1[(*batch, first)] - x2[(*batch, second)]


def distances(x1: Array, x2: Array) -> Array:
    """(..., P, M) and (..., R, M) give (..., P, R)."""
    a, b, bounds = _centered(x1, x2)
    squares = numpy.matmul(a, b.swapaxes(-1, -2))
    squares *= -2
    squares += bounds / _NEAR
    near = numpy.nonzero(~((squares >= bounds) & (squares < numpy.inf)))
    for some, off in _differences(x1, x2, near):
        squares[some] = (off * off).sum(axis=-1)
    return numpy.sqrt(squares, out=squares)


def gradients(
    g: Array, x1: Array, x2: Array, result: Array, needs: tuple[bool, bool]
) -> tuple[Array | None, Array | None] | None:
    """Of `distances`: the sums of g (a - b) / |a - b|.

    None where something is not finite, or too many rows are near each other.
    """
    shares = numpy.divide(g, result, out=numpy.zeros_like(result), where=result != 0)
    a, b, bounds = _centered(x1, x2)
    if not (math.isfinite(shares.sum()) and math.isfinite(bounds.sum())):
        return None
    near = numpy.nonzero((result * result < bounds) & (shares != 0))
    if len(near[0]) > _MOST * shares.size:
        return None
    of_near = shares[near]
    shares[near] = 0
    d_x1 = d_x2 = None
    if needs[0]:
        d_x1 = a * shares.sum(axis=-1)[..., None]
        d_x1 -= numpy.matmul(shares, b)
    if needs[1]:
        d_x2 = b * shares.sum(axis=-2)[..., None]
        d_x2 -= numpy.matmul(shares.swapaxes(-1, -2), a)
    shares[near] = of_near
    for some, off in _differences(x1, x2, near):
        off *= shares[some][:, None]
        if d_x1 is not None:
            numpy.add.at(d_x1, some[:-1], off)
        if d_x2 is not None:
            numpy.subtract.at(d_x2, (*some[:-2], some[-1]), off)
    return d_x1, d_x2
