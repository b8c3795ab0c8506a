"""An array library for tests that is as strict as CuPy: device type 'strict'.

Its arrays refuse to become NumPy arrays or to mix with them, its results are never NumPy scalars,
and its namespace offers only the names and keywords in cupy_surface.json. What runs
here stays on `xp`. Values are computed by NumPy inside. Importing this module registers the
backend.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy
import scipy.sparse
import scipy.special
from numpy.lib.stride_tricks import as_strided

from ag_visual.arrays.backend import Backend, register
from ag_visual.arrays.kernels.runs import multiply_at
from ag_visual.arrays.numpy import BACKEND as HOST
from ag_visual.devices import device

SURFACE: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "cupy_surface.json").read_text(encoding="utf-8")
)
_METHODS: Final[dict[str, str]] = SURFACE["ndarray"]["methods"]
_ATTRIBUTES: Final[list[str]] = SURFACE["ndarray"]["attributes"]
_VALUES: Final = "_values_on_the_strict_device"

# `ufunc.at` and friends exist in CuPy for these only.
_UFUNC_METHODS: Final = {
    "reduce": ("add", "multiply"),
    "accumulate": ("add", "multiply"),
    "reduceat": ("add",),
    "at": ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"),
    "outer": None,
}


class NotInCuPy(AttributeError):
    """A name that CuPy does not have was used on the strict namespace or a strict array."""


def _check_not_numpy(value: Any, where: str) -> None:
    if isinstance(value, numpy.ndarray):
        raise TypeError(
            f"Unsupported type <class 'numpy.ndarray'> in {where}: a host array of shape "
            f"{value.shape} met a device array; create it with xp or backend.from_numpy"
        )


def _inward(value: Any, where: str) -> Any:
    """Strict arrays to the NumPy arrays inside, also within sequences; host arrays are refused."""
    if type(value) is StrictArray:
        return getattr(value, _VALUES)
    _check_not_numpy(value, where)
    if type(value) in (tuple, list):
        return type(value)(_inward(item, where) for item in value)
    if type(value) is slice:
        return slice(*(_inward(item, where) for item in (value.start, value.stop, value.step)))
    return value


def _outward(value: Any) -> Any:
    """NumPy results to strict arrays: scalars become 0-d arrays, as in CuPy."""
    if isinstance(value, numpy.ndarray | numpy.generic):
        return wrap(numpy.asarray(value))
    if type(value) in (tuple, list):
        return type(value)(_outward(item) for item in value)
    if isinstance(value, tuple):  # named results of numpy.linalg
        return tuple(_outward(item) for item in value)
    return value


def _check_arguments(
    where: str, parameters: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    names = [name.strip() for name in parameters.split(",") if name.strip() not in ("", "/")]
    open_positions = any(name.startswith("*") and name != "*" for name in names)
    star = next((i for i, name in enumerate(names) if name.startswith("*")), len(names))
    if not open_positions and len(args) > star:
        raise TypeError(f"{where} takes {star} positional arguments in CuPy, got {len(args)}")
    unknown = sorted(set(kwargs) - {name for name in names if not name.startswith("*")})
    if unknown:
        raise TypeError(f"{where} has no argument {unknown[0]!r} in CuPy; it has: {parameters}")


def _wrapped(where: str, parameters: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        _check_arguments(where, parameters, args, kwargs)
        inner = [_inward(arg, where) for arg in args]
        named = {name: _inward(arg, where) for name, arg in kwargs.items()}
        result = function(*inner, **named)
        out = kwargs.get("out")
        return out if type(out) is StrictArray else _outward(result)

    call.__name__ = where
    return call


_KINDS: Final = "biufVc"
_BRAIN: Final = numpy.dtype(ml_dtypes.bfloat16)


def _type(char: str) -> Any:
    """The type of a letter in a ufunc's loop; E, which NumPy has not, is bfloat16."""
    return _BRAIN if char == "E" else numpy.dtype(char)


def _fits(value: Any, char: str) -> bool:
    """Whether a ufunc's loop with this type takes a value."""
    taken = _type(char)
    if isinstance(value, numpy.ndarray | numpy.generic):
        return numpy.can_cast(value.dtype, taken)
    kind = "b" if type(value) is bool else numpy.asarray(value).dtype.kind
    return _KINDS.index(kind.replace("u", "i")) <= _KINDS.index(taken.kind)


