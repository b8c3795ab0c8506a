"""torch.distributions.utils' names: what the parameters of distributions go through."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from ag_visual.autograd.grad_mode import enable_grad
from ag_visual.core.tensor import Tensor
from ag_visual.distributions._namespace import F
from ag_visual.dtypes import finfo, get_default_dtype
from ag_visual.names import only as _only

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

EULER = 0.57721566490153286060
"""Euler's constant, the mean of the standard Gumbel distribution."""


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors of one shape; numbers become tensors of the first tensor's dtype and device."""
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            f"__torch_function__. Got {', '.join(type(v).__name__ for v in values)}"
        )
    tensors = [v for v in values if isinstance(v, Tensor)]
    where: dict[str, Any] = {"dtype": get_default_dtype()}
    if tensors:
        where = {"dtype": tensors[0].dtype, "device": tensors[0].device}
    whole = [v if isinstance(v, Tensor) else F.tensor(v, **where) for v in values]
    return tuple(F.broadcast_tensors(*whole))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Draws of N(0, 1); torch's name, which distributions of programs import."""
    return F.randn(shape, dtype=dtype, device=device)


def standard_normal(shape: Any, like: Any) -> Any:
    """Draws of N(0, 1) with the dtype and device of a tensor."""
    return _standard_normal(shape, like.dtype, like.device)


def standard_uniform(shape: Any, like: Any) -> Any:
    """Draws from the open interval (0, 1) with the dtype and device of a tensor."""
    drawn = F.rand(shape, dtype=like.dtype, device=like.device)
    return drawn.clamp(min=finfo(like.dtype).tiny)


def sum_rightmost(value: Any, count: int) -> Any:
    """The sum over the last `count` dimensions."""
    return value.sum(tuple(range(-count, 0))) if count else value


_sum_rightmost = sum_rightmost
"""torch's name of it, which transforms and distributions of programs import."""


def clamp_probs(probs: Any) -> Any:
    """Probabilities at least one machine epsilon away from 0 and 1, where logits are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Softmax of the last dimension; the sigmoid where a logit stands for one event."""
    return F.sigmoid(logits) if is_binary else F.softmax(logits, -1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Logarithms of probabilities; log(p / (1 - p)) where a probability stands for one event."""
    inside = clamp_probs(probs)
    return F.log(inside) - F.log1p(-inside) if is_binary else F.log(inside)


class lazy_property:
    """A property that is computed when first asked for, with gradients on, and then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The entries of a lower triangle up to a diagonal, row by row: (..., D, D) to (..., N)."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = F.tril_indices(size, size, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The lower triangle up to a diagonal whose entries are a vector: (..., N) to (..., D, D)."""
    count, size, found = vec.shape[-1], 0, -1
    while found < count:
        size += 1
        found = sum(min(max(row + 1 + diag, 0), size) for row in range(size))
    if found != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    rows, columns = F.tril_indices(size, size, diag, device=vec.device)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., rows, columns] = vec
    return matrix


__dir__ = _only(__all__, __name__)
