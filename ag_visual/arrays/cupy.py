"""The CuPy backend: device 'cuda'. Imported only when a cuda device is asked for.

Layer 1: imports backend.py and kernels/runs.py. Written against CuPy 13 and 14.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy

from ag_visual.arrays.backend import Array, Backend, BackendUnavailable, is_narrow
from ag_visual.arrays.kernels.runs import multiply_at
from ag_visual.devices import device

_INSTALL = "pip install 'ag-visual[cuda12]' (CUDA 12) or 'ag-visual[cuda13]' (CUDA 13)"

try:
    import cupy
    import cupyx
except ImportError as missing:
    raise BackendUnavailable(
        f"device 'cuda' needs CuPy, which cannot be imported here ({missing}): {_INSTALL}"
    ) from missing


class CupyBackend(Backend):
    """CuPy arrays on NVIDIA GPUs."""

    name = "cupy"
    device_type = "cuda"
    xp = cupy
    array_type = cupy.ndarray

    def __init__(self) -> None:
        try:
            self._count = int(cupy.cuda.runtime.getDeviceCount())
        except cupy.cuda.runtime.CUDARuntimeError as problem:
            raise BackendUnavailable(
                f"CuPy {cupy.__version__} is installed but no GPU answers: {problem}. "
                "Found no NVIDIA driver on your system, or it is too old for this CuPy; "
                "check nvidia-smi"
            ) from problem
        if self._count == 0:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            hint = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"
            raise BackendUnavailable(
                f"CuPy {cupy.__version__} is installed but there is no CUDA device{hint}"
            )

    def asarray(self, data: Any, dtype: Any = None) -> Array:
        return cupy.asarray(data, dtype)

    def to_numpy(self, array: Array) -> numpy.ndarray[Any, Any]:
        return cupy.asnumpy(array)  # type: ignore[no-any-return]

    def to_pinned(self, array: Array) -> numpy.ndarray[Any, Any]:
        if not array.size:
            return self.to_numpy(array)
        whole = array if array.flags.c_contiguous else array.copy("C")
        return whole.get(out=cupyx.empty_pinned(array.shape, array.dtype))  # type: ignore[no-any-return]

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Array:
        return cupy.asarray(array)

    def device(self, array: Array) -> device:
        return device("cuda", array.device.id)

    def pointer(self, array: Array) -> int:
        return int(array.data.ptr)

    def multiply_at(self, target: Array, index: Array, values: Array) -> None:
        multiply_at(cupy, target, index, values)

    def add_at(self, target: Array, index: Any, values: Any) -> None:
        if target.dtype.kind == "c":
            # atomicAdd knows no complex numbers: add the parts, which are views.
            values = cupy.asarray(values, target.dtype)
            cupyx.scatter_add(target.real, index, values.real)
            cupyx.scatter_add(target.imag, index, values.imag)
        elif target.dtype.kind in "biu" and target.dtype != numpy.int32:
            # Nor 8, 16 and signed 64 bit integers; addition wraps alike in the unsigned type.
            wide = target.astype(numpy.uint64)
            cupyx.scatter_add(wide, index, cupy.asarray(values).astype(numpy.uint64))
            target[...] = wide.astype(target.dtype)
        elif is_narrow(target):
            wide = target.astype(numpy.float32)
            cupyx.scatter_add(wide, index, cupy.asarray(values).astype(numpy.float32))
            target[...] = wide.astype(target.dtype)
        else:
            cupyx.scatter_add(target, index, values)

    def maximum_at(self, target: Array, index: Any, values: Any) -> None:
        _extreme(cupyx.scatter_max, target, index, values)

    def minimum_at(self, target: Array, index: Any, values: Any) -> None:
        _extreme(cupyx.scatter_min, target, index, values)

    def as_strided(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        return cupy.lib.stride_tricks.as_strided(array, shape, strides)

    @property
    def special(self) -> ModuleType:
        import cupyx.scipy.special

        return cupyx.scipy.special  # type: ignore[no-any-return]

    @property
    def sparse(self) -> ModuleType:
        import cupyx.scipy.sparse

        return cupyx.scipy.sparse  # type: ignore[no-any-return]

    def random_bits(self, seed: int) -> Any:
        return cupy.random.Generator(cupy.random.Philox4x3210(seed))

    # CuPy has no public way to read a bit generator's state; `_state` is the array that holds it.

    def random_state(self, bits: Any) -> bytes:
        return cupy.asnumpy(bits.bit_generator._state).tobytes()  # type: ignore[no-any-return]

    def set_random_state(self, bits: Any, state: bytes) -> None:
        inner = bits.bit_generator._state
        if len(state) != inner.nbytes:
            raise ValueError(
                f"not a state of the cuda generator: {len(state)} bytes, expected {inner.nbytes}"
            )
        inner[...] = cupy.asarray(numpy.frombuffer(state, inner.dtype))

    def count(self) -> int:
        return self._count

    def on(self, index: int | None) -> AbstractContextManager[Any]:
        context = super().on(index)
        return context if index is None else cupy.cuda.Device(index)

    def raising(self) -> AbstractContextManager[Any]:
        return cupyx.errstate(linalg="raise")  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        cupy.cuda.get_current_stream().synchronize()


def _extreme(scatter: Any, target: Array, index: Any, values: Any) -> None:
    """scatter_max or scatter_min, also in the types that CUDA's atomics lack."""
    dtype = target.dtype
    values = cupy.asarray(values, dtype)
    if dtype == numpy.int64:
        # Unsigned numbers order as the signed ones do once their top bits are flipped.
        top = numpy.uint64(1 << 63)
        ordered = target.view(numpy.uint64) ^ top
        scatter(ordered, index, values.view(numpy.uint64) ^ top)
        target[...] = (ordered ^ top).view(numpy.int64)
    elif dtype in (numpy.int32, numpy.float32, numpy.float64):
        scatter(target, index, values)
    else:
        wide_type = numpy.int32 if dtype.kind in "biu" else numpy.float32
        wide = target.astype(wide_type)
        scatter(wide, index, values.astype(wide_type))
        target[...] = wide.astype(dtype)
