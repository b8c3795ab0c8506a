"""Reading images at the places of a grid by the compiled kernels, and its gradients.

Layer 1. None is returned where there is no kernel: the op computes by the array library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.modes import NEAREST

_PIXELS = 1 << 31  # as many as int32 counts


def _fits(xp: Any, input: Array, grid: Array) -> bool:
    """Whether the kernels are for these; an image without places has nothing to compute."""
    size = math.prod(grid.shape[:-1]) * input.shape[1]
    return fast.wanted(xp, size) and math.prod(input.shape[2:]) < _PIXELS


def _lines(array: Array) -> Array:
    """(images, channels, ...) as three dimensions, in memory row by row."""
    lines = array if array.flags.carray else array.copy()
    return lines.reshape(*array.shape[:2], math.prod(array.shape[2:]))


def _places(grid: Array) -> Array:
    places = grid if grid.flags.carray else grid.copy()
    return places.reshape(grid.shape[0], math.prod(grid.shape[1:-1]), grid.shape[-1])


def grid_sample(
    xp: Any, input: Array, grid: Array, mode: int, padding: int, align: bool
) -> Array | None:
    """The values of (N, C, ...) at the places of a grid."""
    run = fast.compiled("grid_sample", input.dtype) if _fits(xp, input, grid) else None
    if run is None:
        return None
    result = numpy.empty((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    sizes = numpy.array(input.shape[2:], numpy.int64)
    run(_lines(input), _places(grid), sizes, mode, padding, align, _lines(result))
    return result


def grid_sample_backward(
    xp: Any,
    g: Array,
    input: Array,
    grid: Array,
    mode: int,
    padding: int,
    align: bool,
    needs: tuple[bool, bool],
) -> tuple[Array | None, Array | None] | None:
    """The gradients of `grid_sample`'s image and grid."""
    run = fast.compiled("grid_sample_backward", g.dtype) if _fits(xp, input, grid) else None
    if run is None:
        return None
    d_input = numpy.zeros(input.shape if needs[0] else (0,) * input.ndim, input.dtype)
    d_grid = numpy.zeros(grid.shape if needs[1] else (0,) * grid.ndim, grid.dtype)
    sizes = numpy.array(input.shape[2:], numpy.int64)
    given = _lines(g), _lines(input), _places(grid), sizes, mode, padding, align
    moves = needs[1] and mode != NEAREST  # whose values stay between the pixels
    run(*given, needs[0], moves, _lines(d_input), _places(d_grid))
    return d_input if needs[0] else None, d_grid if needs[1] else None
