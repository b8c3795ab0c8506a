"""Ops in bfloat16 stay in it: NumPy widens products, and those with a Python float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from tests.arrays.strict import STRICT

F = ag.nn.functional

PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda x, w: x @ w,
    "mv": lambda x, w: x @ w[:, 0],
    "vector times matrix": lambda x, w: x[0] @ w,
    "bmm": lambda x, w: x[None].bmm(w[None]),
    "batch times matrix": lambda x, w: x[None] @ w,
    "addmm": lambda x, w: ag.addmm(w[0], x, w, beta=0.5, alpha=2),
    "linear": lambda x, w: F.linear(x, w.t(), w[0]),
    "einsum": lambda x, w: ag.einsum("ij,jk->ki", x, w),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bfloat16_stay_in_it(name: str) -> None:
    values = [np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(0, 1, 8).reshape(4, 2)]
    found = {}
    for dtype in (ag.float32, ag.bfloat16):
        x, w = (ag.tensor(v).to(dtype).requires_grad_() for v in values)
        y = PRODUCTS[name](x, w)
        assert y.dtype is dtype
        y.float().sin().sum().backward()
        grads = [g for g in (x.grad, w.grad) if g is not None]
        assert all(g.dtype is dtype for g in grads)
        found[dtype] = [y.detach().float().numpy(), *(g.float().numpy() for g in grads)]
    for rough, exact in zip(found[ag.bfloat16], found[ag.float32], strict=True):
        np.testing.assert_allclose(rough, exact, rtol=0.05, atol=0.05)


WITH_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x.add(x, alpha=0.5),
    "lerp": lambda x: x.lerp(x * 2, 0.3),
    "elu": lambda x: F.elu(-x, 0.5),
    "addcmul": lambda x: ag.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: ag.addcdiv(x, x, x * 2, value=0.5),
    "hardswish": lambda x: F.hardswish(x),
    "leaky_relu": lambda x: F.leaky_relu(-x, 0.1),
    "selu": lambda x: F.selu(-x),
    "huber": lambda x: F.huber_loss(x, x.detach() * 2),
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_bfloat16_and_python_numbers_stay_in_it(name: str) -> None:
    found = []
    for dtype in (ag.float32, ag.bfloat16):
        x = ag.linspace(0.5, 2.0, 6).reshape(2, 3).to(dtype).requires_grad_()
        y = WITH_NUMBERS[name](x)
        assert y.dtype is dtype
        y.sum().backward()
        found.append((y.detach().float().numpy(), x.grad.float().numpy()))
    for rough, exact in zip(*found[::-1], strict=True):
        np.testing.assert_allclose(rough, exact, rtol=0.05, atol=0.05)


def at(x: Any, places: Any) -> Any:
    return ag.tensor(places, device=x.device)


PLACES: dict[str, Callable[[Any], Any]] = {
    "embedding_bag, max": lambda x: F.embedding_bag(at(x, [[0, 1], [2, 2]]), x, mode="max"),
    "scatter_reduce, prod": lambda x: x.scatter_reduce(0, at(x, [[2, 1, 1]]), x[:1], "prod"),
    "scatter_reduce, prod of others": lambda x: x.scatter_reduce(
        0, at(x, [[0, 1, 1]]), x[:1], "prod", include_self=False
    ),
    "index_reduce, prod": lambda x: x.index_reduce(0, at(x, [1]), x[:1], "prod"),
    "where": lambda x: ag.where(x > 1, x, 0.5),
    "where of two": lambda x: ag.where(x > 1, x, x * 2),
}


@pytest.mark.parametrize("device", ["cpu", STRICT.device_type])
@pytest.mark.parametrize("name", PLACES)
def test_gradients_at_places_stay_in_bfloat16(name: str, device: str) -> None:
    found = []
    for dtype in (ag.float32, ag.bfloat16):
        x = ag.tensor([[0.0, 2.0, 1.0], [1.5, 0.5, 0.0], [3.0, -1.0, 0.25]]).to(dtype).to(device)
        x.requires_grad_()
        y = PLACES[name](x)
        y.sum().backward()
        assert (y.dtype, x.grad.dtype) == (dtype, dtype)
        found.append([each.detach().cpu().float().numpy() for each in (y, x.grad)])
    for rough, exact in zip(*found[::-1], strict=True):
        np.testing.assert_allclose(rough, exact, rtol=0.05, atol=0.05)
