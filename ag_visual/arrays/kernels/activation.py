"""Stable elementwise formulas that NumPy and CuPy lack, in torch's results at the extremes.

Layer 1. Results are fresh arrays of the input's dtype; float16 and bfloat16 are computed in
float32.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import ml_dtypes
import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array, of_namespace
from ag_visual.arrays.kernels import normal
from ag_visual.arrays.kernels.choice import where
from ag_visual.arrays.kernels.order import copied


def _wide(xp: Any, array: Array) -> Array:
    return array if array.dtype.itemsize > 2 else copied(xp, array, xp.float32)


# Beside a Python number NumPy 2.0 makes float32 of bfloat16.
_ZEROS = {
    each: numpy.zeros((), each)
    for each in map(numpy.dtype, ("float32", "float64", ml_dtypes.bfloat16))
}
_ONES = {each: numpy.ones((), each) for each in map(numpy.dtype, ("float32", "float64"))}
_LINES = {each: numpy.zeros(1 << 12, each) for each in map(numpy.dtype, ("float32", "float64"))}
_LONG = 1 << 13


def at_least(xp: Any, self: Array, bound: Any) -> Array:
    """max(x, bound), NaN where one is; a zero that equals the bound keeps its sign."""
    # Of two equals NumPy takes the second one, in float16 the first.
    return xp.maximum(self, bound) if self.dtype.char == "e" else xp.maximum(bound, self)


def at_most(xp: Any, self: Array, bound: Any) -> Array:
    """min(x, bound), NaN where one is; a zero that equals the bound keeps its sign."""
    return xp.minimum(self, bound) if self.dtype.char == "e" else xp.minimum(bound, self)


_CLIP_KEEPS_SIGNS = bool(numpy.signbit(numpy.clip(numpy.array([-0.0]), 0.0, 0.0))[0])


def between(xp: Any, self: Array, low: Any, high: Any) -> Array:
    """`clip`, where a zero that equals a bound keeps its sign (NumPy 2.0's own does not)."""
    if _CLIP_KEEPS_SIGNS:
        return xp.clip(self, low, high)
    self = self if low is None else at_least(xp, self, low)
    return self if high is None else at_most(xp, self, high)


def positive_part(xp: Any, self: Array) -> Array:
    """max(x, 0), NaN where x is."""
    # NumPy takes an array of no dimensions quicker than a Python number.
    zero = _ZEROS.get(self.dtype) if xp is numpy else None
    if zero is None:
        if self.dtype.kind == "b":
            raise RuntimeError(
                "Boolean inputs not supported for relu. Convert with .float() first."
            )
        return at_least(xp, self, 0)
    line = _LINES.get(self.dtype)
    if line is None or self.size < _LONG or not self.flags.c_contiguous:
        return xp.maximum(zero, self)
    return _beside_lines(line, self)


def _beside_lines(line: Array, self: Array) -> Array:
    """maximum(line, self) where `line` holds one number: beside a lone one it takes three times."""
    result = numpy.empty_like(self)
    flat, there = self.reshape(-1), result.reshape(-1)
    rest = flat.size % line.size
    whole = flat.size - rest
    if whole:
        rows = there[:whole].reshape(-1, line.size)
        numpy.maximum(line, flat[:whole].reshape(-1, line.size), out=rows)
    if rest:
        numpy.maximum(line[:rest], flat[whole:], out=there[whole:])
    return result


def where_above(xp: Any, self: Array, threshold: Any, values: Array) -> Array:
    """`values`, and 0 where self <= threshold."""
    dtype = values.dtype
    if fast.wanted(xp, self.size) and self.shape == values.shape:
        run = fast.kernel("where_above", self, values)
        if run is not None:
            result = numpy.empty(self.shape, dtype)
            run(self.reshape(-1), float(threshold), values.reshape(-1), result.reshape(-1))
            return result
    if xp is numpy and not threshold:
        threshold = _ZEROS.get(dtype, threshold)
    return where(xp, self <= threshold, 0, values)


def slopes(xp: Any, self: Array, negative: Any) -> Array:
    """1 where self > 0, elsewhere `negative`, a number or an array of self's dtype.

    In the order of self, which a product with an expanded gradient takes over.
    """
    dtype = self.dtype
    return where(xp, self > 0, xp.ones((), dtype), xp.asarray(negative, dtype))


def sigmoid(xp: Any, self: Array) -> Array:
    """1 / (1 + exp(-x)), elementwise."""
    # To full relative precision on both sides: where exp overflows, 1 / inf is the 0 that is meant.
    x = _wide(xp, self)
    if x.dtype.kind == "c":
        return xp.asarray(1 / (1 + xp.exp(-x)))
    result = xp.asarray(xp.negative(x))
    xp.exp(result, out=result)
    one = _ONES.get(x.dtype) if xp is numpy else None
    if one is None:
        result += 1
        xp.reciprocal(result, out=result)
        return result.astype(self.dtype, copy=False)
    # Each number of Python's costs NumPy 0.2 us; `reciprocal` takes longer than `divide`.
    numpy.add(result, one, result)
    numpy.divide(one, result, result)
    return result if x is self else result.astype(self.dtype)


def expm1(xp: Any, self: Array) -> Array:
    """exp(x) - 1: NumPy's own takes 16 ns for each float32, the compiled kernel 0.8."""
    return _compiled(xp, "expm1", self)


def log1p(xp: Any, self: Array) -> Array:
    """log(1 + x): NumPy's own takes 13 ns for each float32, the compiled kernel 1."""
    return _compiled(xp, "log1p", self)


def sinh(xp: Any, self: Array) -> Array:
    """(exp(x) - exp(-x)) / 2: NumPy's own takes 36 ns for each float32."""
    return _compiled(xp, "sinh", self)


def cosh(xp: Any, self: Array) -> Array:
    """(exp(x) + exp(-x)) / 2: NumPy's own takes 18 ns for each float32."""
    return _compiled(xp, "cosh", self)


def arctan(xp: Any, self: Array) -> Array:
    """The inverse of tan: NumPy's own takes 12 ns for each float32."""
    return _compiled(xp, "arctan", self)


def arctanh(xp: Any, self: Array) -> Array:
    """The inverse of tanh: NumPy's own takes 32 ns for each float32."""
    return _compiled(xp, "arctanh", self)


def arctan2(xp: Any, self: Array, other: Array) -> Array:
    """The angle of the point (other, self): NumPy's own takes 37 ns for each float32."""
    return _compiled(xp, "arctan2", self, other)


def _compiled(xp: Any, name: str, *given: Array) -> Array:
    """A function of float32 by the kernel of its name, of other types by the array library's."""
    x = given[0]
    if fast.wanted(xp, x.size) and x.dtype == numpy.float32 and given[-1].shape == x.shape:
        run = fast.kernel(name, *given)
        if run is not None:
            result = numpy.empty(x.shape, x.dtype)
            run(*(each.reshape(-1) for each in given), result.reshape(-1))
            return result
    return getattr(xp, name)(*given)  # type: ignore[no-any-return]


def log_sigmoid(xp: Any, self: Array) -> Array:
    """min(x, 0) - log(1 + exp(-|x|))."""
    x = _wide(xp, self)
    tail = log1p(xp, xp.exp(-xp.abs(x)))
    result = xp.asarray(xp.minimum(x, xp.zeros_like(x)) - tail)
    return result.astype(self.dtype, copy=False)


def softplus(xp: Any, self: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds `threshold`."""
    x = _wide(xp, self)
    scaled = x * beta
    smooth = (xp.maximum(scaled, xp.zeros_like(x)) + log1p(xp, xp.exp(-xp.abs(scaled)))) / beta
    result = xp.asarray(where(xp, scaled > threshold, x, smooth))
    return result.astype(self.dtype, copy=False)


def erf(xp: Any, self: Array) -> Array:
    """The error function."""
    x = _wide(xp, self)
    return xp.asarray(of_namespace(xp).special.erf(x)).astype(self.dtype, copy=False)


def gelu(xp: Any, self: Array, approximate: str = "none") -> Array:
    """x * Phi(x) with the normal distribution function Phi, or its tanh approximation."""
    x = _wide(xp, self)
    if approximate == "tanh":
        inner = sqrt(2 / pi) * (x + 0.044715 * (x * x * x))
        result = 0.5 * x * (1 + xp.tanh(inner))
    elif normal.fits(xp, x):
        run = fast.kernel("gelu", x) if fast.wanted(xp, x.size) else None
        if run is None:
            result = normal.gelu(x)
        else:
            result = numpy.empty(x.shape, x.dtype)
            run(x.reshape(-1), result.reshape(-1))
    else:
        result = 0.5 * x * (1 + of_namespace(xp).special.erf(x * sqrt(0.5)))
    return xp.asarray(result).astype(self.dtype, copy=False)


def gelu_backward(xp: Any, g: Array, self: Array, approximate: str = "none") -> Array:
    """g * (Phi(x) + x * phi(x)), or the derivative of the tanh approximation."""
    x = _wide(xp, self)
    if approximate == "tanh":
        scale = sqrt(2 / pi)
        t = xp.tanh(scale * (x + 0.044715 * (x * x * x)))
        slope = scale * (1 + 3 * 0.044715 * (x * x))
        derivative = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope
    elif normal.fits(xp, x):
        run = fast.kernel("gelu_backward", g, x) if fast.wanted(xp, x.size) else None
        if run is not None and g.shape == x.shape:
            result = numpy.empty(x.shape, x.dtype)
            run(g.reshape(-1), x.reshape(-1), result.reshape(-1))
            return result.astype(self.dtype, copy=False)
        derivative = normal.gelu_slope(x)
    else:
        below = 0.5 * (1 + of_namespace(xp).special.erf(x * sqrt(0.5)))
        density = xp.exp(-0.5 * (x * x)) * (1 / sqrt(2 * pi))
        derivative = below + x * density
    return xp.asarray(g * derivative).astype(self.dtype, copy=False)
