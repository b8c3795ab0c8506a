"""Objects as JSON and arrays: nested containers, numbers, strings, tensors with shared memory.

A JSON value stands for itself, except that an object has one key that says what it is, as in
`{"tuple": [1, 2]}`. Tensors that overlap in memory are views of one stored array; each is stored
once, however often it occurs.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core.level import Wrapper
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.errors import FormatError
from ag_visual.nn.parameter import Parameter
from ag_visual.serialization.container import NAMES
from ag_visual.serialization.memory import Memories
from ag_visual.sizes import Size

_KINDS = frozenset(
    {"float", "complex", "bytes", "dtype", "device", "dict", "counter", "ordered", "numpy"}
    | {"tensor"}
)
_SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset, "size": Size}


class Writer:
    """Turns an object into JSON and collects the memory of its tensors."""

    def __init__(self) -> None:
        self._tensors: dict[int, int] = {}
        self._found: list[tuple[str, Any, dict[str, Any]]] = []
        self._open: list[int] = []

    def encode(self, value: Any, path: str) -> Any:
        """The JSON of one object; `path` is how a reader would get to it."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self.encode(value.real, path), self.encode(value.imag, path)]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, numpy.ndarray | numpy.generic):
            return self._array(value, path)
        if kind is dtypes.dtype:
            return {"dtype": value.name}
        if kind is Device:
            return {"device": str(value)}
        if id(value) in self._open:
            raise ValueError(f"{path} contains itself and cannot be saved")
        self._open.append(id(value))
        try:
            return self._container(value, kind, path)
        finally:
            self._open.pop()

    def _container(self, value: Any, kind: type, path: str) -> Any:
        if kind is list:
            return [self.encode(v, f"{path}[{i}]") for i, v in enumerate(value)]
        for name, cls in _SEQUENCES.items():
            if kind is cls:
                return {name: [self.encode(v, f"{path}[{i}]") for i, v in enumerate(value)]}
        if kind in (dict, OrderedDict, Counter) or (
            isinstance(value, defaultdict) and value.default_factory is dict
        ):
            pairs = [
                [
                    self.encode(k, f"a key of {path}"),
                    self.encode(v, f"{path}.{k}" if path else str(k)),
                ]
                for k, v in value.items()
            ]
            found: dict[str, Any] = {"counter" if kind is Counter else "dict": pairs}
            if kind is OrderedDict:
                metadata = getattr(value, "_metadata", None)
                found = {"ordered": [pairs, self.encode(metadata, f"{path}._metadata")]}
            return found
        raise TypeError(refusal(value, path))

    def _array(self, value: Any, path: str) -> Any:
        if value.dtype.name not in NAMES and value.dtype.kind != "c":
            raise TypeError(f"{path} is a NumPy array of {value.dtype}, which cannot be saved")
        scalar = not isinstance(value, numpy.ndarray)
        inner = self._tensor(from_array(numpy.asarray(value)), path)
        return {"numpy": [scalar, inner]}

    def _tensor(self, tensor: Tensor, path: str) -> Any:
        known = self._tensors.get(id(tensor))
        if known is None:
            if isinstance(tensor, Wrapper):
                raise tensor.no_storage()
            known = self._tensors[id(tensor)] = len(self._found)
            array = tensor._array
            facts = {
                "dtype": tensor.dtype.name,
                "shape": list(array.shape),
                "stride": list(tensor.stride()),
                "requires_grad": tensor.requires_grad,
                "parameter": isinstance(tensor, Parameter),
                "device": str(tensor.device),
            }
            # The tensor, too, is kept: its id must stay its own.
            self._found.append((path, tensor, facts))
        return {"tensor": known}

    def finish(self) -> tuple[dict[str, numpy.ndarray[Any, Any]], list[dict[str, Any]]]:
        """The arrays to store by name, and for each tensor where it lies in them."""
        arrays: dict[str, numpy.ndarray[Any, Any]] = {}
        for group in overlapping([t._array for _, t, _ in self._found]):
            first = self._found[group[0]]
            name = _free_name(first[0], arrays)
            low = min(span(self._found[i][1]._array)[0] for i in group)
            high = max(span(self._found[i][1]._array)[1] for i in group)
            array = first[1]._array
            whole = len(group) == 1 and array.flags.c_contiguous
            if whole:
                arrays[name] = _plain(backends.backend_of(array).to_numpy(array))
            else:
                parts = [self._found[i][1]._array for i in group]
                memory = joined(parts, low, high)
                kinds = {part.dtype for part in parts}
                dtype = kinds.pop() if len(kinds) == 1 else memory.dtype
                even = memory.nbytes % dtype.itemsize == 0
                arrays[name] = _plain(memory.view(dtype)) if even else memory
            for i in group:
                tensor, facts = self._found[i][1:]
                facts["in"] = name
                facts["offset"] = span(tensor._array)[0] - low
        return arrays, [facts for _, _, facts in self._found]


