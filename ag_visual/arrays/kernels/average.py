"""Average pooling over the trailing dimensions, and its backward.

Layer 1. Padding counts as zeros; shapes are checked by the op; results are fresh arrays. 16-bit
floats add in float32.
"""

from __future__ import annotations

from typing import Any, Final

from ag_visual.arrays.backend import Array, of_namespace
from ag_visual.arrays.kernels.pool import pooled_size

Ints = tuple[int, ...]


def _around(spatial: Ints, size: Ints, kernel: Ints, stride: Ints, padding: Ints) -> Ints:
    """The padded size: what the padding gives, or what the last window reaches over."""
    return tuple(
        max(n + 2 * p, (o - 1) * s + k)
        for n, o, k, s, p in zip(spatial, size, kernel, stride, padding, strict=True)
    )


def _covered(size: Ints, stride: Ints) -> Ints:
    """What windows side by side cover."""
    return tuple(o * s for o, s in zip(size, stride, strict=True))


def _inside(spatial: Ints, padding: Ints) -> tuple[Any, ...]:
    return (..., *(slice(p, p + n) for n, p in zip(spatial, padding, strict=True)))


def _divisor(
    xp: Any,
    spatial: Ints,
    size: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    count_include_pad: bool,
    dtype: Any,
) -> Array:
    """How many elements each window averages over."""
    total = None
    for at, (n, o, k, s, p) in enumerate(zip(spatial, size, kernel, stride, padding, strict=True)):
        low, high = (-p, n + p) if count_include_pad else (0, n)
        counts = [min(i * s - p + k, high) - max(i * s - p, low) for i in range(o)]
        line = xp.asarray(counts, dtype=dtype).reshape((-1,) + (1,) * (len(size) - at - 1))
        total = line if total is None else total * line
    return total


# Windows of so many elements in each dimension are added line by line: NumPy begins a sum for every
# window, which costs more than to add its elements.
_SMALL: Final = 8


def _line_by_line(padded: Array, size: Ints, kernel: Ints, stride: Ints) -> Array:
    """The sum of each window, one dimension after the other, the last one first."""
    total, rank = padded, len(size)
    for at in range(rank - 1, -1, -1):
        o, k, s = size[at], kernel[at], stride[at]
        rest = (slice(None),) * (rank - 1 - at)
        lines = [total[(..., slice(i, i + s * (o - 1) + 1, s), *rest)] for i in range(k)]
        total = lines[0] + lines[1] if k > 1 else lines[0]
        for line in lines[2:]:
            total += line
    return total


def _windows(xp: Any, padded: Array, size: Ints, kernel: Ints, stride: Ints) -> Array:
    """The sum of each window."""
    rank = len(size)
    steps = padded.strides[-rank:]
    strides = (
        *padded.strides[:-rank],
        *(s * b for s, b in zip(stride, steps, strict=True)),
        *steps,
    )
    shape = (*padded.shape[:-rank], *size, *kernel)
    windows = of_namespace(xp).as_strided(padded, shape, strides)
    return windows.sum(axis=tuple(range(-rank, 0)))


def avg_pool(
    xp: Any,
    input: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window; `input` is (..., d1, ..., dk) with k the length of kernel_size."""
    rank = len(kernel_size)
    lead, spatial = input.shape[:-rank], input.shape[-rank:]
    size = pooled_size(spatial, kernel_size, stride, padding, (1,) * rank, ceil_mode)
    wide = xp.float32 if input.dtype.itemsize == 2 else input.dtype
    around = _around(spatial, size, kernel_size, stride, padding)
    if around == tuple(spatial):
        padded = xp.ascontiguousarray(input).astype(wide, copy=False)
    else:
        padded = xp.zeros((*lead, *around), wide)
        padded[_inside(spatial, padding)] = input
    if max(kernel_size) <= _SMALL:
        total = _line_by_line(padded, size, kernel_size, stride)
    else:
        total = _windows(xp, padded, size, kernel_size, stride)
    if divisor_override is None:
        parts = (spatial, size, kernel_size, stride, padding, count_include_pad)
        total = total / _divisor(xp, *parts, wide)
    else:
        total = total / divisor_override
    return total.astype(input.dtype, copy=False)


def avg_pool_backward(
    xp: Any,
    g: Array,
    input_shape: Ints,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Each window's share of g, added to the elements it averaged over."""
    rank = len(kernel_size)
    lead, spatial, size = input_shape[:-rank], input_shape[-rank:], g.shape[-rank:]
    wide = xp.float32 if g.dtype.itemsize == 2 else g.dtype
    if divisor_override is None:
        parts = (spatial, size, kernel_size, stride, padding, count_include_pad)
        share = g / _divisor(xp, *parts, wide)
    else:
        share = g / divisor_override
    around = _around(spatial, size, kernel_size, stride, padding)
    if kernel_size == stride and around == tuple(spatial) == _covered(size, stride):
        result = xp.empty(tuple(input_shape), g.dtype)
        parts_ = [n for pair in zip(size, kernel_size, strict=True) for n in pair]
        apart = (..., *(at for _ in size for at in (slice(None), None)))
        result.reshape(*lead, *parts_)[...] = share[apart]
        return result
    padded = xp.zeros((*lead, *around), wide)
    positions: list[Ints] = [()]
    for k in kernel_size:
        positions = [(*before, at) for before in positions for at in range(k)]
    for position in positions:
        reach = tuple(
            slice(at, at + s * (o - 1) + 1, s)
            for at, s, o in zip(position, stride, size, strict=True)
        )
        padded[(..., *reach)] += share
    return xp.ascontiguousarray(padded[_inside(spatial, padding)]).astype(g.dtype, copy=False)
