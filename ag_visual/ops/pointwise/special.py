"""Special functions: what torch.special has beyond the elementary ones, and its names."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.kernels import polynomials
from ag_visual.arrays.kernels.airy import airy_ai
from ag_visual.arrays.kernels.order import copied
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch import vmap
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.families import (
    binary,
    not_differentiable,
    pair_samples,
    unary,
    unary_samples,
)
from ag_visual.dispatch.record import ELEMENTWISE, FLOAT, ROWS, ErrorSample, Op, Sample
from ag_visual.dispatch.table import composite, op, ops
from ag_visual.errors import type_name

# Declaring --------------------------------------------------------------------------------------


def real_only(name: str, array) -> None:
    """torch's error for a dtype in which a special function does not exist."""
    if array.dtype.kind == "c":
        raise not_implemented(name, dtypes.of_array(array), ": it is a function of real numbers")


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel whose 16-bit inputs are computed in float32, and which gives their dtype back."""

    @functools.wraps(kernel)
    def wide(xp, *arrays):
        dtype = arrays[0].dtype
        if dtype.kind in "biu":  # an integer order, as a rule sees it
            return kernel(xp, *arrays)
        if dtype.itemsize > 2:
            return kernel(xp, *arrays).astype(dtype, copy=False)
        return kernel(xp, *(copied(xp, a, xp.float32) for a in arrays)).astype(dtype)

    return wide


def scipys(name: str, called: str) -> Callable[..., Any]:
    """The kernel that scipy.special (cupyx.scipy.special) has under a name."""

    @in_float32
    def compute(xp, *arrays):
        return getattr(of_namespace(xp).special, name)(*arrays)

    def kernel(xp, self):
        real_only(called, self)
        return compute(xp, self)

    def kernel_of_two(xp, self, other):
        # One of them may be a Python number.
        dtype = (self if hasattr(self, "dtype") else other).dtype
        self, other = (x if hasattr(x, "dtype") else xp.asarray(x, dtype) for x in (self, other))
        real_only(called, self)
        return compute(xp, self, other)

    return kernel_of_two if name in ("xlog1py", "zeta", "gammainc", "gammaincc") else kernel


def _special(
    name: str,
    derivative: Callable[..., Any] | None,
    doc: str,
    kernel: str | Callable[..., Any],
    **options,
) -> Op:
    """An elementwise function of one tensor that only `ag.special` names."""
    if isinstance(kernel, str):
        kernel = scipys(kernel, f"{name}_cpu")
    return unary(
        f"special_{name}",
        derivative,
        kernel,
        inplace=False,
        public=False,
        oracle=f"special.{name}",
        real_only=True,
        doc=doc,
        **options,
    )


# Bessel functions -------------------------------------------------------------------------------


def _i1_slope(F, self, result):
    """I0(x) - I1(x) / x, which is 1/2 at 0."""
    return F.where(self == 0, 0.5, F.i0(self) - result / F.where(self == 0, 1.0, self))


def _i1e_slope(F, self, result):
    """exp(-|x|) I1(x) has the slope exp(-|x|) (I0 - I1 / x) - sign(x) times itself."""
    inverse = 1 / F.where(self == 0, 1.0, self)
    slope = F.special_i0e(self) - result * (F.sgn(self) + inverse)
    return F.where(self == 0, 0.5, slope)


unary(
    "i0",
    lambda F, self: F.special_i1(self),
    scipys("i0", "i0_vml_cpu"),
    real_only=True,
    doc="The modified Bessel function I0(x) = sum over k of (x^2/4)^k / k!^2, elementwise.",
    spaces="torch special",
)
_special(
    "i0e",
    lambda F, self, result: F.special_i1e(self) - F.sgn(self) * result,
    "exp(-|x|) I0(x), elementwise: the modified Bessel function of order 0, scaled.",
    "i0e",
    node="SpecialI0EBackward0",
    low=0.3,
)
_special("i1", _i1_slope, "The modified Bessel function I1(x) of the first kind, order 1.", "i1")
_special(
    "i1e",
    _i1e_slope,
    "exp(-|x|) I1(x), elementwise: the modified Bessel function of order 1, scaled.",
    "i1e",
    node="SpecialI1EBackward0",
    low=0.3,
)


@in_float32
def _spherical_j0(xp, self):
    """sin(x) / x; its series near 0."""
    square = self * self
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    safe = xp.where(self == 0, xp.ones_like(self), self)
    result = xp.where(xp.abs(self) < 0.5, near, xp.sin(safe) / safe)
    return xp.where(xp.isinf(self), xp.zeros_like(self), result)


# Between 3 and 13 torch's J and Y are good to 1e-7 only.
for _name, _kernel, _low, _doc in (
    ("bessel_j0", "j0", -3.0, "The Bessel function J0(x) of the first kind, order 0."),
    ("bessel_j1", "j1", -3.0, "The Bessel function J1(x) of the first kind, order 1."),
    ("bessel_y0", "y0", 0.1, "The Bessel function Y0(x) of the second kind, order 0, for x > 0."),
    ("bessel_y1", "y1", 0.1, "The Bessel function Y1(x) of the second kind, order 1, for x > 0."),
    ("modified_bessel_i0", "i0", -5.0, "The modified Bessel function I0(x) of the first kind."),
    ("modified_bessel_i1", "i1", -5.0, "The modified Bessel function I1(x) of the first kind."),
    ("modified_bessel_k0", "k0", 0.1, "The modified Bessel function K0(x), for x > 0."),
    ("modified_bessel_k1", "k1", 0.1, "The modified Bessel function K1(x), for x > 0."),
    ("scaled_modified_bessel_k0", "k0e", 0.1, "exp(x) K0(x), for x > 0."),
    ("scaled_modified_bessel_k1", "k1e", 0.1, "exp(x) K1(x), for x > 0."),
):
    _special(_name, None, f"{_doc} Not differentiable.", _kernel, low=_low, high=3.0)


def _spherical(xp, self):
    real_only("spherical_bessel_j0_cpu", self)
    return _spherical_j0(xp, self)


_special(
    "spherical_bessel_j0",
    None,
    "The spherical Bessel function j0(x) = sin(x) / x, elementwise. Not differentiable.",
    _spherical,
    low=-5.0,
    high=5.0,
    reference=lambda np, x: np.sinc(x / np.pi),
)


def _airy(xp, self):
    real_only("airy_ai_cpu", self)
    return airy_ai(xp, self)


def _airy_samples(make):
    yield from unary_samples(-1.0, 3.0)(make)
    # torch's series is good to 1e-5 below -2.
    yield Sample((make((20,), low=-20.0, high=8.0),), oracle=False)


def _airy_reference(np, x):
    import scipy.special

    return scipy.special.airy(x)[0]


_special(
    "airy_ai",
    None,
    "The Airy function Ai(x), which solves y'' = x y and vanishes at infinity. Not differentiable.",
    _airy,
    samples=_airy_samples,
    reference=_airy_reference,
)


# Normal distribution and error function ---------------------------------------------------------

_special(
    "erfcx",
    lambda self, result: 2.0 * self * result - 2.0 / math.sqrt(math.pi),
    "exp(x^2) erfc(x), elementwise: the scaled complement of the error function.",
    "erfcx",
)
_special(
    "log_ndtr",
    lambda F, self: math.sqrt(2 / math.pi) / F.special_erfcx(self * -math.sqrt(0.5)),
    "log of the normal distribution function, log((1 + erf(x / sqrt(2))) / 2), also far below 0.",
    "log_ndtr",
    also_saves=("result",),
)
_special(
    "ndtri",
    lambda F, result: math.sqrt(2 * math.pi) * F.exp(result * result / 2),
    "The x with ndtr(x) = p: the inverse of the normal distribution function.",
    "ndtri",
    low=0.1,
    high=0.9,
)
_special(
    "entr",
    lambda F, self: -1 - F.log(self),
    "-x log(x), elementwise: 0 at 0, -inf below.",
    "entr",
    low=0.2,
    high=3.0,
)


@composite("special_ndtr", public=False, out="casts", spaces="special.ndtr")
def _ndtr(F, self):
    """The normal distribution function, (1 + erf(x / sqrt(2))) / 2, elementwise."""
    return (F.erf(self * math.sqrt(0.5)) + 1) * 0.5


# Gamma functions --------------------------------------------------------------------------------


def _polygamma(xp, self, n: int):
    real_only("polygamma", self)
    special = of_namespace(xp).special
    wide = self if self.dtype.itemsize > 2 else copied(xp, self, xp.float32)
    return (special.polygamma(n, wide) if n else special.psi(wide)).astype(self.dtype, copy=False)


def _order(self, n) -> tuple[int]:
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n. Got n = {n}")
    return (int(n),)


unary(
    "polygamma_of",
    lambda F, self, n: F.polygamma_of(self, n + 1),
    _polygamma,
    public=False,
    normalize=_order,
    node="PolygammaBackward0",
    inplace_node="PolygammaBackward1",
    public_name="polygamma",
    oracle=lambda torch, self, n: torch.polygamma(n, self),
    samples=lambda make: [Sample((make((3, 4), low=0.4, high=3.0), n)) for n in (0, 1, 3)],
    errors=lambda make: [
        ErrorSample((make((2,)), -1), RuntimeError, "does not support negative n")
    ],
    real_only=True,
)


@composite(method=False, out="casts check_overlap", spaces="torch special")
def polygamma(F, n: int, self):
    """The n-th derivative of `digamma`, elementwise: the (n+1)-th one of log gamma(x)."""
    return F.polygamma_of(self, n)


@method("polygamma")
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of `digamma`, elementwise."""
    return ops["polygamma_of"].call(self, n)  # type: ignore[no-any-return]


