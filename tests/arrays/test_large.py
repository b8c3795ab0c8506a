"""Kernels that take another way where arrays are large: the same numbers as torch's there, too."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from ..properties.checks import close

pytestmark = pytest.mark.oracle


def both(shapes: list[tuple[int, ...]], kind: str, move: float, call: Any) -> None:
    """Values and gradients of `call(t, *tensors)`, on tensors around `move`."""
    found = []
    for t in (ag, torch):
        rng = numpy.random.default_rng(1)
        arrays = [(rng.standard_normal(s) + move).astype(kind) for s in shapes]
        leaves = [t.tensor(a, requires_grad=True) for a in arrays]
        out = call(t, *leaves)
        g = numpy.random.default_rng(2).standard_normal(tuple(out.shape)).astype(kind)
        out.backward(t.from_numpy(g))
        found.append([out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)])
    for mine, other in zip(*found, strict=True):
        size = float(numpy.abs(other).max())
        tolerance = 1e-11 if kind == "float64" else 1e-5 * max(1.0, abs(move))
        close(mine / size, other / size, "large", 0, tolerance)


KINDS = pytest.mark.parametrize("kind", ["float32", "float64"])


@KINDS
@pytest.mark.parametrize("move", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
def test_layer_norm(kind: str, move: float, affine: str) -> None:
    """Means near 0 beside the deviations, and far away from it."""
    rest = {"both": [(256,), (256,)], "weight": [(256,)], "none": []}[affine]
    both(
        [(33, 9, 256), *rest],
        kind,
        move,
        lambda t, x, *p: t.nn.functional.layer_norm(x, (256,), *p),
    )


@KINDS
@pytest.mark.parametrize("move", [0.0, 300.0])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(kind: str, move: float, name: str) -> None:
    """Exponentials as they are, and shifted because they would overflow."""
    both([(32, 20, 128)], kind, move, lambda t, x: getattr(t, name)(x, -1))


@KINDS
@pytest.mark.parametrize("added", [0.0, -50.0])
def test_attention(kind: str, added: float) -> None:
    """Exponentials as they are, and shifted because their sums would be too small."""

    def attend(t: Any, *leaves: Any) -> Any:
        mask = t.full((65, 65), added, dtype=leaves[0].dtype)
        return t.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=mask)

    both([(4, 4, 65, 32)] * 3, kind, 0.0, attend)


@KINDS
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(231, 41), (90, 203)])
def test_interpolate(kind: str, mode: str, size: tuple[int, int]) -> None:
    """More than 64 pixels a side: taps one by one instead of a product with their matrix."""
    both(
        [(1, 2, 100, 90)],
        kind,
        0.0,
        lambda t, x: t.nn.functional.interpolate(x, size, mode=mode),
    )


def test_rows_that_no_power_of_two_divides() -> None:
    both([(1023, 100)], "float64", 0.0, lambda t, x: t.nn.functional.layer_norm(x, (100,)))
