"""torch.utils._foreach_utils: lists of tensors in groups, as optimizers that others write ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.devices import device as Device
from ag_visual.dtypes import dtype as Dtype

_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cpu", "cuda"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Device, Dtype], tuple[list[list[Any]], list[int]]]:
    """The lists, each split by device and dtype of the first list's tensors, with their places."""
    groups: dict[tuple[Device, Dtype], tuple[list[list[Any]], list[int]]] = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        key = tensor.device, tensor.dtype
        lists, places = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for split, whole in zip(lists, tensorlistlist, strict=True):
            if whole:
                split.append(whole[place])
        if with_indices:
            places.append(place)
    return groups


def _device_has_foreach_support(device: Device) -> bool:
    return device.type in ("cpu", "cuda")


def _has_foreach_support(tensors: Sequence[Any], device: Device) -> bool:
    return _device_has_foreach_support(device) and all(
        t is None or type(t) in _foreach_supported_types for t in tensors
    )
