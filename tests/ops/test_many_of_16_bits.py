"""Sums of more 16-bit floats than their digits can count one by one: 256 ones, or 2048."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag

KINDS = ("float16", "bfloat16")
MANY = 4096  # of which both kinds have a number
F = ag.nn.functional


def _grad(made: Callable[[Any], Any], shape: tuple[int, ...], start: float, dtype: Any) -> Any:
    leaf = ag.full(shape, start, dtype=dtype, requires_grad=True)
    made(leaf).sum().backward()
    return leaf.grad


FIRST = ag.zeros(MANY, dtype=ag.int64)

GRADIENTS: dict[str, tuple[tuple[int, ...], float, Callable[[Any], Any]]] = {
    "a factor of all": ((), 1.0, lambda w: w * w.new_ones(MANY)),
    "a factor of rows": ((8,), 1.0, lambda w: w * w.new_ones(MANY, 8)),
    "expand": ((1,), 1.0, lambda w: w.expand(MANY)),
    "a bias": ((1,), 0.0, lambda w: F.linear(w.new_ones(MANY, 1), w.new_ones(1, 1), w)),
    "a bias of eight": ((8,), 0.0, lambda w: F.linear(w.new_ones(MANY, 1), w.new_ones(8, 1), w)),
    "a bias of images": (
        (1,),
        0.0,
        lambda w: F.conv1d(w.new_ones(1, 1, MANY), w.new_ones(1, 1, 1), w),
    ),
    "prelu": ((1,), 0.5, lambda w: F.prelu(-w.new_ones(MANY, 1), w)),
    "an index": ((1,), 1.0, lambda w: w[FIRST]),
    "gather": ((1,), 1.0, lambda w: w.gather(0, FIRST)),
    "an embedding": ((1, 1), 1.0, lambda w: F.embedding(FIRST, w)),
    "repeat": ((1,), 1.0, lambda w: w.repeat(MANY)),
    "repeat_interleave": ((1,), 1.0, lambda w: w.repeat_interleave(MANY)),
    "as_strided": ((1,), 1.0, lambda w: w.as_strided((MANY,), (0,))),
    "interpolate": ((1, 1, 1), 1.0, lambda w: F.interpolate(w, size=MANY)),
    "batch_norm": (
        (1,),
        1.0,
        lambda w: F.batch_norm(w.new_ones(MANY, 1), w.new_zeros(1), w.new_ones(1), None, w),
    ),
    "layer_norm": ((1,), 1.0, lambda w: F.layer_norm(w.new_zeros(MANY, 1), (1,), None, w)),
    "where": ((), 0.0, lambda w: ag.where(w.new_ones(MANY) > 0, w, 1.0)),
}
SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x[:, None].expand(MANY, 8).clone().sum(0),
    "sum of columns": lambda x: x.expand(8, MANY).clone().sum(1),
    "index_add": lambda x: x.new_zeros(1).index_add(0, FIRST, x),
    "scatter_add": lambda x: x.new_zeros(1).scatter_add(0, FIRST, x),
    "index_put": lambda x: x.new_zeros(1).index_put((FIRST,), x, accumulate=True),
    "put_": lambda x: x.new_zeros(1).put_(FIRST, x, accumulate=True),
    "mse_loss": lambda x: F.mse_loss(x, 0 * x, reduction="sum"),
    "mean of mse_loss": lambda x: F.mse_loss(x, 0 * x) * MANY,
    "huber_loss": lambda x: F.huber_loss(x, 0 * x, reduction="sum") * 2,
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, 0 * x) * MANY * 2,
    "mean of nll_loss beside what is ignored": lambda x: (
        -F.nll_loss(x[:, None].expand(MANY, 2), FIRST, ignore_index=1) * MANY
    ),
    "mean of nll_loss with weights": lambda x: (
        -F.nll_loss(x[:, None], FIRST, x[:1].detach().clone()) * MANY
    ),
    "mean of nll_loss of images": lambda x: (
        -F.nll_loss(x.reshape(1, 1, -1), FIRST[None], x[:1].detach().clone()) * MANY
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_count_all(name: str, kind: str) -> None:
    shape, start, made = GRADIENTS[name]
    found = _grad(made, shape, start, getattr(ag, kind))
    assert found.double().abs().flatten().tolist() == [float(MANY)] * found.numel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SUMS)
def test_sums_count_all(name: str, kind: str) -> None:
    found = SUMS[name](ag.ones(MANY, dtype=getattr(ag, kind)))
    assert found.double().flatten().tolist() == [float(MANY)] * found.numel()
