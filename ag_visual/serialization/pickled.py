"""Objects as torch.save writes them: a pickle that names storages, and the bytes of each.

Only the instructions that torch's own files have, of protocol 2, so that every torch reads them.
"""

from __future__ import annotations

import argparse
import pathlib
import struct
import types
import zipfile
from collections import Counter, OrderedDict, defaultdict
from typing import Any, Final

import numpy

from ag_visual import dtypes, files
from ag_visual.arrays.backend import backend_of
from ag_visual.core.level import Wrapper
from ag_visual.core.sparse import SparseTensor
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.core.view import TURNED
from ag_visual.devices import device as Device
from ag_visual.nn.parameter import Parameter
from ag_visual.serialization.known import STORAGE_OF, is_allowed
from ag_visual.serialization.tree import joined, overlapping, refusal, span
from ag_visual.sizes import Size

_ALIGNED: Final = 64
_MOST_ITEM: Final = 16
_FACTORIES: Final = {
    None: None,
    **{kind: f"__builtin__ {kind.__name__}" for kind in (dict, list, set, int, float, str, tuple)},
    OrderedDict: "collections OrderedDict",
    Counter: "collections Counter",
}


class Writer:
    """One pickle, and the storages of its tensors."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._memo: dict[Any, int] = {}
        self._kept: list[Any] = []  # what the memo knows by its id must live
        self._places: dict[int, tuple[str, int, bool]] = {}
        self.storages: list[numpy.ndarray[Any, Any]] = []

    def dumps(self, value: Any) -> bytes:
        """The pickle of an object."""
        self._store(_tensors(value))
        self._out.append(b"\x80\x02")
        self._write(value, "")
        self._out.append(b".")
        return b"".join(self._out)

    # Memory --------------------------------------------------------------------------------------

    def _store(self, tensors: list[Tensor]) -> None:
        """Give each tensor its storage: those that overlap in memory have one."""
        arrays = [tensor._array for tensor in tensors]
        for group in overlapping(arrays):
            low = min(span(arrays[i])[0] for i in group)
            high = max(span(arrays[i])[1] for i in group)
            kinds = {tensors[i].dtype for i in group}
            plain = len(kinds) == 1 and kinds <= STORAGE_OF.keys()
            first = arrays[group[0]]
            if len(group) == 1 and first.flags.c_contiguous:
                host = numpy.ascontiguousarray(backend_of(first).to_numpy(first))
                storage = host.reshape(-1).view(numpy.uint8)  # no copy where it is there already
            else:
                if not plain:
                    low -= low % _MOST_ITEM  # so that every offset counts elements of its own
                storage = joined([arrays[i] for i in group], low, high)
            key = str(len(self.storages))
            self.storages.append(storage)
            for i in group:
                offset = (span(arrays[i])[0] - low) // arrays[i].itemsize
                self._places[id(tensors[i])] = key, offset, plain

    # Instructions --------------------------------------------------------------------------------

    def _known(self, key: Any) -> bool:
        """Write a reference to what was written before; False: it was not."""
        index = self._memo.get(key)
        if index is None:
            return False
        self._out.append(b"h%c" % index if index < 256 else b"j" + struct.pack("<I", index))
        return True

    def _remember(self, key: Any) -> None:
        index = self._memo[key] = len(self._memo)
        self._out.append(b"q%c" % index if index < 256 else b"r" + struct.pack("<I", index))

    def _global(self, name: str) -> None:
        if not self._known(("global", name)):
            self._out.append(b"c" + name.replace(" ", "\n").encode() + b"\n")
            self._remember(("global", name))

    def _call(self, name: str, *args: Any, path: str = "") -> None:
        self._global(name)
        self._plain_tuple(args, path)
        self._out.append(b"R")

    def _plain_tuple(self, values: tuple[Any, ...], path: str) -> None:
        self._out.append(b"(")
        for value in values:
            self._write(value, path)
        self._out.append(b"t")

    def _write(self, value: Any, path: str) -> None:
        kind = type(value)
        if value is None:
            self._out.append(b"N")
        elif kind is bool:
            self._out.append(b"\x88" if value else b"\x89")
        elif kind is int:
            self._out.append(_int(value))
        elif kind is float:
            self._out.append(b"G" + struct.pack(">d", value))
        elif kind is str:
            self._string(value)
        elif kind is _Storage:
            self._plain_tuple(value.pid, path)
            self._out.append(b"Q")
        elif kind is _Global:
            self._global(value.name)
        elif not self._known(id(value)):
            self._object(value, kind, path)
            self._kept.append(value)

    def _string(self, value: str) -> None:
        if not self._known(("text", value)):
            data = value.encode("utf-8", "surrogatepass")
            self._out.append(b"X" + struct.pack("<I", len(data)) + data)
            self._remember(("text", value))

    def _object(self, value: Any, kind: type, path: str) -> None:
        if kind is list:
            self._out.append(b"]")
            self._remember(id(value))
            self._items(b"(", b"e", [(v, f"{path}[{i}]") for i, v in enumerate(value)])
            return
        if kind is dict:
            self._out.append(b"}")
            self._remember(id(value))
            self._pairs(value, path)
            return
        if kind is tuple:
            self._tuple(value, path)
            return
        if kind is OrderedDict or kind is defaultdict:
            self._mapping(value, kind, path)
            return
        if isinstance(value, Tensor):
            self._tensor(value, path)
        elif kind in _WRITTEN:
            name, args = _WRITTEN[kind](value)
            self._call(name, *args, path=path)
        elif isinstance(value, numpy.ndarray | numpy.generic):
            self._numpy(value, path)
        elif kind is dtypes.dtype:
            self._global(f"torch {value.name}")
            return
        elif value in _TYPES if isinstance(value, type) else False:
            self._global(_TYPES[value])
            return
        elif kind in (argparse.Namespace, types.SimpleNamespace):
            self._call(f"{kind.__module__} {kind.__name__}")
            self._remember(id(value))
            self._write(vars(value), path)
            self._out.append(b"b")
            return
        elif is_allowed(kind):
            self._reduced(value, path)
            return
        else:
            raise TypeError(refusal(value, path))
        self._remember(id(value))

    def _items(self, begin: bytes, end: bytes, items: list[tuple[Any, str]]) -> None:
        if items:
            self._out.append(begin)
            for value, path in items:
                self._write(value, path)
            self._out.append(end)

    def _pairs(self, value: Any, path: str) -> None:
        pairs: list[tuple[Any, str]] = []
        for k, v in value.items():
            pairs += [(k, f"a key of {path}"), (v, f"{path}.{k}" if path else str(k))]
        self._items(b"(", b"u", pairs)

    def _tuple(self, value: tuple[Any, ...], path: str) -> None:
        self._items(b"(", b"t", [(v, f"{path}[{i}]") for i, v in enumerate(value)])
        if not value:
            self._out.append(b")")
        elif id(value) in self._memo:  # it holds a list that holds it, and so was written within
            self._out.append(b"0")
            self._known(id(value))
        else:
            self._remember(id(value))

    def _mapping(self, value: Any, kind: type, path: str) -> None:
        if kind is OrderedDict:
            self._call("collections OrderedDict")
        else:
            name = _FACTORIES.get(value.default_factory, "")
            if name == "":
                raise TypeError(refusal(value, path))
            self._call("collections defaultdict", None if name is None else _Global(name))
        self._remember(id(value))
        self._pairs(value, path)
        metadata = getattr(value, "_metadata", None)
        if metadata is not None:
            self._out.append(b"}(")
            self._string("_metadata")
            self._write(metadata, f"{path}._metadata")
            self._out.append(b"ub")

    def _numpy(self, value: Any, path: str) -> None:
        dtype = value.dtype
        if dtype.kind not in "biufcSU" and dtype != dtypes.bfloat16.np:
            raise TypeError(
                f"{path or 'the object'} is a NumPy array of {dtype}, which cannot be saved"
            )
        if dtype.byteorder == ">":
            value = value.astype(dtype := dtype.newbyteorder("<"))
        if isinstance(value, numpy.generic):
            self._call("numpy.core.multiarray scalar", _Dtype(dtype), value.tobytes())
            return
        data = numpy.ascontiguousarray(value).tobytes()
        self._call("numpy.core.multiarray _reconstruct", _Global("numpy ndarray"), (0,), b"b")
        self._plain_tuple((1, value.shape, _Dtype(dtype), False, data), path)
        self._out.append(b"b")

    def _reduced(self, value: Any, path: str) -> None:
        """An object of a class that the program allows, as pickle would write it."""
        found = value.__reduce_ex__(2)
        if isinstance(found, str):
            raise TypeError(refusal(value, path))
        function, args, state, items, pairs = (*found, None, None, None)[:5]
        if getattr(function, "__name__", "") == "__newobj__":
            self._global(f"{args[0].__module__} {args[0].__qualname__}")
            self._plain_tuple(args[1:], path)
            self._out.append(b"\x81")
        else:
            self._call(f"{function.__module__} {function.__qualname__}", *args, path=path)
        self._remember(id(value))
        if items is not None:
            self._items(b"(", b"e", [(v, path) for v in items])
        if pairs is not None:
            self._items(b"(", b"u", [(each, path) for pair in pairs for each in pair])
        if state is not None:
            self._write(state, path)
            self._out.append(b"b")

    # Tensors -------------------------------------------------------------------------------------

    def _tensor(self, tensor: Any, path: str) -> None:
        state = {k: v for k, v in vars(tensor).items() if k != TURNED}
        if isinstance(tensor, SparseTensor):
            held = tensor._array
            parts = from_array(held.indices), from_array(held.values)
            self._store(list(parts))
            self._kept.append(parts)
            layout = _Layout()
            size = tuple(held.shape)
            self._call(
                "torch._utils _rebuild_sparse_tensor",
                layout,
                (*parts, size, held.coalesced_),
                path=path,
            )
            return
        if isinstance(tensor, Parameter):
            bare = tensor.detach()
            self._places[id(bare)] = self._places[id(tensor)]
            self._kept.append(bare)
            args = bare, tensor.requires_grad, _NO_HOOKS
            if state:
                args = (*args, state)
                self._call("torch._utils _rebuild_parameter_with_state", *args, path=path)
            else:
                self._call("torch._utils _rebuild_parameter", *args, path=path)
            return
        if not state:
            name, args = self._rebuilding(tensor)
            self._call(name, *args, path=path)
            return
        name, args = self._rebuilding(tensor)
        self._call(
            "torch._tensor _rebuild_from_type_v2",
            _Global(name),
            _Global("torch Tensor"),
            args,
            state,
            path=path,
        )

    def _rebuilding(self, tensor: Any) -> tuple[str, tuple[Any, ...]]:
        key, offset, plain = self._places[id(tensor)]
        dtype = tensor.dtype
        count = self.storages[int(key)].nbytes // (dtype.itemsize if plain else 1)
        kind = f"torch {STORAGE_OF[dtype]}" if plain else "torch.storage UntypedStorage"
        storage = _Storage(("storage", _Global(kind), key, str(tensor.device), count))
        shape = tuple(tensor.shape), tuple(tensor.stride())
        common = storage, offset, *shape, tensor.requires_grad, _NO_HOOKS
        if plain:
            return "torch._utils _rebuild_tensor_v2", common
        return "torch._utils _rebuild_tensor_v3", (*common, dtype)


class _Global:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Storage:
    __slots__ = ("pid",)

    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


class _Dtype:
    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class _Layout:
    __slots__ = ()


class _NoHooks:
    __slots__ = ()


_NO_HOOKS: Final = _NoHooks()

_WRITTEN: Final[dict[type, Any]] = {
    _NoHooks: lambda value: ("collections OrderedDict", ()),
    _Layout: lambda value: ("torch.serialization _get_layout", ("torch.sparse_coo",)),
    _Dtype: lambda value: ("numpy dtype", (_dtype_name(value.dtype), False, True)),
    bytes: lambda value: ("_codecs encode", (value.decode("latin1"), "latin1")),
    bytearray: lambda value: ("__builtin__ bytearray", (bytes(value),)),
    complex: lambda value: ("__builtin__ complex", (value.real, value.imag)),
    set: lambda value: ("__builtin__ set", (list(value),)),
    frozenset: lambda value: ("__builtin__ frozenset", (list(value),)),
    Counter: lambda value: ("collections Counter", (dict(value),)),
    pathlib.PosixPath: lambda value: ("pathlib PosixPath", value.parts),
    pathlib.WindowsPath: lambda value: ("pathlib WindowsPath", value.parts),
    Size: lambda value: ("torch Size", (tuple(value),)),
    Device: lambda value: (
        "torch device",
        (value.type,) if value.index is None else (value.type, value.index),
    ),
}
_TYPES: Final[dict[Any, str]] = {kind: name for kind, name in _FACTORIES.items() if name}


def _dtype_name(dtype: numpy.dtype[Any]) -> Any:
    return _Global("ml_dtypes bfloat16") if dtype == dtypes.bfloat16.np else dtype.str[1:]


def _int(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K%c" % value
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if len(data) > 255:
        return b"\x8b" + struct.pack("<i", len(data)) + data
    return b"\x8a%c" % len(data) + data


def _tensors(value: Any) -> list[Tensor]:
    """The dense tensors in containers, each once."""
    found: list[Tensor] = []
    seen: set[int] = set()
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, Tensor | list | tuple | dict | set | frozenset) or is_allowed(
            type(each)
        ):
            if id(each) in seen:
                continue
            seen.add(id(each))
        if isinstance(each, Wrapper):
            raise each.no_storage()
        if isinstance(each, Tensor):
            if not isinstance(each, SparseTensor):
                found.append(each)
            rest += vars(each).values()
        elif isinstance(each, dict):
            rest += [*reversed(each.values()), *reversed(each.keys())]
        elif isinstance(each, list | tuple | set | frozenset):
            rest += reversed(list(each))
        if isinstance(each, argparse.Namespace | types.SimpleNamespace) or is_allowed(type(each)):
            rest += vars(each).values() if hasattr(each, "__dict__") else ()
    return found


def write(target: Any, pickle: bytes, storages: list[numpy.ndarray[Any, Any]]) -> None:
    """Write the archive to a path (see `files.writing`), or to a file object opened for bytes."""
    if hasattr(target, "write"):
        _put(target, pickle, storages)
        return
    with files.writing(target) as file:
        _put(file, pickle, storages)


def _put(file: Any, pickle: bytes, storages: list[numpy.ndarray[Any, Any]]) -> None:
    members: list[tuple[str, Any]] = [
        ("data.pkl", pickle),
        (".format_version", b"1"),
        (".storage_alignment", b"%d" % _ALIGNED),
        ("byteorder", b"little"),
        *((f"data/{i}", storage) for i, storage in enumerate(storages)),
        ("version", b"3\n"),
    ]
    with zipfile.ZipFile(_Whole(file), "w") as archive:
        for name, data in members:
            view = memoryview(data).cast("B") if len(data) else memoryview(b"")
            info = zipfile.ZipInfo(f"archive/{name}")
            large = view.nbytes >= zipfile.ZIP64_LIMIT
            info.file_size = view.nbytes
            taken = archive.start_dir + 30 + len(info.filename) + 4 + 20 * large
            padding = -taken % _ALIGNED
            info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
            with archive.open(info, "w", force_zip64=large) as member:
                member.write(view)


class _Whole:
    """A file object that takes all bytes at a time, and does not go back."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._at = 0

    def write(self, data: Any) -> int:
        files.put(self._file, data)
        count = memoryview(data).nbytes
        self._at += count
        return count

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        if hasattr(self._file, "flush"):
            self._file.flush()
