"""Activations of 16-bit floats are computed in float32 and rounded once, as torch does."""

from __future__ import annotations

import numpy as np
import pytest

import ag_visual as ag

from ..oracle import torch

pytestmark = pytest.mark.oracle

# Spacing of the numbers next to 1.
SPACING = {"float16": 2**-10, "bfloat16": 2**-7}
NAMES = [
    "tanh", "sigmoid", "logsigmoid", "elu", "selu", "celu", "softplus", "silu", "mish",
    "hardsigmoid", "hardswish", "tanhshrink",
]  # fmt: skip


@pytest.mark.parametrize("kind", SPACING)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_torchs_where_they_saturate(name: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    points, above = (a.astype("f") for a in (rng.uniform(-7, 7, 3000), rng.standard_normal(3000)))
    found = []
    for t in (ag, torch):
        dtype = getattr(t, kind)
        x = t.tensor(points).to(dtype).requires_grad_()
        y = getattr(t.nn.functional, name)(x)
        (grad,) = t.autograd.grad(y, x, t.tensor(above).to(dtype))
        assert y.dtype is dtype
        assert grad.dtype is dtype
        found.append([each.detach().double().numpy() for each in (y, grad)])
    # torch takes float16 itself between the factors of sigmoid's gradient.
    steps = 4 if (name, kind) == ("sigmoid", "float16") else 1
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=steps * SPACING[kind], atol=1e-6)


@pytest.mark.parametrize("kind", SPACING)
def test_sinc_is_torchs(kind: str) -> None:
    points = np.random.default_rng(0).uniform(-9, 9, 3000).astype("f")
    mine, other = (
        t.sinc(t.tensor(points).to(getattr(t, kind))).double().numpy() for t in (ag, torch)
    )
    np.testing.assert_allclose(mine, other, rtol=SPACING[kind], atol=1e-6)


@pytest.mark.parametrize("kind", SPACING)
def test_a_number_alone_keeps_its_type(kind: str) -> None:
    x = ag.tensor(1.5).to(getattr(ag, kind)).requires_grad_()
    for name in NAMES:
        (grad,) = ag.autograd.grad(getattr(ag.nn.functional, name)(x), x)
        assert grad.dtype is x.dtype
        assert grad.shape == ()


@pytest.mark.parametrize("kind", SPACING)
def test_logcumsumexp_is_torchs_and_its_gradient_that_of_wider_numbers(kind: str) -> None:
    """Of large numbers, whose 16-bit differences of logarithms have no digits."""
    rng = np.random.default_rng(0)
    points, above = (rng.standard_normal((300, 8)) * 100).round(2), rng.integers(-3, 4, (300, 8))
    x, g = (ag.tensor(each.tolist()).to(getattr(ag, kind)) for each in (points, above))
    theirs = torch.tensor(points.tolist()).to(getattr(torch, kind)).logcumsumexp(1)
    assert x.logcumsumexp(1).tolist() == theirs.tolist()
    scan = lambda x: x.logcumsumexp(1)  # noqa: E731
    for derivative in (
        lambda x, g: ag.func.vjp(scan, x)[1](g)[0],
        lambda x, g: ag.func.jvp(scan, (x,), (g,))[1],
    ):
        found, expected = derivative(x, g), derivative(x.double(), g.double())
        assert found.dtype is x.dtype
        np.testing.assert_allclose(
            found.double().numpy(), expected.numpy(), rtol=SPACING[kind], atol=1e-4
        )
