"""Images of uint8 are resampled in whole numbers: bit by bit as torch does."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch


def program(rng: Any) -> tuple[Any, dict[str, Any]]:
    """An image and the arguments of interpolate."""
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 5)), *map(int, rng.integers(2, 20, 2)))
    smooth = bool(rng.integers(2))
    given: dict[str, Any] = {"mode": str(rng.choice(["bilinear", "bicubic"])), "antialias": smooth}
    if not smooth:
        given["align_corners"] = [None, True, False][rng.integers(3)]
    if rng.integers(3):
        given["size"] = tuple(map(int, rng.integers(2, 30, 2)))
    else:
        given["scale_factor"] = tuple(map(float, rng.uniform(0.5, 3, 2)))
    return rng.integers(0, 256, shape, dtype=numpy.uint8), given


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(4))
def test_bytes_are_torchs(seed: int) -> None:
    rng = numpy.random.default_rng(seed)
    for _ in range(20):
        image, given = program(rng)
        ours = ag.nn.functional.interpolate(ag.from_numpy(image), **given)
        theirs = torch.nn.functional.interpolate(torch.from_numpy(image), **given)
        assert ours.dtype is ag.uint8
        numpy.testing.assert_array_equal(ours.numpy(), theirs.numpy(), str(given))


@pytest.mark.oracle
def test_other_dimensions_are_refused() -> None:
    for t in (ag, torch):
        with pytest.raises((RuntimeError, NotImplementedError)):
            t.nn.functional.interpolate(t.zeros(1, 1, 4, dtype=t.uint8), 8, mode="linear")
