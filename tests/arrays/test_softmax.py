"""softmax, log_softmax, logsumexp and their gradients against torch's, on every array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays.kernels import softmax

from ..oracle import torch
from .compare import agree, random_array, theirs

SHAPES = [((4, 5), 1), ((4, 5), 0), ((2, 3, 4), -2), ((6,), 0), ((), 0), ((0, 3), 0), ((3, 0), 1)]


def rows(shape: tuple[int, ...], dtype: str) -> Any:
    """Large values, so that a formula which overflows would show."""
    return numpy.asarray(random_array(shape, dtype) * numpy.asarray(40, dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_torchs(
    run: Callable[..., Any], name: str, shape: tuple[int, ...], dim: int, dtype: str
) -> None:
    x = rows(shape, dtype)
    leaf = theirs(x).requires_grad_()
    wanted = getattr(torch, name)(leaf, dim)
    found = run(getattr(softmax, name), x, dim)
    agree(found, wanted)
    g = random_array(shape, dtype, seed=1)
    (grad,) = torch.autograd.grad(wanted, leaf, theirs(g))
    backward = getattr(softmax, f"{name}_backward")
    agree(run(backward, g, wanted.detach().numpy(), dim), grad)


@pytest.mark.parametrize("row", [[-numpy.inf] * 3, [numpy.inf, 1, 2], [1, -numpy.inf, 2]], ids=str)
def test_infinities_give_what_torch_gives(run: Callable[..., Any], row: list[float]) -> None:
    x = numpy.array([row, [1.0, 2.0, 3.0]])
    for name in ("softmax", "log_softmax"):
        agree(run(getattr(softmax, name), x, 1), getattr(torch, name)(theirs(x), 1))
    agree(run(softmax.logsumexp, x, (1,)), torch.logsumexp(theirs(x), 1))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((4, 5), (1,)),
        ((4, 5), (0, 1)),
        ((2, 3, 4), (0, -1)),
        ((), (0,)),
        ((0, 3), (0,)),
        ((2, 0), (0,)),
    ],
    ids=str,
)
def test_logsumexp_is_torchs(
    run: Callable[..., Any], shape: tuple[int, ...], dim: tuple[int, ...], dtype: str, keepdim: bool
) -> None:
    x = rows(shape, dtype) if dtype != "complex128" else random_array(shape, dtype)
    agree(run(softmax.logsumexp, x, dim, keepdim), torch.logsumexp(theirs(x), dim, keepdim))


def test_the_gradient_of_logsumexp_at_minus_infinity_is_zero() -> None:
    x = ag.tensor([-numpy.inf, 0.0], requires_grad=True)
    x.logsumexp(0).backward()
    assert x.grad.tolist() == [0, 1]
