"""Jacobians by central differences, (f(x + eps) - f(x - eps)) / (2 eps).

Inputs are changed where they lie, unseen by their version counters, and put back whatever happens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from ag_visual.arrays.quiet import silent
from ag_visual.autograd.gradcheck.problem import Numbers, Problem, as_tuple, numbers, wide
from ag_visual.core.tensor import Tensor
from ag_visual.sizes import Size


def jacobians(problem: Problem, index: int, direction: complex = 1) -> list[Numbers]:
    """The derivatives of each output by the elements of one input, (elements, output elements).

    direction: 1, or 1j for the imaginary parts of a complex input.
    """
    step, kinds = problem.eps * direction, [wide(output) for output in problem.outputs]
    with _open_to_writes(problem.inputs[index]) as array:
        found = [
            numpy.empty((array.size, output._array.size), kind)
            for output, kind in zip(problem.outputs, kinds, strict=True)
        ]
        for number, place in enumerate(itertools.product(*map(range, array.shape))):
            kept = array[place].copy()
            try:
                array[place] = kept + step
                # Copies: the function may return its input, or give the same memory each time.
                above = [
                    row.astype(kind)
                    for row, kind in zip(values(problem, place), kinds, strict=True)
                ]
                array[place] = kept - step
                for rows, a, b in zip(found, above, values(problem, place), strict=True):
                    _subtract(a, b, rows[number])
            finally:
                array[place] = kept
    for rows in found:
        _halve(rows, problem.eps)
    return found


def along(problem: Problem, index: int, direction: Numbers) -> list[Numbers]:
    """The derivative of each output along a direction of one input: a vector for each."""
    with _open_to_writes(problem.inputs[index]) as array:
        step = problem.eps * _like(direction.reshape(array.shape), array)
        kept = array.copy()
        try:
            array[...] = kept + step
            above = [
                row.astype(wide(output))
                for row, output in zip(values(problem), problem.outputs, strict=True)
            ]
            array[...] = kept - step
            for a, b in zip(above, values(problem), strict=True):
                _subtract(a, b, a)
        finally:
            array[...] = kept
    for row in above:
        _halve(row, problem.eps)
    return above


def one_sided(problem: Problem, index: int, number: int) -> list[tuple[Numbers, Numbers]]:
    """The derivatives of each output by one element from the right and from the left."""
    with _open_to_writes(problem.inputs[index]) as array:
        place = tuple(map(int, numpy.unravel_index(number, array.shape)))
        middle = [row.copy() for row in values(problem)]
        kept = array[place].copy()
        try:
            array[place] = kept + problem.eps
            above = [row.copy() for row in values(problem, place)]
            array[place] = kept - problem.eps
            below = [row.copy() for row in values(problem, place)]
        finally:
            array[place] = kept
    with numpy.errstate(all="ignore"):
        return [
            ((up - at) / problem.eps, (at - down) / problem.eps)
            for up, at, down in zip(above, middle, below, strict=True)
        ]


@contextmanager
def _open_to_writes(tensor: Tensor) -> Iterator[Any]:
    """The memory of a tensor; of one that NumPy closed to writes a copy, in its place meanwhile."""
    array, memory = tensor._array, tensor._memory
    if getattr(array.flags, "writeable", True):
        yield array
        return
    try:
        tensor._exchange(array.copy())
        yield tensor._array
    finally:
        tensor._exchange(array, memory)


def values(problem: Problem, place: tuple[int, ...] | None = None) -> list[Numbers]:
    """The outputs that are checked, at the inputs as they are now.

    place: the element that was changed, for the error if an output has another shape or dtype now.
    """
    every = as_tuple(problem.func(*problem.given))
    found = []
    for position, first in zip(problem.positions, problem.outputs, strict=True):
        if position >= len(every):
            raise AssertionError(
                f"Expected `func` to return output {position} when inputs are perturbed, but got "
                f"{len(every)} outputs."
            )
        now = every[position]
        if now._array.shape != first._array.shape or now._array.dtype != first._array.dtype:
            what, a, b = "dtype", str(first.dtype), str(now.dtype)
            if now._array.shape != first._array.shape:
                what, a, b = "shape", str(Size(first.shape)), str(Size(now.shape))
            where = "" if place is None else f"on index {place} "
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed "
                f"{where}by {problem.eps}, but got: {what}s {a} and {b}."
            )
        found.append(numbers(now))
    return found


def _like(direction: Numbers, array: Any) -> Any:
    """The direction in the array library and the dtype of what it is added to."""
    if type(array) is numpy.ndarray:
        return direction.astype(array.dtype)
    from ag_visual.arrays.backend import backend_of

    return backend_of(array).asarray(direction.astype(array.dtype))


@silent
def _subtract(a: Numbers, b: Numbers, out: Numbers) -> None:
    numpy.subtract(a, b, out=out)


@silent
def _halve(rows: Numbers, eps: float) -> None:
    numpy.divide(rows, numpy.float64(2 * eps), out=rows)
