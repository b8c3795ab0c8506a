"""Convolution of few channels, as where each has kernels of its own: columns of shifted rows.

Layer 1, NumPy only. The padded images of one channel lie one after the other as a long row of
places. A kernel position is a shift of that row, so all columns of a matrix product are copies of
contiguous memory; what comes out at places between lines and images is left there. The stride is
1, other arguments are those of `conv`, and arrays are in the type to compute in. Parts of the
batch are so large that their columns stay in a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy

from ag_visual.arrays.backend import Array

Ints = tuple[int, ...]

_PART_BYTES: Final = 1024 * 1024
_FEW_CHANNELS: Final = 2
# In shorter rows the calls cost more than the copies.
_SHORTEST_ROW: Final = 2048


def serves(xp: Any, input_shape: Ints, stride: Ints, groups: int) -> bool:
    """Whether this is the way for a convolution of that input in so many groups."""
    few = groups > 1 and input_shape[1] // groups <= _FEW_CHANNELS and max(stride) == 1
    return xp is numpy and few and input_shape[0] * prod(input_shape[2:]) >= _SHORTEST_ROW


class _Row:
    """Where the taps of a kernel and the places of the output lie in the row of a padded image."""

    def __init__(
        self, spatial: Ints, kernel: Ints, size: Ints, padding: Ints, dilation: Ints
    ) -> None:
        self.around = tuple(n + 2 * p for n, p in zip(spatial, padding, strict=True))
        self.volume = prod(self.around)
        self.inside = tuple(slice(p, p + n) for n, p in zip(spatial, padding, strict=True))
        self.places = (slice(None), slice(None), *(slice(0, n) for n in size))
        steps = [prod(self.around[at + 1 :]) for at in range(len(spatial))]
        self.shifts = [0]
        for k, d, step in zip(kernel, dilation, steps, strict=True):
            self.shifts = [start + at * d * step for start in self.shifts for at in range(k)]
        # From the first place of the output to behind the last one.
        self.length = sum((n - 1) * step for n, step in zip(size, steps, strict=True)) + 1

    def parts(self, rows: int, inner: int, itemsize: int) -> Iterator[tuple[slice, int]]:
        """Slices of the batch, and the length of the row of the images in each."""
        image_bytes = inner * len(self.shifts) * self.volume * itemsize
        step = max(1, _PART_BYTES // image_bytes)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            yield slice(start, start + count), (count - 1) * self.volume + self.length

    def columns(self, input: Array, groups: int, length: int) -> Iterator[Array]:
        """(channels of a group * taps, length) of each group, in the same memory."""
        rows, channels = input.shape[:2]
        inner = channels // groups
        padded = numpy.zeros((inner, rows, *self.around), input.dtype)
        inside = padded[(slice(None), slice(None), *self.inside)]
        line = padded.reshape(inner, -1)
        found = numpy.empty((inner, len(self.shifts), length), input.dtype)
        for group in range(groups):
            inside[...] = input[:, group * inner : (group + 1) * inner].swapaxes(0, 1)
            for at, shift in enumerate(self.shifts):
                found[:, at] = line[:, shift : shift + length]
            yield found.reshape(-1, length)


def forward(
    input: Array, weight: Array, size: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The convolution, (N, groups, O / groups, size)."""
    row = _Row(input.shape[2:], weight.shape[2:], size, padding, dilation)
    matrices = weight.reshape(groups, weight.shape[0] // groups, -1)
    out = matrices.shape[1]
    result = numpy.empty((len(input), groups, out, *size), input.dtype)
    for part, length in row.parts(len(input), weight.shape[1], input.itemsize):
        here = input[part]
        wide = numpy.empty((out, len(here), *row.around), input.dtype)
        sums = wide.reshape(out, -1)[:, :length]
        places = wide[row.places].swapaxes(0, 1)
        for group, columns in enumerate(row.columns(here, groups, length)):
            numpy.matmul(matrices[group], columns, out=sums)
            result[part, group] = places
    return result


def for_weight(
    g: Array, input: Array, weight_shape: Ints, padding: Ints, dilation: Ints, groups: int
) -> Array:
    """The gradient of `weight`, where that is finite: between lines, zeros meet numbers."""
    size = g.shape[2:]
    row = _Row(input.shape[2:], weight_shape[2:], size, padding, dilation)
    out = weight_shape[0] // groups
    by_group = g.reshape(len(g), groups, out, *size)
    total = numpy.zeros((groups, out, weight_shape[1] * len(row.shifts)), g.dtype)
    for part, length in row.parts(len(g), weight_shape[1], g.itemsize):
        here = input[part]
        wide = numpy.zeros((out, len(here), *row.around), g.dtype)
        places = wide[row.places]
        line = wide.reshape(out, -1)[:, :length]
        for group, columns in enumerate(row.columns(here, groups, length)):
            places[...] = by_group[part, group].swapaxes(0, 1)
            total[group] += numpy.matmul(line, columns.T)
    return total.reshape(weight_shape)
