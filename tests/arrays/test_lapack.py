"""Factors and solutions of many small matrices at once, against SciPy's one by one."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import scipy.linalg

from ag_visual.arrays.kernels import lapack

COUNT = 60


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    rng = numpy.random.default_rng(0)
    found = rng.normal(size=shape)
    return (found + 1j * rng.normal(size=shape) if dtype == "complex128" else found).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (1, 1)])
def test_factors(shape: tuple[int, int], dtype: str) -> None:
    a = numbers((COUNT, *shape), dtype)
    given = a.copy()
    lu, pivots, info = lapack.lu_factor(numpy, a)
    assert numpy.array_equal(a, given)
    assert not info.any()
    for one, found, swaps in zip(a, lu, pivots, strict=True):
        expected, order = scipy.linalg.lu_factor(one)
        assert (swaps - 1).tolist() == order.tolist()
        rtol = 1e-2 if dtype == "float32" else 1e-9
        numpy.testing.assert_allclose(found, expected, rtol=rtol)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("size", [1, 3, 8, 9])
@pytest.mark.parametrize("columns", [1, 3, 9])
def test_solutions(size: int, columns: int, dtype: str) -> None:
    a = numbers((COUNT, size, size), dtype) + 3 * numpy.eye(size)
    b = numbers((COUNT, size, columns), dtype)
    given = b.copy()
    lu, pivots, _ = lapack.lu_factor(numpy, a)
    for transpose, system in enumerate((a, a.swapaxes(1, 2), a.conj().swapaxes(1, 2))):
        x = lapack.lu_solve(numpy, lu, pivots, b, transpose)
        numpy.testing.assert_allclose(system @ x, b, rtol=1e-8, atol=1e-8)
    for upper in (True, False):
        x = lapack.solve_triangular(numpy, a, b, upper=upper)
        half = numpy.triu(a) if upper else numpy.tril(a)
        expected = [scipy.linalg.solve(one, right) for one, right in zip(half, b, strict=True)]
        numpy.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-8)
    assert numpy.array_equal(b, given)


def test_where_elimination_finds_no_pivot() -> None:
    a = numbers((COUNT, 3, 3), "float64")
    a[5] = 0
    a[7, 0] = numpy.nan
    _, _, info = lapack.lu_factor(numpy, a)
    assert info[5] == 1
    assert not info[[0, 1, 2, 3, 4, 6, 7, 8]].any()
