"""Max pooling of images, with the place of each largest number.

Layer 1. `compiled/__init__.py` says what kernels are given.
"""

from __future__ import annotations

import numpy

from ag_visual.arrays.kernels.compiled.making import exact, ordered

_L, _U = numpy.int64, numpy.uintp


@ordered
def _larger(value, place, top, chosen, odd):
    """The larger of two numbers and its place, the first of equal ones; odd: whether one was NaN.

    (Arithmetic in place of a jump, which would take ten times as long where it is not foreseen.)
    """
    taken = _L(value > top)
    larger = value if value > top else top
    return larger, chosen + (place - chosen) * taken, odd | _L(value != value)


@ordered
def _window(flat, base, y0, y1, dy, x0, x1, dx, height, width):
    """The largest number of a window whose ends are (y0, x0) and (y1, x1), its place, and `odd`."""
    y, first = y0, x0
    while y < 0:
        y += dy
    while first < 0:
        first += dx
    top, chosen, odd = -flat.dtype.type(numpy.inf), y * width + first, _L(0)
    while y <= y1 and y < height:
        x = first
        while x <= x1 and x < width:
            at = y * width + x
            top, chosen, odd = _larger(flat[_U(base + at)], at, top, chosen, odd)
            x += dx
        y += dy
    return top, chosen, odd


@exact
def _last_nan(flat, base, y0, y1, dy, x0, x1, dx, height, width):
    """The last NaN of such a window, and its place."""
    top, chosen = flat[_U(0)], _L(0)
    for y in range(y0, min(y1 + 1, height), dy):
        for x in range(x0, min(x1 + 1, width), dx):
            if y >= 0 and x >= 0:
                at = y * width + x
                value = flat[_U(base + at)]
                if value != value:
                    top, chosen = value, at
    return top, chosen


@exact
def max_pool(x, layout, best, places):
    """The largest number of each window, and its place in its plane: the first, or a last NaN.

    x: (planes, H, W); best and places: (planes, rows, columns). layout: the kernel's two sizes,
    then two each of stride, padding and dilation.
    """
    tall, wide, sy, sx, upper, left, dy, dx = layout
    height, width = x.shape[1:]
    rows, columns = best.shape[1:]
    flat, to, into = x.reshape(-1), best.reshape(-1), places.reshape(-1)
    lowest = -x.dtype.type(numpy.inf)
    by_two = tall == 2 and wide == 2
    for plane in range(x.shape[0]):
        base = plane * height * width
        for row in range(rows):
            y0 = row * sy - upper
            y1 = y0 + dy * (tall - 1)
            begin = (plane * rows + row) * columns
            for i in range(columns):
                x0 = i * sx - left
                x1 = x0 + dx * (wide - 1)
                if by_two and y0 >= 0 and y1 < height and x0 >= 0 and x1 < width:
                    a, c = y0 * width + x0, y1 * width + x0
                    b, d = a + dx, c + dx
                    top, chosen, odd = _larger(flat[_U(base + a)], a, lowest, a, _L(0))
                    top, chosen, odd = _larger(flat[_U(base + b)], b, top, chosen, odd)
                    top, chosen, odd = _larger(flat[_U(base + c)], c, top, chosen, odd)
                    top, chosen, odd = _larger(flat[_U(base + d)], d, top, chosen, odd)
                else:
                    top, chosen, odd = _window(flat, base, y0, y1, dy, x0, x1, dx, height, width)
                if odd:
                    top, chosen = _last_nan(flat, base, y0, y1, dy, x0, x1, dx, height, width)
                to[_U(begin + i)] = top
                into[_U(begin + i)] = chosen


@exact
def max_pool_backward(g, places, grad):
    """grad[plane, places[plane, i]] += g[plane, i]; False where a place is none of a plane."""
    for plane in range(g.shape[0]):
        for i in range(g.shape[1]):
            at = places[plane, i]
            if at < 0 or at >= grad.shape[1]:
                return False
            grad[plane, at] += g[plane, i]
    return True


TAKES = {max_pool: "t n t x", max_pool_backward: "m p m"}
