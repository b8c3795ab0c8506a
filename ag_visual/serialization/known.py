"""What the names in a checkpoint stand for, and what is made of them: a table, no code of files.

Every maker checks what it is given; what is not in the table is refused with its name, unless the
program itself has said that it trusts it (`add_safe_globals`).
"""

from __future__ import annotations

import argparse
import pathlib
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor
from ag_visual.devices import device as Device
from ag_visual.dispatch.table import functions as F
from ag_visual.errors import FormatError, RefusedError
from ag_visual.nn.parameter import Buffer, Parameter
from ag_visual.serialization.memory import Memories
from ag_visual.sizes import Size

_BLOCKED: Final = frozenset({"sys", "os", "posix", "nt"})
"""Modules that not even the program can allow, as in torch."""

_KEY_PARTS: Final = 10_000
_allowed: dict[str, Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make objects of these classes, and call these functions, from now on.

    Each is a class or a function, or a tuple of one and the full name that files call it by. Their
    code then runs on what a file says; `save` writes objects of these classes, too.

    >>> import ag_visual as ag, io, fractions
    >>> ag.serialization.add_safe_globals([fractions.Fraction])
    >>> file = io.BytesIO()
    >>> ag.save(fractions.Fraction(1, 3), file)
    >>> _ = file.seek(0)
    >>> ag.load(file)
    Fraction(1, 3)
    >>> ag.serialization.clear_safe_globals()
    """
    for each in safe_globals:
        if not isinstance(each, tuple):
            _allowed[f"{each.__module__}.{each.__qualname__}"] = each
            continue
        if len(each) != 2:
            raise ValueError(
                "Expected tuple of length 2 (global, str of callable full path), but got tuple of "
                f"length: {len(each)}"
            )
        if type(each[1]) is not str:
            raise TypeError(
                "Expected second item in tuple to be str of callable full path, but got: "
                f"{type(each[1])}"
            )
        _allowed[each[1]] = each[0]


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_allowed.values())


def clear_safe_globals() -> None:
    """Allow nothing beyond what `load` knows."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Allow some classes and functions within a block (see `add_safe_globals`)."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


def is_allowed(cls: Any) -> bool:
    """Whether the program trusts this class or function."""
    return any(each is cls for each in _allowed.values())


@dataclass(frozen=True, slots=True)
class StorageKind:
    """`torch.FloatStorage` and its like; `dtype` None: bytes."""

    dtype: dtypes.dtype | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A storage of a file: its bytes, or a part of them from `begin` on."""

    key: str
    dtype: dtypes.dtype | None
    memory: numpy.ndarray[Any, Any]
    device: Device
    begin: int = 0


class Known:
    """The objects of one file.

    fetch: a storage by what stands behind "storage" in its persistent id.
    """

    def __init__(self, fetch: Callable[[tuple[Any, ...]], Stored]) -> None:
        self._fetch = fetch
        self._memories = Memories()
        self._makers: dict[Any, Callable[..., Any]] = {
            **_MAKERS,
            _TENSOR_V2: self._tensor_v2,
            _TENSOR_V3: self._tensor_v3,
            _OF_TYPE: self._of_type,
        }

    def named(self, module: str, name: str) -> Any:
        """What a global name stands for."""
        module = _OLD_MODULES.get(module, module)
        path = f"{module}.{name}"
        if path in _NAMED:
            return _NAMED[path]
        if path in _allowed and module.partition(".")[0] not in _BLOCKED:
            return _allowed[path]
        raise _refused(path)

    def called(self, function: Any, args: Any) -> Any:
        """What a function gives for these arguments."""
        if type(args) is not tuple:
            raise FormatError("it has arguments that are not a tuple")
        maker = self._makers.get(function) if _is_name(function) else None
        if maker is not None:
            return maker(*args)
        if is_allowed(function):
            return function(*args)
        raise FormatError(f"it calls {type(function).__name__!r}, which is not a function")

    def created(self, cls: Any, args: Any) -> Any:
        """A new object of a class, without its `__init__`."""
        if is_allowed(cls) and type(args) is tuple:
            return cls.__new__(cls, *args)
        return self.called(cls, args)

    def built(self, target: Any, state: Any) -> None:
        """Give an object its state."""
        builder = _BUILDERS.get(type(target))
        if builder is not None:
            builder(target, state)
        elif not is_allowed(type(target)):
            raise FormatError(f"it sets the state of a {type(target).__name__}")
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            vars(target).update(plain or {})
            for name, value in (slots or {}).items():
                setattr(target, name, value)

    def stored(self, found: Any) -> Any:
        """The storage that a persistent id names."""
        if type(found) is not tuple or not found or _word(found[0]) != "storage":
            kind = _word(found[0]) if type(found) is tuple and found else found
            if kind == "module" and len(found) > 1:
                return found[1]
            raise FormatError(f"it has a persistent id that names no storage: {kind!r:.40}")
        return self._fetch(found[1:])

    # Tensors -------------------------------------------------------------------------------------

    def _tensor_v2(
        self,
        storage: Any,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool = False,
        hooks: Any = None,
        metadata: Any = None,
    ) -> Any:
        if type(storage) is not Stored or storage.dtype is None:
            raise FormatError("it has a tensor without a storage")
        return self._made(storage, storage.dtype, offset, size, stride, requires_grad, metadata)

    def _tensor_v3(
        self,
        storage: Any,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool,
        hooks: Any,
        dtype: Any,
        metadata: Any = None,
    ) -> Any:
        if type(storage) is not Stored or type(dtype) is not dtypes.dtype:
            raise FormatError("it has a tensor without a storage")
        return self._made(storage, dtype, offset, size, stride, requires_grad, metadata)

    def _of_type(self, function: Any, cls: Any, args: Any, state: Any) -> Any:
        """A tensor with attributes, as `called` makes it."""
        if cls is not Tensor and cls is not Parameter:
            raise RefusedError("it holds a tensor of a subclass, which is not made here")
        found = self.called(function, args)
        if not isinstance(found, Tensor):
            raise FormatError("it has attributes of a tensor that is none")
        return _attached(found, state)

    def _made(
        self,
        storage: Stored,
        dtype: dtypes.dtype,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool,
        metadata: Any,
    ) -> Any:
        if type(requires_grad) is not bool:
            raise FormatError("it has a tensor of which it does not say whether it requires grad")
        result = self._memories.tensor(
            storage.key,
            storage.memory,
            storage.device,
            dtype,
            _counts(size),
            _counts(stride),
            storage.begin + _count(offset) * dtype.itemsize,
            requires_grad,
        )
        bits = metadata if isinstance(metadata, dict) else {}
        if not (bits.get("conj") or bits.get("neg")):
            return result
        # Conjugation and sign are never put off here: the values are computed, in memory of theirs.
        plain = result.detach()
        if bits.get("conj"):
            plain = F["conj_physical"](plain)
        if bits.get("neg"):
            plain = -plain
        return plain.requires_grad_(requires_grad)


def _is_name(value: Any) -> bool:
    return isinstance(value, type) or type(value) is types.FunctionType


def _refused(path: str) -> RefusedError:
    text = f"Unsupported global: GLOBAL {path} was not an allowed global by default"
    if path.startswith(("torch.nn.modules.", "torchvision.models.")):
        return RefusedError(
            f"{text}. It holds a whole module: where it was made, save its state_dict(), and load "
            "that into a module that the program makes"
        )
    if path.startswith("torch."):
        return RefusedError(f"{text}, and nothing here stands for it")
    name = path.removeprefix("builtins.")
    return RefusedError(
        f"{text}: no code that a file names is run. If you trust it, call "
        f"torch.serialization.add_safe_globals([{name}]) before"
    )


def _word(value: Any) -> Any:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FormatError(f"it gives {value!r:.40} where a size should be")
    return value


def _counts(values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple | list):
        raise FormatError("it has a tensor without a shape")
    return tuple(map(_count, values))


def key(value: Any) -> Any:
    """A key of a dictionary: no more of it than can be hashed in time."""
    left, parts = _KEY_PARTS, [value]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple | frozenset):
            left -= 1 + len(part)
            if left < 0:
                raise FormatError("it has a key of too many parts")
            parts.extend(part)
    return value


# Functions of torch, by the names that files have for them ---------------------------------------


def _TENSOR_V2() -> NoReturn: ...


def _TENSOR_V3() -> NoReturn: ...


def _OF_TYPE() -> NoReturn: ...


def _parameter(data: Any, requires_grad: bool, hooks: Any = None, state: Any = None) -> Any:
    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise FormatError("it has a parameter without a tensor")
    return _attached(Parameter(data, requires_grad), state)


def _buffer(data: Any, requires_grad: bool, persistent: bool) -> Any:
    if not isinstance(data, Tensor):
        raise FormatError("it has a buffer without a tensor")
    return Buffer(data, persistent=bool(persistent))


def _layout(name: str) -> str:
    return name


def _sparse(layout: Any, data: Any) -> Any:
    if layout != "torch.sparse_coo" or type(data) is not tuple or len(data) not in (3, 4):
        raise RefusedError(f"it holds a sparse tensor of layout {layout!r:.40}")
    indices, values, size = data[:3]
    if not isinstance(indices, Tensor) or not isinstance(values, Tensor):
        raise FormatError("it has a sparse tensor without values")
    try:
        return F["sparse_coo_tensor"](
            indices, values, _counts(size), is_coalesced=None if len(data) == 3 else data[3]
        )
    except (RuntimeError, IndexError) as error:
        raise FormatError(f"it has a sparse tensor that cannot be: {error}") from error


def _on_device(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    if not isinstance(data, Tensor | numpy.ndarray) or type(dtype) is not dtypes.dtype:
        raise FormatError("it has a tensor without values")
    return F["as_tensor"](data).to(dtype=dtype).requires_grad_(requires_grad)


def _attached(tensor: Any, state: Any) -> Any:
    """The tensor with the attributes that a program has set on it."""
    if state is not None:
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise FormatError("it has attributes that are none")
        vars(tensor).update({k: v for k, v in state.items() if not hasattr(type(tensor), k)})
    return tensor


# Objects of Python and of NumPy ------------------------------------------------------------------


def _ordered(pairs: Any = ()) -> Any:
    return OrderedDict((key(k), v) for k, v in pairs)


def _counter(counts: Any = None) -> Any:
    if type(counts) is not dict:
        raise FormatError("it has a counter without counts")
    return Counter(counts)


def _defaults(factory: Any = None, *rest: Any) -> Any:
    if factory not in _FACTORIES or rest:
        raise FormatError("it has a dictionary whose defaults are not known here")
    return defaultdict(factory)


def _set(values: Any = ()) -> Any:
    return set(map(key, _listed(values)))


def _frozen(values: Any = ()) -> Any:
    return frozenset(map(key, _listed(values)))


def _listed(values: Any) -> Any:
    if not isinstance(values, list | tuple):
        raise FormatError("it has a set that is made of no list")
    return values


def _path(*parts: Any) -> pathlib.Path:
    """A path of the system that reads it, as a name: nothing is looked up."""
    if not all(type(part) is str for part in parts):
        raise FormatError("it has a path that is none")
    return pathlib.Path(*parts)


def _complex(real: Any, imag: Any) -> Any:
    if type(real) is not float or type(imag) is not float:
        raise FormatError("it has a complex number that is none")
    return complex(real, imag)


def _encoded(text: Any, coding: Any) -> bytes:
    if type(text) is not str or coding not in ("latin1", "latin-1"):
        raise FormatError("it has bytes that are none")
    return text.encode("latin1")


def _byte_array(data: Any = b"", coding: Any = "latin-1") -> bytearray:
    return bytearray(data if type(data) is bytes else _encoded(data, coding))


def _size(values: Any = ()) -> Any:
    return Size(_counts(values))


def _device(*given: Any) -> Any:
    try:
        return Device(*given)
    except RuntimeError as error:
        raise FormatError(f"it names a device that is not known here: {error}") from error


def _numpy_dtype(name: Any, *_: Any) -> Any:
    if type(name) is not str or len(name) > 10:
        raise RefusedError("it holds a NumPy array of records")
    found = numpy.dtype(name)
    if found.kind not in "biufcSUV" or found.fields is not None:
        raise RefusedError(f"it holds a NumPy array of dtype {found}")
    return found


def _dtype_state(target: Any, state: Any) -> None:
    """Byte order, and nothing of records: a dtype is never changed."""
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", "|", "="):
        raise RefusedError("it holds a NumPy array whose bytes are in another order")


def _array(cls: Any, shape: Any, kind: Any) -> Any:
    if cls is not numpy.ndarray:
        raise RefusedError("it holds a subclass of NumPy's arrays")
    return numpy.empty(0, numpy.uint8)


def _array_state(target: Any, state: Any) -> None:
    _, shape, dtype, fortran, data = state
    if not isinstance(dtype, numpy.dtype) or dtype.kind not in "biufcSUV":
        raise RefusedError("it holds a NumPy array of objects")
    if isinstance(data, str):
        data = data.encode("latin1")
    if type(data) is not bytes:
        raise RefusedError("it holds a NumPy array of objects")
    target.__setstate__((1, _counts(shape), dtype, bool(fortran), data))


def _scalar(dtype: Any, data: Any) -> Any:
    if not isinstance(dtype, numpy.dtype) or dtype.kind not in "biufcSUV":
        raise RefusedError("it holds a NumPy object")
    if isinstance(data, str):
        data = data.encode("latin1")
    if type(data) is not bytes or len(data) != dtype.itemsize:
        raise FormatError("it has a NumPy number that is none")
    return numpy.frombuffer(data, dtype)[0]


def _attributes(target: Any, state: Any) -> None:
    if type(state) is not dict or not all(type(name) is str for name in state):
        raise FormatError("it has attributes that are none")
    vars(target).update(state)


_BUILDERS: Final[dict[Any, Callable[[Any, Any], None]]] = {
    OrderedDict: _attributes,
    argparse.Namespace: _attributes,
    types.SimpleNamespace: _attributes,
    numpy.ndarray: _array_state,
    **dict.fromkeys((type(numpy.dtype(kind)) for kind in "?bBhHiIlLqQefdFDSUV"), _dtype_state),
    type(dtypes.bfloat16.np): _dtype_state,
}
_FACTORIES: Final = (None, dict, list, set, int, float, str, tuple, OrderedDict, Counter)
_MAKERS: Final[dict[Any, Callable[..., Any]]] = {
    OrderedDict: _ordered,
    Counter: _counter,
    defaultdict: _defaults,
    argparse.Namespace: lambda: argparse.Namespace(),
    types.SimpleNamespace: lambda: types.SimpleNamespace(),
    set: _set,
    frozenset: _frozen,
    complex: _complex,
    bytearray: _byte_array,
    bytes: lambda: b"",
    Size: _size,
    Device: _device,
    numpy.dtype: _numpy_dtype,
    **{
        each: each
        for each in (
            *(_parameter, _buffer, _layout, _sparse, _on_device, _path),
            *(_encoded, _array, _scalar),
        )
    },
}
_OLD_MODULES: Final = {
    "__builtin__": "builtins",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "torch.tensor": "torch._tensor",
    "pathlib._local": "pathlib",
}
_STORAGES: Final = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Float": "float32",
    "Double": "float64",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
STORAGE_OF: Final = {
    dtype: f"{name}Storage"
    for name, kind in _STORAGES.items()
    if isinstance(dtype := getattr(dtypes, kind), dtypes.dtype)
}
"""torch's name for the storage of a dtype; others are stored as bytes."""
_NAMED: Final[dict[str, Any]] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "collections.defaultdict": defaultdict,
    "argparse.Namespace": argparse.Namespace,
    "types.SimpleNamespace": types.SimpleNamespace,
    "_codecs.encode": _encoded,
    **dict.fromkeys(("pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath"), _path),
    **{
        f"builtins.{kind.__name__}": kind
        for kind in (set, frozenset, complex, bytearray, bytes, dict, list, int, float, str, tuple)
    },
    "ml_dtypes.bfloat16": "bfloat16",
    "numpy.ndarray": numpy.ndarray,
    "numpy.dtype": numpy.dtype,
    "numpy._core.multiarray._reconstruct": _array,
    "numpy._core.multiarray.scalar": _scalar,
    "torch.Size": Size,
    "torch.device": Device,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.serialization._get_layout": _layout,
    "torch.storage.UntypedStorage": StorageKind(None),
    "torch._utils._rebuild_tensor": _TENSOR_V2,
    "torch._utils._rebuild_tensor_v2": _TENSOR_V2,
    "torch._utils._rebuild_tensor_v3": _TENSOR_V3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch.nn.parameter._rebuild_buffer": _buffer,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_device_tensor_from_numpy": _on_device,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _on_device,
    "torch._tensor._rebuild_from_type_v2": _OF_TYPE,
    **{f"torch.{kind.name}": kind for kind in dtypes.ALL},
    **{
        f"torch.{place}{name}": StorageKind(dtype)
        for dtype, name in STORAGE_OF.items()
        for place in ("", "cuda.")
    },
}
