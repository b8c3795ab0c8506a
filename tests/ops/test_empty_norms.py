"""Normalisation over dimensions without elements gives what torch gives: nothing, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ag_visual as ag

from ..oracle import torch

pytestmark = pytest.mark.oracle


def layer(t: Any, shape: tuple[int, ...], normalized: tuple[int, ...]) -> list[Any]:
    x = t.zeros(*shape, requires_grad=True)
    w, b = (t.ones(*normalized, requires_grad=True) for _ in range(2))
    result, mean, rstd = t.native_layer_norm(x, normalized, w, b, 1e-5)
    t.nn.functional.layer_norm(x, normalized, w, b).sum().backward()
    return [result, mean, rstd, x.grad, w.grad, b.grad]


@pytest.mark.parametrize(
    ("shape", "normalized"),
    [((2, 0), (0,)), ((2, 3, 0), (3, 0)), ((2, 0, 3), (0, 3)), ((0, 0), (0,)), ((2, 0, 3), (3,))],
)
def test_layers(shape: tuple[int, ...], normalized: tuple[int, ...]) -> None:
    for mine, other in zip(
        layer(ag, shape, normalized), layer(torch, shape, normalized), strict=True
    ):
        assert mine.shape == other.shape
        np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())


def test_layers_twice_and_in_bfloat16() -> None:
    x = ag.zeros(2, 0, requires_grad=True)
    (grad,) = ag.autograd.grad(ag.nn.functional.layer_norm(x, (0,)).sum(), x, create_graph=True)
    (again,) = ag.autograd.grad(grad.sum(), x)
    assert again.shape == (2, 0)
    narrow = ag.nn.functional.layer_norm(x.detach().bfloat16(), (0,))
    assert narrow.shape == (2, 0)
    assert narrow.dtype is ag.bfloat16


@pytest.mark.parametrize("shape", [(2, 4, 0), (2, 0, 3)])
def test_groups(shape: tuple[int, ...]) -> None:
    for t in (ag, torch):
        x = t.zeros(*shape, requires_grad=True)
        y = t.nn.functional.group_norm(x, 2)
        y.sum().backward()
        assert tuple(y.shape) == tuple(x.grad.shape) == shape
