"""Derivatives of samples by their parameters, from F(sample; parameter) = u with u held.

What is drawn by inversion or rejection moves with a parameter a as dx/da = -(dF/da) / (dF/dx): the
implicit reparameterisation of Figurnov, Mohamed and Mnih (2018). F is SciPy's incomplete gamma or
beta function, its derivative by a comes from differences of sixth order: F is analytic in a, and a
step of 1/200 of the length over which log density changes keeps 10 digits of a float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays.backend import Array, of_namespace

_STEP = 0.005
_WEIGHTS = ((1, 45.0), (2, -9.0), (3, 1.0))  # of f(a + k h) - f(a - k h), over 60 h


def _slope(function: Callable[[Array], Array], a: Array, h: Array) -> Array:
    """df/da by central differences at a - 3h ... a + 3h."""
    total = sum(w * (function(a + k * h) - function(a - k * h)) for k, w in _WEIGHTS)
    return total / (60 * h)


def _wide(xp: Any, *arrays: Array) -> tuple[Array, ...]:
    return tuple(xp.broadcast_arrays(*(xp.asarray(x, dtype=numpy.float64) for x in arrays)))


def gamma_slope(xp: Any, concentration: Array, sample: Array) -> Array:
    """dx/da of x ~ Gamma(a, 1), in float64: elementwise, the arrays broadcast."""
    special = of_namespace(xp).special
    a, x = _wide(xp, concentration, sample)
    x = xp.maximum(x, numpy.finfo(numpy.float64).tiny)
    score = xp.log(x) - special.psi(a)
    h = _STEP / (xp.abs(score) + xp.sqrt(special.polygamma(1, a)))
    # Of P and Q = 1 - P the smaller one has more digits.
    upper = x > a
    moved = xp.empty_like(a)
    moved[~upper] = -_slope(lambda b: special.gammainc(b, x[~upper]), a[~upper], h[~upper])
    moved[upper] = _slope(lambda b: special.gammaincc(b, x[upper]), a[upper], h[upper])
    log_density = (a - 1) * xp.log(x) - x - special.gammaln(a)
    return moved * xp.exp(-log_density)


def beta_slope(xp: Any, sample: Array, a: Array, total: Array) -> Array:
    """dx/da / (1 - x) of x ~ Beta(a, total - a) where total - a is held, in float64.

    That is how far, per unit of its concentration, a component of a Dirichlet sample moves when
    the others keep their ratios.
    """
    special = of_namespace(xp).special
    x, a, total = _wide(xp, sample, a, total)
    limits = numpy.finfo(numpy.float64)
    x = xp.clip(x, limits.tiny, 1 - limits.epsneg)
    b = total - a
    score = xp.log(x) - special.psi(a) + special.psi(total)
    spread = special.polygamma(1, a) - special.polygamma(1, total)
    h = _STEP / (xp.abs(score) + xp.sqrt(xp.maximum(spread, 0)))
    upper = x * total > a
    moved = xp.empty_like(a)

    def lower_tail(c: Array) -> Array:
        return special.betainc(c, b[~upper], x[~upper])

    def upper_tail(c: Array) -> Array:
        return special.betainc(b[upper], c, 1 - x[upper])

    moved[~upper] = -_slope(lower_tail, a[~upper], h[~upper])
    moved[upper] = _slope(upper_tail, a[upper], h[upper])
    log_beta = special.gammaln(a) + special.gammaln(b) - special.gammaln(total)
    log_density = (a - 1) * xp.log(x) + b * xp.log1p(-x) - log_beta
    return moved * xp.exp(-log_density)
