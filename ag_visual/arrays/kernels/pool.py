"""Max pooling over the trailing dimensions, with torch's indices, and its backward.

Layer 1. One pass over the array per kernel position: ties take the first position, NaN the last
one, as torch does. Shapes are checked by the op; results are fresh arrays.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array, of_namespace

Ints = tuple[int, ...]


def pooled_size(
    size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Ints:
    """Spatial size of the output; with `ceil_mode` the last window may hang over, but not begin,
    beyond the padded input on the right.
    """
    return tuple(
        _pooled(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def _pooled(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    room = n + 2 * p - d * (k - 1) - 1
    size = (room + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (size - 1) * s >= n + p:
        size -= 1
    return size


def windows_are_disjoint(kernel: Ints, stride: Ints, dilation: Ints) -> bool:
    """Whether no two windows share an element: each stride steps over the whole window."""
    return all(s > d * (k - 1) for k, s, d in zip(kernel, stride, dilation, strict=True))


def _span(n: int, o: int, s: int, p: int, at: int) -> tuple[slice, slice]:
    """Which outputs, and which inputs, kernel coordinate `at` (already dilated) reaches."""
    first = max(0, -((at - p) // s))
    last = min(o - 1, (n - 1 - at + p) // s)
    begin = first * s + at - p
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(first, last + 1), slice(begin, last * s + at - p + 1, s)


def _lowest(xp: Any, dtype: Any) -> Any:
    return -xp.inf if dtype.kind == "f" else xp.iinfo(dtype).min


def max_pool2d(
    xp: Any,
    input: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The largest element of each window and its int64 position in the flattened spatial part.

    `input` is (..., d1, ..., dk) with one spatial dimension per entry of `kernel_size`.
    """
    rank = len(kernel_size)
    lead, spatial = input.shape[:-rank], input.shape[-rank:]
    size = pooled_size(spatial, kernel_size, stride, padding, dilation, ceil_mode)
    done = _compiled(xp, input, size, kernel_size, stride, padding, dilation)
    if done is not None:
        return done
    x = input if input.dtype.itemsize > 2 or input.dtype.kind == "i" else input.astype(xp.float32)
    best, chosen = _scan(xp, x, kernel_size, stride, padding, dilation, size, nan=False)
    if x.dtype.kind == "f" and best.size and bool(xp.isnan(best).any()):
        best, chosen = _scan(xp, x, kernel_size, stride, padding, dilation, size, nan=True)
    table = _row_major(
        spatial,
        [tuple(o * d for o, d in zip(at, dilation, strict=True)) for at in _positions(kernel_size)],
    )
    indices = xp.take(xp.asarray(table, dtype=xp.int64), chosen)
    for axis in range(rank):
        unit = prod(spatial[axis + 1 :])
        start = xp.arange(size[axis], dtype=xp.int64) * (stride[axis] * unit)
        start -= padding[axis] * unit
        indices += start.reshape((-1,) + (1,) * (rank - axis - 1))
    return best.astype(input.dtype, copy=False), indices.reshape(lead + size)


def _compiled(xp: Any, x: Array, size: Ints, *limits: Ints) -> tuple[Array, Array] | None:
    """`max_pool2d` of images by the compiled kernel; None where NumPy is to compute.

    limits: kernel, stride, padding and dilation.
    """
    if len(size) != 2 or not fast.wanted(xp, x.size):
        return None
    run = fast.kernel("max_pool", x)
    if run is None:
        return None
    best = numpy.empty((prod(x.shape[:-2]), *size), x.dtype)
    places = numpy.empty(best.shape, numpy.int64)
    layout = numpy.array(limits, numpy.int64).reshape(-1)
    run(x.reshape(len(best), *x.shape[-2:]), layout, best, places)
    shape = (*x.shape[:-2], *size)
    return best.reshape(shape), places.reshape(shape)


def _positions(kernel: Ints) -> list[Ints]:
    positions: list[Ints] = [()]
    for k in kernel:
        positions = [(*before, at) for before in positions for at in range(k)]
    return positions


def _row_major(spatial: Ints, places: list[Ints]) -> list[int]:
    units = [prod(spatial[axis + 1 :]) for axis in range(len(spatial))]
    return [sum(at * unit for at, unit in zip(place, units, strict=True)) for place in places]


def _scan(
    xp: Any,
    x: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    size: Ints,
    *,
    nan: bool,
) -> tuple[Array, Array]:
    """Running maximum from the last kernel position to the first, and which position gave it.

    Masked copies are slow in NumPy; `chosen` moves by arithmetic on narrow integers instead.
    """
    lead = x.shape[: x.ndim - len(kernel)]
    positions = _positions(kernel)
    narrow: Any = xp.uint8 if len(positions) <= 256 else xp.uint32
    best = xp.full(lead + size, _lowest(xp, x.dtype), x.dtype)
    chosen = xp.zeros(lead + size, narrow)
    for number in range(len(positions) - 1, -1, -1):
        spans = [
            _span(n, o, s, p, at * d)
            for n, o, s, p, at, d in zip(
                x.shape[len(lead) :],
                size,
                stride,
                padding,
                positions[number],
                dilation,
                strict=True,
            )
        ]
        value = xp.ascontiguousarray(x[(..., *(span[1] for span in spans))])
        there = (..., *(span[0] for span in spans))
        top, place = best[there], chosen[there]
        taken = value >= top
        if nan:
            taken |= xp.isnan(value) & ~xp.isnan(top)
        place -= taken.view(xp.uint8) * (place - narrow(number))
        xp.maximum(top, value, out=top)
    return best, chosen


def max_pool2d_backward(
    xp: Any, g: Array, indices: Array, input_shape: Ints, rank: int = 2, disjoint: bool = False
) -> Array:
    """g added at the chosen positions; `rank` is the number of spatial dimensions.

    `disjoint` says that no two windows share an element (see `windows_are_disjoint`), which makes
    adding a plain write.
    """
    spatial = prod(input_shape[len(input_shape) - rank :])
    planes = prod(input_shape[: len(input_shape) - rank])
    if fast.wanted(xp, g.size) and indices.dtype == numpy.int64 and indices.flags.carray:
        run = fast.compiled("max_pool_backward", g.dtype)
        if run is not None:
            grad = numpy.zeros((planes, spatial), g.dtype)
            # (Of a sum, it is one number in all places.)
            rows = numpy.require(g, requirements="CAW").reshape(planes, -1)
            if run(rows, indices.reshape(planes, -1), grad):
                return grad.reshape(input_shape)
    wide = g if g.dtype.itemsize > 2 else g.astype(xp.float32)
    grad = xp.zeros(planes * spatial, wide.dtype)
    if g.size:
        base = xp.arange(planes, dtype=xp.int64) * spatial
        flat = indices.reshape(planes, -1) + base.reshape(-1, 1)
        if disjoint:
            grad[flat.reshape(-1)] = wide.reshape(-1)
        else:
            of_namespace(xp).add_at(grad, flat.reshape(-1), wide.reshape(-1))
    return grad.reshape(input_shape).astype(g.dtype, copy=False)
