"""Reading images at places between their pixels, and the gradients of that.

Layer 1. `compiled/__init__.py` says what kernels are given. What is computed, and with which
roundings, is written in ops/nn/grid_sample.py; a place has taps in each dimension: a pixel (-1:
outside), its weight and the weight's slope.
"""

from __future__ import annotations

import numpy

from ag_visual.arrays.kernels.compiled.making import exact
from ag_visual.arrays.kernels.compiled.numbers import kept
from ag_visual.arrays.kernels.modes import BILINEAR, NEAREST, REFLECTION, ZEROS

_F, _D, _I, _U = numpy.float32, numpy.float64, numpy.int32, numpy.uintp
_NOWHERE, _FAR = -100.0, 2.0**31 - 2
# So many places at a time: what is known of them stays in the cache while the channels go by.
_SOME = 128


@exact
def _pixel(place, n, align, rank, kind):
    """A place from -1 to 1 in pixels."""
    moved = place + kind(1)
    if rank == 3:
        if align:
            return moved / kind(2) * kind(n - 1)
        return (moved * kind(n) - kind(1)) / kind(2)
    if align:
        return moved * kind((n - 1) / 2)
    wide, scale = _D(moved), n / 2
    high = _D(_F(moved))
    if wide == high:
        return kind(wide * scale - 0.5)
    return kind((high * scale - 0.5) + (wide - high) * scale)


@exact
def _turned(x, low, span):
    """How often a place is folded back: whether it is odd, and what is left behind the last."""
    away = abs(x - low)
    turns = numpy.floor(away / span)
    return turns - 2 * numpy.floor(turns / 2) != 0, away - turns * span


@exact
def _inside(x, n, padding, align, kind):
    """The place where the padding has its value from."""
    if padding == ZEROS:
        return x
    if padding == REFLECTION:
        low, span = (kind(0), kind(n - 1)) if align else (kind(-0.5), kind(n))
        if span == 0:
            x = x * span
        else:
            odd, extra = _turned(x, low, span)
            x = span - extra + low if odd else extra + low
    x = kind(0) if x <= 0 else x
    return kind(n - 1) if x >= n - 1 else x


@exact
def _slope(x, n, padding, align, kind):
    """The derivative of `_inside`."""
    if padding == ZEROS:
        return kind(1)
    sign = kind(1)
    if padding == REFLECTION:
        low, span = (kind(0), kind(n - 1)) if align else (kind(-0.5), kind(n))
        if span == 0:
            return kind(0)
        odd, extra = _turned(x, low, span)
        if odd != (x < low):
            sign = kind(-1)
        x = span - extra + low if odd else extra + low
    return sign if x > 0 and x < n - 1 else kind(0)


@exact
def _known(x, kind):
    return x if abs(x) <= _FAR else kind(_NOWHERE)


@exact
def _put(k, p, place, n, weight, slope, at, weights, slopes):
    """Stores a tap; nothing of a pixel that is none."""
    there = place >= 0 and place <= n - 1
    at[k, p] = _I(place) if there else _I(-1)
    weights[k, p] = weight if there else weight * 0
    slopes[k, p] = slope if there else slope * 0


@exact
def _cubic(number, t, kind):
    """The weight of one of four pixels for the part t behind the second one, and its slope."""
    if number == 1 or number == 2:
        away = t if number == 1 else kind(1) - t
        weight = (kind(1.25) * away - kind(2.25)) * away * away + kind(1)
        slope = (kind(3.75) * away - kind(4.5)) * away
    else:
        away = t + kind(1) if number == 0 else kind(2) - t
        weight = ((away - kind(5)) * away + kind(8)) * away * kind(-0.75) - kind(-3)
        slope = ((kind(3) * away - kind(10)) * away + kind(8)) * kind(-0.75)
    return weight, (slope if number < 2 else -slope)


@exact
def _taps(places, n, mode, padding, align, rank, at, weights, slopes):
    """The taps of some places along one dimension of n pixels."""
    kind = places.dtype.type
    scale = kind((n - 1) / 2 if align else n / 2)
    for p in range(places.size):
        x = _pixel(places[p], n, align, rank, kind)
        if mode == BILINEAR:
            inner = _known(_inside(x, n, padding, align, kind), kind)
            move = _slope(x, n, padding, align, kind) * scale
            first = numpy.floor(inner)
            second = first + kind(1)
            _put(0, p, first, n, second - inner, -move, at, weights, slopes)
            _put(1, p, second, n, inner - first, move, at, weights, slopes)
        elif mode == NEAREST:
            inner = _known(_inside(x, n, padding, align, kind), kind)
            _put(0, p, numpy.rint(inner), n, kind(1), kind(0), at, weights, slopes)
        else:
            x = _known(x, kind)
            first = numpy.floor(x)
            for k in range(4):
                weight, slope = _cubic(k, x - first, kind)
                place = _known(_inside(first + kind(k - 1), n, padding, align, kind), kind)
                _put(k, p, numpy.rint(place), n, weight, slope * scale, at, weights, slopes)


