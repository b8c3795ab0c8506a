"""Samples to a batch: tensors are stacked, numbers become tensors, containers keep their shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.dtypes import float64

# The type of a function that makes batches, by the name that libraries import.
_collate_fn_t = Callable[[list[Any]], Any]


def default_convert(data: Any) -> Any:
    """NumPy arrays as tensors, in containers too; everything else as it is."""
    if isinstance(data, numpy.ndarray | numpy.generic) and data.dtype.kind not in "USO":
        return F["as_tensor"](data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return [default_convert(value) for value in data]
    return data


def default_collate(batch: Any) -> Any:
    """A batch of samples: each part of a sample becomes a tensor with a dimension more.

    >>> import ag_visual as ag
    >>> from ag_visual.utils.data import default_collate
    >>> default_collate([(ag.ones(2), 0), (ag.zeros(2), 1)])
    [tensor([[1., 1.],
            [0., 0.]]), tensor([0, 1])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return F["stack"](list(batch), 0)
    if isinstance(first, numpy.ndarray | numpy.generic):
        if first.dtype.kind in "USO":
            raise TypeError(_cannot(first.dtype))
        return default_collate([F["as_tensor"](value) for value in batch])
    if isinstance(first, float):
        return F["tensor"](batch, dtype=float64)
    if isinstance(first, int):
        return F["tensor"](batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        found = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return found if type(first) is dict else type(first)(found)  # type: ignore[call-arg]
    if not isinstance(first, Sequence):
        raise TypeError(_cannot(type(first)))
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [default_collate(list(part)) for part in zip(*batch, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else parts


def _cannot(kind: Any) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{kind}"
    )