@method("polygamma_")
def _polygamma_inplace(self: Tensor, n: int) -> Tensor:
    """`polygamma`, written into this tensor."""
    return ops["polygamma_of"].write(self, n)  # type: ignore[no-any-return]


def _several(self, p) -> tuple[int]:
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, but got p = {p}")
    return (int(p),)


def _mvlgamma(xp, self, p: int):
    real_only("mvlgamma", self)
    gammaln = of_namespace(xp).special.gammaln
    wide = self if self.dtype.itemsize > 2 else copied(xp, self, xp.float32)
    total = sum(gammaln(wide - i / 2) for i in range(p))
    return (total + p * (p - 1) / 4 * math.log(math.pi)).astype(self.dtype, copy=False)


def _mvlgamma_slope(F, self, p: int):
    total = F.digamma(self + 0.0)
    for i in range(1, p):
        total = total + F.digamma(self - i / 2)
    return total


unary(
    "mvlgamma",
    _mvlgamma_slope,
    _mvlgamma,
    layout=ROWS,
    normalize=_several,
    samples=lambda make: [Sample((make((3, 4), low=1.3, high=4.0), p)) for p in (1, 3)],
    errors=lambda make: [
        ErrorSample((make((2,)), 0), RuntimeError, "p has to be greater than or equal to 1")
    ],
    real_only=True,
    doc="The logarithm of the multivariate gamma function: "
    "log(pi) p (p-1) / 4 + the sum over i < p of lgamma(x - i/2), elementwise.",
    spaces="torch special.multigammaln",
    inplace_function=False,
)


