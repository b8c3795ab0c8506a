"""Running sums, products and extrema along a dimension.

Layer 1. Results are fresh arrays, row by row. Each element takes over what all before it were
rounded by: float32 runs in float64, as torch's, 16 bits in float32, integers in int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array

_RUNNING = {"f": numpy.float64, "F": numpy.complex128}


def running(kind: Any) -> Any:
    """The dtype that a scan of this one runs in."""
    if kind.kind in "iub":
        return numpy.int64
    return numpy.float32 if kind.itemsize == 2 else _RUNNING.get(kind.char, kind)


def cumulate(
    xp: Any, self: Array, dim: int, product: bool = False, backwards: bool = False
) -> Array:
    """The running sum, or product, along `dim`; backwards, from the last element on."""
    kind, among = self.dtype, running(self.dtype)
    if self.ndim == 0:
        return self.astype(among) if kind.kind in "iub" else self.copy()
    run = _compiled(xp, "cumulate", self)
    if run is not None:
        result = numpy.empty(self.shape, kind)
        run(_lines(self, dim), product, backwards, _lines(result, dim))
        return result
    given = xp.flip(self, dim) if backwards else self
    scan = xp.cumprod if product else xp.cumsum
    found = scan(given, axis=dim, dtype=among)
    if not product and found.dtype.kind in "fc":
        found += 0  # sums begin with 0., so that none of zeros is -0.
    if kind.kind not in "iub":
        found = found.astype(kind, copy=False)
    return xp.ascontiguousarray(xp.flip(found, dim) if backwards else found)


def running_extreme(xp: Any, self: Array, dim: int, largest: bool) -> tuple[Array, Array]:
    """The largest (or smallest) value so far along `dim`, and the last place where it stands.

    From the first NaN on the value is NaN.
    """
    run = _compiled(xp, "running_extreme", self)
    if run is not None:
        values, places = numpy.empty(self.shape, self.dtype), numpy.empty(self.shape, numpy.int64)
        run(_lines(self, dim), largest, _lines(values, dim), _lines(places, dim))
        return values, places
    if xp is numpy and self.dtype.kind != "V":
        return _accumulated(self, dim, largest)
    return _doubling(xp, self, dim, largest)


def _compiled(xp: Any, name: str, self: Array) -> Callable[..., Any] | None:
    return fast.compiled(name, self.dtype) if fast.wanted(xp, self.size) else None


def _lines(array: Array, dim: int) -> Array:
    """An array as three dimensions, of which the middle one is `dim`, in memory row by row."""
    shape = array.shape
    if not array.flags.carray:
        array = array.copy()
    return array.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


def _numbers(xp: Any, array: Array, dim: int) -> Array:
    """0, 1, ... along `dim`, of the shape of an array."""
    line = xp.arange(array.shape[dim]).reshape((-1,) + (1,) * (array.ndim - dim - 1))
    return xp.broadcast_to(line, array.shape)


def _accumulated(self: Array, dim: int, largest: bool) -> tuple[Array, Array]:
    """`running_extreme` by NumPy's own accumulation."""
    extreme = numpy.maximum if largest else numpy.minimum
    values = extreme.accumulate(self, axis=dim)
    stands = self == values
    if self.dtype.kind == "f":
        stands |= numpy.isnan(self)
    places = numpy.where(stands, _numbers(numpy, self, dim), 0)
    numpy.maximum.accumulate(places, axis=dim, out=places)
    # (Of 0. and -0. the last one stands, too.)
    values = numpy.take_along_axis(self, places, dim)
    return numpy.ascontiguousarray(values), numpy.ascontiguousarray(places)


def _doubling(xp: Any, self: Array, dim: int, largest: bool) -> tuple[Array, Array]:
    """`running_extreme` in log2(n) passes, where nothing accumulates."""
    n, values, places = self.shape[dim], self.copy(), _numbers(xp, self, dim).copy()
    before = (slice(None),) * dim
    step = 1
    while step < n:
        early, late = (*before, slice(None, n - step)), (*before, slice(step, None))
        a, b = values[early], values[late]
        later = (b >= a) if largest else (b <= a)
        if self.dtype.kind in "fV":
            later = xp.isnan(b) | (later & ~xp.isnan(a))
        kept = places[early]
        values[late] = xp.where(later, b, a)
        places[late] = xp.where(later, places[late], kept)
        step *= 2
    return values, places
