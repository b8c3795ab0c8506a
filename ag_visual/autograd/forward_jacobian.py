"""Jacobians by forward mode: the columns of all of them in one vmap over unit tangents."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ag_visual.autograd.structures import Tensors, units
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced as F


def transforms() -> Any:
    """torch.func, which stands on this package: imported when it is asked for."""
    return importlib.import_module("ag_visual.func")


def forward_jacobian(func: Callable[..., Tensors], inputs: Tensors) -> tuple[Tensors, ...]:
    """The Jacobians [output][input] of a function from Tensors to a tuple of Tensors."""
    run = transforms()

    def pushed(tangents: Tensors) -> Any:
        return run.forward.pushed(func, inputs, tangents)

    slices, batches = zip(*units(inputs), strict=True)
    columns: Tensors = run.vmap(pushed)(batches)

    def matrix(column: Tensor, own: slice, each: Tensor) -> Any:
        rows = F.movedim(column[own], 0, -1)
        return F.reshape(rows, (*column.shape[1:], *each.shape))

    return tuple(
        tuple(matrix(column, own, each) for own, each in zip(slices, inputs, strict=True))
        for column in columns
    )
