"""The class in front of an array library, and the registry: array -> backend, device -> backend.

Layer 1: imports layer 0. Kernels and ops write on `backend.xp`; what NumPy and CuPy do
under different names (moving data, scattered addition, special functions, random numbers) is a
method here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy

from ag_visual import devices
from ag_visual.devices import device

# An array of any backend. The libraries share an interface but no common base class.
Array = Any


class BackendUnavailable(RuntimeError):
    """A device was asked for whose array library or hardware is not there."""


class Backend(ABC):
    """One array library: its namespace `xp`, its array type, and what differs between libraries.

    `device_type` is the type of the devices its arrays live on. Shapes, strides and offsets are in
    the units of the array library (strides in bytes).
    """

    name: str
    device_type: str
    xp: Any
    array_type: type
    has_values = True
    """Whether arrays have values; else they have only a shape."""

    @abstractmethod
    def asarray(self, data: Any, dtype: Any = None) -> Array:
        """An array of this backend from numbers, sequences or host arrays; may alias `data`."""

    @abstractmethod
    def to_numpy(self, array: Array) -> numpy.ndarray[Any, Any]:
        """The values as a NumPy array on the host; the array itself where that is one already."""

    @abstractmethod
    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Array:
        """An array of this backend on the current device; the same object on the host."""

    def to_pinned(self, array: Array) -> numpy.ndarray[Any, Any]:
        """`to_numpy` into page-locked memory, from where it goes back to a GPU fastest.

        On the host, where there is none of that kind, a copy.
        """
        return numpy.array(self.to_numpy(array))

    @abstractmethod
    def device(self, array: Array) -> device:
        """The device an array lives on, always with its index where the type has several."""

    @abstractmethod
    def pointer(self, array: Array) -> int:
        """The address of the first element."""

    @abstractmethod
    def add_at(self, target: Array, index: Any, values: Any) -> None:
        """`target[index] += values` in place, where positions that occur twice are added twice.

        16-bit floats are added up in float32, and rounded once.
        """

    @abstractmethod
    def maximum_at(self, target: Array, index: Any, values: Any) -> None:
        """`target[index] = maximum(target[index], values)` in place, duplicates included."""

    @abstractmethod
    def minimum_at(self, target: Array, index: Any, values: Any) -> None:
        """`target[index] = minimum(target[index], values)` in place, duplicates included."""

    @abstractmethod
    def multiply_at(self, target: Array, index: Array, values: Array) -> None:
        """`target[index] *= values` in place on vectors, duplicates included."""

    @abstractmethod
    def as_strided(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """A view that starts at the array's first element, with strides in bytes; unchecked."""

    @property
    @abstractmethod
    def special(self) -> ModuleType | Any:
        """The library's scipy.special."""

    @property
    @abstractmethod
    def sparse(self) -> ModuleType | Any:
        """The library's scipy.sparse."""

    @abstractmethod
    def random_bits(self, seed: int) -> Any:
        """A fresh source of random numbers: `numpy.random.Generator` or its equal."""

    @abstractmethod
    def random_state(self, bits: Any) -> bytes:
        """All of the state of such a source."""

    @abstractmethod
    def set_random_state(self, bits: Any, state: bytes) -> None:
        """Put a source into a state; ValueError when the bytes are not one of its own."""

    def count(self) -> int:
        """How many devices there are."""
        return 1

    def on(self, index: int | None) -> AbstractContextManager[Any]:
        """A context in which device `index` is the current one (None changes nothing)."""
        if index is not None and not 0 <= index < self.count():
            raise BackendUnavailable(
                f"device '{self.device_type}:{index}' does not exist; there "
                f"{'is' if self.count() == 1 else 'are'} {self.count()} of type "
                f"'{self.device_type}'"
            )
        return nullcontext()

    def on_host(self, function: Callable[..., Any], *arrays: Array) -> Any:
        """What a function of NumPy arrays gives for arrays of this backend, brought back here.

        For what the library lacks; on the host nothing is copied.
        """
        result = function(*(self.to_numpy(array) for array in arrays))
        if isinstance(result, tuple):
            return tuple(self.from_numpy(part) for part in result)
        return self.from_numpy(result)

    def raising(self) -> AbstractContextManager[Any]:
        """A context in which failing factorisations raise numpy.linalg.LinAlgError."""
        return nullcontext()

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""
        return

    def __repr__(self) -> str:
        return f"<backend {self.name} for '{self.device_type}'>"


_by_array: dict[type, Backend] = {}
_by_device: dict[str, Backend] = {}
_by_namespace: dict[Any, Backend] = {}


# Device type -> makes the backend, whose library is imported when that is first asked for.
_lazy: dict[str, Callable[[], Backend]] = {}


def register(backend: Backend) -> Backend:
    """Make a backend known under its array type, namespace and device type; the last one wins."""
    devices.add_type(backend.device_type)
    _by_array[backend.array_type] = backend
    _by_device[backend.device_type] = backend
    _by_namespace[backend.xp] = backend
    return backend


def register_lazy(device_type: str, load: Callable[[], Backend]) -> None:
    """Have a backend made when its device type is first asked for."""
    _lazy[device_type] = load


def registered() -> tuple[Backend, ...]:
    """The backends in use so far; asking loads none."""
    return tuple(_by_device.values())


def is_narrow(array: Array) -> bool:
    """Are these 16-bit floats? One by one they add up to no more than 2048, or 256, ones."""
    return bool(array.dtype.itemsize == 2 and array.dtype.kind in "fV")


def is_array(value: Any) -> bool:
    """Whether the value is an array of a library in use (and no subclass of one)."""
    return type(value) in _by_array


def backend_of(array: Array) -> Backend:
    """The backend of an array, found by its type."""
    try:
        return _by_array[type(array)]
    except KeyError:
        return _backend_of_subclass(array)


def on_host(value: Any) -> numpy.ndarray[Any, Any]:
    """An array of any library, or a number, as a NumPy array; on the host nothing is copied."""
    return numpy.asarray(backend_of(value).to_numpy(value) if is_array(value) else value)


def data_pointer(array: Any) -> int:
    """Address of the first element of an array of any backend."""
    return backend_of(array).pointer(array)


def _backend_of_subclass(array: Array) -> Backend:
    for kind in type(array).__mro__:
        if kind in _by_array:
            return _by_array[kind]
    if type(array).__module__.partition(".")[0] == "cupy":
        backend = backend_for("cuda")
        if isinstance(array, backend.array_type):
            return backend
    unsupported = getattr(array, "unsupported", None)
    if unsupported is not None:  # the outline of an array, which has no values
        raise unsupported() from None
    known = ", ".join(f"{b.array_type.__module__}.{b.array_type.__name__}" for b in registered())
    raise TypeError(f"no array library is known for {type(array).__name__}; known: {known}")


def backend_for(where: device | str) -> Backend:
    """The backend of a device or device type; imports CuPy when 'cuda' is first asked for.

    Raises BackendUnavailable, saying what to install, when that cannot be used here.
    """
    kind = where.type if isinstance(where, device) else where
    found = _by_device.get(kind)
    if found is None:
        load = _lazy.get(kind)
        if load is None:
            raise BackendUnavailable(
                f"no array library serves device type {kind!r}; known: {', '.join(_by_device)}"
            )
        found = register(load())
    return found


def of_namespace(xp: Any) -> Backend:
    """The backend whose namespace is `xp`: how a kernel reaches what `xp` lacks."""
    return _by_namespace[xp]
