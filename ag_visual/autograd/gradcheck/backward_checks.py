"""What a backward must do beyond right numbers: batches, zeros for zeros, undefined gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of
from ag_visual.autograd.api import grad
from ag_visual.autograd.custom_function import Function
from ag_visual.autograd.gradcheck.analytical import Gradients
from ag_visual.autograd.gradcheck.error import GradcheckError
from ag_visual.autograd.gradcheck.problem import Outputs, Problem, differentiable
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.table import traced as F

LANES = 2
"""Gradients that are run as one batch."""

BATCHED = (
    "\n\ngradcheck or gradgradcheck failed while testing batched gradient computation.\n"
    "  what to do  write the backward in operations on tensors that vmap can run on all gradients "
    "of a batch at once, or pass check_batched_grad=False"
)
DERIVATIVES = (
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)


def zero_like(tensor: Tensor) -> Tensor:
    array = tensor._array
    return from_array(backend_of(array).xp.zeros(array.shape, array.dtype))


def drawn_like(tensor: Tensor, draw: numpy.random.Generator) -> Tensor:
    """A tensor of the same kind with random numbers that are not of the program's own stream."""
    array = tensor._array
    values: Any = draw.standard_normal(array.shape)
    if tensor.dtype.is_complex:
        values = values + 1j * draw.standard_normal(array.shape)
    return from_array(backend_of(array).asarray(numpy.asarray(values).astype(array.dtype)))


def batched(problem: Problem) -> None:
    """A batch of gradients gives what each of them gives by itself."""
    draw = numpy.random.default_rng(0)
    for number, output in enumerate(problem.outputs):
        seeds = [drawn_like(output, draw) for _ in range(LANES)]
        expected = [
            grad(output, problem.inputs, seed, retain_graph=True, allow_unused=True)
            for seed in seeds
        ]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = grad(
                    output,
                    problem.inputs,
                    F.stack(seeds),
                    retain_graph=True,
                    allow_unused=True,
                    is_grads_batched=True,
                )
        except Exception as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}{BATCHED}"
            ) from error
        for index, seen in enumerate(found):
            same_batch((number, index), seen, [row[index] for row in expected], BATCHED)


def same_batch(
    index: tuple[int, int], seen: Tensor | None, rows: list[Tensor | None], said: str
) -> None:
    """Compare one result of a batch with the results of its lanes. Raises GradcheckError."""
    kept = [row for row in rows if row is not None]
    if seen is None or len(kept) < len(rows):
        if seen is not None and bool(F.ne(seen, 0).any()):
            raise GradcheckError(f"For output {index[0]} and input {index[1]}:{said}")
        return
    expected = F.stack(kept)
    if not F.allclose(seen, expected):
        raise GradcheckError(
            f"For output {index[0]} and input {index[1]}:{said}\n\nGot:\n{seen}\n\n"
            f"Expected:\n{expected}"
        )


def multiplied(problem: Problem) -> None:
    """Zeros come out where zeros went in: the backward multiplies by the gradient it is given."""
    seeds = [zero_like(output) for output in problem.outputs]
    found: Gradients = grad(
        problem.outputs, problem.inputs, seeds, retain_graph=True, allow_unused=True
    )
    for index, (gradient, each) in enumerate(zip(found, problem.inputs, strict=True)):
        if gradient is None:
            continue
        if gradient.layout is not each.layout:
            raise GradcheckError(
                f"grad is incorrect layout ({gradient.layout} is not {each.layout})"
            )
        if bool(F.ne(gradient, 0).any()):
            raise GradcheckError(
                "backward not multiplied by grad_output\n\n"
                f"  input       {index}: for gradients of zero it gets {gradient}"
            )
        for what in ("dtype", "device", "shape"):
            if getattr(gradient, what) != getattr(each, what):
                word = {"dtype": "type", "shape": "size"}.get(what, what)
                raise GradcheckError(f"grad is incorrect {word}")


class UndefinedGrad(Function):
    """A tensor as it is, whose gradient is undefined."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result: Tensor = F.view_as(x, x)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


def undefined(problem: Problem) -> None:
    """Gradients that are undefined count as zeros: all of them, then each output's alone."""
    first = differentiable(problem.func(*problem.given))
    _check_undefined(problem, [UndefinedGrad.apply(output) for output in first])
    if len(first) < 2:
        return
    for number in range(len(first)):
        outputs: list[Any] = list(differentiable(problem.func(*problem.given)))
        outputs[number] = UndefinedGrad.apply(outputs[number])
        _check_undefined(problem, outputs)


def _check_undefined(problem: Problem, outputs: list[Any]) -> None:
    seeds = [zero_like(output) for output in outputs]
    inputs: Outputs = problem.inputs
    try:
        found: Gradients = grad(outputs, inputs, seeds, allow_unused=True)
    except RuntimeError as error:
        raise GradcheckError(
            f"Expected backward function to handle undefined output grads. {DERIVATIVES}\n\n"
            f"  it raised   {error}"
        ) from error
    for index, gradient in enumerate(found):
        if gradient is not None and bool(F.ne(gradient, 0).any()):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are "
                f"undefined or zero. {DERIVATIVES}\n\n  input       {index} gets {gradient}"
            )