@exact
def _combined(places, sizes, mode, padding, align, at, weights, slopes, pixels, shares):
    """The taps of some places, and each choice of one in each dimension: pixel and weight."""
    rank = sizes.size
    taps = at.shape[1]
    for d in range(rank):
        along = places[:, rank - 1 - d].copy()
        _taps(along, sizes[d], mode, padding, align, rank, at[d], weights[d], slopes[d])
    for k in range(pixels.shape[0]):
        rest = pixels.shape[0]
        for d in range(rank):
            rest //= taps
            tap = k // rest % taps
            for p in range(places.shape[0]):
                if d == 0:
                    pixels[k, p] = at[d, tap, p]
                    shares[k, p] = weights[d, tap, p]
                else:
                    before, here = pixels[k, p], at[d, tap, p]
                    outside = before < 0 or here < 0
                    pixels[k, p] = _I(-1) if outside else _I(before * _I(sizes[d]) + here)
                    shares[k, p] = shares[k, p] * weights[d, tap, p]


@exact
def _share(plane, pixel, share):
    return kept(plane[_U(max(pixel, _I(0)))], pixel) * share


@exact
def grid_sample(x, grid, sizes, mode, padding, align, out):
    """The pixels of x (images, channels, pixels) at the places of grid (images, places, rank)."""
    kind, rank, count = x.dtype.type, sizes.size, grid.shape[1]
    taps = 2 if mode == BILINEAR else 1 if mode == NEAREST else 4
    at = numpy.empty((rank, taps, _SOME), _I)
    weights, slopes = numpy.empty(at.shape, x.dtype), numpy.empty(at.shape, x.dtype)
    pixels = numpy.empty((taps**rank, _SOME), _I)
    shares = numpy.empty(pixels.shape, x.dtype)
    for image in range(x.shape[0]):
        for begin in range(0, count, _SOME):
            places = grid[image, begin : begin + _SOME]
            _combined(places, sizes, mode, padding, align, at, weights, slopes, pixels, shares)
            for channel in range(x.shape[1]):
                plane, line = x[image, channel], out[image, channel, begin : begin + _SOME]
                if pixels.shape[0] == 1:
                    for p in range(places.shape[0]):
                        line[p] = kind(0) + _share(plane, pixels[0, p], shares[0, p])
                    continue
                for p in range(places.shape[0]):
                    line[p] = kind(0)
                for k in range(0, pixels.shape[0], 4):  # four by four, which saves passes
                    for p in range(places.shape[0]):
                        total = line[p] + _share(plane, pixels[k, p], shares[k, p])
                        total = total + _share(plane, pixels[k + 1, p], shares[k + 1, p])
                        total = total + _share(plane, pixels[k + 2, p], shares[k + 2, p])
                        line[p] = total + _share(plane, pixels[k + 3, p], shares[k + 3, p])


@exact
def grid_sample_backward(g, x, grid, sizes, mode, padding, align, of_x, of_grid, d_x, d_grid):
    """Adds the gradients of x to d_x, where asked for, and those of grid to d_grid."""
    kind, rank, count = x.dtype.type, sizes.size, grid.shape[1]
    taps = 2 if mode == BILINEAR else 1 if mode == NEAREST else 4
    at = numpy.empty((rank, taps, _SOME), _I)
    weights, slopes = numpy.empty(at.shape, x.dtype), numpy.empty(at.shape, x.dtype)
    pixels = numpy.empty((taps**rank, _SOME), _I)
    shares, along = numpy.empty(pixels.shape, x.dtype), numpy.empty(pixels.shape, x.dtype)
    for image in range(x.shape[0]):
        for begin in range(0, count, _SOME):
            places = grid[image, begin : begin + _SOME]
            some = places.shape[0]
            _combined(places, sizes, mode, padding, align, at, weights, slopes, pixels, shares)
            along[:] = kind(0)
            for channel in range(x.shape[1]):
                plane, line = x[image, channel], g[image, channel, begin : begin + _SOME]
                if of_x:
                    to = d_x[image, channel]
                    for k in range(pixels.shape[0]):
                        for p in range(some):
                            pixel = pixels[k, p]
                            if pixel >= 0:
                                to[_U(pixel)] += line[p] * shares[k, p]
                if of_grid:
                    for k in range(pixels.shape[0]):
                        for p in range(some):
                            along[k, p] += line[p] * plane[_U(max(pixels[k, p], _I(0)))]
            if not of_grid:
                continue
            into = d_grid[image, begin : begin + _SOME]
            for k in range(pixels.shape[0]):
                rest = pixels.shape[0]
                for d in range(rank):
                    rest //= taps
                    tap = k // rest % taps
                    for p in range(some):
                        if pixels[k, p] < 0:
                            continue
                        part, others = along[k, p] * slopes[d, tap, p], kind(1)
                        other = pixels.shape[0]
                        for e in range(rank):
                            other //= taps
                            if e != d:
                                others = others * weights[e, k // other % taps, p]
                        into[p, rank - 1 - d] += part * others


TAKES = {grid_sample: "t t n l l b t", grid_sample_backward: "t t t n l l b b b t t"}
