"""Products at positions that occur many times, by halving runs."""

from __future__ import annotations

import numpy
import pytest

from ag_visual.arrays.kernels.runs import multiply_at


@pytest.mark.parametrize(("count", "places"), [(1000, 1), (1000, 7), (1000, 900), (0, 3), (1, 1)])
def test_products_at_repeated_positions(count: int, places: int) -> None:
    rng = numpy.random.default_rng(3)
    target, values = rng.uniform(0.9, 1.1, places), rng.uniform(0.9, 1.1, count)
    positions = rng.integers(0, places, count)
    expected = target.copy()
    numpy.multiply.at(expected, positions, values)
    multiply_at(numpy, target, positions, values)
    numpy.testing.assert_allclose(target, expected, rtol=1e-12)
