"""Jacobians by backward: one run for each element of an output, or one along a vector."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of
from ag_visual.autograd.api import grad
from ag_visual.autograd.gradcheck.problem import Numbers, Outputs, numbers, wide
from ag_visual.core.tensor import Tensor, from_array

Gradients = tuple[Tensor | None, ...]


def jacobians(output: Tensor, inputs: Outputs, part: complex = 1) -> tuple[list[Numbers], bool]:
    """The derivatives of one output by each input, (input elements, output elements).

    part: 1 for the real part of a complex output, 1j for its imaginary part. Also whether all
    gradients had the dtype of their inputs.
    """
    size = output._array.size
    found = [numpy.zeros((size, each._array.size), wide(each)) for each in inputs]
    same = True
    for number in range(size):
        for rows, gradient, each in zip(
            found, _row(output, inputs, number, part), inputs, strict=True
        ):
            if gradient is not None:
                rows[number] = numbers(gradient)
                same = same and gradient._array.dtype == each._array.dtype
    return [rows.T for rows in found], same


def _row(output: Tensor, inputs: Outputs, number: int, part: complex) -> Gradients:
    """The gradients of one element of the output."""
    seed = backend_of(output._array).xp.zeros(output._array.shape, output._array.dtype)
    seed.reshape(-1)[number] = part
    return grad(output, inputs, from_array(seed), retain_graph=True, allow_unused=True)


def along(output: Tensor, inputs: Outputs, vector: Numbers) -> list[Numbers]:
    """The product of a vector with each Jacobian of one output: one backward."""
    array = output._array
    given = backend_of(array).asarray(vector.reshape(array.shape).astype(array.dtype))
    found = grad(output, inputs, from_array(given), retain_graph=True, allow_unused=True)
    return [
        numpy.zeros(each._array.size, wide(each))
        if gradient is None
        else numbers(gradient).astype(wide(each))
        for gradient, each in zip(found, inputs, strict=True)
    ]


def differ(first: Any, second: Any, tolerance: float) -> bool:
    """Whether two runs of the same backward gave different numbers. NaN is like NaN."""
    with numpy.errstate(all="ignore"):
        return any(
            a.size > 0 and bool(numpy.abs(a - b).max() > tolerance)
            for a, b in zip(first, second, strict=True)
        )
