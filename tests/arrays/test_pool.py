"""Max pooling, its indices and its gradient against torch's, on every array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import pool

from ..oracle import torch
from .compare import agree, random_array, theirs

# input, kernel, stride, padding, dilation, ceil
CASES: list[tuple[Any, ...]] = [
    ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((2, 3, 7, 9), (2, 2), (2, 2), (0, 0), (1, 1), True),
    ((2, 3, 7, 9), (3, 2), (1, 2), (1, 1), (1, 1), False),
    ((3, 7, 9), (3, 3), (2, 2), (1, 0), (1, 1), True),
    ((1, 2, 9, 9), (2, 3), (2, 1), (1, 1), (2, 3), False),
    ((1, 2, 5, 5), (3, 3), (3, 3), (1, 1), (1, 1), True),
    ((1, 1, 20, 20), (17, 17), (1, 1), (0, 0), (1, 1), False),
    ((0, 2, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((2, 3, 9), (3,), (2,), (1,), (1,), True),
    ((1, 2, 4, 5, 6), (2, 2, 3), (1, 2, 2), (0, 1, 1), (1, 1, 1), False),
]


def reference(x: Any, limits: tuple[Any, ...]) -> tuple[Any, Any]:
    kernel, stride, padding, dilation, ceil = limits
    function = getattr(torch.nn.functional, f"max_pool{len(kernel)}d")
    return function(x, kernel, stride, padding, dilation, ceil, return_indices=True)


def values(kind: str, shape: tuple[int, ...]) -> Any:
    if kind == "int64":
        return random_array(shape, "int64") // 4  # many ties
    found = random_array(shape, kind if kind in ("float32", "float64") else "float64")
    if kind == "nan":
        found[numpy.random.default_rng(5).random(shape) < 0.3] = numpy.nan
    if kind == "-inf":
        found[...] = -numpy.inf
    return found


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "nan", "-inf"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pooling_is_torchs(run: Callable[..., Any], case: tuple[Any, ...], kind: str) -> None:
    shape, limits = case[0], case[1:]
    x = values(kind, shape)
    out, indices = run(pool.max_pool2d, x, *limits)
    wanted, positions = reference(theirs(x), limits)
    agree(out, wanted)
    agree(indices, positions)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gradient_is_torchs(run: Callable[..., Any], case: tuple[Any, ...], dtype: str) -> None:
    shape, limits = case[0], case[1:]
    x = theirs(random_array(shape, dtype)).requires_grad_()
    out, positions = reference(x, limits)
    g = random_array(tuple(out.shape), dtype, seed=1)
    (wanted,) = torch.autograd.grad(out, x, theirs(g))
    rank = len(limits[0])
    agree(run(pool.max_pool2d_backward, g, positions.numpy(), shape, rank), wanted)
    kernel, stride, _, dilation, _ = limits
    if pool.windows_are_disjoint(kernel, stride, dilation):
        agree(run(pool.max_pool2d_backward, g, positions.numpy(), shape, rank, True), wanted)


def test_windows_are_disjoint_when_the_stride_steps_over_them() -> None:
    assert pool.windows_are_disjoint((2, 3), (2, 3), (1, 1))
    assert not pool.windows_are_disjoint((2, 3), (2, 2), (1, 1))
    assert not pool.windows_are_disjoint((2,), (2,), (2,))


def test_half_precision_and_any_layout(run: Callable[..., Any]) -> None:
    x = numpy.asfortranarray(random_array((2, 3, 6, 8), "float16"))
    out, indices = run(pool.max_pool2d, x, *CASES[0][1:])
    wanted, positions = reference(theirs(x), CASES[0][1:])
    agree(out, wanted)
    agree(indices, positions)
