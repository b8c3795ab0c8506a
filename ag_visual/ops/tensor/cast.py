"""Conversions: dtype, device, real and complex.

`F.cast` and `F.conj` also serve edges and the engine.
"""

from __future__ import annotations

import re
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels.order import copied
from ag_visual.arrays.quiet import quietly
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, method
from ag_visual.devices import device as Device
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.memory_overlap import unless_idle
from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op, traced
from ag_visual.dispatch.vmap import elementwise, in_rows, leading
from ag_visual.layouts import strided

PYTHON_TYPES = {
    float: dtypes.float64,
    int: dtypes.int64,
    bool: dtypes.bool,
    complex: dtypes.complex128,
}


def dtype_of(name: str, dtype, default: dtypes.dtype | None = None) -> dtypes.dtype:
    """The dtype that an argument names: a dtype, a Python type, or None for the default."""
    if dtype is None:
        return default or dtypes.get_default_dtype()
    if isinstance(dtype, dtypes.dtype):
        return dtype
    if isinstance(dtype, type) and dtype in PYTHON_TYPES:
        return PYTHON_TYPES[dtype]
    raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")


def cast_array(array, dtype):
    """`array.astype` that takes the real part of complex numbers silently, as torch does."""
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    return quietly(copied, backends.backend_of(array).xp, array, dtype)


# Dtype and device -------------------------------------------------------------------------------


structural(
    "cast",
    lambda xp, self, dtype: cast_array(self, dtype),
    doc="The same numbers in another dtype.",
    vjp={"self": lambda g: g},  # the edge casts back
    public=False,
    profiled="to",
    node="ToCopyBackward0",
    batch=elementwise,
    samples=lambda make: [Sample((make((2, 3)), numpy.dtype(numpy.float64)))],
    symbol="self",
)


def _to_device(array, device):
    """The array on a device: itself where it is there, else a copy."""
    target, here = backends.backend_for(device), backends.backend_of(array)
    if here is target and device.index in (None, here.device(array).index):
        return array
    with target.on(device.index):
        return target.from_numpy(here.to_numpy(array))


def _to_copy(xp, self, dtype, device):
    array = self if self.dtype == dtype else cast_array(self, dtype)
    return _to_device(array, device)


_move = op(
    "to_copy",
    _to_copy,
    doc="The same numbers in another dtype, or on another device.",
    vjp={"self": lambda F, g, self_device: F.move(g, self_device)},
    jvp=ELEMENTWISE,
    public=False,
    public_name="to",
    holomorphic=False,
    batch=elementwise,
    samples=lambda make: [
        Sample((make((2, 3)), numpy.dtype(numpy.float32), Device("cpu")), smooth=False)
    ],
    symbol="self",
)
# The fast wrapper is for results that stay with the library of their inputs.
_move.call = _move.compute


@composite("move", public=False, symbol="self")
def _moved(F, self, device):
    """On another device, in the same dtype."""
    if not F.traced:
        return _to_device(self, device)
    return F.to_copy(self, self._array.dtype, device)


