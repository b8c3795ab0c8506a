"""Resampling along one axis: every output is a weighted sum of a few inputs, its taps.

Layer 1. A table of taps is made once per (method, sizes, scale) on the host and kept; the gradient
is the same with the transposed table. 16-bit floats are resampled in float32.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy

from ag_visual.arrays.backend import Array, of_namespace
from ag_visual.arrays.kernels.rows import weighted_sums

Host = Any  # a NumPy array, whatever xp is

# Up to so many products per element BLAS beats picking taps one by one (measured: 1.2 against
# 3.5 ns per element and tap).
_DENSE = 64
_CUBIC, _CUBIC_SMOOTH = -0.75, -0.5  # torch's a of the cubic, and with antialias (as Pillow)


def resample(
    xp: Any,
    x: Array,
    axis: int,
    method: str,
    size: int,
    align: bool = False,
    scale: float | None = None,
) -> Array:
    """`x` with `size` elements along `axis`, by nearest, exact, linear, cubic or their smooth form.

    scale: the caller's output / input ratio, where it gave one instead of a size.
    """
    key = (method, x.shape[axis], size, align, scale, _precise(x))
    return _apply(xp, x, axis, *_table(*key))


def resample_back(
    xp: Any,
    g: Array,
    axis: int,
    method: str,
    size: int,
    align: bool = False,
    scale: float | None = None,
) -> Array:
    """The gradient of `resample` for an input with `size` elements along `axis`."""
    key = (method, size, g.shape[axis], align, scale, _precise(g))
    return _apply(xp, g, axis, *_transposed(*key))


def resample_bytes(
    xp: Any, x: Array, axis: int, method: str, size: int, align: bool, scale: float | None
) -> Array:
    """`resample` of uint8 in whole numbers, as images are resampled: weights of 15 bits, sums that
    are rounded and kept between 0 and 255. An axis that keeps its size is left as it is.
    """
    n = x.shape[axis]
    if n == size:
        return x
    weight = _matrix(*_table(method, n, size, align, scale, True))
    bits = 0
    while bits < 22 and int(0.5 + weight.max() * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    scaled = weight * (1 << bits)
    whole = numpy.trunc(scaled + numpy.where(scaled < 0, -0.5, 0.5)).astype(numpy.int64)
    matrix = of_namespace(xp).from_numpy(whole)
    wide = xp.moveaxis(x, axis, -1).astype(numpy.int64)
    total = (xp.matmul(wide, matrix.T) + (1 << (bits - 1))) >> bits
    return xp.moveaxis(xp.clip(total, 0, 255).astype(numpy.uint8), -1, axis)


def _precise(x: Array) -> bool:
    return bool(x.dtype.itemsize > 4 and x.dtype.kind in "fc")


def _apply(xp: Any, x: Array, axis: int, index: Host, weight: Host, rows: int) -> Array:
    bring = of_namespace(xp).from_numpy
    if index.shape[1] == 1 and bool((weight == 1).all()):
        return xp.take(x, bring(index[:, 0].copy()), axis=axis)
    wide = x.astype(xp.float32) if x.dtype.itemsize == 2 else x
    if rows <= _DENSE or index.shape[1] > 8:
        matrix = bring(_matrix(index, weight, rows).astype(wide.dtype))
        return weighted_sums(xp, matrix, wide, axis).astype(x.dtype, copy=False)
    shape = (-1,) + (1,) * (x.ndim - 1 - axis % x.ndim)

    def total(masked: bool) -> Array:
        result = None
        for tap in range(index.shape[1]):
            part = xp.take(wide, bring(index[:, tap].copy()), axis=axis)
            factor = bring(weight[:, tap].astype(wide.dtype)).reshape(shape)
            if masked:
                part = xp.where(factor == 0, 0, part)
            part *= factor
            result = part if result is None else xp.add(result, part, out=result)
        return result

    result = total(False)
    if not bool(xp.isfinite(result.sum())):
        result = total(True)  # weights of 0 make NaN of what is infinite
    return result.astype(x.dtype, copy=False)


def _matrix(index: Host, weight: Host, rows: int) -> Host:
    matrix = numpy.zeros((index.shape[0], rows), weight.dtype)
    places = numpy.broadcast_to(numpy.arange(index.shape[0])[:, None], index.shape)
    numpy.add.at(matrix, (places, index), weight)
    return matrix


@functools.lru_cache(maxsize=256)
def _transposed(
    method: str, n: int, size: int, align: bool, scale: float | None, precise: bool
) -> tuple[Host, Host, int]:
    """For each input the outputs that it reaches, filled up with weights of 0."""
    index, weight, _ = _table(method, n, size, align, scale, precise)
    matrix = _matrix(index, weight, n).T
    used = matrix != 0
    count = max(int(used.sum(axis=1).max(initial=0)), 1)
    order = numpy.argsort(~used, axis=1, kind="stable")[:, :count]
    return order, numpy.take_along_axis(matrix, order, axis=1), size


@functools.lru_cache(maxsize=256)
def _table(
    method: str, n: int, size: int, align: bool, scale: float | None, precise: bool
) -> tuple[Host, Host, int]:
    """(size, taps) input places and weights, and the number of inputs n."""
    real: Any = numpy.float64 if precise else numpy.float32
    at = numpy.arange(size)
    if method in ("nearest", "exact"):
        index = _nearest(at.astype(real), real(1 / scale if scale else n / size), method == "exact")
        return numpy.minimum(index, n - 1)[:, None], numpy.ones((size, 1), real), n
    step = real(_step(n, size, align, scale))
    if method.startswith("smooth"):
        return (*_smooth(method, n, at, step, real), n)
    place = at.astype(real) * step if align else (at.astype(real) + real(0.5)) * step - real(0.5)
    if method == "linear":
        place = numpy.maximum(place, 0)
        first = numpy.minimum(place.astype(numpy.int64), n - 1)
        part = numpy.clip(place - first, 0, 1).astype(real)
        if n == size:
            first, part = at, numpy.zeros(size, real)
        return (
            numpy.stack([first, numpy.minimum(first + 1, n - 1)], axis=1),
            numpy.stack([1 - part, part], axis=1),
            n,
        )
    first = numpy.minimum(numpy.floor(place).astype(numpy.int64), n - 1)
    part = numpy.clip(place - first, 0, 1).astype(real)
    index = numpy.clip(first[:, None] + numpy.arange(-1, 3), 0, n - 1)
    away = numpy.stack([part + 1, part, 1 - part, 2 - part], axis=1)
    return index, _cubic(away, _CUBIC).astype(real), n


def _nearest(at: Host, step: Any, exact: bool) -> Host:
    """The nearest input of each output, also where rounding decides, as torch rounds: the product
    fused with the subtraction, the result in single precision.
    """
    place = at * step
    if exact:
        wide = (at.astype(numpy.float64) + 0.5) * numpy.float64(step) - 0.5
        place = numpy.maximum(wide.astype(at.dtype), 0) + at.dtype.type(0.5)
    return numpy.floor(place.astype(numpy.float32)).astype(numpy.int64)


def _step(n: int, size: int, align: bool, scale: float | None) -> float:
    if align:
        return (n - 1) / (size - 1) if size > 1 else 0.0
    return 1 / scale if scale else n / size


def _cubic(x: Host, a: float) -> Host:
    """Keys' cubic convolution kernel at distances x. Source: Keys, IEEE ASSP 29 (1981)."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return numpy.where(x < 1, near, numpy.where(x < 2, far, 0))


def _smooth(method: str, n: int, at: Host, step: Any, real: Any) -> tuple[Host, Host]:
    """Filters as wide as the output's pixels, cut off at the border and normalised."""
    reach = 1.0 if method == "smooth linear" else 2.0
    support = real(reach * step if step >= 1 else reach)
    narrow = real(1 / step if step >= 1 else 1)
    center = step * (at.astype(real) + real(0.5))
    low = numpy.maximum((center - support + real(0.5)).astype(numpy.int64), 0)
    high = numpy.minimum((center + support + real(0.5)).astype(numpy.int64), n)
    taps = max(int((high - low).max(initial=1)), 1)
    places = low[:, None] + numpy.arange(min(taps, math.ceil(support) * 2 + 1))
    away = numpy.abs((places - center[:, None] + real(0.5)) * narrow)
    linear = method == "smooth linear"
    weight = numpy.maximum(1 - away, 0) if linear else _cubic(away, _CUBIC_SMOOTH)
    weight = numpy.where(places < high[:, None], weight, 0).astype(real)
    total = weight.sum(axis=1, keepdims=True)
    weight = numpy.divide(weight, total, out=weight, where=total != 0)
    return numpy.minimum(places, n - 1), weight
