"""Convolution by lines: the same line of all images is one row of a matrix.

Layer 1, NumPy only. A line is what lies along all spatial dimensions but the first. What each tap
of a kernel's line meets is copied, a part of the batch side by side; lines follow each other, so
that what the whole kernel meets at one line of the output is one matrix without more copies.
Arguments are those of `conv`, arrays are in the type to compute in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any, Final

import numpy
from numpy.lib.stride_tricks import as_strided

from ag_visual.arrays.backend import Array

Ints = tuple[int, ...]

# The lines of a part of the batch are to stay in a processor's cache.
_PART_BYTES: Final = 1024 * 1024
# Below, the calls cost more than they save.
_LEAST: Final = 1 << 14
_SHORTEST_ROW: Final = 32
# A product of fewer multiplications needs no packing in BLAS: longer rows are cut into blocks, but
# not into shorter ones than this.
_SMALL_PRODUCT: Final = 600_000
_SHORTEST_BLOCK: Final = 64
# Sums over lines are made of so many numbers at a time.
_TOGETHER: Final = 1 << 18
# So many rows a product should have; where a group has fewer outputs, some lines go together.
_ROWS: Final = 4
# With so few in a group, other ways have too little to multiply.
_FEW_CHANNELS: Final = 2


def serves(
    xp: Any, input: Array, weight_shape: Ints, size: Ints, stride: Ints, groups: int
) -> bool:
    """Whether this is the way for that input and kernel, to outputs of that size."""
    kernel = weight_shape[2:]
    return (
        xp is numpy
        and input.dtype.kind in "fc"
        and input.size >= _LEAST
        and prod(kernel) > 1
        and (len(kernel) > 1 or _few(weight_shape, groups))
        and (len(kernel) == 1 or kernel[0] >= stride[0])
        and len(input) * prod(size[1:] or size) >= _SHORTEST_ROW
    )


def serves_weight(
    xp: Any, input: Array, weight_shape: Ints, size: Ints, stride: Ints, groups: int
) -> bool:
    """Whether it is for the gradient of the kernel: where windows of rows are not cheaper."""
    apart = max(stride) > 1 or len(stride) > 2 or _few(weight_shape, groups)
    return apart and serves(xp, input, weight_shape, size, stride, groups)


def _few(weight_shape: Ints, groups: int) -> bool:
    return groups > 1 and weight_shape[1] <= _FEW_CHANNELS


@dataclass(frozen=True, slots=True)
class _Dim:
    """One spatial dimension of a convolution."""

    n: int
    kernel: int
    out: int
    stride: int
    padding: int
    dilation: int

    def met(self, start: int, step: int, count: int) -> tuple[slice, slice]:
        """Which of the places start + i * step, i < count, are in the input, and where.

        Places count from the first one of the padding.
        """
        low = max(0, -((start - self.padding) // step))
        high = min(count, (self.n - 1 + self.padding - start) // step + 1)
        if high <= low:
            return slice(0, 0), slice(0, 0)
        first = start + low * step - self.padding
        return slice(low, high), slice(first, first + (high - low - 1) * step + 1, step)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of the output that meet each other's lines of the input: dilation makes some such."""

    outputs: slice
    out: int
    stored: int  # lines of the input
    start: int  # place of the first of these
    step: int  # of them, between two of the output