@method("as_subclass")
def _as_subclass(self: Tensor, cls: type):
    """The same memory and history as an instance of a subclass of Tensor (no copy).

    What other operations return is a plain Tensor. Raises TypeError for any other class.
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
            f"possible. Make sure your class inherits from Tensor ({cls.__name__} does not)."
        )
    result = traced.alias(self)
    result.__class__ = cls
    return result


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Tensor:
    """A leaf of a subclass of Tensor on the memory of `data`, as classes of parameters are made."""
    result: Tensor = _as_subclass(data.detach(), cls)
    return result._require_grad(require_grad)


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]

_FORMS = re.compile("[dn]?[tn]?b{0,2}|ob{0,2}|.*[?].*")
"""The letters of the arguments that `to` takes by position; for what is none of them see below."""


def _letter(value) -> str:
    if isinstance(value, bool):
        return "b"
    if isinstance(value, (str, int, Device)):
        return "d"
    if isinstance(value, dtypes.dtype) or (isinstance(value, type) and value in PYTHON_TYPES):
        return "t"
    return "n" if value is None else "o" if isinstance(value, Tensor) else "?"


def _wanted(self: Tensor, args: tuple[Any, ...], dtype, device) -> tuple[Any, ...]:
    """dtype, device and copy, from what was passed by position."""
    flags = []
    if len(args) > 1 and not _FORMS.fullmatch("".join(map(_letter, args))):
        types = ", ".join(type(each).__name__ for each in args)
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({types}), but expected "
            "(device, dtype, non_blocking, copy), (dtype, non_blocking, copy) or (other, "
            "non_blocking, copy), from the front"
        )
    for at, each in enumerate(args):
        if isinstance(each, bool):
            flags.append(each)
        elif isinstance(each, Tensor):
            dtype, device = each.dtype, each.device
        elif isinstance(each, dtypes.dtype) or (isinstance(each, type) and each in PYTHON_TYPES):
            dtype = each
        elif isinstance(each, (str, int, Device)):
            device = each
        elif each is not None:
            raise TypeError(
                f"to(): argument {at + 1} must be a dtype, a device or a Tensor, not "
                f"{type(each).__name__}"
            )
    return dtype, device, len(flags) > 1 and flags[1]


def to(
    self: Tensor,
    *args,
    dtype=None,
    device=None,
    other=None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format=None,
) -> Tensor:
    """This tensor in another dtype and/or on another device: `to(dtype)`, `to(device)`,
    `to(device, dtype)`, `to(other)`.

    The tensor itself when nothing changes (unless copy=True); else a copy, through which gradients
    flow back in the original dtype and to the original device.
    """
    if other is not None:
        args = (other, *args)
    dtype, device, forced = _wanted(self, args, dtype, device)
    array = self._array
    kind = array.dtype if dtype is None else dtype_of("to", dtype).np
    if array.dtype.kind == "c" and kind.kind not in "cb":
        warn("Casting complex values to real discards the imaginary part")
    if device is not None:
        where, here = Device(device), self.device
        if where.type != here.type or where.index not in (None, here.index):
            return traced.to_copy(self, kind, where)  # type: ignore[no-any-return]
    if kind != array.dtype or copy or forced:
        return traced.cast(self, kind)  # type: ignore[no-any-return]
    return self


Tensor.to = to  # type: ignore[attr-defined]


def _cast_method(name: str, kind: dtypes.dtype) -> None:
    def method(self: Tensor, memory_format=None) -> Tensor:
        array = self._array
        if array.dtype == kind.np:
            return self
        return to(self, kind) if array.dtype.kind == "c" else traced.cast(self, kind.np)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`to({kind!r})`."
    setattr(Tensor, name, method)


for _name, _dtype in {
    "bool": dtypes.bool,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "float": dtypes.float32,
    "double": dtypes.float64,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():
    _cast_method(_name, _dtype)


def _cpu(self: Tensor, memory_format=None) -> Tensor:
    """This tensor in host memory."""
    return to(self, device="cpu")


def _cuda(self: Tensor, device=None, non_blocking: bool = False, memory_format=None) -> Tensor:
    """This tensor on a CUDA device (the current one when none is named)."""
    return to(self, device="cuda" if device is None else device)


def _type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the dtype and on the device of `other`."""
    return to(self, other)


def legacy_type(tensor: Tensor) -> str:
    """'torch.FloatTensor', 'torch.cuda.LongTensor' and so on."""
    place = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    return f"torch.{place}{dtypes.legacy_name(tensor.dtype)}"


_BY_LEGACY = {dtypes.legacy_name(kind): kind for kind in dtypes.ALL if kind not in dtypes.APART}


def _type(self: Tensor, dtype=None, non_blocking: bool = False):
    """The legacy name of the tensor's type, or the tensor in another type."""
    if dtype is None:
        return legacy_type(self)
    if isinstance(dtype, (dtypes.dtype, type)) and (
        isinstance(dtype, dtypes.dtype) or dtype in PYTHON_TYPES
    ):
        return to(self, dtype)
    if dtype is Tensor:  # torch.Tensor stands for the default type, as in torch
        return to(self, dtypes.get_default_dtype(), device="cpu")
    name = dtype if isinstance(dtype, str) else f"torch.{getattr(dtype, '__name__', dtype)}"
    parts = name.split(".")
    kind = _BY_LEGACY.get(parts[-1])
    if parts[0] != "torch" or kind is None or len(parts) > 3:
        raise ValueError(f"invalid type: '{name}'; write torch.float32 or 'torch.FloatTensor'")
    return to(self, kind, device=parts[1] if len(parts) == 3 else "cpu")


