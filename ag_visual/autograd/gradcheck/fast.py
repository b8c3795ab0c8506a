"""Fast mode: Jacobians times random vectors of length one, two calls and one backward for each."""

from __future__ import annotations

import numpy

from ag_visual.autograd.gradcheck.problem import Numbers, Problem

SEED = 0
"""The vectors are the same each time, and the program's random numbers go on as before."""


class Vectors:
    """A direction for each input (two for a complex one) and a weight for each output element."""

    def __init__(self, problem: Problem) -> None:
        draw = numpy.random.default_rng(SEED)
        self.real = [_unit(draw, each._array.size) for each in problem.inputs]
        self.imaginary = [_unit(draw, each._array.size) for each in problem.inputs]
        self.weights = [_unit(draw, each._array.size) for each in problem.outputs]

    def direction(self, input: int, direction: complex) -> Numbers:
        """Along the real parts of an input, or for 1j along its imaginary parts."""
        return 1j * self.imaginary[input] if direction == 1j else self.real[input]

    def atol(self, atol: float, input: int, output: int | None = None) -> float:
        """The tolerance of a sum of entries each of which may be wrong by atol."""
        many = float(numpy.abs(self.real[input]).sum())
        if output is not None:
            many *= float(numpy.abs(self.weights[output]).sum())
        return atol * many


def _unit(draw: numpy.random.Generator, size: int) -> Numbers:
    """Positive elements: what is wrong in several of them does not cancel."""
    vector = draw.random(size)
    length = numpy.linalg.norm(vector)
    return vector / length if length else vector
