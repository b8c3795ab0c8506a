"""The gradient of a convolution's input where the stride is not 1, as convolutions with stride 1.

Layer 1. Places of the input that are a stride apart meet the same taps of the kernel: every such
phase is a convolution of g with those taps, back to front. Nothing is added back place by place.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ag_visual.arrays.backend import Array

Ints = tuple[int, ...]


class _Phase(NamedTuple):
    """Of one dimension: its taps, its places in the input, and what is put around g."""

    taps: slice
    places: slice
    before: int
    behind: int


def _phases(n: int, out: int, kernel: int, stride: int, padding: int) -> list[_Phase]:
    found = []
    for first in range(min(stride, kernel)):
        taps = (kernel - first - 1) // stride + 1
        # Place i meets tap `first + m * stride` at output q - m, q = (i + padding - first) / stride
        low = max(0, -((first - padding) // stride))
        high = (n - 1 + padding - first) // stride
        begin = low * stride + first - padding
        if high < low:
            continue
        places = slice(begin, begin + (high - low) * stride + 1, stride)
        taken = slice(first, None, stride)
        found.append(_Phase(taken, places, taps - 1 - low, high - out + 1))
    return found


def _around(xp: Any, g: Array, phases: tuple[_Phase, ...]) -> Array:
    """g with zeros around it, or cut, as the phases say."""
    cut = tuple(
        slice(max(0, -p.before), n + min(0, p.behind))
        for n, p in zip(g.shape[2:], phases, strict=True)
    )
    inner = g[(..., *cut)]
    margins = [(max(0, p.before), max(0, p.behind)) for p in phases]
    if not any(a or b for a, b in margins):
        return xp.ascontiguousarray(inner)
    size = [n + a + b for n, (a, b) in zip(inner.shape[2:], margins, strict=True)]
    wide = xp.zeros((*g.shape[:2], *size), g.dtype)
    there = (slice(a, a + n) for n, (a, _) in zip(inner.shape[2:], margins, strict=True))
    wide[(..., *there)] = inner
    return wide


def for_input(
    xp: Any,
    g: Array,
    weight: Array,
    input_shape: Ints,
    stride: Ints,
    padding: Ints,
    convolved: Callable[[Array, Array], Array],
) -> Array:
    """The gradient of the input; `convolved(g, taps)` is a convolution without padding."""
    spatial, kernel, size = input_shape[2:], weight.shape[2:], g.shape[2:]
    each = [
        _phases(*numbers) for numbers in zip(spatial, size, kernel, stride, padding, strict=True)
    ]
    covered = sum(
        prod(len(range(*p.places.indices(n))) for p, n in zip(ps, spatial, strict=True))
        for ps in product(*each)
    )
    make = xp.empty if covered == prod(spatial) else xp.zeros
    result = make(input_shape, g.dtype)
    for phases in product(*each):
        taps = weight[(..., *(p.taps for p in phases))]
        result[(..., *(p.places for p in phases))] = convolved(_around(xp, g, phases), taps)
    return result