for _method in (_cpu, _cuda, _type_as, _type):
    method(_method.__name__[1:])(_method)

Tensor.layout = property(  # type: ignore[attr-defined]
    lambda self: strided, doc="How elements lie in memory: `torch.strided`, `torch.sparse_coo` ..."
)
Tensor.is_sparse = property(  # type: ignore[attr-defined]
    lambda self: False,
    doc="Whether only some elements are stored, by their indices (`torch.sparse_coo`).",
)
Tensor.is_sparse_csr = property(  # type: ignore[attr-defined]
    lambda self: False,
    doc="Whether only some elements are stored, by compressed rows (`torch.sparse_csr`).",
)


# Real and complex -------------------------------------------------------------------------------


def _complex_samples(make):
    yield Sample((make((2, 3)) + 1j * make((2, 3)),))


structural(
    "conj_values",
    lambda xp, self: xp.conj(self),
    vjp={"self": lambda F, g: F.conj(g)},
    public=False,
    public_name="conj",
    profiled="_conj",
    node="ConjBackward0",
    batch=elementwise,
    samples=_complex_samples,
)


structural(
    "conj_physical",
    lambda xp, self: xp.conj(self) if self.dtype.kind == "c" else copied(xp, self),
    vjp={"self": lambda F, g: F.conj(g)},
    inplace=True,
    repeated=unless_idle("fiubV"),
    inplace_node="ConjPhysicalBackward1",
    batch=elementwise,
    samples=_complex_samples,
    doc="The complex conjugate, as a copy.",
    out="check_overlap",
    inplace_function=True,
)


@composite("conj", symbol="‾", profiled="_conj")
def _conj(F, self):
    """The complex conjugate, elementwise; a real tensor is its own.

    Always a copy: NumPy has no lazy one.
    """
    array = self._array if F.traced else self
    return F.conj_values(self) if array.dtype.kind == "c" else self


@composite("resolve_conj", aliases=("resolve_neg",))
def _resolve_conj(F, self):
    """The tensor itself: conjugation and negation are never lazy here."""
    return self


def _as_real(xp, self):
    if self.ndim == 0:
        kind = xp.float32 if self.dtype.itemsize == 8 else xp.float64
        return xp.asarray(self).reshape(1).view(kind)
    real = self.real
    return backends.of_namespace(xp).as_strided(
        real, (*self.shape, 2), (*self.strides, real.dtype.itemsize)
    )


def _needs_complex(self) -> tuple[()]:
    if self.dtype.kind != "c":
        raise RuntimeError(
            f"view_as_real is only supported for complex tensors, but got {dtypes.of_array(self)}"
        )
    return ()


structural(
    "view_as_real",
    _as_real,
    method=False,
    vjp={"self": lambda F, g: F.view_as_complex(F.contiguous(g))},
    view=True,
    normalize=_needs_complex,
    batch=leading(),
    samples=_complex_samples,
    errors=lambda make: [
        ErrorSample((make((2,)),), RuntimeError, "view_as_real is only supported for complex")
    ],
    doc="Complex numbers as pairs (real, imaginary) in a last dimension of size 2, as a view.",
)


def _as_complex(xp, self):
    kind = numpy.dtype(numpy.complex64 if self.dtype.itemsize == 4 else numpy.complex128)
    return self.view(kind)[..., 0]


def _needs_pairs(self) -> tuple[()]:
    if self.dtype.kind != "f" or self.dtype.itemsize < 4:
        raise RuntimeError(
            "view_as_complex is only supported for float and double tensors, but got a tensor of "
            f"dtype {dtypes.of_array(self)}"
        )
    if self.ndim == 0 or self.shape[-1] != 2:
        raise RuntimeError(
            f"Tensor must have a last dimension of size 2, but has shape {list(self.shape)}"
        )
    if self.size and self.strides[-1] != self.dtype.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    pairs = zip(self.shape[:-1], self.strides, strict=False)
    if self.size and any(n > 1 and stride % (2 * self.dtype.itemsize) for n, stride in pairs):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return ()


