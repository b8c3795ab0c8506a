"""What forward mode must do beyond right numbers: batches of tangents, undefined tangents."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy

from ag_visual.autograd.gradcheck import forward
from ag_visual.autograd.gradcheck.backward_checks import LANES, drawn_like, same_batch
from ag_visual.autograd.gradcheck.error import GradcheckError
from ag_visual.autograd.gradcheck.problem import Problem, as_tuple
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced as F

BATCHED = (
    "\n\ngradcheck failed while testing batched gradient computation with forward-mode AD.\n"
    "  what to do  write jvp in operations on tensors that vmap can run on all tangents of a batch "
    "at once, or pass check_batched_forward_grad=False"
)


def batched(problem: Problem) -> None:
    """A batch of tangents gives what each of them gives by itself."""
    run: Any = importlib.import_module("ag_visual.func")
    points = tuple(each.detach() for each in problem.inputs)
    draw = numpy.random.default_rng(0)

    def called(*values: Tensor) -> tuple[Tensor, ...]:
        given = list(problem.given)
        for position, value in zip(problem.checked, values, strict=True):
            given[position] = value
        every = as_tuple(problem.func(*given))
        return tuple(every[position] for position in problem.positions)

    for index, each in enumerate(problem.inputs):
        zeros = [forward.zeros(other) for other in problem.inputs]

        def moved(tangent: Tensor, index: int = index, zeros: Any = zeros) -> tuple[Tensor, ...]:
            return (*zeros[:index], tangent, *zeros[index + 1 :])

        def pushed(tangent: Tensor, moved: Any = moved) -> Any:
            return run.forward.pushed(called, points, moved(tangent))

        given = [drawn_like(each, draw) for _ in range(LANES)]
        expected = [forward.tangents(problem, list(moved(tangent))) for tangent in given]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = run.vmap(pushed)(F.stack(given))
        except Exception as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}{BATCHED}"
            ) from error
        for number, seen in enumerate(found):
            same_batch((number, index), seen, [row[number] for row in expected], BATCHED)


def undefined(problem: Problem) -> None:
    """An input without a tangent counts as one whose tangent is zero."""
    draw = numpy.random.default_rng(0)
    drawn: list[Any] = [drawn_like(each, draw) for each in problem.inputs]
    for index, each in enumerate(problem.inputs):
        zero, none = list(drawn), list(drawn)
        zero[index], none[index] = forward.zeros(each), None
        expected, found = forward.tangents(problem, zero), forward.tangents(problem, none)
        for number, (a, b) in enumerate(zip(expected, found, strict=True)):
            if not _same(a, b):
                # torch's text is a tuple, printed.
                message = (
                    "Mismatch in tangent values for output with index: ",
                    number,
                    " when input: ",
                    each,
                    " has an undefined tangent value. ",
                    " Got: ",
                    b,
                    " but expected: ",
                    a,
                )
                raise GradcheckError(str(message))


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two tangents agree; None is zero."""
    if a is None or b is None:
        given = a if b is None else b
        return given is None or not bool(F.ne(given, 0).any())
    return bool(F.allclose(a, b))
