"""The Airy function Ai of real numbers, which CuPy's special functions lack.

Layer 1. Near zero its Taylor series; elsewhere the integral over exp(-t) t^(-1/6) that Gil, Segura
and Temme give ("Computing complex Airy functions by numerical quadrature", 2002), by Gauss and
Laguerre's rule; for negative numbers through two points of the complex plane.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.order import copied

_POINTS = 40
_NEAR = 1.5
_TERMS = 16


@functools.cache
def _rule() -> tuple[tuple[float, ...], tuple[float, ...]]:
    import scipy.special  # 50 ms: only for those who need it

    nodes, weights = scipy.special.roots_genlaguerre(_POINTS, -1 / 6)
    return tuple(map(float, nodes)), tuple(map(float, weights))


def airy_ai(xp: Any, x: Array) -> Array:
    """Ai(x), in float64 accurate to 1e-13 of max(|Ai(x)|, |x|^(-1/4) / 2)."""
    wide = copied(xp, x, xp.float64)
    size = xp.abs(wide)
    far = xp.maximum(size, _NEAR)
    positive = _integral(xp, far + 0j).real
    # Ai(z) + w Ai(wz) + w^2 Ai(w^2 z) = 0 with w = exp(2 pi i / 3), at z = -far.
    root = complex(math.cos(2 * math.pi / 3), math.sin(2 * math.pi / 3))
    negative = -2 * (root * _integral(xp, -far * root)).real
    result = xp.where(wide > 0, positive, negative)
    result = xp.where(size <= _NEAR, _series(xp, xp.clip(wide, -_NEAR, _NEAR)), result)
    return xp.where(xp.isfinite(wide), result, xp.nan).astype(x.dtype)  # as torch, at inf too


def _integral(xp: Any, z: Array) -> Array:
    """Ai(z) for |z| >= 1 within 120 degrees of the positive axis."""
    zeta = z * xp.sqrt(z) * (2 / 3)
    total = xp.zeros_like(zeta)
    for node, weight in zip(*_rule(), strict=True):
        total = total + weight * (2 + node / zeta) ** (-1 / 6)
    scale = 1 / (math.sqrt(math.pi) * 48 ** (1 / 6) * math.gamma(5 / 6))
    return scale * xp.exp(-zeta) * zeta ** (-1 / 6) * total


def _series(xp: Any, x: Array) -> Array:
    """Ai(0) f(x) + Ai'(0) g(x), where f and g solve y'' = xy with values and slopes (1, 0), (0, 1).

    Each term is the one before times x^3 over the two next products.
    """
    cube = x * x * x
    f = even = xp.ones_like(x)
    g = odd = x
    for k in range(1, _TERMS):
        even = even * cube / ((3 * k - 1) * (3 * k))
        odd = odd * cube / ((3 * k) * (3 * k + 1))
        f, g = f + even, g + odd
    at_zero = 1 / (3 ** (2 / 3) * math.gamma(2 / 3))
    slope = -1 / (3 ** (1 / 3) * math.gamma(1 / 3))
    return at_zero * f + slope * g
