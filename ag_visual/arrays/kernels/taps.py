"""Convolution tap by tap: each place of the kernel times the part of the input that it meets.

Layer 1. No number is multiplied but those that the sums have: none of the padding, none between
lines. The faster ways multiply zeros there, and 0 * inf and 0 * NaN are NaN. Arguments are those of
`conv`, arrays are in the type to compute in, results are fresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

from ag_visual.arrays.backend import Array

Ints = tuple[int, ...]
Slices = tuple[slice, ...]


def _meetings(
    spatial: Ints, kernel: Ints, size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Iterator[tuple[Ints, Slices, Slices]]:
    """Each tap that meets the input, the places of the output where it does, and what it meets."""
    for tap in product(*map(range, kernel)):
        places, met = [], []
        for at, n, o, s, p, d in zip(tap, spatial, size, stride, padding, dilation, strict=True):
            shift = at * d - p
            first, behind = max(0, -(shift // s)), min(o, (n - 1 - shift) // s + 1)
            if behind <= first:
                break
            places.append(slice(first, behind))
            met.append(slice(first * s + shift, (behind - 1) * s + shift + 1, s))
        else:
            yield tap, (..., *places), (..., *met)


def _flat(array: Array) -> Array:
    """(N, groups, channels, places) of an array with the places apart."""
    return array.reshape(*array.shape[:3], prod(array.shape[3:]))


def forward(
    xp: Any,
    input: Array,
    weight: Array,
    size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """The convolution, (N, groups, O / groups, size)."""
    rows, spatial, kernel = len(input), input.shape[2:], weight.shape[2:]
    apart = input.reshape(rows, groups, input.shape[1] // groups, *spatial)
    matrices = weight.reshape(groups, len(weight) // groups, weight.shape[1], *kernel)
    result = xp.zeros((rows, groups, matrices.shape[1], *size), input.dtype)
    for tap, places, met in _meetings(spatial, kernel, size, stride, padding, dilation):
        there = result[places]
        there += xp.matmul(matrices[(..., *tap)], _flat(apart[met])).reshape(there.shape)
    return result


def for_weight(
    xp: Any,
    g: Array,
    input: Array,
    weight_shape: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Array:
    """The gradient of `weight`."""
    rows, size, spatial, kernel = len(g), g.shape[2:], input.shape[2:], weight_shape[2:]
    apart = input.reshape(rows, groups, input.shape[1] // groups, *spatial)
    upper = g.reshape(rows, groups, g.shape[1] // groups, *size)
    result = xp.zeros((groups, upper.shape[2], *weight_shape[1:]), g.dtype)
    for tap, places, met in _meetings(spatial, kernel, size, stride, padding, dilation):
        columns = _flat(apart[met]).transpose(0, 1, 3, 2)
        result[(..., *tap)] = xp.matmul(_flat(upper[places]), columns).sum(axis=0)
    return result.reshape(weight_shape)