def _incomplete(name: str, scipys_name: str, sign: int, doc: str) -> None:
    def check(self, other) -> None:
        for at, value in (("input", self), ("other", other)):
            if not isinstance(value, Tensor):
                raise TypeError(f"{name}(): argument '{at}' must be Tensor, not {type_name(value)}")
        if self.dtype.category < 2 and other.dtype.category < 2:
            more = ": it needs floating-point numbers"
            raise not_implemented(f"{name}_cpu", self.dtype, more)

    def slope(F, self, other, other_dtype):
        self = F.cast(self, other_dtype)
        return sign * F.exp((self - 1) * F.log(other) - other - F.lgamma(self))

    def samples(make):
        # By the first one there is no derivative: whole numbers ask for none.
        orders = numpy.array([[1], [2], [4]])
        yield Sample((orders, make((3, 4), low=0.3, high=3.0)))
        yield Sample((numpy.asarray(2), make((), low=0.3, high=3.0)))

    binary(
        name,
        not_differentiable(f"{name}: input", "Detach the input, and differentiate by other alone."),
        slope,
        scipys(scipys_name, f"{name}_cpu"),
        check=check,
        samples=samples,
        real_only=True,
        doc=doc,
        spaces=f"torch special.{scipys_name}",
    )


_incomplete(
    "igamma",
    "gammainc",
    1,
    "The regularised lower incomplete gamma function P(a, x), elementwise: the integral of "
    "t^(a-1) exp(-t) from 0 to x, over gamma(a). Not differentiable by a.",
)
_incomplete(
    "igammac",
    "gammaincc",
    -1,
    "The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), elementwise. "
    "Not differentiable by a.",
)


# Functions of two tensors -----------------------------------------------------------------------


def _pair(name: str, *rules, **options) -> None:
    """A function of two tensors (or a tensor and a number) that only `ag.special` names."""
    options.setdefault("oracle", f"special.{name}")
    binary(
        f"special_{name}",
        *rules,
        policy=FLOAT,
        inplace=False,
        public=False,
        real_only=True,
        **options,
    )


