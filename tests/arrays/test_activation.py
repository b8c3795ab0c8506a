"""Stable elementwise formulas against torch's, also far out, on every array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import activation

from ..oracle import torch
from .compare import agree, random_array, theirs

FAR = [0.0, -0.0, 1e-9, -1e-9, 20.0, -20.0, 90.0, -90.0, 800.0, -800.0, numpy.inf, -numpy.inf]


def points(dtype: str) -> Any:
    near = random_array((50,), "float64") * 3
    return numpy.concatenate([near, FAR, [numpy.nan]]).astype(dtype)


FUNCTIONS: dict[str, Any] = {
    "sigmoid": lambda x: torch.sigmoid(x),
    "log_sigmoid": lambda x: torch.nn.functional.logsigmoid(x),
    "softplus": lambda x: torch.nn.functional.softplus(x),
    "erf": lambda x: torch.erf(x),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_torchs(run: Callable[..., Any], name: str, dtype: str) -> None:
    x = points(dtype)
    agree(run(getattr(activation, name), x), FUNCTIONS[name](theirs(x)))
    scalar = numpy.asarray(0.5, dtype)
    agree(run(getattr(activation, name), scalar), FUNCTIONS[name](theirs(scalar)))


def test_sigmoid_keeps_its_relative_precision_far_below_zero(run: Callable[..., Any]) -> None:
    x = numpy.array([-30.0, -80.0])
    numpy.testing.assert_allclose(run(activation.sigmoid, x), numpy.exp(x), rtol=1e-12)


def test_sigmoid_of_complex_numbers_is_torchs(run: Callable[..., Any]) -> None:
    x = random_array((9,), "complex128")
    agree(run(activation.sigmoid, x), torch.sigmoid(theirs(x)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_and_its_gradient_are_torchs(
    run: Callable[..., Any], approximate: str, dtype: str
) -> None:
    x = random_array((40,), dtype) * numpy.asarray(3, dtype)
    leaf = theirs(x).requires_grad_()
    wanted = torch.nn.functional.gelu(leaf, approximate=approximate)
    agree(run(activation.gelu, x, approximate), wanted)
    g = random_array((40,), dtype, seed=1)
    (grad,) = torch.autograd.grad(wanted, leaf, theirs(g))
    agree(run(activation.gelu_backward, g, x, approximate), grad)


def test_softplus_is_the_identity_beyond_its_threshold(run: Callable[..., Any]) -> None:
    x = numpy.array([1.0, 2.0, 3.0])
    found = run(activation.softplus, x, 2.0, 3.0)
    agree(found, torch.nn.functional.softplus(theirs(x), 2.0, 3.0))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_many_numbers_are_compared_with_zero_as_a_few_are(kind: str) -> None:
    odd = [numpy.nan, -numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, -1e-40, 1.5, -1.5]
    for size in (activation._LONG - 1, activation._LONG, activation._LONG + 5000):
        x = numpy.resize(numpy.array(odd, kind), size)
        found = activation.positive_part(numpy, x)
        assert found.tobytes() == numpy.maximum(numpy.zeros((), kind), x).tobytes()
