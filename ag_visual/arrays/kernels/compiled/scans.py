"""Running sums, products and extrema along the middle one of three dimensions.

Layer 1. `compiled/__init__.py` says what kernels are given.
"""

from __future__ import annotations

import numpy

from ag_visual.arrays.kernels.compiled.making import exact

_L = numpy.int64
# So many lines that lie beside each other run at a time: what they have come to stays in the cache.
_WIDE = 1024


@exact
def cumulate(x, product, backwards, out):
    """The running sum in float64, or product, from the first number on or from the last."""
    outer, count, inner = x.shape
    kind = x.dtype.type
    first, step = (count - 1, -1) if backwards else (0, 1)
    start = 1.0 if product else 0.0
    if inner == 1:
        for a in range(outer):
            total = start
            if product:
                for i in range(count):
                    total = total * x[a, first + step * i, 0]
                    out[a, first + step * i, 0] = kind(total)
            else:
                for i in range(count):
                    total = total + x[a, first + step * i, 0]
                    out[a, first + step * i, 0] = kind(total)
        return
    totals = numpy.empty(min(inner, _WIDE))
    for a in range(outer):
        for begin in range(0, inner, _WIDE):
            some = min(_WIDE, inner - begin)
            totals[:] = start
            for i in range(count):
                at = first + step * i
                if product:
                    for b in range(some):
                        total = totals[b] * x[a, at, begin + b]
                        totals[b] = total
                        out[a, at, begin + b] = kind(total)
                else:
                    for b in range(some):
                        total = totals[b] + x[a, at, begin + b]
                        totals[b] = total
                        out[a, at, begin + b] = kind(total)


@exact
def running_extreme(x, largest, values, places):
    """The largest (smallest) number so far and its last place; from the first NaN on, NaN."""
    outer, count, inner = x.shape
    sign = x.dtype.type(1 if largest else -1)
    if inner == 1:
        for a in range(outer):
            top, chosen = x[a, 0, 0], _L(0)
            for i in range(count):
                value = x[a, i, 0]
                if value != value or value * sign >= top * sign:
                    top, chosen = value, _L(i)
                values[a, i, 0] = top
                places[a, i, 0] = chosen
        return
    for a in range(outer):
        for b in range(inner):
            values[a, 0, b] = x[a, 0, b]
            places[a, 0, b] = 0
        for i in range(1, count):
            for b in range(inner):
                value, top = x[a, i, b], values[a, i - 1, b]
                taken = (value != value) | (value * sign >= top * sign)
                values[a, i, b] = value if taken else top
                places[a, i, b] = _L(i) if taken else places[a, i - 1, b]


TAKES = {cumulate: "t b b t", running_extreme: "t b t x"}