def _pair_errors(make):
    yield ErrorSample((make((2, 3)),), RuntimeError, "Tensor must have a last dimension of size 2")
    odd = make((2, 3))[:, 1:]
    yield ErrorSample((odd,), RuntimeError, "Tensor must have a stride divisible by 2")


structural(
    "view_as_complex",
    _as_complex,
    method=False,
    vjp={"self": lambda F, g: F.view_as_real(F.contiguous(g))},
    view=True,
    normalize=_needs_pairs,
    real_only=True,
    layout_dependent=True,
    batch=in_rows,
    samples=lambda make: [Sample((make((3, 2)),)), Sample((make((2,)),))],
    errors=_pair_errors,
    doc="Pairs in a last dimension of size 2 as complex numbers, as a view.",
    autocast="cpu float32",
)


@composite("real", method=False)
def _real(F, self):
    """The real part: a view of a complex tensor; a real tensor is its own."""
    if not F.traced:
        return self.real
    if self._array.dtype.kind != "c":
        return self
    return F.select(F.view_as_real(self), -1, 0)


@composite("imag", method=False)
def _imag(F, self):
    """The imaginary part of a complex tensor, as a view."""
    if not F.traced:
        return self.imag
    if self._array.dtype.kind != "c":
        raise RuntimeError(
            "imag is not implemented for tensors with non-complex dtypes, but this one is "
            f"{self.dtype}"
        )
    return F.select(F.view_as_real(self), -1, 1)


def _part(function) -> property:
    def write(self: Tensor, value) -> None:
        function(self).copy_(value)

    return property(function, write, doc=function.__doc__)


Tensor.real = _part(_real)  # type: ignore[attr-defined]
Tensor.imag = _part(_imag)  # type: ignore[attr-defined]


def _check_parts(real, imag) -> tuple[()]:
    for part in (real, imag):
        if part.dtype.kind != "f":
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{dtypes.of_array(real).scalar_name} and {dtypes.of_array(imag).scalar_name}"
            )
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {dtypes.of_array(real).scalar_name} but got scalar "
            f"type {dtypes.of_array(imag).scalar_name} for second argument"
        )
    return ()


def _complex(xp, real, imag):
    kind = numpy.dtype(numpy.complex64 if real.dtype.itemsize < 8 else numpy.complex128)
    result = xp.empty(xp.broadcast_shapes(real.shape, imag.shape), dtype=kind)
    result.real, result.imag = real, imag
    return result


op(
    "complex",
    _complex,
    vjp={"real": lambda F, g: F.real(g), "imag": lambda F, g: F.imag(g)},
    jvp=LINEAR,
    normalize=_check_parts,
    also_saves=("real", "imag"),
    method=False,
    holomorphic=False,
    real_only=True,
    batch=elementwise,
    samples=lambda make: [Sample((make((2, 3)), make((2, 3))))],
    doc="real + i imag, elementwise, of two tensors of one floating-point dtype.",
)


def _polar(xp, abs, angle):
    return _complex(xp, abs * xp.cos(angle), abs * xp.sin(angle))


op(
    "polar",
    _polar,
    vjp={
        "abs": lambda F, g, result: F.real(F.conj(g) * F.sgn(result)),
        "angle": lambda F, g, result: F.real(F.conj(g) * (result * 1j)),
    },
    jvp={
        "abs": lambda F, t_abs, result: t_abs * F.sgn(result),
        "angle": lambda t_angle, result: t_angle * (result * 1j),
    },
    normalize=_check_parts,
    method=False,
    holomorphic=False,
    real_only=True,
    batch=elementwise,
    samples=lambda make: [Sample((make((2, 3), low=0.3, high=2.0), make((2, 3))))],
    doc="Complex numbers of polar coordinates: abs (cos(angle) + i sin(angle)), elementwise.",
    autocast="cpu float32",
)
