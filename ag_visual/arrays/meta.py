"""The backend of device 'meta': arrays that have a shape, a dtype and strides, and no values.

Layer 1: imports backend.py and the NumPy backend. An array looks into memory that is read as zeros,
is mapped when it is asked for and never written, so that no page of it exists. NumPy computes what
shape a result has, of these zeros; a large result is released. What would tell a value, or a
shape that depends on values, raises NotImplementedError.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NoReturn

import numpy
from numpy.lib.stride_tricks import as_strided

from ag_visual.arrays.backend import Array, Backend
from ag_visual.arrays.kernels.order import sorted_dims
from ag_visual.arrays.numpy import BACKEND as HOST
from ag_visual.devices import device

_SMALL: Final = 1 << 16
# What finds places by value: the number of them is the shape of the result.
_OF_VALUES: Final = frozenset(
    (
        *("nonzero", "flatnonzero", "argwhere", "unique", "unique_values", "unique_counts"),
        *("unique_all", "unique_inverse", "bincount", "extract", "compress", "histogram"),
    )
)
_WRITES: Final = frozenset(("copyto", "fill", "put", "place", "putmask", "setflags"))
_LIKE: Final = frozenset(("empty_like", "zeros_like", "ones_like", "full_like", "copy"))
_FILLED: Final = frozenset(("empty", "zeros", "ones", "full"))


class NoValues(NotImplementedError):
    """A value of a tensor on the device 'meta' was asked for."""


def _no(what: str) -> NoReturn:
    raise NoValues(
        f"{what} needs values, and a tensor on device 'meta' has none: make one on another device "
        "(torch.empty_like(x, device='cpu'), Module.to_empty)"
    )


def _no_item(*_: Any) -> NoReturn:
    raise NoValues("Tensor.item() cannot be called on meta tensors: they have no values")


def blank(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None) -> MetaArray:
    """A new array without values; strides in bytes, those of a contiguous one if None."""
    kind = numpy.dtype(dtype)
    extent = math.prod(shape)
    if strides is not None and extent:
        steps = zip(shape, strides, strict=True)
        extent = sum((n - 1) * abs(s) for n, s in steps) // kind.itemsize + 1
    if extent * kind.itemsize <= _SMALL:
        memory = numpy.zeros(extent, kind)
        memory.flags.writeable = False
    else:
        memory = numpy.ndarray((extent,), kind, _unwritten(extent * kind.itemsize))
    if strides is None:
        return wrap(memory.reshape(shape))
    return wrap(as_strided(memory, shape, strides, writeable=False))


def _unwritten(size: int) -> mmap.mmap:
    """Memory that is read as zeros and cannot be written."""
    if hasattr(mmap, "PROT_READ"):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        return mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ)
    return mmap.mmap(-1, size, access=mmap.ACCESS_READ)


def _inward(value: Any) -> Any:
    if type(value) is MetaArray:
        return value._values
    if type(value) in (tuple, list):
        return type(value)(_inward(item) for item in value)
    if type(value) is slice:
        return slice(*(_inward(item) for item in (value.start, value.stop, value.step)))
    return value


def _outward(value: Any) -> Any:
    """What NumPy computed, without its values: what can be written is new, the rest are views."""
    if isinstance(value, numpy.generic):
        value = numpy.asarray(value)
    if isinstance(value, numpy.ndarray):
        # Kernels ask whether their arguments are valid: few numbers stay what zeros gave.
        if value.nbytes <= _SMALL or value.dtype == numpy.bool_:
            value.flags.writeable = False
            return wrap(value)
        return blank(value.shape, value.dtype, value.strides) if _new(value) else wrap(value)
    if isinstance(value, tuple | list):
        found = [_outward(item) for item in value]
        return found if isinstance(value, list) else tuple(found)
    return value


def _new(array: Any) -> bool:
    return bool(array.flags.writeable or array.flags.owndata)


def _called(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if name in _OF_VALUES:
        return lambda *args, **kwargs: _no(f"{name}()")
    if name in _WRITES:
        return lambda *args, **kwargs: None

    def call(*args: Any, **kwargs: Any) -> Any:
        if name == "where" and len(args) == 1:
            _no("where() of a condition alone")
        out = kwargs.get("out")
        if out is not None:
            return out
        if name == "repeat" and type(args[-1]) is MetaArray:
            _no("repeat() by a tensor")
        inner = [_inward(arg) for arg in args]
        if getattr(function, "__module__", "") == "numpy.linalg":
            inner = [_regular(arg) for arg in inner]
        with numpy.errstate(all="ignore"):
            try:
                return _outward(function(*inner, **{k: _inward(v) for k, v in kwargs.items()}))
            except (IndexError, numpy.linalg.LinAlgError):
                _no(f"{name}()")

    return call


def _regular(value: Any) -> Any:
    """Matrices that can be inverted and factored, in the place of zeros."""
    if not isinstance(value, numpy.ndarray) or value.ndim < 2 or value.dtype.kind not in "fc":
        return value
    return numpy.broadcast_to(numpy.eye(*value.shape[-2:], dtype=value.dtype), value.shape)


def _of_each(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a function of each element gives of large arrays: it is called with one element of each.

    None where they are small, or not in row-major order.
    """
    inner = [_inward(arg) for arg in args]
    arrays = [each for each in inner if isinstance(each, numpy.ndarray)]
    if max(map(numpy.size, arrays), default=0) < _SMALL:
        return None
    if not all(each.flags.c_contiguous for each in arrays):
        return None
    shape = numpy.broadcast_shapes(*(each.shape for each in arrays))
    one = [each.reshape(-1)[:1] if isinstance(each, numpy.ndarray) else each for each in inner]
    with numpy.errstate(all="ignore"):
        found = function(*one)
    if isinstance(found, tuple):
        return tuple(blank(shape, part.dtype) for part in found)
    if found.dtype == numpy.bool_:
        return None
    return blank(shape, found.dtype)


