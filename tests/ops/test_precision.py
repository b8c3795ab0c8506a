"""Reductions and normalisations in float32 keep the digits that torch's keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree

RNG = numpy.random.default_rng(0)
WIDE = RNG.random((2, 300_001)).astype("f")
TALL = RNG.random((60_000, 5)).astype("f")
FAR = (1e4 + RNG.standard_normal((2000, 40))).astype("f")
IMAGES = RNG.random((64, 3, 30, 30)).astype("f")
CASES: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "layer_norm": (WIDE, lambda t, x: t.nn.functional.layer_norm(x, (x.shape[1],))),
    "group_norm": (WIDE, lambda t, x: t.nn.functional.group_norm(x[:, None], 1)),
    "softmax": (WIDE, lambda t, x: t.softmax(x, 1)),
    "log_softmax": (WIDE, lambda t, x: t.log_softmax(x, 1)),
    "sum of a dim": (TALL, lambda t, x: x.sum(0)),
    "mean of a dim": (TALL, lambda t, x: x.mean(0)),
    "mean of two": (IMAGES, lambda t, x: x.mean((0, 2))),
    "mean of the first": (IMAGES, lambda t, x: x.mean((0, 1), keepdim=True)),
    "var of a dim": (TALL, lambda t, x: x.var(0)),
    "var": (FAR, lambda t, x: x.var(1)),
    "var of rows": (FAR, lambda t, x: x.var(0, keepdim=True)),
    "var of few": (FAR[:30], lambda t, x: x.var(0)),
    "std": (FAR, lambda t, x: x.std()),
    "batch_norm": (
        TALL,
        lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
    ),
    "cumsum": (TALL, lambda t, x: x.cumsum(0)),
    "cumprod": (1 + TALL / 1e4, lambda t, x: x.cumprod(0)),
    "logcumsumexp": (TALL[:2000], lambda t, x: x.logcumsumexp(0)),
    "gradient of a bias": (
        TALL,
        lambda t, x: t.autograd.grad(
            [t.zeros(x.shape) + (b := t.zeros(5, requires_grad=True))], b, x
        )[0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_as_many_digits_as_torch(name: str) -> None:
    array, function = CASES[name]

    def error(t: Any) -> float:
        exact = function(t, t.tensor(array.astype("d"))).numpy().astype("d")
        found = function(t, t.tensor(array)).numpy()
        assert found.dtype == numpy.float32
        return float(abs(found - exact).max() / abs(exact).max())

    ours = error(ag)
    theirs = error(torch) if torch.__version__ else 0.0
    # A few units in the last place at most, where torch has less.
    assert ours <= max(4 * theirs, 6e-7), (ours, theirs)


def test_certain_outcomes() -> None:
    def program(t: Any) -> Any:
        F = t.nn.functional
        x = t.tensor([[11.0, 0, -11], [0.3, 0.1, -0.2], [25, -3, 2], [-0.7, -80, -90]])
        one = t.tensor([-0.7, 0.1, 3.3])[:, None]
        return [
            F.log_softmax(one, 1),
            F.softmax(one, 1),
            F.log_softmax(x.t(), 0)[:, 3],
            F.log_softmax(t.tensor(-0.7), -1),
        ]

    agree(program)
    for x in ([11.0, 0, -11], [3.0, -9, -9], [20.0, 1, 2]):
        found = ag.nn.functional.cross_entropy(ag.tensor([x]), ag.tensor([0])).item()
        exact = numpy.log1p(numpy.exp(numpy.array(x[1:]) - x[0]).sum())
        assert abs(found - exact) < 7e-8, x


def test_likely_rows_among_others() -> None:
    x = RNG.standard_normal((200, 10)).astype("f") * 3
    x[::7, 3] += 12
    found = ag.log_softmax(ag.tensor(x), 1).numpy()
    wide = x.astype("d")
    exact = wide - numpy.log(numpy.exp(wide).sum(1, keepdims=True))
    assert (abs(found - exact) <= 1e-6 * numpy.maximum(abs(exact), 0.2)).all()