_pair(
    "xlog1py",
    lambda F, g, self, other: F.masked_fill(
        F.special_xlog1py(g, other), (self == 0) & (other <= -1), 0.0
    ),
    lambda g, self, other: g * self / (other + 1),
    scipys("xlog1py", "xlog1py_cpu"),
    node="SpecialXlog1PyBackward0",
    samples=pair_samples(0.2, 2.0),
    doc="self * log1p(other), elementwise: 0 where self is 0, NaN where other is NaN.",
)
_pair(
    "zeta",
    not_differentiable("zeta", "Detach the input, and differentiate by other alone."),
    lambda F, self, other: -self * F.special_zeta(self + 1, other),
    scipys("zeta", "zeta_cpu"),
    samples=lambda make: [
        Sample((numpy.array([[2], [3], [5]]), make((3, 4), low=0.4, high=3.0))),
        Sample((numpy.asarray(2), make((), low=0.4, high=3.0))),
    ],
    doc="The Hurwitz zeta function, the sum over k >= 0 of (k + other)^-self, elementwise. "
    "Not differentiable by self.",
)


def _polynomial(name: str, family: polynomials.Family, doc: str, shift: bool = False) -> None:
    def kernel(xp, x, n):
        real_only(f"{name}_cpu", x)
        return polynomials.evaluate(xp, family, 2 * x - 1 if shift else x, n)

    def samples(make):
        orders = numpy.array([[0], [1], [2], [7], [-1]])
        yield Sample((make((5, 4), low=-1.5, high=1.5), orders))
        yield Sample((make((3,), low=-1.0, high=1.0), 3))

    def oracle(torch, self, other):
        # From order 2 on torch returns uninitialised memory at NaN.
        found = getattr(torch.special, name)(self, other)
        at_nan = torch.isnan(torch.as_tensor(self)) & (torch.as_tensor(other) >= 2)
        return torch.where(at_nan & (torch.as_tensor(other) < torch.inf), torch.nan, found)

    _pair(
        name,
        None,
        None,
        kernel,
        inputs=("x", "n"),
        samples=samples,
        oracle=oracle,
        doc=f"{doc} of order n at x, elementwise. Not differentiable.",
    )


for _letter, _family in polynomials.CHEBYSHEV.items():
    _kind = f"polynomial of kind {'tuvw'.index(_letter) + 1}"
    _polynomial(f"chebyshev_polynomial_{_letter}", _family, f"The Chebyshev {_kind}")
    _polynomial(
        f"shifted_chebyshev_polynomial_{_letter}",
        _family,
        f"The Chebyshev {_kind} shifted to [0, 1] (that of 2x - 1)",
        shift=True,
    )
for _letter, _title in (("h", "physicists'"), ("he", "probabilists'")):
    _polynomial(
        f"hermite_polynomial_{_letter}",
        polynomials.HERMITE[_letter],
        f"The {_title} Hermite polynomial",
    )
_polynomial("laguerre_polynomial_l", polynomials.LAGUERRE, "The Laguerre polynomial")
_polynomial("legendre_polynomial_p", polynomials.LEGENDRE, "The Legendre polynomial")


# Binary exponents -------------------------------------------------------------------------------


def _ldexp(xp, self, other):
    if self.dtype.kind == "c":
        return self * xp.power(2, other)
    return self * xp.exp2(other)


binary(
    "ldexp",
    lambda F, g, other: g * F.exp2(other),
    lambda result: result * math.log(2),
    _ldexp,
    policy=FLOAT,
    samples=pair_samples(),
    doc="self * 2^other, elementwise.",
    inplace_function=True,
)


def _frexp(xp, self):
    if self.dtype.kind not in "fV":
        raise RuntimeError(
            f"torch.frexp() only supports floating-point dtypes, got {dtypes.of_array(self)}"
        )
    mantissa, exponent = xp.frexp(self)
    return mantissa.astype(self.dtype, copy=False), exponent.astype(xp.int32, copy=False)


op(
    "frexp",
    _frexp,
    vjp={"self": lambda F, g, exponent: g / F.exp2(exponent)},
    outputs=("mantissa", "exponent"),
    differentiable=(0,),
    jvp=ELEMENTWISE,
    real_only=True,
    batch=vmap.elementwise,
    samples=unary_samples(0.3, 7.0),
    errors=lambda make: [
        ErrorSample((numpy.array([1]),), RuntimeError, "only supports floating-point dtypes")
    ],
    doc="(mantissa, exponent) with x = mantissa * 2^exponent and 0.5 <= |mantissa| < 1.",
    out="check_overlap",
)
