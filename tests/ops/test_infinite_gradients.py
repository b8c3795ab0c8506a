"""Infinite and NaN gradients stay where they belong: no zero of a mask is multiplied by them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import agree, plain

INF = math.inf

CHOOSING: dict[str, Callable[[Any, Any], Any]] = {
    "max": lambda t, x: x.max(),
    "min": lambda t, x: x.min(),
    "median": lambda t, x: x.median(),
    "nanmedian": lambda t, x: x.nanmedian(),
    "amax": lambda t, x: x.amax(0),
    "amin": lambda t, x: x.amin((0, 1)),
    "aminmax": lambda t, x: x.aminmax(dim=1).max,
    "max of a dim": lambda t, x: x.max(1).values,
    "mode": lambda t, x: x.mode(1).values,
    "kthvalue": lambda t, x: x.kthvalue(2, 1).values,
    "cummax": lambda t, x: x.cummax(1).values,
    "cumprod": lambda t, x: x.cumprod(1),
    "clamp": lambda t, x: x.clamp(0.5, 2),
    "relu": lambda t, x: x.relu(),
    "maximum": lambda t, x: t.maximum(x, x.flip(0)),
    "where": lambda t, x: t.where(x > 1, x, 0.0),
    "norm": lambda t, x: t.linalg.vector_norm(x, INF, 1),
    "max_pool": lambda t, x: t.nn.functional.max_pool1d(x, 2),
    "adaptive": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x, 2),
    "nearest": lambda t, x: t.nn.functional.interpolate(x[None], 2),
    "linear": lambda t, x: t.nn.functional.interpolate(x[None], 7, mode="linear"),
    "pdist": lambda t, x: t.nn.functional.pdist(x, p=0),
    "cdist": lambda t, x: t.cdist(x, x + 1, p=0),
    "grid_sample": lambda t, x: t.nn.functional.grid_sample(
        x[None, None], t.linspace(-1.3, 1.3, 8, dtype=t.float64).reshape(1, 2, 2, 2)
    ),
}


@pytest.mark.parametrize("bad", [INF, math.nan])
@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.filterwarnings("ignore")
def test_only_what_was_chosen_meets_it(name: str, bad: float) -> None:
    def gradient(t: Any) -> Any:
        x = t.tensor([[1.0, 0, 3, 0.25, 1.5], [2, 4, 0.5, 1, 0]], dtype=t.float64)
        y = CHOOSING[name](t, x.requires_grad_())
        g = t.ones_like(y)
        g.view(-1)[0] = bad
        y.backward(g)
        return x.grad.numpy()

    ours = gradient(ag_visual)
    assert numpy.isfinite(ours).any(), ours
    if torch.__version__:
        theirs = gradient(torch)
        known = ~numpy.isnan(theirs)  # torch itself multiplies by some masks
        numpy.testing.assert_allclose(ours[known], theirs[known], rtol=1e-6, atol=1e-8)
        assert numpy.isnan(ours).sum() <= numpy.isnan(theirs).sum()


@pytest.mark.filterwarnings("ignore")
def test_a_product_of_several_zeros_has_no_gradient() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.0, 2.0, 0.0], requires_grad=True)
        x.prod().backward(t.tensor(INF))
        return x.grad

    agree(program, [0.0, 0.0, 0.0])


@pytest.mark.filterwarnings("ignore")
def test_second_derivatives_of_an_angle_at_the_origin() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.0, 1.0], requires_grad=True)
        y = t.tensor([0.0, 2.0], requires_grad=True)
        found = t.autograd.grad(t.atan2(x, y).sum(), [x, y], create_graph=True)
        return [*found, *t.autograd.grad(found[0].sum() + found[1].sum(), [x, y])]

    assert repr(plain(program(ag_visual))[2]).startswith("[nan, ")
    if torch.__version__:
        for ours, theirs in zip(plain(program(ag_visual)), plain(program(torch)), strict=True):
            numpy.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_count_of_elements_gives_no_gradient() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        x.norm(0).backward()
        t.linalg.vector_norm(x, 0).backward()
        return [x.grad is None]

    agree(program, [True])


def test_inputs_of_no_weight() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([[INF, 1, 2, 3, math.nan]])
        grid = t.tensor([[-0.2, 0], [0.2, 0], [3, 0]]).reshape(1, 1, 3, 2)
        return [
            t.nn.functional.adaptive_avg_pool1d(x, 5),
            t.nn.functional.interpolate(x[None], 3),
            t.nn.functional.grid_sample(x[None, None], grid, align_corners=True),
        ]

    agree(program)


@pytest.mark.parametrize("call", ["var", "std"])
def test_moments_without_a_degree_of_freedom(call: str) -> None:
    """Over all elements the gradient does not depend on how far they are from their mean."""

    def program(t: Any) -> Any:
        seen = []
        for values in ([1.0], [1.0, 2.0], [1.0, 1.0, 4.0], [[1.0, 2.0]]):
            for dim in (None, -1):
                x = t.tensor(values, requires_grad=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    y = getattr(x, call)(dim, correction=x.shape[-1])
                (g,) = t.autograd.grad(y.sum(), [x], create_graph=True)
                seen += [y, g, g.requires_grad]
        return seen

    agree(program)


@pytest.mark.parametrize("other", [1, -1.0])
@pytest.mark.parametrize("bad", [INF, math.nan])
def test_copysign_multiplies_by_its_derivative(bad: float, other: float) -> None:
    """It is 0 at 0, as torch has it; no element is chosen."""

    def program(t: Any) -> Any:
        x = t.tensor([0.0, -0.0, 2.0, -3.0], requires_grad=True)
        return t.autograd.grad(x.copysign(other), [x], t.full((4,), bad))

    agree(program)
