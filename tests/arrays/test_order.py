"""The first k of lines, and the one of a rank, are those of the whole order."""

from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import search

RNG = numpy.random.default_rng(0)
LINES: dict[str, Any] = {
    "distinct": RNG.normal(size=(5, 120)),
    "with ties": RNG.integers(0, 6, (5, 120)).astype("float32"),
    "all the same": numpy.zeros((3, 130)),
    "zeros of both signs": RNG.choice([0.0, -0.0, 1.0], (4, 110)),
    "infinities": RNG.choice([numpy.inf, -numpy.inf, 2.0], (4, 110)),
    "NaN": RNG.choice([numpy.nan, 1.0, 2.0], (4, 110)),
    "whole numbers": RNG.integers(-9, 9, (4, 110)),
    "bytes": RNG.integers(0, 255, (4, 110)).astype("uint8"),
    "three dimensions": RNG.integers(0, 9, (3, 130, 4)).astype("float64"),
    "by columns": numpy.asfortranarray(RNG.normal(size=(130, 110))),
    "short": RNG.normal(size=(4, 8)),
    "nothing": numpy.zeros((0, 130)),
}


@pytest.mark.parametrize("given", LINES)
def test_the_first_k(given: str) -> None:
    x = LINES[given]
    for axis in range(x.ndim):
        n = x.shape[axis]
        for largest in (True, False):
            wanted = search.order(numpy, x, axis, largest)
            for k in {0, min(1, n), min(3, n), n // 4, n}:
                found = search.leading(numpy, x, k, axis, largest)
                numpy.testing.assert_array_equal(found, wanted.take(range(k), axis))


@pytest.mark.parametrize("given", LINES)
def test_the_one_of_a_rank(given: str) -> None:
    x = LINES[given]
    for axis in range(x.ndim):
        wanted = search.order(numpy, x, axis, False)
        n = x.shape[axis]
        for rank in {0, n // 2, n - 1} if n else ():
            found = search.ranked(numpy, x, rank, axis)
            numpy.testing.assert_array_equal(found, wanted.take([rank], axis))
