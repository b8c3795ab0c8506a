"""Where a derivative jumps, the last digit decides: places are computed with torch's roundings."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("align", [False, True])
def test_a_spatial_transformer_starts_with_torchs_gradient(rank: int, align: bool) -> None:
    size = (1, 1, *(28, 27, 5)[:rank])

    def program(t: Any) -> Any:
        x = t.tensor(numpy.random.default_rng(0).random(size))
        theta = t.eye(rank, rank + 1, dtype=t.float64)[None].requires_grad_()
        grid = t.nn.functional.affine_grid(theta, size, align_corners=align)
        y = t.nn.functional.grid_sample(x, grid, align_corners=align)
        y.pow(2).sum().backward()
        return theta.grad

    agree(program)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linspace_to_the_last_digit(dtype: str) -> None:
    rng = numpy.random.default_rng(1)
    for steps in (2, 5, 28, 67):
        start, end = rng.uniform(-5, 5, 2)
        for ends in ((start, end), (-1, 1), (0, 1)):
            ours = ag.linspace(*ends, steps, dtype=getattr(ag, dtype)).numpy()
            theirs = torch.linspace(*ends, steps, dtype=getattr(torch, dtype)).numpy()
            numpy.testing.assert_array_equal(ours, theirs)