class _Plan:
    """What a convolution meets where, and the memory that parts of the batch share."""

    def __init__(
        self, input: Array, weight_shape: Ints, size: Ints, groups: int, *limits: Ints
    ) -> None:
        stride, padding, dilation = limits
        each = zip(input.shape[2:], weight_shape[2:], size, stride, padding, dilation, strict=True)
        self.first, *self.rest = (_Dim(*numbers) for numbers in each)
        self.groups, self.inner, self.dtype = groups, weight_shape[1], input.dtype
        self.rows, self.widths = len(input), size[1:]
        self.taps = list(product(*(range(dim.kernel) for dim in self.rest)))
        if input.strides[-1] != input.itemsize:
            input = numpy.ascontiguousarray(input)
        self.apart = input.reshape(self.rows, groups, self.inner, *input.shape[2:])
        self._memory: dict[tuple[Any, ...], Array] = {}

    def memory(self, *name: Any, make: Any = numpy.empty) -> Array:
        """The array of that name and shape: made once, as all parts write the same places."""
        if name not in self._memory:
            self._memory[name] = make(name[1:], self.dtype)
        return self._memory[name]

    def lines(self) -> Iterator[_Lines]:
        dim = self.first
        common = gcd(dim.stride, dim.dilation)
        every, step = dim.dilation // common, dim.stride // common
        for first in range(min(every, dim.out)):
            out = (dim.out - 1 - first) // every + 1
            stored = (out - 1) * step + dim.kernel
            yield _Lines(slice(first, None, every), out, stored, first * dim.stride, step)

    def parts(self) -> Iterator[slice]:
        """Slices of the batch."""
        lines = (self.first.out - 1) * self.first.stride + self.first.kernel
        line = self.groups * self.inner * len(self.taps) * prod(self.widths)
        count = max(1, -(-self.rows * lines * line * self.dtype.itemsize // _PART_BYTES))
        step = max(-(-self.rows // count), -(-_SHORTEST_BLOCK // prod(self.widths)))
        for start in range(0, self.rows, step):
            yield slice(start, min(start + step, self.rows))

    def met(self, part: slice, held: _Lines, stored: int, width: int) -> Array:
        """(groups, stored lines, taps, channels of a group, width): places of the output's line."""
        images = self.apart[part]
        rows = len(images)
        shape = (self.groups, stored, len(self.taps), self.inner, width)
        found = self.memory(("met", held.start), *shape, make=numpy.zeros)
        wide = found[..., : rows * prod(self.widths)]
        wide = wide.reshape(*found.shape[:4], rows, *self.widths)
        there, here = self.first.met(held.start, self.first.dilation, stored)
        for at, tap in enumerate(self.taps):
            slices = [
                dim.met(t * dim.dilation, dim.stride, dim.out)
                for t, dim in zip(tap, self.rest, strict=True)
            ]
            target = wide[(slice(None), there, at, ..., *(s[0] for s in slices))]
            source = images[(..., here, *(s[1] for s in slices))]
            # (images, groups, channels, lines, ...) to (groups, lines, channels, images, ...)
            _copy(target, source.transpose(1, 3, 2, 0, *range(4, source.ndim)))
        return found


def _copy(target: Array, source: Array) -> None:
    """target[...] = source: lines of memory as items, which takes a third of the time."""
    if target.size and target.strides[-1] == source.strides[-1] == target.itemsize:
        item = f"V{target.shape[-1] * target.itemsize}"
        target, source = target.view(item)[..., 0], source.view(item)[..., 0]
    target[...] = source


def _banded(matrix: Array, lines: int, step: int) -> Array:
    """The matrix of so many lines of the output at once, (groups, lines * O, depth)."""
    groups, out, kernel, taps, inner = matrix.shape
    if lines == 1:
        return matrix.reshape(groups, out, -1)
    depth = (lines - 1) * step + kernel
    found = numpy.zeros((groups, lines, out, depth, taps, inner), matrix.dtype)
    for line in range(lines):
        found[:, line, :, line * step : line * step + kernel] = matrix
    return found.reshape(groups, lines * out, -1)


def _blocks(width: int, work: int) -> tuple[int, int]:
    """Into how many blocks of which width a row is cut; work: multiplications for each place."""
    count = max(1, -(-width * work // _SMALL_PRODUCT))
    block = -(-width // count)
    return (count, block) if block >= _SHORTEST_BLOCK else (1, width)


def _as_planes(size: Ints, limits: tuple[Ints, ...], *arrays: Array) -> tuple[Any, ...]:
    """Sequences as images of one line."""
    if len(size) > 1:
        return (size, limits, *arrays)
    numbers = tuple((first, *x) for first, x in zip((1, 0, 1), limits, strict=True))
    return ((1, *size), numbers, *(a[:, :, None] for a in arrays))


def forward(
    input: Array, weight: Array, bias: Array | None, size: Ints, groups: int, *limits: Ints
) -> Array:
    """The convolution, (N, O, size), where the weight is finite; limits: stride, padding, dilation.

    Else the zeros of the padding give NaN.
    """
    given = (input, weight, bias, size, groups, *limits)
    together = -(-_ROWS * groups // len(weight))
    result = _forward(together, *given)
    if together > 1:
        # A line's numbers are multiplied by zeros for other lines.
        flat = result.reshape(-1)
        if not numpy.isfinite(numpy.dot(flat, flat)):
            return _forward(1, *given)
    return result


def _forward(
    most: int,
    input: Array,
    weight: Array,
    bias: Array | None,
    size: Ints,
    groups: int,
    *limits: Ints,
) -> Array:
    """`forward` with so many lines of the output together, at most."""
    shape = (len(input), len(weight), *size)
    size, limits, input, weight = _as_planes(size, limits, input, weight)
    plan = _Plan(input, weight.shape, size, groups, *limits)
    out, kernel = len(weight) // groups, weight.shape[2]
    matrix = weight.reshape(groups, out, plan.inner, kernel, len(plan.taps))
    matrix = matrix.transpose(0, 1, 3, 4, 2)
    result = numpy.empty((len(input), groups, out, *size), input.dtype)
    added = None if bias is None else bias.reshape(groups, 1, out, *(1 for _ in size))
    for held in plan.lines():
        together = min(held.out, most)
        turns = -(-held.out // together)
        banded = _banded(matrix, together, held.step)[:, None, None]
        stored = (turns * together - 1) * held.step + kernel
        outputs = result[:, :, :, held.outputs]
        for part in plan.parts():
            rows = part.stop - part.start
            used = rows * prod(plan.widths)
            count, block = _blocks(used, banded.size // groups)
            met = plan.met(part, held, stored, count * block)
            a, b, _, d, e = met.strides
            windows = as_strided(
                met,
                (groups, turns, count, banded.shape[-1], block),
                (a, together * held.step * b, block * e, d, e),
            )
            sums = plan.memory("sums", groups, turns, out * together, count, block)
            numpy.matmul(banded, windows, out=sums.swapaxes(2, 3))
            lines = sums.reshape(groups, turns * together, out, count * block)
            kept = lines[:, : held.out, :, :used]
            kept = kept.reshape(groups, held.out, out, rows, *plan.widths)
            target = outputs[part].transpose(1, 3, 2, 0, *range(4, outputs.ndim))
            if added is None:
                _copy(target, kept)
            else:
                numpy.add(kept, added, out=target)
    return result.reshape(shape)


def for_weight(g: Array, input: Array, weight_shape: Ints, groups: int, *limits: Ints) -> Array:
    """The gradient of `weight`, where that is finite: zeros of the padding meet numbers."""
    size, limits, g, input = _as_planes(g.shape[2:], limits, g, input)
    kernel = weight_shape[2:] if len(weight_shape) > 3 else (1, weight_shape[2])
    plan = _Plan(input, (*weight_shape[:2], *kernel), size, groups, *limits)
    out = weight_shape[0] // groups
    depth = kernel[0] * len(plan.taps) * plan.inner
    total = numpy.zeros((groups, depth, out), g.dtype)
    apart = numpy.ascontiguousarray(g).reshape(len(g), groups, out, *size)
    together = max(1, _TOGETHER // (depth * out))
    for held in plan.lines():
        for part in plan.parts():
            used = (part.stop - part.start) * prod(plan.widths)
            met = plan.met(part, held, held.stored, used)
            a, b, _, d, e = met.strides
            windows = as_strided(met, (groups, held.out, depth, used), (a, held.step * b, d, e))
            upper = _channels_last(plan, apart[part][:, :, :, held.outputs])
            for start in range(0, held.out, together):
                some = slice(start, start + together)
                total += numpy.matmul(windows[:, some], upper[:, some]).sum(axis=1)
    found = total.reshape(groups, kernel[0], len(plan.taps), plan.inner, out)
    return found.transpose(0, 4, 3, 1, 2).reshape(weight_shape)


def _channels_last(plan: _Plan, g: Array) -> Array:
    """(groups, lines, places, O / groups) of g, (N, groups, O / groups, lines, ...)."""
    rows, groups, out, lines = g.shape[:4]
    places = prod(plan.widths)
    turned = g.reshape(rows, groups, out, lines, places).transpose(0, 1, 3, 4, 2)
    if out > 1:  # in two steps, of which each reads or writes what lies together
        given, turned = turned, plan.memory("turned", rows, groups, lines, places, out)
        turned[...] = given
    found = plan.memory("upper", groups, lines, rows, places * out)
    _copy(found, turned.reshape(rows, groups, lines, places * out).transpose(1, 2, 0, 3))
    return found.reshape(groups, lines, rows * places, out)
