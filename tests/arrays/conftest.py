"""Runs kernel tests on each array library: NumPy, the strict one, CuPy where a GPU is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy
import pytest

from ag_visual.arrays import Backend, BackendUnavailable, backend_for

from .strict import STRICT

BACKENDS = [pytest.param("cpu", id="numpy"), pytest.param(STRICT.device_type, id="strict")]
with suppress(BackendUnavailable):
    BACKENDS.append(pytest.param(backend_for("cuda").device_type, id="cupy", marks=pytest.mark.gpu))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each array library that can be used here."""
    return backend_for(request.param)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Infinities and NaN are asked for on purpose; who silences NumPy is the caller's business."""
    with numpy.errstate(all="ignore"):
        yield


def convert(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to each array in it."""
    if isinstance(value, tuple | list):
        return type(value)(convert(item, change) for item in value)
    return change(value)


@pytest.fixture
def run(backend: Backend) -> Callable[..., Any]:
    """Calls `kernel(xp, *args)` with the arrays in `args` on the backend; answers in NumPy arrays.

    Checks besides that inputs are left alone and that no result shares memory with one.
    """

    def call(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        inputs: list[tuple[Any, Any]] = []

        def inward(value: Any) -> Any:
            if not isinstance(value, numpy.ndarray):
                return value
            moved = backend.from_numpy(value)
            if moved is value:
                moved = value.copy(order="K")
            inputs.append((value, moved))
            return moved

        def outward(value: Any) -> Any:
            if value is None:
                return None
            assert type(value) is backend.array_type, f"{type(value)} came out"
            first, last = backend.pointer(value), backend.pointer(value) + value.nbytes
            for _, moved in inputs:
                begin, end = backend.pointer(moved), backend.pointer(moved) + moved.nbytes
                apart = last <= begin or end <= first or not value.nbytes or not moved.nbytes
                assert apart, "a result shares memory with an input"
            return numpy.array(backend.to_numpy(value))

        moved = convert(args, inward)
        result = kernel(backend.xp, *moved, **kwargs)
        for original, there in inputs:
            kept = backend.to_numpy(there)
            assert kept.dtype == original.dtype
            numpy.testing.assert_array_equal(kept, original, err_msg="an input was changed")
        return convert(result, outward)

    return call