class StrictUfunc:
    """A ufunc with `out`, `dtype` and `casting`, and the methods CuPy implements for it."""

    def __init__(self, name: str, function: Any, types: str) -> None:
        self.name = name
        self._function = function
        # The newest version of CuPy first.
        versions = types.split(" | ")
        self._loops = [[tuple(loop.split("->")) for loop in each.split()] for each in versions]
        self.nin, self.nout = map(len, self._loops[0][0])

    def _given(self, values: list[Any]) -> list[str]:
        """What the first loop of each version of CuPy gives that takes these.

        A Python number counts by its kind alone. That bfloat16 has loops is told by the newest.
        """
        brain = any(getattr(v, "dtype", None) == _BRAIN for v in values)
        found = []
        for loops in self._loops[:1] if brain else self._loops:
            gives = next((gives for takes, gives in loops if all(map(_fits, values, takes))), None)
            if gives is None:
                told = ", ".join(str(getattr(v, "dtype", type(v).__name__)) for v in values)
                raise TypeError(f"Wrong type ({told}) of arguments for cupy_{self.name}")
            found.append(gives)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        unknown = sorted(set(kwargs) - {"out", "dtype", "casting"})
        if unknown:
            raise TypeError(f"ufunc {self.name} has no argument {unknown[0]!r} in CuPy")
        where = f"xp.{self.name}"
        inner = [_inward(arg, where) for arg in args]
        named = {name: _inward(arg, where) for name, arg in kwargs.items()}
        given = self._given(inner[: self.nin])
        result = self._function(*inner, **named)
        out = kwargs.get("out", args[self.nin] if len(args) > self.nin else None)
        if type(out) is StrictArray:
            return out
        if "dtype" not in kwargs and not isinstance(out, tuple):
            # What CuPy's loop gives may be of another type than what NumPy's does: if one version's
            # is, that one is taken.
            parts = result if self.nout > 1 else (result,)
            types = [
                next((t for t in map(_type, each) if t != p.dtype), p.dtype)
                for p, each in zip(map(numpy.asarray, parts), zip(*given, strict=True), strict=True)
            ]
            parts = tuple(numpy.asarray(p).astype(t) for p, t in zip(parts, types, strict=True))
            result = parts if self.nout > 1 else parts[0]
        return _outward(result)

    def __getattr__(self, name: str) -> Any:
        if name not in _UFUNC_METHODS:
            raise NotInCuPy(f"ufunc {self.name} has no attribute {name!r} in CuPy")
        known = _UFUNC_METHODS[name]
        if known is not None and self.name not in known:
            raise NotImplementedError(f"`cupy.{self.name}.{name}` is not supported")
        method = getattr(self._function, name)
        where = f"xp.{self.name}.{name}"

        def call(*args: Any, **kwargs: Any) -> Any:
            unknown = sorted(set(kwargs) - {"axis", "dtype", "out", "keepdims"})
            if unknown:
                raise TypeError(f"{where} has no argument {unknown[0]!r} in CuPy")
            inner = [_inward(arg, where) for arg in args]
            named = {key: _inward(arg, where) for key, arg in kwargs.items()}
            return _outward(method(*inner, **named))

        return call


class StrictFlags:
    """The flags CuPy knows: there is no `writeable`."""

    def __init__(self, flags: Any) -> None:
        self._flags = flags

    def __getattr__(self, name: str) -> bool:
        if name not in SURFACE["flags"]:
            raise NotInCuPy(f"flags has no attribute {name!r} in CuPy")
        return bool(getattr(self._flags, name))


