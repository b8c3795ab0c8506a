"""What `assert_near` takes and refuses is what numpy's own assertion takes and refuses."""

from __future__ import annotations

import itertools

import numpy
import pytest

from ..near import assert_near

NUMBERS = (0.0, -0.0, 1.0, 1.0 + 1e-9, 1.1, -1.0, 1e300, -1e308, 1e-320)
SPECIAL = (numpy.inf, -numpy.inf, numpy.nan)
KINDS = ("float16", "float32", "float64", "complex128", "int64", "bool")


def refuses(check: object, *arguments: object, **options: object) -> bool:
    try:
        check(*arguments, **options)  # type: ignore[operator]
    except AssertionError:
        return True
    return False


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_refuses_what_numpy_refuses() -> None:
    answers = set()
    for a, b in itertools.product((*NUMBERS, *SPECIAL), repeat=2):
        finite = bool(numpy.isfinite([a, b]).all())
        kinds = KINDS if finite else KINDS[:4]
        for one, other in [*zip(kinds, kinds, strict=True), ("float32", "float64")]:
            with numpy.errstate(all="ignore"):
                x = numpy.array([1.0, a]).astype(one)
                y = numpy.array([1.0, b]).astype(other)
            for rtol, atol in ((1e-7, 0), (1e-3, 1e-3)):
                expected = refuses(numpy.testing.assert_allclose, x, y, rtol=rtol, atol=atol)
                assert refuses(assert_near, x, y, rtol, atol) == expected, (x, y, rtol, atol)
                answers.add(expected)
    assert answers == {True, False}


def test_shapes_and_what_is_told() -> None:
    with pytest.raises(AssertionError, match="shape"):
        assert_near(numpy.ones(2), numpy.ones(3), 1e-7, 0)
    assert_near(numpy.ones(2), 1.0, 1e-7, 0)  # a number is compared with each element
    with pytest.raises(AssertionError, match="gradient of x"):
        assert_near(numpy.ones(2), numpy.zeros(2), 1e-7, 0, "gradient of x")
