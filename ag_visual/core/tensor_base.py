"""What a Tensor is without its graph: an array in a storage, its facts, its values as Python's.

Only `core.tensor` may import it; what takes tensors takes `core.tensor.Tensor`.
"""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core import modes, source, view
from ag_visual.core.storage import FRESH, Storage, unwritten
from ag_visual.devices import device as Device
from ag_visual.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format as MemoryFormat,
)
from ag_visual.sizes import Size, size_of

if TYPE_CHECKING:
    from ag_visual.core.attached import Attached, Tensor  # with what upper layers attach
else:
    Attached = object


# Dimensions of the tensors that may have the format.
_CHANNELS_LAST = {channels_last: 4, channels_last_3d: 5}


class TensorBase(Attached):
    """An array, the memory that it looks into, and the version of that memory."""

    __slots__ = ("__dict__", "__weakref__", "_array", "_memory", "_plain", "_store", "_view")

    _array: Any
    _store: Storage
    _view: view.View | None
    # An array over all the memory that this tensor looks into; None where that is `_array`'s own.
    _memory: Any
    # The dtype, where the array is NumPy's own in float32 or float64, else None: the one question
    # of a fast wrapper that decides whether it may run. Goes with every assignment to `_array`.
    _plain: Any
    __array_priority__: ClassVar[int] = 1000

    if TYPE_CHECKING:

        @property
        def requires_grad(self) -> bool: ...

    # Array facts -----------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return size_of(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return Size(self._array.shape)
        if (type(dim) is not int and not hasattr(dim, "__index__")) or isinstance(dim, bool):
            raise TypeError(f"size(): argument 'dim' must be int, not {type(dim).__name__}")
        return self._array.shape[dim]

    @property
    def dtype(self) -> dtypes.dtype:
        """The element type, such as `torch.float32`."""
        return dtypes.of_array(self._array)

    @property
    def device(self) -> Device:
        """Where the array lives: `cpu`, or `cuda` with its index."""
        return backends.backend_of(self._array).device(self._array)

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is in host memory."""
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and no values: it is on the device 'meta'."""
        return self.device.type == "meta"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._array.ndim)

    def dim(self) -> int:
        """The number of dimensions."""
        return int(self._array.ndim)

    def numel(self) -> int:
        """The number of elements."""
        return int(self._array.size)

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self._array.itemsize)

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self._array.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._array.nbytes)

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements."""
        item = self._array.itemsize
        strides = tuple(s // item for s in self._array.strides)
        if 0 in strides:
            strides = _stepping(self._array.shape, strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Distance in elements from the start of the memory that views share."""
        if self._memory is None:
            return 0
        array = self._array
        return int(
            (backends.data_pointer(array) - backends.data_pointer(self._memory)) // array.itemsize
        )

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there are no values."""
        backend = backends.backend_of(self._array)
        return backend.pointer(self._array) if backend.has_values else 0

    def is_contiguous(self, *, memory_format: Any = contiguous_format) -> bool:
        """Whether the elements lie in row-major order without gaps.

        memory_format: of `torch.channels_last` (`channels_last_3d`) the elements of an image
        (a volume), the channels of each place beside each other; copies do not take that order.
        """
        array = self._array
        if memory_format in _CHANNELS_LAST:
            return array.ndim == _CHANNELS_LAST[memory_format] and bool(
                array.transpose(0, *range(2, array.ndim), 1).flags.c_contiguous
            )
        if memory_format is not contiguous_format:
            if isinstance(memory_format, MemoryFormat):
                raise RuntimeError(f"unsupported memory format option {memory_format}")
            raise TypeError(
                "is_contiguous(): argument 'memory_format' must be torch.memory_format, not "
                f"{type(memory_format).__name__}"
            )
        return bool(array.flags.c_contiguous)

    def is_set_to(self, tensor: TensorBase) -> bool:
        """Whether both show the same elements of the same memory, with the same shape."""
        mine, other = self._array, tensor._array
        return bool(
            mine.dtype == other.dtype
            and mine.shape == other.shape
            and mine.strides == other.strides
            and backends.data_pointer(mine) == backends.data_pointer(other)
        )

    def is_floating_point(self) -> bool:
        """Whether the elements are real floating-point numbers."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements are complex."""
        return self.dtype.is_complex

    def is_conj(self) -> bool:
        """Always False: NumPy has no lazy conjugation, `conj` copies."""
        return False

    # Out of the graph ------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Any:
        """The NumPy array that shares this tensor's memory (CPU tensors that need no grad)."""
        if force:
            return backends.backend_of(self._array).to_numpy(self._array)
        if self.requires_grad and modes.grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if type(self._array) is not numpy.ndarray:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return numpy.array(self.numpy(), dtype=dtype, copy=copy)

    def item(self) -> Any:
        """The one element as a Python number."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
            )
        return self._array.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers, or one number without dimensions."""
        return backends.backend_of(self._array).to_numpy(self._array).tolist()

    def _scalar(self, kind: str, tells: bool = True) -> Any:
        if self._array.size != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars, but this one has "
                f"{self._array.size}: take .tolist(), or reduce it first"
            )
        if tells and self.requires_grad:
            warnings.warn(
                "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
                "behavior.\nConsider using tensor.detach() first.",
                UserWarning,
                stacklevel=source.user_level(),
            )
        value = self._array.item()
        if isinstance(value, complex) and kind != "complex":
            if value.imag:
                raise RuntimeError(
                    f"value cannot be converted to type {kind} without overflow: {value} has an "
                    "imaginary part, take .real"
                )
            return value.real
        return value

    def __float__(self) -> float:
        return float(self._scalar("double"))

    def __int__(self) -> int:
        return int(self._scalar("int64_t", tells=False))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.dtype.category > 1 or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return operator.index(self._array.item())

    def __bool__(self) -> bool:
        if self._array.size != 1:
            values = "no values" if self._array.size == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {values} is ambiguous")
        return bool(self._array.item())

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self._array.shape[0])

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Tensor]:
        if self._array.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Any:
        """The rows in reverse order, as `flip(0)` gives them."""
        return self if self._array.ndim == 0 else self.flip(0)

    def __contains__(self, element: Any) -> bool:
        """Whether any element equals this number, or any of this tensor broadcast over it."""
        if not isinstance(element, (TensorBase, int, float, complex)):
            raise RuntimeError(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element)}."
            )
        return bool((self == element).any().item())

    def __dir__(self) -> list[str]:
        """What this tensor has: nothing deprecated, no empty slot, no other device's interface."""
        names = set(object.__dir__(self)) - {"volatile"}
        unset = ("_dual", "_origin", "__cuda_array_interface__")
        names -= {n for n in unset if not hasattr(self, n)}
        return sorted(names)

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    # Version ---------------------------------------------------------------------------------

    @property
    def _storage(self) -> Storage:
        """The storage of this tensor's own; reading `_store` is enough to compare snapshots."""
        return self._store if self._store is not FRESH else own_storage(self)

    @property
    def _version(self) -> int:
        return self._store.snapshot[0]

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        """Whether autograd follows this tensor as a view of another one, its `_base`."""
        return self._view is not None

    def is_inference(self) -> bool:
        """Was this tensor made in inference mode (and can never take part in a graph)?"""
        return False


def _stepping(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides where NumPy has 0 though nothing is expanded: for new dimensions and empty arrays."""
    found: list[int] = []
    step = 1  # to the next element beyond the dimensions behind
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        new = n == 1 and stride == 0
        found.append(step if new or 0 in shape else stride)
        step = found[-1] * max(n, 1)
    return tuple(reversed(found))


# Two threads that use a leaf for the first time must get one accumulator: it has the lock of .grad.
births = threading.RLock()


def own_storage(tensor: TensorBase) -> Storage:
    with births:
        if tensor._store is FRESH:
            tensor._store = unwritten()
        return tensor._store
