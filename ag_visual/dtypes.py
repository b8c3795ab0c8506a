"""Element types under torch's names, and their link to NumPy's.

Layer 0: may import nothing of the package. Every layer may import it. Inside this module the public
names `bool`, `int`, `float` ... are dtypes; the builtins are reached through their module.
"""

from __future__ import annotations

import builtins
from typing import Any, Final

import ml_dtypes
import numpy

BOOL: Final = 0
INT: Final = 1
FLOAT: Final = 2
COMPLEX: Final = 3


class dtype:
    """An element type such as `torch.float32`: one object per type, compared by identity.

    `np` is the NumPy dtype, `category` is 0 bool, 1 int, 2 float, 3 complex, `index` the row in the
    promotion table.
    """

    name: str
    np: numpy.dtype[Any]
    itemsize: builtins.int
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    category: builtins.int
    index: builtins.int
    abbr: str
    #: 'Float', 'Long': what torch's errors call it
    scalar_name: str
    __slots__ = tuple(__annotations__)

    def __init__(
        self, name: str, numpy_type: Any, category: builtins.int, scalar_name: str
    ) -> None:
        self.name = name
        self.np = numpy.dtype(numpy_type)
        self.itemsize = self.np.itemsize
        self.category = category
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = not name.startswith(("bool", "uint"))
        self.index = len(_ALL)
        letter = "bf" if name == "bfloat16" else name[0]
        self.abbr = f"{letter}{self.itemsize * 8}"
        self.scalar_name = scalar_name
        _ALL.append(self)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> dtype:
        return self

    def to_real(self) -> dtype:
        """The type of the real part: float32 for complex64; a real type is its own."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type with this real part (float16 gives complex64: no complex32 here)."""
        if self.category < FLOAT:
            raise RuntimeError(f"{self!r} has no complex counterpart; use a floating-point dtype")
        return _COMPLEX.get(self, self)


_ALL: Final[list[dtype]] = []


def by_name(name: str) -> dtype:
    """The dtype called `name` ('float32', or an alias such as 'float')."""
    found = globals().get(name)
    if not isinstance(found, dtype):
        raise ValueError(f"no dtype is called {name!r}; known: {', '.join(t.name for t in _ALL)}")
    return found


bool = dtype("bool", numpy.bool_, BOOL, "Bool")
uint8 = dtype("uint8", numpy.uint8, INT, "Byte")
int8 = dtype("int8", numpy.int8, INT, "Char")
int16 = dtype("int16", numpy.int16, INT, "Short")
int32 = dtype("int32", numpy.int32, INT, "Int")
int64 = dtype("int64", numpy.int64, INT, "Long")
float16 = dtype("float16", numpy.float16, FLOAT, "Half")
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOAT, "BFloat16")
float32 = dtype("float32", numpy.float32, FLOAT, "Float")
float64 = dtype("float64", numpy.float64, FLOAT, "Double")
complex64 = dtype("complex64", numpy.complex64, COMPLEX, "ComplexFloat")
complex128 = dtype("complex128", numpy.complex128, COMPLEX, "ComplexDouble")
# torch knows these three by name, but promotes them with no other integers.
uint16 = dtype("uint16", numpy.uint16, INT, "UInt16")
uint32 = dtype("uint32", numpy.uint32, INT, "UInt32")
uint64 = dtype("uint64", numpy.uint64, INT, "UInt64")

short = int16
int = int32
long = int64
half = float16
float = float32
double = float64
cfloat = complex64
cdouble = complex128

ALL: Final[tuple[dtype, ...]] = tuple(_ALL)
APART: Final = (uint16, uint32, uint64)

_REAL: Final = {complex64: float32, complex128: float64}
_COMPLEX: Final = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}

_BY_NUMPY: Final[dict[Any, dtype]] = {t.np: t for t in ALL}


def of_numpy(numpy_type: Any) -> dtype:
    """The dtype of a NumPy dtype; TypeError for one without a counterpart (strings ...)."""
    found = _BY_NUMPY.get(numpy_type)
    if found is not None:
        return found
    wanted = numpy.dtype(numpy_type)
    found = _BY_NUMPY.get(wanted)
    if found is None:
        names = ", ".join(t.name for t in ALL)
        swapped = not wanted.isnative and wanted.newbyteorder("=") in _BY_NUMPY
        advice = (
            f"its bytes are swapped: convert with array.astype('{wanted.newbyteorder('=').name}')"
            if swapped
            else f"convert it with array.astype to one of: {names}"
        )
        raise TypeError(f"can't convert an array with NumPy dtype {wanted} to a tensor; {advice}")
    return found


def of_array(array: Any) -> dtype:
    """The dtype of a NumPy or CuPy array: one dictionary lookup."""
    try:
        return _BY_NUMPY[array.dtype]
    except KeyError:
        return of_numpy(array.dtype)


def legacy_name(of: dtype) -> str:
    """The class name that torch's error texts use: 'FloatTensor' for float32."""
    return f"{of.scalar_name}Tensor"


_default = float32
_default_complex = complex64


def get_default_dtype() -> dtype:
    """The floating-point dtype of new tensors made from Python floats."""
    return _default


def get_default_complex_dtype() -> dtype:
    """The complex dtype of new tensors made from Python complex numbers."""
    return _default_complex


def set_default_dtype(d: dtype) -> None:
    """Set the default floating-point dtype; the default complex dtype follows it."""
    global _default, _default_complex
    if not isinstance(d, dtype):
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type, "
            f"got {type(d).__name__}"
        )
    if not d.is_floating_point:
        raise TypeError(
            f"only floating-point types are supported as the default type, got {d!r}; "
            "use float16, bfloat16, float32 or float64"
        )
    _default, _default_complex = d, d.to_complex()


class finfo:
    """Limits of a floating-point dtype; for a complex one those of its parts.

    Example:
        >>> finfo(float32).eps
        1.1920928955078125e-07
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtype | None = None) -> None:
        of = _default if type is None else type
        if not isinstance(of, dtype) or of.category < FLOAT:
            raise TypeError(
                f"torch.finfo() requires a floating point input type, got {of!r}. "
                "Use torch.iinfo to handle integers"
            )
        real = of.to_real()
        limits: Any = ml_dtypes.finfo(real.np)
        self.bits = real.itemsize * 8
        self.eps = builtins.float(limits.eps)
        self.max = builtins.float(limits.max)
        self.min = builtins.float(limits.min)
        self.tiny = builtins.float(limits.smallest_normal)
        self.smallest_normal = self.tiny
        self.resolution = _RESOLUTION[real]
        self.dtype = real.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> builtins.int:
        return hash(("finfo", self.dtype))


_RESOLUTION: Final = {float16: 1e-3, bfloat16: 1e-2, float32: 1e-6, float64: 1e-15}


class iinfo:
    """Limits of an integer dtype.

    Example:
        >>> iinfo(int8).max
        127
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        if type is bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if not isinstance(type, dtype) or type.category != INT:
            raise TypeError(
                f"torch.iinfo() requires an integer input type, got {type!r}. "
                "Use torch.finfo to handle floating-point types"
            )
        limits = numpy.iinfo(type.np)
        self.bits = limits.bits
        self.max = builtins.int(limits.max)
        self.min = builtins.int(limits.min)
        self.dtype = type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> builtins.int:
        return hash(("iinfo", self.dtype))
