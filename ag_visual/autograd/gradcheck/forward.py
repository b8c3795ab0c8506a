"""Jacobians by forward mode: one call of the function for each element of an input."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of
from ag_visual.autograd.gradcheck.problem import Numbers, Problem, as_tuple, numbers, wide
from ag_visual.core.tensor import Tensor, from_array


def forward_ad() -> Any:
    """torch.autograd.forward_ad, imported when it is asked for."""
    return importlib.import_module("ag_visual.autograd.forward_ad")


def tangents(problem: Problem, given: list[Any]) -> list[Tensor | None]:
    """The tangents of the outputs for a tangent of each input; None where there is none."""
    mode = forward_ad()
    arguments = list(problem.given)
    with mode.dual_level():
        for position, tangent in zip(problem.checked, given, strict=True):
            value = arguments[position].detach()
            arguments[position] = value if tangent is None else mode.make_dual(value, tangent)
        every = as_tuple(problem.func(*arguments))
        return [mode.unpack_dual(every[position]).tangent for position in problem.positions]


def zeros(tensor: Tensor) -> Tensor:
    """The tangent of an input that stays as it is."""
    array = tensor._array
    return from_array(backend_of(array).xp.zeros(array.shape, array.dtype))


def jacobians(problem: Problem, index: int, direction: complex = 1) -> list[Numbers]:
    """The derivatives of each output by the elements of one input, (elements, output elements)."""
    size = problem.inputs[index]._array.size
    found = [numpy.zeros((size, output._array.size), wide(output)) for output in problem.outputs]
    for number, tangent in enumerate(units(problem.inputs[index], direction)):
        for rows, row in zip(found, tangents(problem, _only(problem, index, tangent)), strict=True):
            if row is not None:
                rows[number] = numbers(row.detach())
    return found


def along(problem: Problem, index: int, direction: Numbers) -> list[Numbers]:
    """The derivative of each output along a direction of one input."""
    array = problem.inputs[index]._array
    given = backend_of(array).asarray(direction.reshape(array.shape).astype(array.dtype))
    found = tangents(problem, _only(problem, index, from_array(given)))
    return [
        numpy.zeros(output._array.size, wide(output))
        if tangent is None
        else numbers(tangent.detach()).astype(wide(output))
        for tangent, output in zip(found, problem.outputs, strict=True)
    ]


def _only(problem: Problem, index: int, tangent: Tensor) -> list[Any]:
    """This tangent for one input, zeros for all others."""
    return [
        tangent if number == index else zeros(each) for number, each in enumerate(problem.inputs)
    ]


def units(tensor: Tensor, direction: complex) -> Iterator[Tensor]:
    """For each element the tensor that is `direction` there and zero elsewhere."""
    xp = backend_of(tensor._array).xp
    for number in range(tensor._array.size):
        unit = xp.zeros(tensor._array.shape, tensor._array.dtype)
        unit.reshape(-1)[number] = direction
        yield from_array(unit)
