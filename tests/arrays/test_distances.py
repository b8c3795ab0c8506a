"""Distances by products of matrices against those by differences, in longer numbers."""

from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays.kernels import distances

RNG = numpy.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(60, 40)), RNG.normal(size=(50, 40))
GIVEN: dict[str, Any] = {
    "usual": (FIRST, SECOND),
    "far from 0": (FIRST + 100, SECOND + 100),
    "the same rows": (FIRST, FIRST[:50]),
    "some near each other": (FIRST, numpy.concatenate([FIRST[:6] + 1e-4, SECOND[6:]])),
    "of one sign": (RNG.random((60, 16)), RNG.random((50, 16))),
    "of several sizes": (
        RNG.normal(size=(2, 30, 20)) * [[[1e-3]], [[1e3]]],
        SECOND.reshape(2, 50, 20),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", GIVEN)
def test_distances_and_gradients(given: str, dtype: str) -> None:
    x1, x2 = (each.astype(dtype) for each in GIVEN[given])
    assert distances.served(numpy, x1, x2)
    wide = "float64" if dtype == "float32" else "longdouble"
    off = x1[..., :, None, :].astype(wide) - x2[..., None, :, :].astype(wide)
    exact = numpy.sqrt((off * off).sum(-1))
    found = distances.distances(x1, x2)
    digits = 8 * numpy.finfo(dtype).eps
    numpy.testing.assert_allclose(found, exact, rtol=digits)
    g = RNG.normal(size=exact.shape).astype(dtype)
    each = (g / numpy.where(exact == 0, numpy.inf, exact))[..., None] * off
    gradients = distances.gradients(g, x1, x2, found, (True, True))
    assert gradients is not None
    for mine, wanted in zip(gradients, (each.sum(-2), -each.sum(-3)), strict=True):
        numpy.testing.assert_allclose(mine, wanted, atol=4 * digits * abs(wanted).max())
    assert distances.gradients(g, x1, x2, found, (False, True))[0] is None  # type: ignore[index]


def test_what_is_not_finite_stays_with_its_rows() -> None:
    x1, x2 = FIRST.copy(), SECOND.copy()
    x1[3, 5], x1[4, 0], x2[7, 1] = numpy.nan, numpy.inf, numpy.inf
    with numpy.errstate(all="ignore"):
        found = distances.distances(x1, x2)
        wanted = numpy.sqrt(((x1[:, None] - x2) ** 2).sum(-1))
        assert distances.gradients(found, x1, x2, found, (True, True)) is None
    numpy.testing.assert_allclose(found, wanted)
    a, b = (ag.tensor(each).requires_grad_() for each in (x1, x2))
    ag.cdist(a, b)[5].sum().backward()
    bad = ~ag.isfinite(a.grad)
    # Where a row of x2 is infinite; other rows of x1 are not touched by its own.
    assert {column for row, column in bad.nonzero().tolist() if row not in (3, 4)} == {1}


def test_rows_in_bunches_come_from_differences() -> None:
    x = numpy.concatenate([FIRST[:30] * 0.01 + 5, FIRST[30:] * 0.01 - 5])
    found = distances.distances(x, x)
    assert (found.diagonal() == 0).all()
    assert distances.gradients(found, x, x, found, (True, True)) is None
