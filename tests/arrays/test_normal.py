"""The normal distribution function in float32 against SciPy's in float64."""

from __future__ import annotations

import numpy
import pytest
import scipy.special

from ag_visual.arrays.kernels import activation, normal


def given() -> numpy.ndarray:
    x = numpy.random.default_rng(0).normal(size=(130, 140)).astype(numpy.float32) * 3
    x[0, :6] = 0.0, -0.0, 1e-30, -12.0, 30.0, numpy.nan
    return x


ORDERS = {
    "rows": lambda x: x,
    "columns": lambda x: x.T,
    "every second": lambda x: x[:, ::2],
    "backwards": lambda x: x[::-1],
    "three dimensions": lambda x: x.reshape(10, 13, 140).transpose(2, 0, 1),
    "one number": lambda x: x[1, 1:2].reshape(()),
}


@pytest.mark.parametrize("order", ORDERS)
def test_values_and_slopes(order: str) -> None:
    x = ORDERS[order](given())
    wide = x.astype(numpy.float64)
    below = scipy.special.ndtr(wide)
    density = numpy.exp(-wide * wide / 2) / numpy.sqrt(2 * numpy.pi)
    found = activation.gelu(numpy, x)
    assert found.dtype == x.dtype
    assert found.strides == numpy.empty_like(x).strides
    numpy.testing.assert_allclose(found, wide * below, rtol=1e-6, atol=2e-7)
    assert numpy.array_equal(numpy.signbit(found[x == 0]), numpy.signbit(x[x == 0]))
    slope = activation.gelu_backward(numpy, numpy.ones_like(x), x)
    numpy.testing.assert_allclose(slope, below + wide * density, rtol=1e-6, atol=4e-7)


def test_the_lower_tail_keeps_its_digits() -> None:
    x = numpy.linspace(-6, 0, 5000, dtype=numpy.float32)
    wide = x.astype(numpy.float64)
    numpy.testing.assert_allclose(normal.gelu(x), wide * scipy.special.ndtr(wide), rtol=4e-6)


def test_the_result_of_an_expanded_array_is_row_major() -> None:
    x = numpy.broadcast_to(numpy.array([1.0, 2.0], "float32"), (2, 2))
    for function in (normal.gelu, normal.gelu_slope):
        assert function(x).flags.c_contiguous
        assert function(x).tolist() == function(x.copy()).tolist()
