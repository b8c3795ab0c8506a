"""Discrete Fourier transforms: of complex numbers, from real numbers, and back to them.

Three ops, to which everything in torch.fft leads. An unscaled transform is multiplication by a
symmetric matrix W, so its transpose is itself and its adjoint the unscaled inverse. A real signal
has a spectrum that is Hermitian: one half of it is kept, and a gradient that comes back counts the
middle of that half twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.dims import wrap, wrap_all
from ag_visual.dispatch.out_argument import made_into
from ag_visual.dispatch.record import LINEAR, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import function, functions, op
from ag_visual.ops.linalg.checks import array_of, composed, kind_of
from ag_visual.ops.tensor.ranges import arange

NONE, BY_ROOT, BY_N = 0, 1, 2
"""How a transform is scaled: not, by 1 / sqrt(n), by 1 / n (n: how many points are transformed)."""
_FORWARD = {NONE: "backward", BY_ROOT: "ortho", BY_N: "forward"}
_INVERSE = {NONE: "forward", BY_ROOT: "ortho", BY_N: "backward"}
Dims = tuple[int, ...]


def _as_tuple(dim) -> Dims:
    return (dim,) if isinstance(dim, int) else tuple(dim)


def _check_points(name: str, self, wanted: str) -> None:
    if self.dtype.kind not in wanted:
        raise RuntimeError(f"{name}: a tensor of another dtype is needed, got {kind_of(self)}")


# The three ops ------------------------------------------------------------------------------------


def _c2c(xp, self, dim, normalization: int, forward: bool):
    _check_points("_fft_c2c", self, "c")
    dim = _as_tuple(dim)
    if not dim or not self.size:
        return self.copy()
    if len(dim) == 1:
        transform = xp.fft.fft if forward else xp.fft.ifft
        return transform(self, None, dim[0], (_FORWARD if forward else _INVERSE)[normalization])
    transform = xp.fft.fftn if forward else xp.fft.ifftn
    return transform(self, None, dim, (_FORWARD if forward else _INVERSE)[normalization])


def _complex(make, shape: tuple[int, ...]):
    return make(shape) + 1j * make(shape)


def _c2c_samples(make):
    for forward in (True, False):
        yield Sample((_complex(make, (3, 4)), (1,), NONE, forward))
        yield Sample((_complex(make, (3, 4)), (0, 1), BY_ROOT, forward))
        yield Sample((_complex(make, (2, 3, 2)), (2, 0), BY_N, forward))
    yield Sample((_complex(make, (0, 3)), (1,), NONE, True), oracle=False)  # MKL refuses it


op(
    "_fft_c2c",
    _c2c,
    doc="The discrete Fourier transform of complex numbers, or its inverse.",
    vjp={
        "self": lambda F, g, dim, normalization, forward: F._fft_c2c(g, dim, normalization, forward)
    },
    jvp=LINEAR,
    layout=ROWS,
    public=False,
    node="FftC2CBackward0",
    samples=_c2c_samples,
    errors=lambda make: [
        ErrorSample((make((3,)), (0,), NONE, True), RuntimeError, "of another dtype")
    ],
)


def _r2c(xp, self, dim, normalization: int, onesided: bool):
    _check_points("_fft_r2c", self, "f")
    dim = _as_tuple(dim)
    norm = _FORWARD[normalization]
    if not self.size:
        shape = list(self.shape)
        if onesided:
            shape[dim[-1]] = shape[dim[-1]] // 2 + 1
        return xp.zeros(tuple(shape), xp.result_type(self.dtype, xp.complex64))
    if len(dim) == 1:
        return (xp.fft.rfft if onesided else xp.fft.fft)(self, None, dim[0], norm)
    return (xp.fft.rfftn if onesided else xp.fft.fftn)(self, None, dim, norm)


def _r2c_rule(F, g, self_shape, dim, normalization: int, onesided: bool):
    """The adjoint: the inverse transform, unscaled or as scaled; the edge takes the real part."""
    dim = _as_tuple(dim)
    if onesided:
        last = dim[-1]
        missing = self_shape[last] - g.shape[last]
        shape = (*tuple(g.shape)[:last], missing, *tuple(g.shape)[last + 1 :])
        g = F.cat((g, F.zeros_of(g, shape)), last) if missing else g
    return F._fft_c2c(g, dim, normalization, False)


def _r2c_samples(make):
    for onesided in (True, False):
        yield Sample((make((3, 4)), (1,), NONE, onesided))
        yield Sample((make((4, 5)), (0, 1), BY_ROOT, onesided))
        yield Sample((make((2, 3, 2)), (2, 1), BY_N, onesided))
    yield Sample((make((0, 3)), (1,), NONE, True), oracle=False)  # MKL refuses it


op(
    "_fft_r2c",
    _r2c,
    doc="The discrete Fourier transform of real numbers: complex ones, or half of them.",
    vjp={"self": _r2c_rule},
    jvp=LINEAR,
    also_saves=("self",),
    holomorphic=False,
    layout=ROWS,
    real_only=True,
    public=False,
    node="FftR2CBackward0",
    samples=_r2c_samples,
)


def _c2r(xp, self, dim, normalization: int, last_dim_size: int):
    _check_points("_fft_c2r", self, "c")
    dim = _as_tuple(dim)
    norm = _INVERSE[normalization]
    if not self.size:
        shape = list(self.shape)
        shape[dim[-1]] = last_dim_size
        return xp.zeros(tuple(shape), self.real.dtype)
    if len(dim) == 1:
        return xp.fft.irfft(self, last_dim_size, dim[0], norm)
    sizes = (*(self.shape[d] for d in dim[:-1]), last_dim_size)
    return xp.fft.irfftn(self, sizes, dim, norm)


def _c2r_rule(F, g, dim, normalization: int):
    dim = _as_tuple(dim)
    last = dim[-1]
    half = F._fft_r2c(g, dim, normalization, True)
    twice = g.shape[last] - half.shape[last]
    if not twice:
        return half
    parts = [F.narrow(half, last, 0, 1), F.narrow(half, last, 1, twice) * 2]
    rest = half.shape[last] - 1 - twice
    if rest:
        parts.append(F.narrow(half, last, 1 + twice, rest))
    return F.cat(tuple(parts), last)


op(
    "_fft_c2r",
    _c2r,
    doc="The real numbers whose discrete Fourier transform these are.",
    vjp={"self": _c2r_rule},
    jvp=LINEAR,
    holomorphic=False,
    layout=ROWS,
    public=False,
    node="FftC2RBackward0",
    samples=lambda make: [
        Sample((_complex(make, (3, 4)), (1,), BY_N, 6)),
        Sample((_complex(make, (3, 4)), (1,), NONE, 7)),
        Sample((_complex(make, (3, 2)), (0, 1), BY_ROOT, 3)),
        Sample((_complex(make, (3, 1)), (1,), BY_N, 1)),
    ],
)

# Arguments ----------------------------------------------------------------------------------------


def _scaling(norm, forward: bool) -> int:
    if norm in (None, "backward"):
        return NONE if forward else BY_N
    if norm == "forward":
        return BY_N if forward else NONE
    if norm == "ortho":
        return BY_ROOT
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _prepared(F, self, complex_: bool):
    """The input in a dtype that can be transformed: integers become floats."""
    dtype = array_of(self).dtype
    if dtype.kind in "biu":
        dtype = dtypes.get_default_dtype().np
    elif dtype.char not in "fdFD":
        raise RuntimeError(f"Unsupported dtype {kind_of(array_of(self))}")
    if complex_ and dtype.kind != "c":
        dtype = numpy.result_type(dtype, numpy.complex64)
    return self if dtype == array_of(self).dtype else F.cast(self, numpy.dtype(dtype))


def _needs_real(name: str, self, kind: str = "real") -> None:
    if array_of(self).dtype.kind == "c":
        raise RuntimeError(
            f"{name} expects a {kind} input tensor, but got {kind_of(array_of(self))}"
        )


def _one_dim(self, dim: int) -> int:
    if self.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap(dim, self.ndim)


def _checked(n) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return int(n)


def _resized(F, self, dims: Dims, sizes: Dims):
    """The input cut, or filled up with zeros at its end, to sizes of some dimensions."""
    pads = [0] * (2 * self.ndim)
    for d, n in zip(dims, sizes, strict=True):
        if n < self.shape[d]:
            self = F.slice(self, d, 0, n, 1)
        elif n > self.shape[d]:
            pads[2 * (self.ndim - 1 - d) + 1] = n - self.shape[d]
    return F.constant_pad_nd(self, tuple(pads), 0) if any(pads) else self


def _several(self, s, dim) -> tuple[Dims, Dims]:
    """The dimensions to transform and the sizes they get first."""
    if dim is not None:
        given = _as_tuple(dim)
        dims = tuple(_one_dim(self, d) for d in given)
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        sizes = _as_tuple(s)
        if dim is None:
            if len(sizes) > self.ndim:
                raise RuntimeError(
                    f"Got shape with {len(sizes)} values but input tensor only has {self.ndim} "
                    "dimensions."
                )
            dims = tuple(range(self.ndim - len(sizes), self.ndim))
        elif len(sizes) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        found = tuple(self.shape[d] if n == -1 else n for d, n in zip(dims, sizes, strict=True))
    else:
        dims = tuple(range(self.ndim)) if dim is None else dims
        found = tuple(self.shape[d] for d in dims)
    return dims, tuple(_checked(n) for n in found)


# One dimension ------------------------------------------------------------------------------------


def _along_one(F, self, n, dim: int, norm, forward: bool, onesided: bool = False):
    self = _prepared(F, self, complex_=False)
    at = _one_dim(self, dim)
    size = _checked(self.shape[at] if n is None else n)
    self = _resized(F, self, (at,), (size,))
    scaling = _scaling(norm, forward)
    if array_of(self).dtype.kind == "c":
        return F._fft_c2c(self, (at,), scaling, forward)
    found = F._fft_r2c(self, (at,), scaling, onesided)
    return found if forward else F.conj(found)


def _half(F, name: str, self, n, dim: int, norm, forward: bool):
    _needs_real(name, self)
    return _along_one(F, self, n, dim, norm, forward, onesided=True)


def _from_half(F, self, n, dim: int, norm, forward: bool):
    self = _prepared(F, self, complex_=True)
    at = _one_dim(self, dim)
    size = _checked(2 * (self.shape[at] - 1) if n is None else n)
    self = _resized(F, self, (at,), (size // 2 + 1,))
    self = F.conj(self) if forward else self
    return F._fft_c2r(self, (at,), _scaling(norm, forward), size)


@composed("fft.fft", out="casts", autocast="cpu float32")
def fft_fft(F, self, n=None, dim: int = -1, norm=None):
    """X[k] = sum_t x[t] exp(-2 pi i k t / n) along `dim`.

    n: how many points (the input is cut, or filled up with zeros); norm: "backward" (unscaled, the
    default), "ortho" (1 / sqrt(n)) or "forward" (1 / n). Real input gives complex output.
    """
    return _along_one(F, self, n, dim, norm, True)


@composed("fft.ifft", out=True, autocast="cpu float32")
def fft_ifft(F, self, n=None, dim: int = -1, norm=None):
    """x[t] = 1/n sum_k X[k] exp(2 pi i k t / n) along `dim`: the inverse of `fft`.

    norm: "backward" (1 / n, the default), "ortho" (1 / sqrt(n)) or "forward" (unscaled).
    """
    return _along_one(F, self, n, dim, norm, False)


@composed("fft.rfft", out="casts", autocast="cpu float32")
def fft_rfft(F, self, n=None, dim: int = -1, norm=None):
    """The first n // 2 + 1 numbers of `fft` of a real signal: the others are their conjugates."""
    return _half(F, "rfft", self, n, dim, norm, True)