class StrictArray:
    """An array on the strict device."""

    __slots__ = (_VALUES, "__weakref__")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __init__(
        self,
        shape: Any,
        dtype: Any = float,
        memptr: Any = None,
        strides: Any = None,
        order: str = "C",
    ) -> None:
        memory = None if memptr is None else memptr.memory
        inside = numpy.ndarray(shape, dtype, memory, strides=strides, order=order)
        object.__setattr__(self, _VALUES, inside)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to "
            "construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        # A NumPy number on the left of an operator arrives here; CuPy takes it.
        if any(isinstance(value, numpy.generic) for value in inputs):
            return getattr(STRICT.xp, ufunc.__name__)(*inputs, **named)
        raise TypeError(f"numpy.{ufunc.__name__} was given a device array; call it on xp")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise TypeError(f"numpy.{function.__name__} was given a device array; call it on xp")

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> numpy.ndarray[Any, Any]:
        """A copy on the host, into `out`: the explicit way out."""
        values = getattr(self, _VALUES)
        if out is None:
            return numpy.array(values)
        if (out.shape, out.dtype) != (values.shape, values.dtype) or not out.flags.c_contiguous:
            raise ValueError("out is not of the array's shape and dtype, or not contiguous")
        out[...] = values
        return out  # type: ignore[no-any-return]

    def item(self) -> Any:
        return getattr(self, _VALUES).item()

    def tolist(self) -> Any:
        return getattr(self, _VALUES).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return bytes(getattr(self, _VALUES).tobytes(order))

    @property
    def base(self) -> Any:
        inner = getattr(self, _VALUES).base
        return _outward(inner) if isinstance(inner, numpy.ndarray) else None

    @property
    def device(self) -> SimpleNamespace:
        return SimpleNamespace(id=0)

    @property
    def data(self) -> SimpleNamespace:
        """Where the memory is, which a new array may look at: an address of the host here."""
        inside = getattr(self, _VALUES)
        return SimpleNamespace(ptr=inside.ctypes.data, memory=inside)

    @property
    def flags(self) -> StrictFlags:
        return StrictFlags(getattr(self, _VALUES).flags)

    def __getattr__(self, name: str) -> Any:
        if name == _VALUES:
            raise AttributeError(name)
        values = getattr(self, _VALUES)
        if name in _METHODS:
            return _wrapped(f"ndarray.{name}", _METHODS[name], getattr(values, name))
        if name in _ATTRIBUTES:
            return _outward(getattr(values, name))
        raise NotInCuPy(f"ndarray has no attribute {name!r} in CuPy")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("real", "imag", "shape"):
            raise NotInCuPy(f"ndarray.{name} cannot be set in CuPy")
        setattr(getattr(self, _VALUES), name, _inward(value, f"ndarray.{name}"))

    def __getitem__(self, index: Any) -> Any:
        return _outward(getattr(self, _VALUES)[_inward(index, "an index")])

    def __setitem__(self, index: Any, value: Any) -> None:
        where = "an assignment"
        getattr(self, _VALUES)[_inward(index, where)] = _inward(value, where)

    def __len__(self) -> int:
        return len(getattr(self, _VALUES))

    def __iter__(self) -> Any:
        return (self[at] for at in range(len(self)))

    def __bool__(self) -> bool:
        return bool(getattr(self, _VALUES))

    def __int__(self) -> int:
        return int(getattr(self, _VALUES))

    def __float__(self) -> float:
        return float(getattr(self, _VALUES))

    def __complex__(self) -> complex:
        return complex(getattr(self, _VALUES))

    def __format__(self, spec: str) -> str:
        return format(getattr(self, _VALUES), spec)

    def __copy__(self) -> StrictArray:
        return wrap(getattr(self, _VALUES).copy())

    def __deepcopy__(self, memo: dict[int, Any]) -> StrictArray:
        return wrap(getattr(self, _VALUES).copy())

    def __repr__(self) -> str:
        return f"strict {getattr(self, _VALUES)!r}"


