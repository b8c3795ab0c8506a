"""Convolution over any number of spatial dimensions, as windows times a matrix (BLAS).

Layer 1. `input` is (N, C, d1, ...), `weight` (O, C / groups, k1, ...); stride, padding and dilation
are tuples with one entry per spatial dimension. All three functions are linear in each array,
without conjugation. Shapes are checked by the op; results are fresh arrays.
16-bit floats compute in float32. Padding is no factor: an infinite number is not multiplied by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from ag_visual.arrays.backend import Array, of_namespace
from ag_visual.arrays.kernels import direct, lines, phases, taps

Ints = tuple[int, ...]

# Columns of so many bytes are laid out at a time: large batches go in parts.
_PART_BYTES: Final = 64 * 1024 * 1024
# Row mode needs this many rows per matrix product to be worth the additions.
_ROW_DEPTH: Final = 8
# So many outputs for each input of a group are still turned (see `_turns`).
_TURNED_OUT: Final = 4


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


@dataclass(frozen=True, slots=True)
class _Plan:
    """How windows become columns of a matrix.

    Every kernel position could have its own copy of the input (im2col). With stride 1 in the first
    spatial dimension the windows of the kernel's rows are the same columns, shifted: then only the
    other kernel dimensions are copied, and each kernel row is one product at its own `starts`
    (a third of the memory for a 3 x 3 kernel). Otherwise there is one product, at start 0.
    """

    kernel: Ints  # what is copied
    size: Ints  # places per column row
    stride: Ints
    dilation: Ints
    rows: int  # kernel rows that are products of their own
    starts: Ints
    length: int  # places of the output

    def matrices(self, weight: Array, groups: int) -> Array:
        """The weight as (rows, groups, O / groups, depth)."""
        depth = weight.shape[1] * prod(self.kernel)
        if self.rows == 1:
            return weight.reshape(1, groups, -1, depth)
        apart = weight.reshape(weight.shape[0], weight.shape[1], self.rows, -1)
        return apart.transpose(2, 0, 1, 3).reshape(self.rows, groups, -1, depth)

    def weight(self, matrices: Array, shape: Ints) -> Array:
        """The inverse of `matrices`."""
        if self.rows == 1:
            return matrices.reshape(shape)
        apart = matrices.reshape(self.rows, shape[0], shape[1], -1)
        return apart.transpose(1, 2, 0, 3).reshape(shape)

    def reach(self, offset: Ints) -> tuple[slice, ...]:
        """The places of the padded input that kernel position `offset` meets."""
        return tuple(
            slice(o * d, o * d + s * (n - 1) + 1, s)
            for o, d, s, n in zip(offset, self.dilation, self.stride, self.size, strict=True)
        )


def _plan(
    channels: int, around: Ints, kernel: Ints, size: Ints, stride: Ints, dilation: Ints
) -> _Plan:
    length = prod(size)
    if stride[0] != 1 or kernel[0] == 1 or channels * prod(kernel[1:]) < _ROW_DEPTH:
        return _Plan(kernel, size, stride, dilation, 1, (0,), length)
    step = dilation[0] * prod(size[1:])
    return _Plan(
        (1, *kernel[1:]),
        (around[0], *size[1:]),
        stride,
        dilation,
        kernel[0],
        tuple(row * step for row in range(kernel[0])),
        length,
    )


def _windows(xp: Any, padded: Array, plan: _Plan) -> Array:
    """A view (N, C, k1, ..., o1, ...): the element each kernel position meets at each place."""
    step = padded.strides[2:]
    strides = (
        padded.strides[:2]
        + tuple(d * b for d, b in zip(plan.dilation, step, strict=True))
        + tuple(s * b for s, b in zip(plan.stride, step, strict=True))
    )
    shape = padded.shape[:2] + plan.kernel + plan.size
    return of_namespace(xp).as_strided(padded, shape, strides)


def _parts(rows: int, row_bytes: int) -> list[slice]:
    step = max(1, _PART_BYTES // max(row_bytes, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _finite(xp: Any, array: Array) -> bool:
    return bool(xp.isfinite(array).all())


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
    out_channels, inner = weight.shape[:2]
    compute = _compute_type(xp, input)
    result = xp.empty((rows, groups, out_channels // groups, prod(size)), compute)
    left = bias
    if result.size and weight.size == 0:
        result[...] = 0
    elif result.size and direct.serves(xp, input.shape, weight.shape, stride, compute):
        wide, matrix = (xp.ascontiguousarray(x, compute) for x in (input, weight))
        addend, left = None if bias is None else xp.ascontiguousarray(bias, compute), None
        result = direct.forward(wide, matrix, addend, size, groups, stride, padding, dilation)
    elif result.size and lines.serves(xp, input, weight.shape, size, stride, groups):
        wide, matrix = (x.astype(compute, copy=False) for x in (input, weight))
        addend, left = None if bias is None else bias.astype(compute, copy=False), None
        result = lines.forward(wide, matrix, addend, size, groups, stride, padding, dilation)
    elif result.size:
        padded = _padded(xp, input.astype(compute, copy=False), padding)
        plan = _plan(inner, padded.shape[2:], kernel, size, stride, dilation)
        windows = _windows(xp, padded, plan)
        matrices = plan.matrices(weight.astype(compute, copy=False), groups)
        width = prod(plan.size)
        row_bytes = channels * prod(plan.kernel) * width * padded.dtype.itemsize
        for part in _parts(rows, row_bytes):
            columns = windows[part].reshape(-1, groups, matrices.shape[3], width)
            there = result[part]
            _product(xp, matrices[0], columns[..., : plan.length], there)
            if plan.rows > 1:
                addend = xp.empty(there.shape, compute)
                for row in range(1, plan.rows):
                    start = plan.starts[row]
                    some = columns[..., start : start + plan.length]
                    _product(xp, matrices[row], some, addend)
                    there += addend
    # The zeros of the padding times what is not finite are NaN, of which the result tells as well.
    if any(padding) and not _finite(xp, min(weight, result, key=lambda x: x.size)):
        wide, matrix = (x.astype(compute, copy=False) for x in (input, weight))
        result = taps.forward(xp, wide, matrix, size, stride, padding, dilation, groups)
        left = bias
    result = result.reshape(rows, out_channels, *size)
    if left is not None:
        result += left.reshape(-1, *(1 for _ in size))
    return result.astype(input.dtype, copy=False)


def _product(xp: Any, matrix: Array, columns: Array, out: Array) -> None:
    """matrix (G, O, D) times columns (N, G, D, L); without the group axis where there is one."""
    if matrix.shape[0] == 1:
        xp.matmul(matrix[0], columns[:, 0], out=out[:, 0])
    else:
        xp.matmul(matrix, columns, out=out)


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
    compute = _compute_type(xp, g)
    there = g.size and prod(input_shape) and weight.size
    if (
        there
        and direct.serves(xp, input_shape, weight.shape, stride, compute)
        and _finite(xp, weight)  # of which zeros around g make NaN
    ):
        wide, matrix = (xp.ascontiguousarray(x, compute) for x in (g, weight))
        found = direct.for_input(wide, matrix, input_shape, groups, stride, padding, dilation)
        return found.astype(g.dtype, copy=False)
    reach = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
    reached = output_size(size, kernel, stride, reach, dilation)  # less than a padded output
    same = g.size and prod(input_shape) and reached == tuple(input_shape[2:])
    if same and _turns(weight.shape, stride, reach, groups):
        turned = _turned(xp, weight, groups)
        return conv2d(xp, g, turned, None, stride, reach, dilation, groups)
    rows, channels = input_shape[:2]
    spatial = tuple(input_shape[2:])
    if _by_phases(weight.shape, stride, dilation, groups) and g.size and prod(input_shape):
        wide, matrix = (x.astype(compute, copy=False) for x in (g, weight))
        ones, zeros = (1,) * len(spatial), (0,) * len(spatial)

        def convolved(part: Array, taps_: Array) -> Array:
            turned = _turned(xp, taps_, groups)
            return conv2d(xp, part, turned, None, ones, zeros, ones, groups)

        found = phases.for_input(xp, wide, matrix, input_shape, stride, padding, convolved)
        # Zeros around g times what is not finite are NaN.
        if _finite(xp, found):
            return found.astype(g.dtype, copy=False)
    around = tuple(n + 2 * p for n, p in zip(spatial, padding, strict=True))
    padded = xp.zeros((rows, channels, *around), compute)
    if g.size and padded.size:
        plan = _plan(weight.shape[1], around, kernel, size, stride, dilation)
        matrices = plan.matrices(weight.astype(compute, copy=False), groups)
        matrices = matrices.transpose(0, 1, 3, 2)
        flat = xp.ascontiguousarray(g.astype(compute, copy=False))
        flat = flat.reshape(rows, groups, -1, plan.length)
        width = prod(plan.size)
        row_bytes = channels * prod(plan.kernel) * width * padded.dtype.itemsize
        for part in _parts(rows, row_bytes):
            if plan.rows == 1:
                columns = xp.matmul(matrices[0], flat[part])
            else:
                shape = (flat[part].shape[0], groups, matrices.shape[2], width)
                columns = xp.zeros(shape, compute)
                for row, start in enumerate(plan.starts):
                    there = columns[..., start : start + plan.length]
                    there += xp.matmul(matrices[row], flat[part])
            columns = columns.reshape(-1, channels, prod(plan.kernel), *plan.size)
            target = padded[part]
            for at, offset in enumerate(_offsets(plan.kernel)):
                target[(slice(None), slice(None), *plan.reach(offset))] += columns[:, :, at]
    inner = padded[_inside(spatial, padding)] if any(padding) else padded
    return xp.ascontiguousarray(inner).astype(g.dtype, copy=False)


def _turns(weight_shape: Ints, stride: Ints, reach: Ints, groups: int) -> bool:
    """Whether the gradient of the input is best had as a convolution of g with turned kernels.

    reach: the padding it has. (One place per kernel is a product already; and many channels in the
    place of few are more to lay out than to add back.)
    """
    out, inner = weight_shape[0] // groups, weight_shape[1]
    alike = prod(weight_shape[2:]) > 1 and out <= _TURNED_OUT * inner
    return alike and min(reach) >= 0 and max(stride) == 1


def _by_phases(weight_shape: Ints, stride: Ints, dilation: Ints, groups: int) -> bool:
    """Whether it is best had as a convolution for each place in the stride."""
    out, inner = weight_shape[0] // groups, weight_shape[1]
    alike = out <= _TURNED_OUT * inner and max(dilation) == 1
    return alike and max(stride) > 1 and prod(weight_shape[2:]) > prod(stride)


def _turned(xp: Any, weight: Array, groups: int) -> Array:
    """The kernels back to front, inputs and outputs of each group exchanged."""
    out, inner = weight.shape[0] // groups, weight.shape[1]
    back = (..., *(slice(None, None, -1) for _ in weight.shape[2:]))
    apart = weight[back].reshape(groups, out, inner, *weight.shape[2:]).swapaxes(1, 2)
    return xp.ascontiguousarray(apart).reshape(groups * inner, out, *weight.shape[2:])


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
    compute = _compute_type(xp, g)
    if not (g.size and input.size and prod(weight_shape)):
        return xp.zeros(weight_shape, g.dtype)
    upper, wide = (x.astype(compute, copy=False) for x in (g, input))
    compiled = direct.serves(xp, input.shape, weight_shape, stride, compute)
    if compiled:
        upper, wide = (xp.ascontiguousarray(x) for x in (upper, wide))
        found = direct.for_weight(upper, wide, weight_shape, groups, stride, padding, dilation)
    elif lines.serves_weight(xp, wide, weight_shape, g.shape[2:], stride, groups):
        found = lines.for_weight(upper, wide, weight_shape, groups, stride, padding, dilation)
    else:
        found = _for_weight(xp, upper, wide, weight_shape, stride, padding, dilation, groups)
    # Zeros of the padding, or between lines, times what is not finite are NaN.
    if (compiled or any(padding)) and not _finite(xp, found):
        found = taps.for_weight(xp, upper, wide, weight_shape, stride, padding, dilation, groups)
    return found.astype(g.dtype, copy=False)


def _for_weight(
    xp: Any,
    g: Array,
    input: Array,
    weight_shape: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """`conv2d_weight` of arrays in the type to compute in, as windows."""
    kernel = tuple(weight_shape[2:])
    rows, channels = input.shape[:2]
    compute = g.dtype
    padded = _padded(xp, input, padding)
    plan = _plan(weight_shape[1], padded.shape[2:], kernel, g.shape[2:], stride, dilation)
    windows = _windows(xp, padded, plan)
    out_channels, depth = weight_shape[0] // groups, weight_shape[1] * prod(plan.kernel)
    total = xp.zeros((plan.rows, groups, out_channels, depth), compute)
    flat = xp.ascontiguousarray(g).reshape(rows, groups, out_channels, plan.length)
    width = prod(plan.size)
    row_bytes = channels * prod(plan.kernel) * width * padded.dtype.itemsize
    for part in _parts(rows, row_bytes):
        columns = windows[part].reshape(-1, groups, depth, width)
        some = flat[part]
        for row, start in enumerate(plan.starts):
            there = columns[..., start : start + plan.length]
            if out_channels <= plan.length:
                total[row] += xp.matmul(some, there.transpose(0, 1, 3, 2)).sum(axis=0)
            else:
                # Few places, many channels: one product over batch and places together.
                left = some.transpose(1, 2, 0, 3).reshape(groups, out_channels, -1)
                right = there.transpose(1, 0, 3, 2).reshape(groups, -1, depth)
                total[row] += xp.matmul(left, right)
    return plan.weight(total, weight_shape)
