"""GELU, some elementary functions, and gradients of what is 0 below a threshold.

Layer 1. `compiled/__init__.py` says what kernels are given.
"""

from __future__ import annotations

import math

import numpy

from ag_visual.arrays.kernels import normal
from ag_visual.arrays.kernels.compiled.making import exact, ordered, summing
from ag_visual.arrays.kernels.compiled.numbers import (
    arctan2_32,
    arctanh32,
    cosh32,
    exp32,
    expm1_32,
    log1p_32,
    sinh32,
)

_F = numpy.float32
# Of the normal distribution function.
_CONST, _DENSITY = _F(normal.CONST), _F(1 / math.sqrt(2 * math.pi))
_POWERS = tuple(_F(c) for c in normal.POWERS)


@ordered
def _normal(x):
    """Phi(x), as kernels/normal.py has it, and exp(-x^2 / 2)."""
    power = exp32(x * x * _F(-0.5))
    v = abs(x)
    v = _F(1000) if v > _F(1000) else v
    v = v / (v + _CONST)
    p = _POWERS[0] * v + _POWERS[1]
    p = p * v + _POWERS[2]
    p = p * v + _POWERS[3]
    p = p * v + _POWERS[4]
    p = p * v + _POWERS[5]
    p = p * v + _POWERS[6]
    p = p * power
    return (_F(1) - p if x > _F(0) else p), power


@summing
def gelu(x, out):
    """x Phi(x) of float32."""
    for i in range(x.size):
        out[i] = x[i] * _normal(x[i])[0]


@summing
def gelu_backward(g, x, out):
    """g (Phi(x) + x phi(x)) of float32."""
    for i in range(x.size):
        below, power = _normal(x[i])
        out[i] = g[i] * (below + power * _DENSITY * x[i])


@summing
def expm1(x, out):
    """exp(x) - 1 of float32."""
    for i in range(x.size):
        out[i] = expm1_32(x[i])


@ordered
def log1p(x, out):
    """log(1 + x) of float32."""
    for i in range(x.size):
        out[i] = log1p_32(x[i])


@ordered
def sinh(x, out):
    """(exp(x) - exp(-x)) / 2 of float32."""
    for i in range(x.size):
        out[i] = sinh32(x[i])


@ordered
def cosh(x, out):
    """(exp(x) + exp(-x)) / 2 of float32."""
    for i in range(x.size):
        out[i] = cosh32(x[i])


@ordered
def arctan2(y, x, out):
    """The angle of the point (x, y) of float32."""
    for i in range(x.size):
        out[i] = arctan2_32(y[i], x[i])


@ordered
def arctan(x, out):
    """The angle of the point (1, x) of float32."""
    for i in range(x.size):
        out[i] = arctan2_32(x[i], _F(1))


@ordered
def arctanh(x, out):
    """log((1 + x) / (1 - x)) / 2 of float32."""
    for i in range(x.size):
        out[i] = arctanh32(x[i])


@exact
def where_above(x, threshold, values, out):
    """`values`, and 0 where x <= threshold."""
    least = x.dtype.type(threshold)
    for i in range(x.size):
        out[i] = x.dtype.type(0) if x[i] <= least else values[i]


TAKES = {
    gelu: "v v",
    gelu_backward: "v v v",
    expm1: "v v",
    log1p: "v v",
    sinh: "v v",
    cosh: "v v",
    arctan: "v v",
    arctan2: "v v v",
    arctanh: "v v",
    where_above: "v d v v",
}
