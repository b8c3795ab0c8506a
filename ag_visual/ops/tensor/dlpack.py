"""Memory shared with others: buffers, files, DLPack, array interfaces, `asarray`, `set_`.

A tensor made from another one's memory has a version counter of its own, as in torch; writes
through either are noticed where a saved tensor is looked at (see core/storage.py).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core import modes
from ag_visual.core.dual import dual_of
from ag_visual.core.level import is_batchedtensor, not_batched
from ag_visual.core.source import warn
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import Tensor, before_write, check_inplace, from_array, method, wrote
from ag_visual.devices import device as Device
from ag_visual.dispatch.geometry import geometry, resize
from ag_visual.dispatch.memory import line_of, memory_of, row_major
from ag_visual.dispatch.table import function
from ag_visual.errors import type_name
from ag_visual.ops.tensor.cast import dtype_of
from ag_visual.ops.tensor.from_data import array_from, checked_numpy, moved
from ag_visual.ops.tensor.make import leaf, make, shape_of
from ag_visual.ops.tensor.storages import TypedStorage, UntypedStorage

_READ_ONLY = (
    "The given {} is not writable, and PyTorch does not support non-writable tensors. Copy it "
    "before you write to the tensor."
)
_CAPSULE = "PyCapsule"
_CPU = 1  # DLPack's number of it


# Buffers ----------------------------------------------------------------------------------------


@function()
def frombuffer(
    buffer, *, dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector that shares memory with a Python buffer (bytearray, memoryview, mmap ...).

    count: how many elements (-1: all of them), from `offset` bytes on. Raises ValueError where
    they do not fit; warns for a buffer that cannot be written.

    >>> import ag_visual as ag
    >>> ag.frombuffer(bytearray(b"abc"), dtype=ag.uint8)
    tensor([97, 98, 99], dtype=torch.uint8)
    """
    kind = dtype_of("frombuffer", dtype).np
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, item = view.nbytes, kind.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    rest = length - offset
    if count < 0 and rest % item:
        raise ValueError(
            f"buffer length ({length} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({item})"
        )
    count = rest // item if count < 0 else count
    if count * item > rest:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    if view.readonly:
        warn(_READ_ONLY.format("buffer"))
    return leaf(numpy.frombuffer(buffer, kind, count, offset), requires_grad)


