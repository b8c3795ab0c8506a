"""Random arrays for kernel tests, their way to torch and back, and how far results may differ."""

from __future__ import annotations

from typing import Any

import numpy

from ..oracle import torch

TOLERANCE = {
    "float16": 2e-3, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5, "complex128": 1e-10,
}  # fmt: skip


def random_array(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    """Standard normal values; integers from -9 to 9."""
    source = numpy.random.default_rng((seed, *shape))
    if numpy.dtype(dtype).kind in "iu":
        return source.integers(0 if dtype == "uint8" else -9, 10, shape).astype(dtype)
    values = source.standard_normal(shape)
    if numpy.dtype(dtype).kind == "c":
        values = values + 1j * source.standard_normal(shape)
    return numpy.asarray(values).astype(dtype)


def theirs(array: Any) -> Any:
    """A torch tensor with a copy of the values; None stays None."""
    return None if array is None else torch.from_numpy(numpy.array(array, order="C"))


def agree(found: Any, wanted: Any, dtype: str | None = None) -> None:
    """Same shape and dtype, and values equal within the dtype's tolerance (NaN equals NaN)."""
    wanted = wanted.detach().numpy() if hasattr(wanted, "detach") else wanted
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    limit = TOLERANCE.get(dtype or str(found.dtype), 0)
    numpy.testing.assert_allclose(found, wanted, rtol=limit, atol=limit)
