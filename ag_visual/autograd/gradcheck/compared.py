"""The comparison itself: every Jacobian by differences and by autograd, in full or in fast mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual.autograd.gradcheck import analytical, forward, numerical
from ag_visual.autograd.gradcheck.error import GradcheckError
from ag_visual.autograd.gradcheck.fast import Vectors
from ag_visual.autograd.gradcheck.problem import Numbers, Problem, close
from ag_visual.autograd.gradcheck.report import mismatch
from ag_visual.core.tensor import from_array

Columns = dict[tuple[int, complex], list[Numbers]]
"""For (input, direction) the derivatives of each output: 1j is the imaginary part of an input."""

NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
    "times gives different values, although analytical gradient matches numerical gradient."
    "The tolerance for nondeterminism was {tolerance}."
)


def directions(problem: Problem) -> Iterator[tuple[int, complex]]:
    """Each input, and a complex one along its imaginary part, too."""
    for index, each in enumerate(problem.inputs):
        yield index, 1
        if each.dtype.is_complex:
            yield index, 1j


def parts(problem: Problem) -> list[complex]:
    """The parts of complex outputs in the order in which they are checked; 1: real numbers."""
    return [1j, 1] if any(each.dtype.is_complex for each in problem.outputs) else [1]


def _part(values: Numbers, part: complex) -> Numbers:
    return values.imag if part == 1j else values.real


def _named(part: complex, is_complex: bool) -> str:
    return ("imaginary" if part == 1j else "real") if is_complex else ""


def _gradient(
    columns: Columns, problem: Problem, output: int, input: int, part: complex
) -> Numbers:
    """What backward should give: d part / dx, for a complex x with i d part / dy."""
    real = _part(columns[input, 1][output], part)
    if not problem.inputs[input].dtype.is_complex:
        return real
    return real + 1j * _part(columns[input, 1j][output], part)


# Backward -----------------------------------------------------------------------------------------


def backward(problem: Problem, fast: Vectors | None) -> Columns:
    """Compare what backward gives. Returns the numerical derivatives; raises GradcheckError."""
    columns = _along(problem, fast) if fast else _full(problem)
    for part in parts(problem):
        for number, output in enumerate(problem.outputs):
            if part == 1j and not output.dtype.is_complex:
                continue
            if fast:
                _check_projected(problem, number, part, columns, fast)
            else:
                _check_rows(problem, number, part, columns)
    return columns


def _full(problem: Problem) -> Columns:
    return {
        (index, direction): numerical.jacobians(problem, index, direction)
        for index, direction in directions(problem)
    }


def _along(problem: Problem, vectors: Vectors) -> Columns:
    return {
        (index, direction): numerical.along(problem, index, vectors.direction(index, direction))
        for index, direction in directions(problem)
    }


def _check_rows(problem: Problem, number: int, part: complex, columns: Columns) -> None:
    output, inputs = problem.outputs[number], problem.inputs
    rows, same = analytical.jacobians(output, inputs, part)
    again, _ = analytical.jacobians(output, inputs, part)
    _check_steady(problem, rows, again)
    if problem.check_grad_dtypes and not same:
        raise GradcheckError("Gradient has dtype mismatch")
    for index, row in enumerate(rows):
        expected = _gradient(columns, problem, number, index, part)
        if not close(row, expected, *problem.tolerances).all():
            name = _named(part, output.dtype.is_complex)
            raise mismatch(problem, (number, index), (expected, row), part=name)


def _check_steady(problem: Problem, first: list[Numbers], again: list[Numbers]) -> None:
    if analytical.differ(first, again, problem.nondet_tol):
        raise GradcheckError(
            NOT_REENTRANT.format(tolerance=problem.nondet_tol)
            + "\n\n  largest difference between two runs  "
            f"{max(map(_largest_difference, first, again)):.6g}"
            "\n  what to do  a backward must draw no random numbers and keep no state; or pass "
            "nondet_tol="
        )


def _largest_difference(first: Numbers, again: Numbers) -> float:
    return float(numpy.abs(first - again).max(initial=0))


def _check_projected(
    problem: Problem, number: int, part: complex, columns: Columns, vectors: Vectors
) -> None:
    output, inputs = problem.outputs[number], problem.inputs
    weights = vectors.weights[number]
    found = analytical.along(output, inputs, weights * part)
    _check_steady(problem, found, analytical.along(output, inputs, weights * part))
    for index, row in enumerate(found):
        expected: Any = _part(columns[index, 1][number], part) @ weights
        seen: Any = row.real @ vectors.real[index]
        if inputs[index].dtype.is_complex:
            expected = expected + 1j * (_part(columns[index, 1j][number], part) @ weights)
            seen = seen + 1j * (row.imag @ vectors.imaginary[index])
        atol = vectors.atol(problem.atol, index, number)
        if not close(seen, expected, atol, problem.rtol):
            full = _full(problem)
            jacobians = (
                _gradient(full, problem, number, index, part),
                analytical.jacobians(output, inputs, part)[0][index],
            )
            raise mismatch(
                problem,
                (number, index),
                jacobians,
                part=_named(part, output.dtype.is_complex),
                projected=(expected.item(), seen.item()),
            )


# Forward ------------------------------------------------------------------------------------------


def forward_mode(problem: Problem, fast: Vectors | None, columns: Columns | None) -> None:
    """Compare what forward mode gives. columns: the numerical derivatives, where they are known."""
    if columns is None:
        columns = _along(problem, fast) if fast else _full(problem)
    order = sorted(directions(problem), key=lambda each: each[1] != 1j)
    for index, direction in order:
        if fast:
            vector = fast.direction(index, direction)
            found = forward.along(problem, index, vector)
        else:
            found = forward.jacobians(problem, index, direction)
        for number, seen in enumerate(found):
            expected = columns[index, direction][number]
            atol = fast.atol(problem.atol, index) if fast else problem.atol
            if close(seen, expected, atol, problem.rtol).all():
                continue
            full = (expected, seen)
            if fast:
                full = (
                    numerical.jacobians(problem, index, direction)[number],
                    forward.jacobians(problem, index, direction)[number],
                )
            raise mismatch(
                problem,
                (number, index),
                full,
                mode="forward",
                part=_named(direction, problem.inputs[index].dtype.is_complex),
                projected=(from_array(expected), from_array(seen)) if fast else None,
            )


# Nothing to differentiate -------------------------------------------------------------------------


def constant(problem: Problem) -> None:
    """No output requires grad: then no output may depend on an input that does."""
    for index, direction in directions(problem):
        for number, values in enumerate(numerical.jacobians(problem, index, direction)):
            if values.any():
                row, column = (int(each) for each in numpy.argwhere(values)[0])
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero\n\n"
                    f"  output      {number} requires no grad, yet it depends on input {index}: "
                    f"the derivative of its element {column} by element {row} is "
                    f"{values[row, column]:.6g}\n"
                    "  what to do  look for detach(), .data, .item() or no_grad() on the way"
                )
