"""Are arrays equal up to rounding? As `numpy.testing.assert_allclose`, which the cases that it has
for everything else make twenty times as long as the comparison; it has the last word here, too.
"""

from __future__ import annotations

from typing import Any

import numpy


def assert_near(found: Any, expected: Any, rtol: float, atol: float, what: str = "") -> None:
    """Fails as `assert_allclose` does: found within atol + rtol * abs(expected), NaN where NaN is
    expected.
    """
    a, b = numpy.asarray(found), numpy.asarray(expected)
    if a.shape == b.shape and a.dtype.kind in "fc" and b.dtype.kind in "fc":
        with numpy.errstate(all="ignore"):
            # Strictly less: with an infinity or a NaN on either side it is not so.
            if (abs(a - b) < atol + rtol * abs(b)).all():
                return
    numpy.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=what)