@composed("fft.irfft", out="casts", autocast="cpu float32")
def fft_irfft(F, self, n=None, dim: int = -1, norm=None):
    """The real signal of n points whose `rfft` this is; n is 2 * (size - 1) by default."""
    return _from_half(F, self, n, dim, norm, False)


@composed("fft.hfft", out="casts", autocast="cpu float32")
def fft_hfft(F, self, n=None, dim: int = -1, norm=None):
    """The real `fft` of a Hermitian signal, of which the first half is given."""
    return _from_half(F, self, n, dim, norm, True)


@composed("fft.ihfft", out=True, autocast="cpu float32")
def fft_ihfft(F, self, n=None, dim: int = -1, norm=None):
    """The first half of the Hermitian signal whose `hfft` this real one is."""
    return _half(F, "ihfft", self, n, dim, norm, False)


# Several dimensions -------------------------------------------------------------------------------


def _along_several(F, forward: bool, self, s, dim, norm):
    dims, sizes = _several(self, s, dim)
    self = _resized(F, _prepared(F, self, complex_=True), dims, sizes)
    return F._fft_c2c(self, dims, _scaling(norm, forward), forward)


def _needs_dims(name: str, dims: Dims) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _halves(F, name: str, self, s, dim, norm):
    _needs_real(name, self, "real-valued")
    self = _prepared(F, self, complex_=False)
    dims, sizes = _several(self, s, dim)
    _needs_dims(name, dims)
    return F._fft_r2c(_resized(F, self, dims, sizes), dims, _scaling(norm, True), True)


