"""Tensors without dimensions where a function takes a number: their value, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import agree, raised


def made(t: Any, *shape: int) -> Any:
    """1/7, 2/7, ... in a shape, requiring grad."""
    count = int(numpy.prod(shape))
    return t.tensor(numpy.arange(1.0, 1 + count).reshape(shape) / 7, requires_grad=True)


# Functions of (t, number) that torch gives a number's meaning, whatever it came in.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "addmm alpha": lambda t, s: t.addmm(made(t, 2, 2), made(t, 2, 3), made(t, 3, 2), alpha=s),
    "addmm beta": lambda t, s: t.addmm(made(t, 2, 2), made(t, 2, 3), made(t, 3, 2), beta=s),
    "addmm_": lambda t, s: (made(t, 2, 2) * 1).addmm_(made(t, 2, 3), made(t, 3, 2), alpha=s),
    "addmv": lambda t, s: t.addmv(made(t, 2), made(t, 2, 3), made(t, 3), alpha=s, beta=s),
    "addr": lambda t, s: t.addr(made(t, 2), made(t, 2), made(t, 2), alpha=s, beta=s),
    "addbmm": lambda t, s: t.addbmm(made(t, 2, 2), made(t, 1, 2, 3), made(t, 1, 3, 2), beta=s),
    "baddbmm": lambda t, s: t.baddbmm(
        made(t, 1, 2, 2), made(t, 1, 2, 3), made(t, 1, 3, 2), alpha=s
    ),
    "addcmul": lambda t, s: t.addcmul(made(t, 2), made(t, 2), made(t, 2), value=s),
    "addcdiv": lambda t, s: t.addcdiv(made(t, 2), made(t, 2), made(t, 2), value=s),
    "add_": lambda t, s: (made(t, 2) * 1).add_(made(t, 2), alpha=s),
    "rsub": lambda t, s: t.rsub(made(t, 2), made(t, 2), alpha=s),
    "index_add": lambda t, s: t.index_add(made(t, 2), 0, t.tensor([0]), made(t, 1), alpha=s),
    "clamp": lambda t, s: t.clamp(made(t, 2), s, 3.0),
    "leaky_relu": lambda t, s: t.nn.functional.leaky_relu(made(t, 2) - 1, s),
    "elu": lambda t, s: t.nn.functional.elu(made(t, 2) - 1, s),
    "celu": lambda t, s: t.nn.functional.celu(made(t, 2) - 1, s),
    "softplus": lambda t, s: t.nn.functional.softplus(made(t, 2), s),
    "threshold": lambda t, s: t.nn.functional.threshold(made(t, 2), 0.2, s),
    "hardtanh": lambda t, s: t.nn.functional.hardtanh(made(t, 2), -1.0, s),
    "hardshrink": lambda t, s: t.nn.functional.hardshrink(made(t, 2) * 9, s),
    "softshrink": lambda t, s: t.nn.functional.softshrink(made(t, 2) * 9, s),
    "nan_to_num": lambda t, s: t.nan_to_num(made(t, 2), s),
    "huber_loss": lambda t, s: t.nn.functional.huber_loss(made(t, 2), made(t, 2) * 9, delta=s),
    "layer_norm": lambda t, s: t.nn.functional.layer_norm(made(t, 2, 2), (2,), eps=s),
    "margin": lambda t, s: t.nn.functional.margin_ranking_loss(
        made(t, 2), made(t, 2) * 2, t.ones(2, dtype=t.float64), margin=s
    ),
    "cdist": lambda t, s: t.cdist(made(t, 2, 2), made(t, 3, 2) * 2, p=s),
    "vector_norm": lambda t, s: t.linalg.vector_norm(made(t, 3), ord=s),
    "std": lambda t, s: t.std(made(t, 4), correction=s),
    "logit": lambda t, s: t.logit(made(t, 3), eps=s / 10),
    "attention": lambda t, s: t.nn.functional.scaled_dot_product_attention(
        made(t, 1, 2, 2), made(t, 1, 2, 2), made(t, 1, 2, 2), scale=s
    ),
    "full": lambda t, s: t.full((2,), s) * made(t, 2),
    "arange": lambda t, s: t.arange(s) * made(t, 1),
}
# Those in which torch computes with the tensor.
LEARNED: dict[str, Callable[[Any, Any], Any]] = {
    "normalize": lambda t, s: t.nn.functional.normalize(made(t, 2, 2), eps=s),
    "gaussian_nll_loss": lambda t, s: t.nn.functional.gaussian_nll_loss(
        made(t, 2), made(t, 2) * 2, made(t, 2), eps=s
    ),
    "clamp": lambda t, s: t.clamp(made(t, 2), s, s * 2),
    "linspace": lambda t, s: t.linspace(s, 3, 2) * made(t, 2),
}


def gradient(t: Any, call: Callable[[Any, Any], Any], number: Any) -> Any:
    out = call(t, number)
    out.sum().backward()
    return out


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_without_dimensions_is_its_number(name: str) -> None:
    def program(t: Any) -> Any:
        out = gradient(t, CALLS[name], t.tensor(1.0, dtype=t.float64))
        return [out, out.grad_fn.name().rstrip("0123456789")]

    agree(program)
    number = gradient(ag_visual, CALLS[name], 1.0).detach().numpy()
    tensor = gradient(ag_visual, CALLS[name], ag_visual.tensor(1.0)).detach().numpy()
    numpy.testing.assert_allclose(tensor, number, rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_one_that_requires_grad_is_refused(name: str) -> None:
    kind, text = raised(lambda: CALLS[name](ag_visual, ag_visual.tensor(1.0, requires_grad=True)))
    assert kind == "TypeError"
    assert "must be Number, not Tensor" in text
    assert "pass its .item() or .detach()" in text
    if torch.__version__:
        assert raised(lambda: CALLS[name](torch, torch.tensor(1.0, requires_grad=True)))[0] == kind


@pytest.mark.parametrize("name", LEARNED)
def test_some_numbers_may_be_learned(name: str) -> None:
    def program(t: Any) -> Any:
        number = t.tensor(1.0, dtype=t.float64, requires_grad=True)
        out = gradient(t, LEARNED[name], number)
        return [out, number.grad is None or number.grad]

    agree(program)


def test_a_number_of_another_kind_is_named() -> None:
    def program(t: Any) -> Any:
        return raised(lambda: t.nn.functional.leaky_relu(made(t, 2), "0.1"))

    agree(program)


@pytest.mark.oracle
def test_copysign_with_a_number_is_a_node_of_its_own() -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([1.0, -2.0, 0.0], requires_grad=True)
        y, z, w = x.copysign(-1), x * 1, x * 1
        z.copysign_(-1.0)
        w.copysign_(x.detach())
        nodes = [type(each.grad_fn).__name__ for each in (y, z, w, x.copysign(x))]
        return [nodes, len(y.grad_fn.next_functions), torch.autograd.grad(y.sum(), x), y, z, w]

    agree(program)
