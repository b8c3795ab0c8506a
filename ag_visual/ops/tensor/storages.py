"""torch.UntypedStorage and TypedStorage: the memory that tensors look into, as an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ag_visual import dtypes
from ag_visual.core.level import Wrapper
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, from_array, method
from ag_visual.devices import device as Device
from ag_visual.dispatch.memory import line_of, memory_of
from ag_visual.dispatch.table import function
from ag_visual.ops.tensor.creation import empty
from ag_visual.ops.tensor.from_data import tensor as made_of


@function()
def is_storage(obj) -> bool:
    """Whether the object is memory: an UntypedStorage or a TypedStorage."""
    return isinstance(obj, _Memory)


class _Memory:
    """Base: elements one behind the other, in a tensor without history that shares the memory."""

    __slots__ = ("__weakref__", "_line")
    _line: Any

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there are no values."""
        return int(self._line.data_ptr())

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._line.nbytes)

    def size(self) -> int:
        """The number of elements."""
        return int(self._line.numel())

    def __len__(self) -> int:
        return self.size()

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._line.device  # type: ignore[no-any-return]

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is that of a GPU."""
        return bool(self._line.is_cuda)

    @property
    def _cdata(self) -> int:
        """A number that is the same for all storages on this memory."""
        return self.data_ptr()

    def seen_as(self, kind: dtypes.dtype) -> Tensor:
        """The elements in a dtype, as a tensor on this memory."""
        return self._line if self._line.dtype is kind else self._line.view(kind)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._line.tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        found = self._line[index]
        return found.item() if found.dim() == 0 else self._like(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._line[index] = value._line if isinstance(value, _Memory) else value

    def fill_(self, value: Any) -> Any:
        """Set all elements."""
        self._line.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: Any = None) -> Any:
        """Take the elements of another storage of this size."""
        self._line.copy_(source._line)
        return self

    def clone(self) -> Any:
        """A copy."""
        return self._like(self._line.clone())

    def cpu(self) -> Any:
        """The same memory where it is on the CPU, else a copy there."""
        return self if self._line.is_cpu else self._like(self._line.cpu())

    def _like(self, line: Any) -> Any:
        made = object.__new__(type(self))
        made._line = line
        return made

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Memory)
            and type(other) is type(self)
            and other.data_ptr() == self.data_ptr()
            and other.nbytes() == self.nbytes()
        )

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.clone())

    def _lines(self) -> str:
        return "".join(f" {value}\n" for value in self.tolist())


class UntypedStorage(_Memory):
    """Memory as bytes: `UntypedStorage(4)`, or `Tensor.untyped_storage()` of a tensor's own."""

    __slots__ = ()

    def __init__(self, size: int = 0, *, device: Any = None) -> None:
        self._line = empty(size, dtype=dtypes.uint8, device=device)

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def resizable(self) -> bool:
        """False: the memory stays as large as it is."""
        return False

    def __repr__(self) -> str:
        size = self.size()
        return f"{self._lines()}[torch.storage.UntypedStorage(device={self.device}) of size {size}]"


class _OfDtype(type):
    """The type of `FloatStorage` and its kin: isinstance looks at the dtype."""

    def __instancecheck__(cls, instance: Any) -> bool:
        kind = getattr(cls, "_kind", None)
        if kind is None:
            return type.__instancecheck__(cls, instance)
        return type.__instancecheck__(TypedStorage, instance) and instance.dtype is kind


class TypedStorage(_Memory, metaclass=_OfDtype):
    """Memory as elements of a dtype: what `Tensor.storage()` gives; torch has it for old programs.

    `FloatStorage(3)` has elements that are not set, `FloatStorage([1, 2])` these.
    """

    __slots__ = ()

    def __init__(
        self, data: Any = 0, *, dtype: Any = None, device: Any = None, wrap_storage: Any = None
    ) -> None:
        kind = dtype or getattr(self, "_kind", None) or dtypes.get_default_dtype()
        if wrap_storage is not None:
            self._line = wrap_storage._line.view(kind)
        elif hasattr(data, "__index__"):
            self._line = empty(int(data), dtype=kind, device=device)
        else:
            self._line = made_of(list(data), dtype=kind, device=device)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super().__getitem__(index)

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements."""
        return self._line.dtype  # type: ignore[no-any-return]

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self._line.itemsize)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        made = object.__new__(UntypedStorage)
        made._line = self._line.view(dtypes.uint8)
        return made

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self.untyped()

    def __repr__(self) -> str:
        about = f"dtype={self.dtype}, device={self.device}"
        return f"{self._lines()}[torch.storage.TypedStorage({about}) of size {self.size()}]"


def _legacy(kind: dtypes.dtype) -> type[TypedStorage]:
    name = dtypes.legacy_name(kind).replace("Tensor", "Storage")
    about = f"`{name}(size)` or `{name}(data)`: memory of {kind!r}."
    body = {"_kind": kind, "__slots__": (), "__doc__": about, "__module__": "torch"}
    return _OfDtype(name, (TypedStorage,), body)


LEGACY = {
    made.__name__: made
    for made in map(_legacy, dtypes.ALL)
    if made._kind not in dtypes.APART  # type: ignore[attr-defined]
}
for _name, _kind_of in LEGACY.items():
    function(name=_name)(_kind_of)
Storage = LEGACY["FloatStorage"]
function()(UntypedStorage)
function()(TypedStorage)


def _line(tensor: Tensor) -> Tensor:
    """All memory that a tensor looks into, in its dtype and without history; writes are counted.

    NotImplementedError of a tensor of a transform, which stands for others.
    """
    if isinstance(tensor, Wrapper):
        raise tensor.no_storage()
    line = line_of(memory_of(tensor), tensor._array)
    result: Tensor = from_array(line)
    result._store, result._memory = tensor._storage, memory_of(tensor)
    return result


@method("untyped_storage")
def _untyped(self: Tensor) -> UntypedStorage:
    """The memory that this tensor looks into, as bytes: the same for all views of it."""
    made = object.__new__(UntypedStorage)
    made._line = _line(self).view(dtypes.uint8)  # type: ignore[attr-defined]
    return made


@method("storage")
def _typed(self: Tensor) -> TypedStorage:
    """The memory that this tensor looks into, as elements; a UserWarning prefers bytes."""
    warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. This should only matter to you if you are using storages "
        "directly. To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()"
    )
    made = object.__new__(TypedStorage)
    made._line = _line(self)
    return made


@method("storage_type")
def _storage_type(self: Tensor) -> type[TypedStorage]:
    """The class of the memory that this tensor looks into: FloatStorage for float32."""
    return LEGACY[dtypes.legacy_name(self.dtype).replace("Tensor", "Storage")]
