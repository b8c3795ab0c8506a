"""Higher derivatives of functions made of pieces: zero between non-smooth points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual
from tests.programs import agree

POINTS = numpy.array([-7.0, -3.0, -2.0, -0.5, -0.3, 0.0, 0.2, 0.5, 1.0, 3.0, 4.0, 6.0])

PIECES: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda t, x: t.relu(x),
    "relu6": lambda t, x: t.nn.functional.relu6(x),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "hardswish": lambda t, x: t.nn.functional.hardswish(x),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x),
    "rrelu": lambda t, x: t.nn.functional.rrelu(x),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.5, 2.0),
    "hardshrink": lambda t, x: t.nn.functional.hardshrink(x),
    "softshrink": lambda t, x: t.nn.functional.softshrink(x),
    "prelu": lambda t, x: t.nn.functional.prelu(x, t.tensor([0.3], dtype=t.float64)),
    "elu": lambda t, x: t.nn.functional.elu(x, 1.3),
    "selu": lambda t, x: t.selu(x),
    "celu": lambda t, x: t.celu(x, 1.3),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x.reshape(4, 3), t.tensor([0, 1, 2, 0])),
    "square": lambda t, x: t.square(x),
    "pow": lambda t, x: x**2,
}


def derivatives(t: Any, function: Callable[[Any, Any], Any], order: int) -> list[Any]:
    """What requires grad and the values of the derivatives up to an order."""
    x = t.tensor(POINTS, requires_grad=True)
    total, seen = function(t, x).sum(), []
    for _ in range(order):
        (g,) = t.autograd.grad(total, x, create_graph=True)
        seen += [g.requires_grad, g]
        total = (g * t.arange(1.0, 13.0, dtype=t.float64)).sum()
    return seen


@pytest.mark.parametrize("name", PIECES)
def test_second_derivatives_are_torchs(name: str) -> None:
    agree(lambda t: derivatives(t, PIECES[name], 2))


def test_the_third_derivative_of_a_square_is_zero() -> None:
    seen = derivatives(ag_visual, PIECES["pow"], 3)
    assert seen[-1].tolist() == [0.0] * 12
    agree(lambda t: derivatives(t, PIECES["pow"], 3))


def test_hardsigmoid_has_the_second_derivative_that_torch_refuses() -> None:
    seen = derivatives(ag_visual, lambda t, x: t.nn.functional.hardsigmoid(x), 2)
    assert seen[0]
    assert seen[-1].tolist() == [0.0] * 12
    assert (
        "HardsigmoidBackwardBackward0"
        in derivatives(ag_visual, lambda t, x: t.nn.functional.hardsigmoid(x), 1)[1].grad_fn.name()
    )


def test_prelu_carries_the_weight_into_the_second_derivative() -> None:
    def program(t: Any) -> Any:
        x = t.tensor(POINTS, requires_grad=True)
        weight = t.tensor([0.3], dtype=t.float64, requires_grad=True)
        (g,) = t.autograd.grad(t.nn.functional.prelu(x, weight).pow(3).sum(), x, create_graph=True)
        return t.autograd.grad(g.pow(2).sum(), (x, weight))

    agree(program)


@pytest.mark.parametrize("dim", [(), (1,)], ids=["whole", "along a dim"])
@pytest.mark.parametrize("zero", [0.0, 2.0])
def test_a_product_of_one_number_has_a_gradient_without_history_at_zero(
    zero: float, dim: tuple[int, ...]
) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([[zero]], requires_grad=True)
        (g,) = t.autograd.grad(x.prod(*dim).sum() + x.sum(), [x], create_graph=True)
        return [g.clone().requires_grad, g]

    agree(program, [zero != 0.0, [[2.0]]])
