"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """The elements of all parameters, one after the other; gradients flow back to them."""
    found = list(parameters)
    _one_device(found)
    return F["cat"]([p.reshape(-1) for p in found])  # type: ignore[no-any-return]


def vector_to_parameters(vec: Tensor, parameters: Iterable[Any]) -> None:
    """Make slices of a vector the data of the parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {F['typename'](vec)}")
    found = list(parameters)
    _one_device(found)
    offset = 0
    for p in found:
        count = p.numel()
        p.data = vec[offset : offset + count].view_as(p).data  # type: ignore[index]
        offset += count


def _one_device(parameters: list[Any]) -> None:
    if len({p.device for p in parameters}) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
