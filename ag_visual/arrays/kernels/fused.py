"""a * b + c rounded once, as the processors compute it that torch's kernels are compiled for.

Layer 1. Where a derivative jumps, the last digit says which side a point is on.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.backend import Array

_SPLIT = float(2**27 + 1)


def _halves(x: Array) -> tuple[Array, Array]:
    """x as the sum of two numbers of 26 bits. Source: Veltkamp; Dekker (1971)."""
    c = x * _SPLIT
    high = c - (c - x)
    return high, x - high


def multiply_add(xp: Any, a: Array, b: Array, c: Array) -> Array:
    """a * b + c of floating-point arrays of one dtype, without rounding the product."""
    a, b, c = xp.asarray(a), xp.asarray(b), xp.asarray(c)
    if a.dtype != numpy.float64:
        # A product of two of fewer bits is exact in 64.
        wide = a.astype(numpy.float64) * b.astype(numpy.float64) + c.astype(numpy.float64)
        return wide.astype(a.dtype)
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    rest = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    exact = total + (lost + rest)
    return xp.where(xp.isfinite(exact), exact, total)