@function()
def from_file(
    filename,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of the first `size` elements of a file of plain numbers, whose memory is the file's.

    shared: writes to the tensor go to the file, which is made, and lengthened with zeros, where it
    has to be; otherwise they stay in this process. Raises RuntimeError for a file that cannot be
    opened, or is too short and not shared.
    """
    kind, path = dtype_of("from_file", dtype).np, os.fspath(filename)
    if size < 0:
        raise RuntimeError(f"from_file(): size is a number of elements, but is {size}")
    wanted = size * kind.itemsize
    try:
        # Before it is opened: to open a pipe would wait for another process.
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            raise RuntimeError(f"from_file(): {path} is not a plain file: it has no length")
        with open(path, "ab" if shared else "rb") as file:
            there = os.fstat(file.fileno())
            if there.st_size < wanted:
                if not shared:
                    raise RuntimeError(
                        f"file <{path}> size <{there.st_size}> is smaller than the required "
                        f"mapping size <{wanted}>"
                    )
                file.truncate(wanted)
    except OSError as error:
        how = "read-write" if shared else "read-only"
        text = f"unable to open file <{path}> in {how} mode: {error.strerror} ({error.errno})"
        raise RuntimeError(text) from None
    if not size:
        return leaf(numpy.empty((0,), kind), requires_grad)
    mode: Any = "r+" if shared else "c"
    mapped = numpy.memmap(path, kind, mode, shape=(size,))
    return leaf(mapped.view(numpy.ndarray), requires_grad)


# DLPack -----------------------------------------------------------------------------------------


class _Capsule:
    """A bare DLPack capsule, which does not say where it lives, as an object on the CPU."""

    def __init__(self, capsule) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def _dlpack(
    self: Tensor,
    *,
    stream=None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
):
    """A DLPack capsule that shares this tensor's memory, for `from_dlpack` of any library."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_cpu and stream is not None:
        raise AssertionError(f"stream should be None on cpu, got {stream}")
    if self._array.dtype.kind == "V":
        raise BufferError(f"NumPy cannot export {self.dtype} by DLPack; convert it to float32")
    named: dict[str, Any] = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    named = {key: value for key, value in named.items() if value is not None}
    return self._array.__dlpack__(stream=stream, **named)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """DLPack's type and number of this tensor's device."""
    return self._array.__dlpack_device__()  # type: ignore[no-any-return]


Tensor.__dlpack__ = _dlpack  # type: ignore[attr-defined]
Tensor.__dlpack_device__ = _dlpack_device  # type: ignore[attr-defined]


def _shared(tensor: Tensor) -> Tensor:
    """The same memory under a version counter of its own, outside of the graph."""
    result: Tensor = from_array(tensor._array)
    result._store, result._memory = tensor._storage.alias(), tensor._memory
    return result


@function()
def from_dlpack(ext_tensor, *, device=None, copy: bool | None = None) -> Tensor:
    """A tensor that shares memory with any object that has `__dlpack__`, or with a capsule.

    copy=True copies; device moves. Raises BufferError for a tensor that requires grad, and
    RuntimeError for other than a capsule, or for one that was consumed already.
    """
    if isinstance(ext_tensor, Tensor):
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        found = _shared(ext_tensor)
    else:
        source = ext_tensor
        if type(ext_tensor).__name__ == _CAPSULE:
            source = _Capsule(ext_tensor)
        elif not hasattr(ext_tensor, "__dlpack__"):
            raise RuntimeError(
                "from_dlpack received an invalid capsule: expected an object with __dlpack__ or a "
                f"DLPack capsule, got {type_name(ext_tensor)}"
            )
        backend = backends.backend_for("cpu" if source.__dlpack_device__()[0] == _CPU else "cuda")
        try:
            array = backend.xp.from_dlpack(source)
        except ValueError as problem:
            raise RuntimeError(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
                "consumed only once, so you might have already constructed a tensor from it once. "
                f"({problem})"
            ) from None
        found = from_array(array if _TELLS_READ_ONLY else _writable(array))
    if device is not None and found.device != Device(device):
        if copy is False:
            raise ValueError(f"cannot move tensor from {found.device} to {device} without copying")
        return found.to(device)  # type: ignore[attr-defined, no-any-return]
    return found.clone() if copy else found  # type: ignore[attr-defined]


_TELLS_READ_ONLY = numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"
"""Whether an imported array that is not writable is one whose owner said so.

NumPy 2.0 imports all of them so; its own arrays it exports only where they may be written.
"""


def _writable(array):
    """The same memory of the host as an array that may be written."""
    if not isinstance(array, numpy.ndarray):
        return array
    seen = {**array.__array_interface__, "data": (array.ctypes.data, False)}
    return numpy.asarray(type("Shown", (), {"__array_interface__": seen, "owner": array})())


@function()
def to_dlpack(tensor: Tensor):
    """A DLPack capsule that shares the tensor's memory; it can be consumed once."""
    return tensor.__dlpack__()  # type: ignore[attr-defined]


# Array interfaces -------------------------------------------------------------------------------


def _array_interface(self: Tensor):
    """NumPy's description of this tensor's memory: `numpy.asarray(tensor)` shares it."""
    array = self._array
    if type(array) is not numpy.ndarray or self.requires_grad or array.dtype.kind == "V":
        # numpy.asarray goes on to __array__, which says why not.
        raise AttributeError(
            "__array_interface__ is for CPU tensors that need no grad, of a dtype that NumPy has"
        )
    return array.__array_interface__


def _cuda_array_interface(self: Tensor):
    """CUDA's description of this tensor's memory, which Numba, CuPy and others share."""
    if not self.is_cuda:
        raise AttributeError(
            "Can't get __cuda_array_interface__ on non-CUDA tensor type: "
            f"{self.type()} If CUDA data is required use tensor.cuda() to copy tensor to "  # type: ignore[attr-defined]
            "device memory."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    return self._array.__cuda_array_interface__


Tensor.__array_interface__ = property(_array_interface)  # type: ignore[attr-defined]
Tensor.__cuda_array_interface__ = property(_cuda_array_interface)  # type: ignore[attr-defined]


def _foreign(obj, dtype) -> Tensor | None:
    """A tensor on the memory of an array, a capsule or a buffer; None where it has none."""
    if isinstance(obj, numpy.ndarray) or backends.is_array(obj):
        return from_array(array_from("asarray", obj, None, copy=False))
    if isinstance(obj, numpy.generic):
        return None
    if hasattr(obj, "__cuda_array_interface__"):
        return from_array(backends.backend_for("cuda").xp.asarray(obj))
    if type(obj).__name__ == _CAPSULE or hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        return from_array(checked_numpy(numpy.asarray(obj)))
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtypes.get_default_dtype() if dtype is None else dtype)


@function()
def asarray(
    obj, *, dtype=None, device=None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """`obj` as a tensor: shared if it can be (copy=None), always copied (True), or never (False).

    obj: a tensor, an array of any library (by DLPack or an array interface), a buffer, a number
    or nested sequences. requires_grad: False detaches; by default that of `obj`. Raises ValueError
    where copy=False and a copy is needed.
    """
    found = obj if isinstance(obj, Tensor) else _foreign(obj, dtype)
    if found is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor. (copy=False was given)")
        array = moved(array_from("asarray", obj, dtype, copy=True), device)
        return leaf(array, bool(requires_grad))
    kind = None if dtype is None else dtype_of("asarray", dtype)
    if kind is not None and kind is not found.dtype:
        if copy is False:
            raise ValueError(
                f"can't alias tensor with dtype '{found.dtype.scalar_name}' into dtype "
                f"'{kind.scalar_name}'."
            )
        copy = None
    where = None if device is None else Device(device)
    if where is not None and (where.type != found.device.type):
        if copy is False:
            raise ValueError(f"can't alias tensor from device '{found.device}' to '{where}'.")
        copy = None
    found = found.to(dtype=kind, device=where)  # type: ignore[attr-defined]
    if copy:
        found = found.clone()  # type: ignore[attr-defined]
    if requires_grad is None or found.requires_grad is requires_grad:
        return found
    return found._require_grad(True) if requires_grad else found.detach()


# The memory of a tensor exchanged ---------------------------------------------------------------


def _no_history(self: Tensor) -> None:
    if self.requires_grad and not (modes.state.inference or self.is_inference()):
        raise RuntimeError("cannot resize variables that require grad; resize tensor.detach()")
    if modes.duals and modes.forward_enabled() and dual_of(self) is not None:
        raise RuntimeError("cannot resize variables that has a forward grad")


@method("resize_")
def _resize(self: Tensor, *size, memory_format=None) -> Tensor:
    """Give this tensor another size, in its memory where that is large enough.

    Elements keep their places in memory; what is new is uninitialised. A tensor that needs more
    memory than it has gets new one, with its elements copied; a view cannot.
    """
    if not size:
        raise TypeError('resize_() missing 1 required positional arguments: "size"')
    return _resized(self, shape_of("resize_", size), "resize_")


def _resized(self: Tensor, shape: tuple[int, ...], name: str) -> Tensor:
    _no_history(self)
    if self._array.shape == shape:
        return self
    before_write(self)
    resize(self, shape)
    wrote(self, name)
    return self


@function(name="resize_as_", method=True)
def _resize_as(input: Tensor, the_template: Tensor, *, memory_format=None) -> Tensor:
    """Give a tensor the size of another one: see `Tensor.resize_`."""
    return _resized(input, tuple(the_template.shape), "resize_as_")


@method("set_")
def _set(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Let this tensor look at the memory of another one, or at a storage: all of it as it is, or a
    geometry in it.

    Without arguments it gets empty memory of its own. Raises RuntimeError for another dtype, or a
    geometry (in elements) that leaves the memory.
    """
    if is_batchedtensor(self) or is_batchedtensor(source):
        raise not_batched("set_")
    if modes.duals and modes.forward_enabled() and dual_of(self) is not None:
        raise NotImplementedError(
            "Trying to use forward AD with set_ that does not support it because it has not been "
            "implemented yet."
        )
    if modes.grad_enabled() and self.requires_grad:
        check_inplace(self, "set_")
    before_write(self)
    version = self._version
    if source is None:
        array, storage = backends.backend_of(self._array).xp.empty((0,), self._array.dtype), FRESH
        memory = None
    else:
        if isinstance(source, UntypedStorage | TypedStorage):
            source = source.seen_as(self.dtype)
            size = (source.numel(),) if size is None else size
        if not isinstance(source, Tensor):
            raise TypeError(f"set_(): argument 'source' must be Tensor, not {type_name(source)}")
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        array, storage, memory = source._array, source._storage.alias(), memory_of(source)
        if size is not None:
            array = _geometry(source, storage_offset, size, stride)
    self._exchange(array, memory)
    self._store, self._view, self._edge = storage, None, None
    if self._leaf is not None:
        self._leaf.accumulator = None  # the graph so far has seen another tensor
    self._storage.set_version(version)
    wrote(self, "set_")
    return self


def _geometry(source: Tensor, offset: int, size: Sequence[int], stride: Sequence[int] | None):
    size = tuple(size)
    stride = row_major(size) if stride is None else tuple(stride)
    size, stride, offset, _ = geometry("set_", source, size, stride, offset)
    line = line_of(memory_of(source), source._array)
    strides = tuple(s * line.dtype.itemsize for s in stride)
    return backends.backend_of(line).as_strided(line[offset:], size, strides)


@function()
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An uninitialised tensor of a size whose dimensions lie in memory in a given order.

    physical_layout: the dimensions from the one with the largest stride to that with stride 1.
    """
    shape, order = shape_of("empty_permuted", (tuple(size),)), tuple(physical_layout)
    if len(shape) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    if len(set(order)) != len(order):
        raise RuntimeError(f"Duplicate dim not allowed, got physical_layout {list(order)}")
    if any(not 0 <= d < len(shape) for d in order):
        raise RuntimeError(
            f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got "
            f"{list(order)})"
        )
    kind = dtype_of("empty_permuted", dtype).np
    back = tuple(sorted(range(len(order)), key=order.__getitem__))

    def build(b):
        return b.xp.empty(tuple(shape[d] for d in order), dtype=kind).transpose(back)

    return make(build, device, requires_grad)
