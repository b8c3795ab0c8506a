"""Choosing by bits against NumPy's own `where`, bit by bit."""

from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import choice

FLOATS = [0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), -float("inf"), 1e300, 3, -7]


def arrays(dtype: str, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    rng = numpy.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    for each in (x, y):
        wild = rng.integers(0, each.size, 40)
        each.reshape(-1)[wild] = numpy.resize([numpy.nan, numpy.inf, -numpy.inf, -0.0], 40)
    return rng.random(shape) < 0.4, x, y


def same(condition: Any, a: Any, b: Any) -> None:
    with numpy.errstate(all="ignore"):
        found, wanted = choice.where(numpy, condition, a, b), numpy.where(condition, a, b)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "complex64"])
def test_bits_of_arrays_and_numbers(dtype: str) -> None:
    for shape in ((7,), (300,), (70, 80), (40, 1000)):  # of the last, several parts
        condition, x, y = arrays(dtype, shape) if dtype != "int64" else arrays("float64", shape)
        if dtype == "int64":
            x, y = (numpy.nan_to_num(each * 9).astype(dtype) for each in (x, y))
        same(condition, x, y)
        for number in FLOATS if dtype != "int64" else (0, 5, 2.5, True):
            same(condition, x, number)
            same(condition, number, y)
        same(condition, x, numpy.asarray(2, dtype))
        same(condition, numpy.zeros((), dtype), y)


def test_other_layouts_and_types_are_left_to_numpy() -> None:
    condition, x, y = arrays("float32", (64, 128))
    same(condition.T, x.T, y.T)
    same(condition[:, ::2], x[:, ::2], y[:, ::2])
    same(condition, x[:1], y)
    same(condition[:1], x, y)
    same(condition[:, :1], x, 0.0)
    same(condition, x, y.astype("float64"))
    same(condition, x.astype("float64"), y[0, 0])
    same(condition, 1.0, 0.0)
    same(condition.astype("int8"), x, y)


def test_the_result_is_its_own() -> None:
    condition, x, y = arrays("float32", (64, 128))
    before = x.tobytes(), y.tobytes()
    choice.where(numpy, condition, x, y)[...] = 7
    assert (x.tobytes(), y.tobytes()) == before
