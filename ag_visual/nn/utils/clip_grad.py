"""Gradients clipped by their norm or value."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from ag_visual.arrays.coo import refused
from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.sparse import is_sparse
from ag_visual.dispatch.table import functions as F


def _gradients(parameters: Any) -> list[Any]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def _check_dense(gradients: list[Any], name: str) -> None:
    """As torch does, which has no rule for them: clip `grad.coalesce().values()`."""
    if any(is_sparse(grad) for grad in gradients):
        raise refused(name)


@no_grad()
def get_total_norm(
    tensors: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector."""
    found: list[Any] = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not found:
        return F["tensor"](0.0)  # type: ignore[no-any-return]
    _check_dense(found, "linalg_vector_norm")
    norm_type = float(norm_type)
    parts = F["stack"]([_norm(t.reshape(-1), norm_type) for t in found])
    total = _norm(parts, norm_type)
    if error_if_nonfinite and not bool(F["isfinite"](total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total  # type: ignore[no-any-return]


def _norm(values: Any, order: float) -> Any:
    values = values.abs()
    if order == float("inf"):
        return values.max()
    if order == 0:
        return (values != 0).sum().to(values.dtype)
    return values.square().sum().sqrt() if order == 2 else values.pow(order).sum().pow(1 / order)


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients as if their norm, which is given, had to be at most max_norm."""
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _gradients(parameters):
        grad.mul_(
            scale.to(device=grad.device, dtype=grad.real.dtype if grad.is_complex() else grad.dtype)
        )


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their common norm is at most max_norm; returns what it was.

    Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013).
    """
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    lazy = inspect.isgenerator(parameters)
    parameters = list(parameters)
    if lazy and not parameters:
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


@no_grad()
def clip_grad_value_(
    parameters: Iterable[Any] | Tensor, clip_value: float, foreach: bool | None = None
) -> None:
    """Keep each element of the gradients between -clip_value and clip_value."""
    bound = float(clip_value)
    found = _gradients(parameters)
    _check_dense(found, "clamp_min_")
    for grad in found:
        grad.clamp_(-bound, bound)