_BINARY: Final = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "divmod": "divmod",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "matmul": "matmul",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS: Final = {
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY: Final = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _give_operators() -> None:
    """Arithmetic and comparison operators, reflected and in place: ufuncs, as in CuPy."""

    def make(name: str, ufunc: str, turned: bool) -> Callable[..., Any]:
        def operate(self: StrictArray, other: Any) -> Any:
            _check_not_numpy(other, name)
            if type(other) is not StrictArray and not isinstance(
                other, int | float | complex | numpy.generic
            ):
                return NotImplemented
            call = getattr(STRICT.xp, ufunc)
            return call(other, self) if turned else call(self, other)

        return operate

    def make_in_place(name: str, ufunc: str) -> Callable[..., Any]:
        def operate(self: StrictArray, other: Any) -> Any:
            _check_not_numpy(other, name)
            getattr(STRICT.xp, ufunc)(self, other, out=self)
            return self

        return operate

    def make_unary(ufunc: str) -> Callable[..., Any]:
        return lambda self: getattr(STRICT.xp, ufunc)(self)

    for name, ufunc in (_BINARY | _COMPARISONS).items():
        setattr(StrictArray, f"__{name}__", make(f"__{name}__", ufunc, False))
    for name, ufunc in _BINARY.items():
        setattr(StrictArray, f"__r{name}__", make(f"__r{name}__", ufunc, True))
        if name not in ("divmod", "matmul"):
            setattr(StrictArray, f"__i{name}__", make_in_place(f"__i{name}__", ufunc))
    for name, ufunc in _UNARY.items():
        setattr(StrictArray, f"__{name}__", make_unary(ufunc))


_give_operators()


made: Callable[[numpy.ndarray[Any, Any]], None] | None = None
"""Who is told of the values of each strict array that is made."""


def wrap(values: numpy.ndarray[Any, Any]) -> StrictArray:
    """A strict array over these very values (no copy)."""
    if made is not None:
        made(values)
    array = object.__new__(StrictArray)
    object.__setattr__(array, _VALUES, values)
    return array


def to_host(array: Any) -> Any:
    """The NumPy array inside a strict array (no copy); sequences likewise; others as they are."""
    if type(array) is StrictArray:
        return getattr(array, _VALUES)
    if type(array) in (tuple, list):
        return type(array)(to_host(item) for item in array)
    return array


def to_strict(array: Any) -> Any:
    """A strict copy of a NumPy array; sequences likewise; others as they are."""
    if isinstance(array, numpy.ndarray):
        return wrap(array.copy(order="K"))
    if type(array) in (tuple, list):
        return type(array)(to_strict(item) for item in array)
    return array


class StrictNamespace:
    """A part of the CuPy namespace over the part of NumPy's that computes its values."""

    def __init__(self, name: str, inside: Any, offered: dict[str, Any], parts: Any = ()) -> None:
        self.__name__ = name
        # Without what NumPy has dropped since: nothing here could compute it.
        for key, parameters in offered["functions"].items():
            if hasattr(inside, key):
                setattr(self, key, _wrapped(f"{name}.{key}", parameters, getattr(inside, key)))
        for key, types in offered["ufuncs"].items():
            if hasattr(inside, key):
                setattr(self, key, StrictUfunc(key, getattr(inside, key), types))
        for key in offered["values"]:
            if hasattr(inside, key):
                setattr(self, key, getattr(inside, key))
        for key, part in dict(parts).items():
            setattr(self, key, part)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotInCuPy(f"CuPy has no {self.__name__}.{name}")

    def __repr__(self) -> str:
        return f"<strict namespace {self.__name__}>"


def _namespace() -> StrictNamespace:
    parts = SURFACE["namespaces"]
    tricks = StrictNamespace(
        "xp.lib.stride_tricks", numpy.lib.stride_tricks, parts["lib.stride_tricks"]
    )
    none: dict[str, Any] = {"functions": {}, "ufuncs": {}, "values": []}
    inner = {
        name: StrictNamespace(f"xp.{name}", getattr(numpy, name), parts[name])
        for name in ("linalg", "fft", "random")
    }
    inner["lib"] = StrictNamespace("xp.lib", numpy.lib, none, {"stride_tricks": tricks})
    made = StrictNamespace("xp", numpy, parts[""], inner)
    made.ndarray = StrictArray
    made.where = _where(made.where)
    # These two take host data: the way in.
    for key in ("array", "asarray"):
        setattr(made, key, _entry(key, parts[""]["functions"][key]))
    return made


def _where(inside: Callable[..., Any]) -> Callable[..., Any]:
    """CuPy's: it has no loop for bfloat16 and computes in float32."""

    def where(*args: Any) -> Any:
        result = inside(*args)
        brain = isinstance(result, StrictArray) and result.dtype == _BRAIN
        return result.astype("f") if brain else result

    return where


def _entry(key: str, parameters: str) -> Callable[..., Any]:
    function = getattr(numpy, key)

    def call(obj: Any, *args: Any, **kwargs: Any) -> Any:
        _check_arguments(f"xp.{key}", parameters, (obj, *args), kwargs)
        if isinstance(obj, numpy.ndarray):
            obj = obj.copy(order="K")
        elif type(obj) is StrictArray and key == "asarray":
            dtype = args[0] if args else kwargs.get("dtype")
            if dtype is None or numpy.dtype(dtype) == obj.dtype:
                return obj
        return _outward(function(_contents(obj), *args, **kwargs))

    return call


def _contents(value: Any) -> Any:
    if type(value) is StrictArray:
        return getattr(value, _VALUES)
    if type(value) in (tuple, list):
        return type(value)(_contents(item) for item in value)
    return value


class StrictRandom:
    """CuPy's Generator methods over NumPy's generator."""

    def __init__(self, seed: int) -> None:
        self.host = HOST.random_bits(seed)

    def __getattr__(self, name: str) -> Any:
        if name not in SURFACE["generator"]:
            raise NotInCuPy(f"cupy.random.Generator has no {name}")
        parameters = SURFACE["generator"][name]
        return _wrapped(f"Generator.{name}", parameters, getattr(self.host, name))


class StrictMatrix:
    """What products use of cupyx.scipy.sparse's matrices, over SciPy's."""

    def __init__(self, host: Any) -> None:
        if host.dtype.char not in "?fdFD":
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported")
        self.host = host

    def tocsr(self) -> StrictMatrix:
        return StrictMatrix(self.host.tocsr())

    def tocoo(self) -> StrictMatrix:
        return StrictMatrix(self.host.tocoo())

    def sort_indices(self) -> None:
        self.host.sort_indices()

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, StrictMatrix):
            return StrictMatrix(self.host @ other.host)
        return wrap(self.host @ _inward(other, "csr_matrix.__matmul__"))

    @property
    def dtype(self) -> Any:
        return self.host.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.host.shape)

    @property
    def data(self) -> Any:
        return wrap(self.host.data)

    @property
    def row(self) -> Any:
        return wrap(self.host.row)

    @property
    def col(self) -> Any:
        return wrap(self.host.col)


