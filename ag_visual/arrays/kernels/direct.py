"""Convolution by the compiled kernels: what they meet where.

Layer 1, NumPy only. Arguments are those of `conv`, arrays are in the type to compute in and row
by row. Sequences are images of one line. Where the weight is not finite, the zeros of the padding
give NaN.
"""

from __future__ import annotations

import functools
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array

Ints = tuple[int, ...]

# A line of more places than this has no room in a cache.
_WIDEST: Final = 4096
# Of images of fewer places much of a tile is left out: BLAS multiplies their columns, unless there
# are no more channels than this.
_SMALLEST: Final = 64
_FEW: Final = 16
# What a tile reads and writes after the end of a line, at most.
_BEYOND: Final = 64
# Places that are added up together: `compiled/convolution.py` says why.
_TOGETHER: Final = 1024


def serves(xp: Any, input_shape: Ints, weight_shape: Ints, stride: Ints, kind: Any) -> bool:
    """Whether images of that shape are convolved here, in that type."""
    kernel = weight_shape[2:]
    return (
        fast.wanted(xp, prod(input_shape))
        and len(kernel) < 3
        and prod(kernel) > 1
        and input_shape[-1] <= _WIDEST * stride[-1]
        and (
            weight_shape[1] <= _FEW
            or prod(n // s for n, s in zip(input_shape[2:], stride, strict=True)) >= _SMALLEST
        )
        and fast.compiled("convolution", kind) is not None
        and fast.compiled("convolution_weight", kind) is not None
    )


class _Plan(NamedTuple):
    """The numbers of a kernel, and how much memory it needs."""

    layout: Array
    offsets: Array
    parts: Array
    memory: int
    sums: int
    taps: tuple[Array, ...]  # of the gradient of the input: which each part has
    whole: bool  # whether each part has some


def _planes(*given: Any) -> tuple[Any, ...]:
    """Sequences' numbers as those of images: (shape, ...), then stride, padding and dilation."""
    *shapes, stride, padding, dilation = given
    if len(stride) == 2:
        return given
    spatial = ((1, *x) for x in (stride, dilation))
    wide, far = spatial
    return (*((*s[:2], 1, *s[2:]) for s in shapes), wide, (0, *padding), far)


def _room(pitch: int, lines: int) -> int:
    """Places of the lines that are computed together."""
    return min(lines, max(1, _TOGETHER // pitch)) * pitch + _BEYOND


def _as_parts(parts: list[Ints]) -> Array:
    return numpy.array(parts, numpy.int64).reshape(-1, 8)


@functools.lru_cache(maxsize=256)
def _forward_plan(
    shape: Ints,
    weight_shape: Ints,
    out: Ints,
    groups: int,
    lanes: int,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
) -> _Plan:
    (sy, sx), (dy, dx) = stride, dilation
    around = [n + 2 * p for n, p in zip(shape[2:], padding, strict=True)]
    rows, pitch = (-(-n // s) for n, s in zip(around, stride, strict=True))
    plane = rows * pitch
    offsets = [
        ((c * sy + y * dy % sy) * sx + x * dx % sx) * plane + y * dy // sy * pitch + x * dx // sx
        for c, y, x in product(*map(range, weight_shape[1:]))
    ]
    layout = (groups, sy, sx, *padding, plane, pitch, 1, 1, 3 * lanes, 6 * lanes)
    return _Plan(
        numpy.array(layout),
        numpy.array(offsets),
        _as_parts([(0, 0, *out[2:], len(offsets), 0, 0, 0)]),
        shape[1] * sy * sx * plane + _BEYOND,
        4 * _room(pitch, out[2]),
        (),
        True,
    )


def _lanes(kind: Any) -> int:
    from ag_visual.arrays.kernels.compiled.tiles import lanes  # with Numba, which is there

    return lanes(kind.itemsize)


def forward(
    input: Array, weight: Array, bias: Array | None, size: Ints, groups: int, *limits: Ints
) -> Array:
    """The convolution, (N, O, size); limits: stride, padding, dilation."""
    out = (len(input), len(weight), *size)
    given = _planes(input.shape, weight.shape, out, *limits)
    shape, matrix, planes = given[:3]
    lanes = _lanes(input.dtype)
    plan = _forward_plan(shape, matrix, planes, groups, lanes, *given[3:])
    result = numpy.empty(planes, input.dtype)
    added = numpy.zeros(len(weight), input.dtype) if bias is None else bias
    _run(plan, input.reshape(shape), weight.reshape(-1), added, result)
    return result.reshape(out)


def _run(plan: _Plan, x: Array, weights: Array, bias: Array, result: Array) -> None:
    run = fast.compiled("convolution", x.dtype)
    memory, sums = numpy.zeros(plan.memory, x.dtype), numpy.empty(plan.sums, x.dtype)
    run(x, weights, plan.offsets, bias, plan.layout, plan.parts, memory, sums, result)  # type: ignore[misc]


def _met(n: int, stride: int, padding: int, place: int) -> tuple[int, int, int]:
    """Of the places of the padded input in one place of the stride: where the input's begin among
    them, how many there are, and the input's first.
    """
    first = max(0, -((place - padding) // stride))
    last = (padding + n - 1 - place) // stride
    return first, last - first + 1, first * stride + place - padding


@functools.lru_cache(maxsize=256)
def _input_plan(
    shape: Ints,
    weight_shape: Ints,
    out: Ints,
    groups: int,
    lanes: int,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
) -> _Plan:
    """How g is convolved: with the kernel's taps of each place in the stride."""
    kernel = weight_shape[2:]
    reach = [d * (k - 1) // s for d, k, s in zip(dilation, kernel, stride, strict=True)]
    ends = [
        max(m, (p + n - 1) // s + 1)
        for m, p, n, s in zip(out[2:], padding, shape[2:], stride, strict=True)
    ]
    pitch = ends[1] + reach[1]
    plane = (ends[0] + reach[0]) * pitch
    outs = out[1] // groups
    parts: list[Ints] = []
    offsets: list[int] = []
    taps: list[Array] = []
    whole, first = True, 0
    for place in product(*map(range, stride)):
        (row, lines, y0), (column, columns, x0) = (
            _met(n, s, p, at) for n, s, p, at in zip(shape[2:], stride, padding, place, strict=True)
        )
        if lines < 1 or columns < 1:
            continue
        here = [
            (y, x)
            for y, x in product(*map(range, kernel))
            if (y * dilation[0] % stride[0], x * dilation[1] % stride[1]) == place
        ]
        if not here:
            whole = False
            continue
        begin = len(offsets)
        offsets += [
            o * plane
            + (reach[0] - y * dilation[0] // stride[0]) * pitch
            + (reach[1] - x * dilation[1] // stride[1])
            for o in range(outs)
            for y, x in here
        ]
        depth = len(offsets) - begin
        parts.append((y0, x0, lines, columns, depth, first, begin, row * pitch + column))
        taps.append(numpy.array([y * kernel[1] + x for y, x in here]))
        first += shape[1] * depth
    layout = (groups, 1, 1, *reach, plane, pitch, *stride, 3 * lanes, 6 * lanes)
    return _Plan(
        numpy.array(layout),
        numpy.array(offsets or [0]),
        _as_parts(parts),
        out[1] * plane + _BEYOND,
        4 * _room(pitch, ends[0]),
        tuple(taps),
        whole,
    )


def for_input(g: Array, weight: Array, input_shape: Ints, groups: int, *limits: Ints) -> Array:
    """The gradient of the input."""
    given = _planes(input_shape, weight.shape, g.shape, *limits)
    shape, matrix, planes = given[:3]
    plan = _input_plan(shape, matrix, planes, groups, _lanes(g.dtype), *given[3:])
    apart = weight.reshape(groups, len(weight) // groups, matrix[1], -1).swapaxes(1, 2)
    weights = [apart[..., taps].reshape(-1) for taps in plan.taps]
    result = (numpy.empty if plan.whole else numpy.zeros)(shape, g.dtype)
    if weights:
        together = numpy.concatenate(weights)
        _run(plan, g.reshape(planes), together, numpy.zeros(shape[1], g.dtype), result)
    return result.reshape(input_shape)


def for_weight(g: Array, input: Array, weight_shape: Ints, groups: int, *limits: Ints) -> Array:
    """The gradient of the weight, where that is finite: zeros meet what lies between lines."""
    given = _planes(input.shape, tuple(weight_shape), g.shape, *limits)
    shape, matrix, planes = given[:3]
    lanes = _lanes(g.dtype)
    plan = _forward_plan(shape, matrix, planes, groups, lanes, *given[3:])
    pitch, taps = int(plan.layout[6]), plan.offsets
    length = -(-planes[2] * pitch // lanes) * lanes
    depth = -(-len(taps) // 9) * 9
    offsets = numpy.append(taps, numpy.zeros(depth - len(taps), numpy.int64))
    layout = numpy.append(plan.layout[:7], [length, _TOGETHER])
    memory = numpy.zeros(plan.memory, g.dtype)
    upper = numpy.zeros(planes[1] * length, g.dtype)
    total = numpy.zeros((planes[1], depth))
    x, above = input.reshape(shape), g.reshape(planes)
    run = fast.compiled("convolution_weight", g.dtype)
    run(above, x, offsets, layout, memory, upper, total)  # type: ignore[misc]
    return total[:, : len(taps)].reshape(weight_shape).astype(g.dtype)
