"""The checks that every kernel test makes find injected faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual.arrays import Backend


def test_an_alias_of_an_input_is_found(run: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="shares memory with an input"):
        run(lambda xp, x: x[1:], numpy.arange(3.0))


def test_a_changed_input_is_found(run: Callable[..., Any]) -> None:
    def kernel(xp: Any, x: Any) -> Any:
        x += 1
        return xp.zeros(2)

    with pytest.raises(AssertionError, match="an input was changed"):
        run(kernel, numpy.arange(3.0))


def test_a_number_instead_of_an_array_is_found(run: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="came out"):
        run(lambda xp, x: x.shape[0], numpy.arange(3.0))


def test_a_numpy_call_is_found_on_the_strict_library(
    backend: Backend, run: Callable[..., Any]
) -> None:
    def kernel(xp: Any, x: Any) -> Any:
        return numpy.exp(x)

    if backend.device_type == "strict":
        with pytest.raises(TypeError, match="was given a device array"):
            run(kernel, numpy.zeros(1))
    else:
        numpy.testing.assert_array_equal(run(kernel, numpy.zeros(1)), [1])