class StrictSparse:
    """cupyx.scipy.sparse, as far as it is used."""

    def coo_matrix(self, parts: tuple[Any, tuple[Any, Any]], shape: tuple[int, int]) -> Any:
        values, indices = parts
        inner = [_inward(array, "coo_matrix") for array in (values, *indices)]
        return StrictMatrix(scipy.sparse.coo_matrix((inner[0], tuple(inner[1:])), shape=shape))


class StrictBackend(Backend):
    """Strict arrays on the one device 'strict:0'."""

    name = "strict"
    device_type = "strict"
    xp = _namespace()
    array_type = StrictArray
    _special = StrictNamespace("special", scipy.special, SURFACE["special"])

    def asarray(self, data: Any, dtype: Any = None) -> Any:
        return self.xp.asarray(data, dtype)

    def to_numpy(self, array: Any) -> numpy.ndarray[Any, Any]:
        return array.get()  # type: ignore[no-any-return]

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Any:
        return to_strict(array)

    def device(self, array: Any) -> device:
        return device("strict", 0)

    def pointer(self, array: Any) -> int:
        return int(to_host(array).ctypes.data)

    def add_at(self, target: Any, index: Any, values: Any) -> None:
        self._at("add", target, index, values)

    def maximum_at(self, target: Any, index: Any, values: Any) -> None:
        self._at("maximum", target, index, values)

    def minimum_at(self, target: Any, index: Any, values: Any) -> None:
        self._at("minimum", target, index, values)

    def multiply_at(self, target: Any, index: Any, values: Any) -> None:
        multiply_at(self.xp, target, index, values)

    def _at(self, name: str, target: Any, index: Any, values: Any) -> None:
        where = f"{name}_at"
        inner = [_inward(array, where) for array in (target, index, values)]
        getattr(numpy, name).at(*inner)

    def as_strided(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return wrap(as_strided(_inward(array, "as_strided"), shape, strides))

    @property
    def special(self) -> Any:
        return self._special

    @property
    def sparse(self) -> Any:
        return StrictSparse()

    def random_bits(self, seed: int) -> Any:
        return StrictRandom(seed)

    def random_state(self, bits: Any) -> bytes:
        return HOST.random_state(bits.host)

    def set_random_state(self, bits: Any, state: bytes) -> None:
        HOST.set_random_state(bits.host, state)


STRICT: Final = register(StrictBackend())