def joined(arrays: list[Any], low: int, high: int) -> numpy.ndarray[Any, Any]:
    """The bytes from address `low` to `high` that several arrays cover together."""
    memory = numpy.zeros(high - low, numpy.uint8)
    for array in arrays:
        offset = span(array)[0] - low
        view: Any = numpy.ndarray(array.shape, array.dtype, memory, offset, array.strides)
        view[...] = backends.backend_of(array).to_numpy(array)
    return memory


def _plain(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """An array that the container can hold: complex numbers as pairs."""
    if array.dtype.kind != "c":
        return array
    part = array.real.dtype
    return numpy.ascontiguousarray(array).view(part).reshape(*array.shape, 2)


def span(array: Any) -> tuple[int, int]:
    """Addresses of the first byte and behind the last one; strides are never negative here."""
    start = backends.backend_of(array).pointer(array)
    if not array.size:
        return start, start
    far = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    return start, start + far + array.itemsize


def overlapping(arrays: list[Any]) -> list[list[int]]:
    """Numbers of arrays, those together whose ranges of memory overlap, in order."""
    ranges = sorted(
        (str(backends.backend_of(a).device(a)), *span(a), i) for i, a in enumerate(arrays)
    )
    groups: list[list[int]] = []
    place, reach = "", -1
    for where, low, high, i in ranges:
        if groups and where == place and low < reach and high > low:
            groups[-1].append(i)
            reach = max(reach, high)
        else:
            groups.append([i])
            place, reach = where, high
    return sorted((sorted(group) for group in groups), key=lambda group: group[0])


def _free_name(path: str, taken: dict[str, Any]) -> str:
    name, number = path or "value", 1
    while name in taken or name == "__metadata__":
        number += 1
        name = f"{path or 'value'}#{number}"
    return name


def refusal(value: Any, path: str) -> str:
    where = path or "the object"
    text = (
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be saved"
    )
    if hasattr(value, "state_dict"):
        return f"{text}: save its state_dict()"
    if callable(value):
        return f"{text}: code is never stored"
    return (
        f"{text}: tensors, NumPy arrays, numbers, strings, bytes, None, and lists, tuples, sets "
        "and dictionaries of them can"
    )


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FormatError(f"it gives {value!r} where a size should be")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise FormatError(f"it gives {value!r} where true or false should be")
    return value


class Reader:
    """Makes the object again from JSON and arrays."""

    def __init__(
        self,
        arrays: dict[str, numpy.ndarray[Any, Any]],
        facts: list[dict[str, Any]],
        place: Callable[[str], Device],
    ) -> None:
        self._arrays, self._facts, self._place = arrays, facts, place
        self._made: dict[int, Any] = {}
        self._memories = Memories()

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(v) for v in value]
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self.decode(v) for v in inner)
        if kind not in _KINDS:
            raise FormatError(f"it holds a {kind!r}, which is not known here")
        return getattr(self, f"_{kind}")(inner)

    def _float(self, inner: str) -> float:
        return float(inner)

    def _complex(self, inner: list[Any]) -> complex:
        return complex(*map(self.decode, inner))

    def _bytes(self, inner: str) -> bytes:
        return base64.b64decode(inner, validate=True)

    def _dtype(self, inner: str) -> dtypes.dtype:
        found = getattr(dtypes, inner, None)
        if not isinstance(found, dtypes.dtype):
            raise FormatError(f"it names the dtype {inner!r}, which is not known here")
        return found

    def _device(self, inner: str) -> Device:
        try:
            if isinstance(inner, str):  # an index alone would be a CUDA device
                return Device(inner)
        except RuntimeError:
            pass
        raise FormatError(f"it names the device {inner!r}, which is not known here")

    def _dict(self, inner: list[Any]) -> Any:
        return {self.decode(k): self.decode(v) for k, v in inner}

    def _counter(self, inner: list[Any]) -> Any:
        return Counter(self._dict(inner))

    def _ordered(self, inner: list[Any]) -> Any:
        found: Any = OrderedDict(self._dict(inner[0]))
        metadata = self.decode(inner[1])
        if metadata is not None:
            found._metadata = metadata
        return found

    def _numpy(self, inner: list[Any]) -> Any:
        array = self.decode(inner[1])._array
        return array[()] if inner[0] else array

    def _tensor(self, number: int) -> Any:
        if _size(number) not in self._made:
            self._made[number] = self._build(self._facts[number])
        return self._made[number]

    def _build(self, facts: dict[str, Any]) -> Any:
        """The tensor on its memory, which it shares with the others that lie there."""
        dtype = self._dtype(facts["dtype"])
        shape = tuple(map(_size, facts["shape"]))
        steps = tuple(map(_size, facts["stride"]))
        target = self._place(str(self._device(facts["device"])))
        return self._memories.tensor(
            facts["in"],
            self._arrays[facts["in"]],
            target,
            dtype,
            shape,
            steps,
            _size(facts["offset"]),
            _flag(facts["requires_grad"]),
            Parameter if _flag(facts["parameter"]) else Tensor,
        )
