"""Convolution over any number of spatial dimensions, as windows times a matrix (BLAS).

Layer 1. `input` is (N, C, d1, ...), `weight` (O, C / groups, k1, ...); stride, padding and dilation
are tuples with one entry per spatial dimension. All three functions are linear in each array,
without conjugation. Shapes are checked by the op; results are fresh arrays.
16-bit floats compute in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from ag_visual.arrays.backend import Array, of_namespace

Ints = tuple[int, ...]

# The windows of so many bytes of input are laid out at a time: large batches go in parts.
_PART_BYTES: Final = 64 * 1024 * 1024


def output_size(size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    """Spatial size of the output: (n + 2 p - d (k - 1) - 1) // s + 1 per dimension."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def _padded(xp: Any, input: Array, padding: Ints) -> Array:
    """The contiguous input with zeros around its spatial dimensions; itself when that is a copy."""
    if not any(padding):
        return xp.ascontiguousarray(input)
    spatial = input.shape[2:]
    size = tuple(n + 2 * p for n, p in zip(spatial, padding, strict=True))
    padded = xp.zeros(input.shape[:2] + size, input.dtype)
    padded[_inside(spatial, padding)] = input
    return padded


def _inside(spatial: Ints, padding: Ints) -> tuple[slice, ...]:
    inner = (slice(p, p + n) for n, p in zip(spatial, padding, strict=True))
    return (slice(None), slice(None), *inner)


def _windows(
    xp: Any, padded: Array, kernel: Ints, size: Ints, stride: Ints, dilation: Ints
) -> Array:
    """A view (N, C, k1, ..., o1, ...): the element each kernel position meets at each output."""
    step = padded.strides[2:]
    strides = (
        padded.strides[:2]
        + tuple(d * b for d, b in zip(dilation, step, strict=True))
        + tuple(s * b for s, b in zip(stride, step, strict=True))
    )
    return of_namespace(xp).as_strided(padded, padded.shape[:2] + kernel + size, strides)


def _parts(rows: int, row_bytes: int) -> list[slice]:
    step = max(1, _PART_BYTES // max(row_bytes, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _compute_type(xp: Any, array: Array) -> Any:
    return xp.float32 if array.dtype.itemsize == 2 and array.dtype.kind != "i" else array.dtype


def conv2d(
    xp: Any,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int = 1,
) -> Array:
    """sum over c, k of weight[o, c, k] * input[n, c, o1 * stride + k * dilation - padding], + bias.

    Serves one, two, three ... spatial dimensions alike.
    """
    kernel = weight.shape[2:]
    size = output_size(input.shape[2:], kernel, stride, padding, dilation)
    rows, channels = input.shape[:2]
    out_channels = weight.shape[0]
    compute = _compute_type(xp, input)
    length = prod(size)
    depth = weight.shape[1] * prod(kernel)
    result = xp.empty((rows, groups, out_channels // groups, length), compute)
    if result.size and depth == 0:
        result[...] = 0
    elif result.size:
        padded = _padded(xp, input.astype(compute, copy=False), padding)
        windows = _windows(xp, padded, kernel, size, stride, dilation)
        matrix = weight.astype(compute, copy=False).reshape(groups, -1, depth)
        bytes_per_row = channels * prod(kernel) * length * padded.dtype.itemsize
        for part in _parts(rows, bytes_per_row):
            columns = windows[part].reshape(-1, groups, depth, length)
            if groups == 1:
                xp.matmul(matrix[0], columns[:, 0], out=result[part, 0])
            else:
                xp.matmul(matrix, columns, out=result[part])
    result = result.reshape(rows, out_channels, *size)
    if bias is not None:
        result += bias.reshape(-1, *(1 for _ in size))
    return result.astype(input.dtype, copy=False)


def conv2d_input(
    xp: Any,
    g: Array,
    weight: Array,
    input_shape: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int = 1,
) -> Array:
    """The gradient of `input`: every weight times g, added back where its window lay."""
    kernel = weight.shape[2:]
    size = g.shape[2:]
    rows, channels = input_shape[:2]
    spatial = tuple(input_shape[2:])
    compute = _compute_type(xp, g)
    around = tuple(n + 2 * p for n, p in zip(spatial, padding, strict=True))
    padded = xp.zeros((rows, channels, *around), compute)
    depth = weight.shape[1] * prod(kernel)
    if g.size and padded.size:
        matrix = weight.astype(compute, copy=False).reshape(groups, -1, depth)
        matrix = matrix.transpose(0, 2, 1)
        flat = xp.ascontiguousarray(g.astype(compute, copy=False))
        flat = flat.reshape(rows, groups, -1, prod(size))
        bytes_per_row = channels * prod(kernel) * prod(size) * padded.dtype.itemsize
        for part in _parts(rows, bytes_per_row):
            columns = xp.matmul(matrix, flat[part])
            columns = columns.reshape(-1, channels, prod(kernel), *size)
            target = padded[part]
            for at, offset in enumerate(_offsets(kernel)):
                where = tuple(
                    slice(o * d, o * d + s * (n - 1) + 1, s)
                    for o, d, s, n in zip(offset, dilation, stride, size, strict=True)
                )
                target[(slice(None), slice(None), *where)] += columns[:, :, at]
    inner = padded[_inside(spatial, padding)] if any(padding) else padded
    return xp.ascontiguousarray(inner).astype(g.dtype, copy=False)


def _offsets(kernel: Ints) -> list[Ints]:
    offsets: list[Ints] = [()]
    for k in kernel:
        offsets = [(*before, at) for before in offsets for at in range(k)]
    return offsets


def conv2d_weight(
    xp: Any,
    g: Array,
    input: Array,
    weight_shape: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int = 1,
) -> Array:
    """The gradient of `weight`: g times the windows of `input`, summed over batch and places."""
    kernel = tuple(weight_shape[2:])
    size = g.shape[2:]
    rows, channels = input.shape[:2]
    compute = _compute_type(xp, g)
    out_channels, depth = weight_shape[0] // groups, weight_shape[1] * prod(kernel)
    length = prod(size)
    total = xp.zeros((groups, out_channels, depth), compute)
    if g.size and input.size and total.size:
        padded = _padded(xp, input.astype(compute, copy=False), padding)
        windows = _windows(xp, padded, kernel, size, stride, dilation)
        flat = xp.ascontiguousarray(g.astype(compute, copy=False))
        flat = flat.reshape(rows, groups, out_channels, length)
        bytes_per_row = channels * prod(kernel) * length * padded.dtype.itemsize
        for part in _parts(rows, bytes_per_row):
            columns = windows[part].reshape(-1, groups, depth, length)
            some = flat[part]
            if out_channels <= length:
                total += xp.matmul(some, columns.transpose(0, 1, 3, 2)).sum(axis=0)
            else:
                # Few places, many channels: one product over batch and places together.
                left = some.transpose(1, 2, 0, 3).reshape(groups, out_channels, -1)
                right = columns.transpose(1, 0, 3, 2).reshape(groups, -1, depth)
                total += xp.matmul(left, right)
    return total.reshape(weight_shape).astype(g.dtype, copy=False)
