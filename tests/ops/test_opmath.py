"""16-bit tensors beside numbers: computed in float32 and rounded where torch rounds, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ag_visual as ag

from ..oracle import torch

pytestmark = pytest.mark.oracle

KINDS = ("float16", "bfloat16")
SIZE = 1024
Run = Callable[[Any, Any, Any], Any]


def _f(t: Any) -> Any:
    return t.nn.functional


OPS: dict[str, Run] = {
    "sum": lambda t, x, y: (x + 0.1) - 0.7 + (0.3 - x) + (x + 4097),
    "product": lambda t, x, y: 0.9 * (x * 0.7) + x * 1e-3,
    "quotient": lambda t, x, y: x / 0.9 + 0.9 / (x.abs() + 1),
    "alpha": lambda t, x, y: t.add(x, y, alpha=0.3) + t.sub(y, 0.7, alpha=0.3),
    "rsub": lambda t, x, y: t.rsub(x, y, alpha=0.3) + t.rsub(x, 0.7, alpha=0.3),
    "power": lambda t, x, y: (x.abs() + 0.5) ** 1.1 + x**2 + x**3 + (x.abs() + 1) ** -2,
    "square root": lambda t, x, y: (x.abs() + 0.5) ** 0.5 + (x.abs() + 0.5).rsqrt(),
    "power of a number": lambda t, x, y: 1.1**x,
    "floor of a quotient": lambda t, x, y: t.div(x, 0.3, rounding_mode="floor") * x,
    "remainder": lambda t, x, y: x % 0.3 + t.fmod(x, 0.3),
    "addcmul": lambda t, x, y: t.addcmul(x, x, y),
    "addcdiv": lambda t, x, y: t.addcdiv(x, y, y.abs() + 1, value=0.3),
    "clamp": lambda t, x, y: x.clamp(-0.3, 0.7) + x.clamp_min(0.1),
    "threshold": lambda t, x, y: _f(t).threshold(x, 0.1, 0.3),
    "leaky_relu": lambda t, x, y: _f(t).leaky_relu(x, 0.1),
    "shrinks": lambda t, x, y: _f(t).softshrink(x, 0.3) + _f(t).hardshrink(x, 0.3),
    "selu": lambda t, x, y: _f(t).selu(x),
    "number of a tensor": lambda t, x, y: x * t.tensor(0.9) + x / t.tensor(0.7) + t.tensor(0.1),
    "number in front": lambda t, x, y: t.tensor(0.9) * x - t.tensor(0.3) / (y.abs() + 1),
    "comparison": lambda t, x, y: t.where(x < 0.1, x, 0.3),
    "mean of squares": lambda t, x, y: _f(t).mse_loss(x, y).expand(SIZE),
    "sum of squares": lambda t, x, y: _f(t).mse_loss(x, y, reduction="sum").expand(SIZE),
    "log2": lambda t, x, y: (x.abs() + 0.5).log2() + x.deg2rad(),
}
WRITES: dict[str, Run] = {
    "sum": lambda t, x, y: x.add_(0.1).add_(y, alpha=0.3).sub_(0.7),
    "product": lambda t, x, y: x.mul_(0.9).div_(0.7).mul_(t.tensor(0.3)),
    "power": lambda t, x, y: x.abs_().pow_(1.1),
    "addcdiv": lambda t, x, y: x.addcdiv_(y, y.abs() + 1, value=0.3),
    "leaky_relu": lambda t, x, y: _f(t).leaky_relu_(x, 0.1),
    "lists": lambda t, x, y: [
        t._foreach_mul_([x], 0.9),
        t._foreach_add_([x], [y], alpha=0.3),
        t._foreach_addcdiv_([x], [y], [y.abs() + 1], value=0.3),
        x,
    ][-1],
    "a wider tensor": lambda t, x, y: x.add_(y.float()).mul_(y.float()),
}


def _given(t: Any, kind: str) -> list[Any]:
    rng = np.random.default_rng(3)
    return [t.tensor(rng.uniform(-4, 4, SIZE).astype("f")).to(getattr(t, kind)) for _ in "xyg"]


def _bits(results: list[Any]) -> list[Any]:
    return [r if r is None else (str(r.dtype), r.detach().double().tolist()) for r in results]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients_are_torchs(name: str, kind: str) -> None:
    found = []
    for t in (ag, torch):
        x, y, g = _given(t, kind)
        x.requires_grad_()
        y.requires_grad_()
        result = OPS[name](t, x, y)
        grads = t.autograd.grad(result, (x, y), g.view(result.shape), allow_unused=True)
        found.append(_bits([result, *grads]))
    mine, other = found
    assert mine == other


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_torchs(name: str, kind: str) -> None:
    mine, other = (_bits([WRITES[name](t, *_given(t, kind)[:2])]) for t in (ag, torch))
    assert mine == other


@pytest.mark.parametrize("kind", KINDS)
def test_matrix_products_are_rounded_once(kind: str) -> None:
    # The order in which BLAS adds up changes one digit of few elements; a second rounding a fourth.
    found = []
    for t in (ag, torch):
        x, y, _ = (each.view(32, 32) for each in _given(t, kind))
        results = [_f(t).linear(x, y, y[0]), t.addmm(x, x, y, beta=0.3, alpha=0.7), x @ y]
        found.append(np.array([each.double().tolist() for each in results]))
    assert (found[0] != found[1]).mean() < 0.01
    np.testing.assert_allclose(*found, rtol=2**-7, atol=0.01)


def test_built_and_interpreted_calls_round_alike() -> None:
    for kind in KINDS:
        x, y, _ = _given(ag, kind)
        for name, run in OPS.items():
            with ag.autograd.set_detect_anomaly(True):  # every op takes the interpreted path
                slow = run(ag, x, y)
            assert _bits([run(ag, x, y)]) == _bits([slow]), name


def test_two_dtypes_are_refused_as_before() -> None:
    x = ag.ones(2, 2, dtype=ag.float16)
    with pytest.raises(RuntimeError, match="same dtype"):
        x @ x.bfloat16()
    with pytest.raises(RuntimeError, match="same dtype"):
        ag.mm(x, x.float())
