"""Gradients clipped by their norm or value."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from ag_visual import linalg
from ag_visual.arrays.coo import no_sparse_rule
from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.sparse import is_sparse
from ag_visual.dispatch.table import functions as F
from ag_visual.foreach import named

_norms, _scale = named("_foreach_norm"), named("_foreach_mul_")
_no_less, _no_more = named("_foreach_clamp_min_"), named("_foreach_clamp_max_")


def _gradients(parameters: Any) -> list[Any]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def _alike(tensors: list[Any]) -> list[list[Any]]:
    """Those of one device and dtype together, as the functions of lists take them."""
    groups: dict[Any, list[Any]] = {}
    for each in tensors:
        groups.setdefault((each.device, each.dtype), []).append(each)
    return list(groups.values())


def _check_dense(gradients: list[Any], name: str) -> None:
    """As torch does, which has no rule for them: clip `grad.coalesce().values()`."""
    if any(is_sparse(grad) for grad in gradients):
        raise no_sparse_rule(name)


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
    norms = [norm for group in _alike(found) for norm in _norms(group, norm_type)]
    total = linalg.vector_norm(F["stack"]([n.to(found[0].device) for n in norms]), norm_type)
    if error_if_nonfinite and not bool(F["isfinite"](total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total  # type: ignore[no-any-return]


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients as if their norm, which is given, had to be at most max_norm."""
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for group in _alike(_gradients(parameters)):
        _scale(group, scale.to(group[0].device))


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
    for group in _alike(found):
        _no_less(group, -bound)
        _no_more(group, bound)