def _with_half(name: str, self, s, dim) -> tuple[Dims, Dims, int]:
    """Dimensions and sizes of a half spectrum, and the size of the last dimension of the signal."""
    given = None if s is None else [*_as_tuple(s)]
    last = given[-1] if given and given[-1] != -1 else None
    if given and last is not None:
        _checked(last)
        given[-1] = -1
    dims, sizes = _several(self, given, dim)
    _needs_dims(name, dims)
    size = 2 * (self.shape[dims[-1]] - 1) if last is None else last
    return dims, (*sizes[:-1], _checked(size) // 2 + 1), size


def _from_halves(F, name: str, self, s, dim, norm):
    self = _prepared(F, self, complex_=True)
    dims, sizes, last = _with_half(name, self, s, dim)
    return F._fft_c2r(_resized(F, self, dims, sizes), dims, _scaling(norm, False), last)


def _hermitian(F, name: str, self, s, dim, norm):
    self = _prepared(F, self, complex_=True)
    dims, sizes, last = _with_half(name, self, s, dim)
    self = _resized(F, self, dims, sizes)
    scaling = _scaling(norm, True)
    if len(dims) > 1:
        self = F._fft_c2c(self, dims[:-1], scaling, True)
    return F._fft_c2r(F.conj(self), dims[-1:], scaling, last)


def _to_hermitian(F, name: str, self, s, dim, norm):
    if array_of(self).dtype.kind == "c":
        raise RuntimeError(
            f"{name}: Only supports floating-point dtypes, but found: {kind_of(array_of(self))}"
        )
    self = _prepared(F, self, complex_=False)
    dims, sizes = _several(self, s, dim)
    _needs_dims(name, dims)
    scaling = _scaling(norm, False)
    found = F._fft_r2c(_resized(F, self, dims, sizes), dims[-1:], scaling, True)
    if len(dims) == 1:
        return F.conj(found)
    return F._fft_c2c(F.conj_physical(found), dims[:-1], scaling, False)


_PLANE = (-2, -1)
_LONG = {
    "fftn": (
        "`fft` along several dimensions.\n\n    s: how many points of each (the last dimensions, "
        "unless `dim` says which); norm as in `fft`.",
        lambda F, name, *args: _along_several(F, True, *args),
    ),
    "ifftn": (
        "`ifft` along several dimensions: the inverse of `fftn`.",
        lambda F, name, *args: _along_several(F, False, *args),
    ),
    "rfftn": ("The half of `fftn` of a real signal that says all: half of the last one.", _halves),
    "irfftn": ("The real signal whose `rfftn` this is.", _from_halves),
    "hfftn": ("The real `fftn` of a signal that is Hermitian in its last dimension.", _hermitian),
    "ihfftn": ("The first half of the signal whose `hfftn` this real one is.", _to_hermitian),
}


def _declare(name: str, text: str, body: Callable[..., Any]) -> None:
    plane = f"{name[:-1]}2"

    def over_all(F, self, s=None, dim=None, norm=None):
        return body(F, name, self, s, dim, norm)

    def over_two(F, self, s=None, dim=_PLANE, norm=None):
        return body(F, plane, self, s, dim, norm)

    over_all.__doc__ = text
    over_two.__doc__ = f"`{name}` along two dimensions, the last ones by default."
    # torch leaves out those of Hermitian signals, which are made of the others.
    casts = "" if name in ("hfftn", "ihfftn") else "cpu float32"
    composed(f"fft.{name}", out="casts", autocast=casts)(over_all)
    composed(f"fft.{plane}", out="casts", autocast=casts)(over_two)


for _name, (_text, _body) in _LONG.items():
    _declare(_name, _text, _body)

# Order of frequencies -----------------------------------------------------------------------------


def _shifted(F, self, dim, half: Callable[[int], int]):
    dims = range(self.ndim) if dim is None else wrap_all(_as_tuple(dim), self.ndim)
    return F.roll(self, tuple(half(self.shape[d]) for d in dims), tuple(dims))


@composed("fft.fftshift")
def fft_fftshift(F, self, dim=None):
    """Spectra of `fftn` with the frequency 0 in the middle instead of in front."""
    return _shifted(F, self, dim, lambda n: n // 2)


@composed("fft.ifftshift")
def fft_ifftshift(F, self, dim=None):
    """The inverse of `fftshift`."""
    return _shifted(F, self, dim, lambda n: (n + 1) // 2)


def _frequencies(
    name: str, n: int, d: float, values: Callable[..., Tensor], options: dict[str, Any]
) -> Tensor:
    out = options.pop("out", None)
    if out is not None:
        dtype, device = options.pop("dtype", None), options.pop("device", None)

        def make(**given) -> Tensor:
            return _frequencies(name, n, d, values, {**options, **given})

        return made_into(name, out, dtype, device, make)
    if options.get("dtype") is None:
        options["dtype"] = dtypes.get_default_dtype()
    wanted = options.pop("requires_grad", False)
    found: Tensor = functions["mul"](values(options), 1.0 / (n * d))
    return found._require_grad(True) if wanted else found


@function(spaces="fft")
def fftfreq(n: int, d: float = 1.0, **options) -> Tensor:
    """The frequencies of the numbers of `fft`: [0, 1, ..., -2, -1] / (n d), d between samples.

    Options as `arange` has them: out, dtype, layout, device, requires_grad.
    """

    def values(given: dict[str, Any]) -> Tensor:
        up = arange((n + 1) // 2, **given)
        down = arange(-(n // 2), 0, **given)
        joined: Tensor = functions["cat"]((up, down))
        return joined

    return _frequencies("fft_fftfreq", n, d, values, options)


@function(spaces="fft")
def rfftfreq(n: int, d: float = 1.0, **options) -> Tensor:
    """The frequencies of the numbers of `rfft`: [0, 1, ..., n // 2] / (n d), d between samples.

    Options as `arange` has them: out, dtype, layout, device, requires_grad.
    """
    return _frequencies("fft_rfftfreq", n, d, lambda given: arange(n // 2 + 1, **given), options)
