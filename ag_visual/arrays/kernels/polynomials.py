"""Orthogonal polynomials of elementwise orders, by their three-term recurrences.

Layer 1. One family is its linear polynomial and the step from two neighbours to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ag_visual.arrays.backend import Array


class Family(NamedTuple):
    """p_0 = 1, p_1 = first(x), p_{k+1} = step(k, x, p_k, p_{k-1}).

    limited: from order 512 (128 in float32) on the values are NaN: they would overflow.
    """

    first: Callable[[Array], Array]
    step: Callable[[int, Array, Array, Array], Array]
    limited: bool = False


def _chebyshev(first: Callable[[Array], Array]) -> Family:
    return Family(first, lambda k, x, p, q: 2 * x * p - q)


CHEBYSHEV = {
    "t": _chebyshev(lambda x: x),
    "u": _chebyshev(lambda x: 2 * x),
    "v": _chebyshev(lambda x: 2 * x - 1),
    "w": _chebyshev(lambda x: 2 * x + 1),
}
HERMITE = {
    "h": Family(lambda x: 2 * x, lambda k, x, p, q: 2 * (x * p - k * q), limited=True),
    "he": Family(lambda x: x, lambda k, x, p, q: x * p - k * q, limited=True),
}
LAGUERRE = Family(lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) * (1 / (k + 1)))
LEGENDRE = Family(lambda x: x, lambda k, x, p, q: ((2 * k + 1) * (x * p) - k * q) * (1 / (k + 1)))


def evaluate(xp: Any, family: Family, x: Array, n: Array) -> Array:
    """p_n(x) elementwise; orders are rounded towards zero; negative ones, inf and NaN give 0."""
    shape = xp.broadcast_shapes(x.shape, n.shape)
    order = xp.where(xp.isfinite(n), xp.trunc(n), -1)
    x, order = xp.broadcast_to(x, shape), xp.broadcast_to(order, shape)
    result = xp.where(order == 0, xp.ones_like(x), xp.zeros_like(x))
    highest = int(order.max()) if order.size else 0
    if family.limited:
        limit = 512 if x.dtype.itemsize == 8 else 128
        result = xp.where(order >= limit, xp.full_like(result, xp.nan), result)
        highest = min(highest, limit - 1)
    before, current = xp.ones_like(x), family.first(x)
    for k in range(1, highest + 1):
        result = xp.where(order == k, current, result)
        before, current = current, family.step(k, x, current, before)
    return result
