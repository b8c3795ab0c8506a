"""Tensors over bytes that a file held: those that lay in one memory look into it again."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.errors import FormatError


def backend_of(target: Device) -> backends.Backend:
    """The backend of a device on which a tensor is to be.

    Raises:
        BackendUnavailable: there is none here; the text says what to do.
    """
    try:
        return backends.backend_for(target)
    except backends.BackendUnavailable as error:
        raise backends.BackendUnavailable(
            f"Attempting to deserialize object on a {target.type.upper()} device: {error}. "
            "With map_location='cpu' the file is loaded to the CPU"
        ) from error


class Memories:
    """The memories of one file, each on the devices that its tensors ask for."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, Any]] = {}

    def tensor(
        self,
        name: str,
        stored: numpy.ndarray[Any, Any],
        target: Device,
        dtype: dtypes.dtype,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        requires_grad: bool,
        cls: type[Tensor] = Tensor,
    ) -> Tensor:
        """The tensor at `offset` bytes in the memory `name`; strides count elements.

        Raises:
            FormatError: it would lie outside of that memory, or cannot be.
        """
        far = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if math.prod(shape) and offset + (1 + far) * dtype.itemsize > stored.nbytes:
            raise FormatError("a tensor lies outside of its memory")
        if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
            raise FormatError(f"a tensor of {dtype} cannot require a gradient")
        backend = backend_of(target)
        key = name, str(target)
        storage = None
        if key in self._known:
            memory, storage = self._known[key]
        else:
            memory = backend.from_numpy(numpy.ascontiguousarray(stored).reshape(-1).view("u1"))
        steps = tuple(s * dtype.itemsize for s in strides)
        array = backend.xp.ndarray(shape, dtype.np, memory[offset:].data, strides=steps)
        result = from_array(array, requires_grad, cls)
        if array.nbytes != memory.nbytes or not array.flags.c_contiguous:
            result._memory = memory  # it looks at a part of it, or in another order
        if storage is None:
            self._known[key] = memory, result._storage
        else:
            # As torch: one memory, and a version counter for each tensor.
            result._store = storage.alias()
        return result