class _Ufunc:
    """A ufunc on arrays without values; what it would write into stays as it is."""

    def __init__(self, name: str, function: Any) -> None:
        self._call = _called(name, function)
        self._function = function
        self.__name__, self.nin, self.nout = name, function.nin, function.nout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) > self.nin:
            return args[self.nin]
        found = None if kwargs else _of_each(self._function, args)
        return self._call(*args, **kwargs) if found is None else found

    def __getattr__(self, name: str) -> Any:
        if name == "at":
            return lambda *args: None
        found = getattr(self._function, name)
        return _called(name, found) if callable(found) else found


class MetaArray:
    """An array on device 'meta'."""

    __slots__ = ("__weakref__", "_values")
    __hash__ = None  # type: ignore[assignment]
    has_values = False
    __array_priority__ = 100
    _values: Any

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        _no("A NumPy array of it")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        found = getattr(XP, ufunc.__name__)
        return (found if method == "__call__" else getattr(found, method))(*inputs, **named)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _called(function.__name__, function)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_values":
            raise AttributeError(name)
        if name in ("item", "tolist", "tobytes", "tofile", "dump", "dumps"):
            return _no_item
        found = getattr(self._values, name)
        return _called(name, found) if callable(found) else _outward(found)

    def copy(self, order: str = "C") -> MetaArray:
        return _like(self, order=order)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> MetaArray:
        return _like(self, dtype=dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_values":
            object.__setattr__(self, name, value)
        elif name == "shape":
            self._values = self._values.reshape(value)
        elif name not in ("real", "imag"):
            raise AttributeError(f"an array on device 'meta' has no {name!r} to set", name=name)

    @property
    def flags(self) -> Any:
        return self._values.flags

    @property
    def base(self) -> Any:
        inner = self._values.base
        return wrap(inner) if isinstance(inner, numpy.ndarray) else None

    def __getitem__(self, index: Any) -> Any:
        inner = _inward(index)
        for each in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(each, numpy.ndarray) and each.dtype == numpy.bool_:
                _no("An index of booleans")
        try:
            return _outward(self._values[inner])
        except IndexError:
            if not isinstance(inner, tuple) and not isinstance(inner, numpy.ndarray):
                raise
            _no("An index of tensors")  # it was computed of values, and may be anywhere

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing is written: there are no values."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __bool__(self) -> bool:
        # Kernels ask whether their arguments are valid: zeros are where anything is.
        return bool(self._values)

    def __index__(self) -> int:
        _no("A number of it")

    __int__ = __float__ = __complex__ = __index__  # type: ignore[assignment]

    def __format__(self, spec: str) -> str:
        return "..."

    def __copy__(self) -> MetaArray:
        return blank(self._values.shape, self._values.dtype, self._values.strides)

    def __deepcopy__(self, memo: dict[int, Any]) -> MetaArray:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return blank, (self._values.shape, self._values.dtype, self._values.strides)

    def __repr__(self) -> str:
        return f"array(..., shape={self._values.shape}, dtype={self._values.dtype})"


def _give_operators() -> None:
    binary = ["add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"]
    binary += ["and", "or", "xor", "lshift", "rshift"]
    names = [f"__{name}__" for name in (*binary, "lt", "le", "eq", "ne", "gt", "ge")]
    names += [f"__r{name}__" for name in binary]
    names += ["__neg__", "__pos__", "__abs__", "__invert__"]

    def make(name: str) -> Callable[..., Any]:
        def operate(self: MetaArray, *other: Any) -> Any:
            found = None if "matmul" in name else _of_each(method, (self, *other))
            if found is None:
                with numpy.errstate(all="ignore"):
                    found = _outward(method(self._values, *map(_inward, other)))
            return found

        method = getattr(numpy.ndarray, name)
        return operate

    for name in names:
        setattr(MetaArray, name, make(name))
    for name in binary:
        setattr(MetaArray, f"__i{name}__", lambda self, other: self)


_give_operators()


def wrap(values: Any) -> MetaArray:
    """An array over this memory, which nobody may write (no copy)."""
    made = object.__new__(MetaArray)
    made._values = values
    return made


class _Namespace:
    """NumPy's functions, on arrays without values."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        self.__name__ = f"meta {inside.__name__}"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inside, name)
        made = found
        if name == "ndarray":
            made = MetaArray
        elif name in _FILLED and self._inside is numpy:
            made = _filled
        elif name in _LIKE and self._inside is numpy:
            made = _like
        elif name in ("array", "ascontiguousarray") and self._inside is numpy:
            made = partial(_array, found, "K" if name == "array" else "C")
        elif isinstance(found, numpy.ufunc):
            made = _Ufunc(name, found)
        elif isinstance(found, type(numpy)):
            made = _Namespace(found)
        elif callable(found) and not isinstance(found, type):
            made = _called(name, found)
        self.__dict__[name] = made
        return made


def _filled(shape: Any, *args: Any, dtype: Any = None, **_: Any) -> MetaArray:
    """xp.empty, zeros, ones and full, which differ in values alone."""
    sizes = (int(shape),) if hasattr(shape, "__index__") else tuple(shape)
    kinds = [each for each in args if not isinstance(each, str)]
    kind = dtype if dtype is not None else kinds[-1] if kinds else float
    if not isinstance(kind, type | numpy.dtype):
        kind = getattr(kind, "dtype", None) or numpy.asarray(kind).dtype
    return blank(sizes, kind)


def _like(
    array: MetaArray, *_: Any, dtype: Any = None, order: str = "K", shape: Any = None, **__: Any
) -> MetaArray:
    """xp.empty_like, zeros_like, ones_like, full_like and copy."""
    kind = numpy.dtype(array.dtype if dtype is None else dtype)
    if shape is not None or order == "C" or array._values.flags.c_contiguous:
        return blank(tuple(array.shape if shape is None else shape), kind)
    dims = sorted_dims(array.shape, array.strides)
    memory = blank(tuple(array.shape[d] for d in dims), kind)
    return memory.transpose(sorted(range(len(dims)), key=dims.__getitem__))  # type: ignore[no-any-return]


def _array(
    function: Any, usual: str, value: Any, dtype: Any = None, *, order: str | None = None, **_: Any
) -> Any:
    """xp.array and ascontiguousarray, which copy."""
    if type(value) is not MetaArray:
        return _outward(function(_inward(value), dtype))
    return _like(value, dtype=dtype, order=order or usual)


class _NoRandom:
    """A source of random numbers that are never drawn."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        usual = float if name in ("random", "standard_normal", "standard_gamma") else numpy.int64

        def draw(*_: Any, size: Any, dtype: Any = usual) -> MetaArray:
            return blank(tuple(size), dtype)

        return draw


XP: Final[Any] = _Namespace(numpy)


class MetaBackend(Backend):
    """Arrays without values, on the one device 'meta'."""

    name = "meta"
    device_type = "meta"
    xp = XP
    array_type = MetaArray
    has_values = False

    def asarray(self, data: Any, dtype: Any = None) -> Array:
        if type(data) is MetaArray:
            same = dtype is None or data.dtype == dtype
            return data if same else blank(data.shape, dtype)
        found = numpy.asarray(_inward(data), dtype)
        return blank(found.shape, found.dtype)

    def to_numpy(self, array: Array) -> numpy.ndarray[Any, Any]:
        raise NoValues("Cannot copy out of meta tensor; no data!")

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Array:
        return blank(array.shape, array.dtype, array.strides)

    def device(self, array: Array) -> device:
        return device("meta")

    def pointer(self, array: Array) -> int:
        return int(array._values.ctypes.data)

    def add_at(self, target: Array, index: Any, values: Any) -> None:
        """Nothing: there are no values."""

    maximum_at = minimum_at = multiply_at = add_at

    def as_strided(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        return wrap(as_strided(array._values, shape, strides, writeable=False))

    def on_host(self, function: Callable[..., Any], *arrays: Array) -> Any:
        return _called(function.__name__, function)(*(_regular(a._values) for a in arrays))

    @property
    def special(self) -> Any:
        return _Namespace(HOST.special)

    @property
    def sparse(self) -> Any:
        _no("A sparse matrix")

    def random_bits(self, seed: int) -> Any:
        return _NoRandom()

    def random_state(self, bits: Any) -> bytes:
        return b""

    def set_random_state(self, bits: Any, state: bytes) -> None:
        """Nothing: no numbers are drawn."""
