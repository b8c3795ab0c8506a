"""nll_loss and its gradient against torch's, on every array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import loss

from ..oracle import torch
from .compare import agree, random_array, theirs

REDUCTIONS = {loss.NONE: "none", loss.MEAN: "mean", loss.SUM: "sum"}


def targets(shape: tuple[int, ...], classes: int, ignored: int | None) -> Any:
    target = numpy.random.default_rng(3).integers(0, classes, shape)
    if ignored is not None and target.size:
        target = numpy.asarray(target)
        target.reshape(-1)[::2] = ignored
    return numpy.asarray(target, "int64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, -100, 1], ids=str)
@pytest.mark.parametrize("shape", [(5, 4), (4,), (3, 4, 2), (2, 4, 3, 2), (0, 4)], ids=str)
def test_nll_loss_is_torchs(
    run: Callable[..., Any],
    shape: tuple[int, ...],
    ignored: int | None,
    weighted: bool,
    reduction: int,
    dtype: str,
) -> None:
    x = random_array(shape, dtype)
    target = targets(shape[:1] + shape[2:] if len(shape) > 1 else (), 4, ignored)
    weight = abs(random_array((4,), dtype, seed=2)) if weighted else None
    ignore_index = -100 if ignored is None else ignored
    leaf = theirs(x).requires_grad_()
    wanted = torch.nn.functional.nll_loss(
        leaf, theirs(target), theirs(weight), None, ignore_index, None, REDUCTIONS[reduction]
    )
    found, total = run(loss.nll_loss, x, target, weight, reduction, ignore_index)
    agree(found, wanted)
    assert total.shape == ()
    g = random_array(tuple(wanted.shape), dtype, seed=1)
    (grad,) = torch.autograd.grad(wanted, leaf, theirs(g))
    backward = run(loss.nll_loss_backward, g, x, target, weight, reduction, ignore_index, total)
    agree(backward, grad)


def test_a_target_outside_the_classes_is_said(run: Callable[..., Any]) -> None:
    for bad in (4, -1):
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
            run(loss.nll_loss, random_array((2, 4)), numpy.array([1, bad]))


def test_all_ignored_is_nan_for_the_mean_and_zero_for_the_sum(run: Callable[..., Any]) -> None:
    x, target = random_array((2, 4)), numpy.array([-100, -100])
    assert numpy.isnan(run(loss.nll_loss, x, target, None, loss.MEAN)[0])
    assert run(loss.nll_loss, x, target, None, loss.SUM)[0] == 0


def test_an_ignored_infinity_does_not_count(run: Callable[..., Any]) -> None:
    x = numpy.array([[-numpy.inf, 0.0], [1.0, 2.0]])
    assert run(loss.nll_loss, x, numpy.array([0, 1]), None, loss.SUM, 0)[0] == -2
