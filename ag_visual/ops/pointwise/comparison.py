"""Comparisons, questions about elements, logic and bits: nothing here has a derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.core.level import is_batchedtensor, not_batched
from ag_visual.dispatch.families import binary, compared, pair_samples, tested, unary, zeros
from ag_visual.dispatch.record import KEEP, PROMOTE, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op

# Questions: no derivative -------------------------------------------------------------------------

_BOOL = numpy.dtype(bool)


def _nonzero(xp, x):
    # CuPy's logical functions take no complex numbers.
    return xp.not_equal(x, 0) if getattr(x, "dtype", _BOOL).kind == "c" else x


compared("eq", "equal", doc="self == other, elementwise, as bools.", symbol="=")
compared(
    "ne",
    "not_equal",
    doc="self != other, elementwise, as bools.",
    symbol="≠",
    aliases=("not_equal",),
)
compared(
    "lt",
    "less",
    real_only=True,
    doc="self < other, elementwise, as bools.",
    symbol="<",
    aliases=("less",),
)
compared(
    "le",
    "less_equal",
    real_only=True,
    doc="self <= other, elementwise, as bools.",
    symbol="≤",
    aliases=("less_equal",),
)
compared(
    "gt",
    "greater",
    real_only=True,
    doc="self > other, elementwise, as bools.",
    symbol=">",
    aliases=("greater",),
)
compared(
    "ge",
    "greater_equal",
    real_only=True,
    doc="self >= other, elementwise, as bools.",
    symbol="≥",
    aliases=("greater_equal",),
)
tested("isnan", "isnan", doc="Where elements are NaN, as bools.", zero_preserving=True)
tested("isinf", "isinf", doc="Where elements are infinite, as bools.", zero_preserving=True)
tested("isfinite", "isfinite", doc="Where elements are neither infinite nor NaN, as bools.")
tested(
    "logical_not",
    lambda xp, self: xp.logical_not(_nonzero(xp, self)),
    inplace=True,
    inplace_function=False,
    doc="Where elements are zero, as bools.",
    out="casts",
    symbol="not",
)


def _is_infinite(sign: int) -> Callable[..., Any]:
    return lambda xp, self: xp.equal(self, sign * math.inf)


def _is_real(xp, self):
    return xp.isreal(self)


tested("isposinf", _is_infinite(1), doc="Where elements are +inf, as bools.")
tested("isneginf", _is_infinite(-1), doc="Where elements are -inf, as bools.")
tested("isreal", _is_real, doc="Where elements have no imaginary part, as bools.")
tested("signbit", "signbit", doc="Where the sign bit is set (negative numbers and -0.0), as bools.")


def _logical(name: str) -> Callable[..., Any]:
    def kernel(xp, self, other):
        return getattr(xp, name)(_nonzero(xp, self), _nonzero(xp, other))

    return kernel


for _name, _which, _symbol in (
    ("logical_and", "both elements are", "and"),
    ("logical_or", "one element is, or both are,", "or"),
    ("logical_xor", "exactly one of both elements is", ""),
):
    binary(
        _name,
        None,
        None,
        _logical(_name),
        symbol=_symbol,
        vmap_inplace="inplace arithmetic",
        samples=pair_samples(),
        doc=f"Whether {_which} nonzero, elementwise, as bools.",
    )


def _integer_samples(make):
    a, b = (make(shape, low=0, high=9).astype(int) for shape in ((3, 4), (4,)))
    yield Sample((a, b + 1))


def _integer_errors(make):
    a, b = (make(shape, low=0, high=9).astype(int) for shape in ((2, 3), (4,)))
    yield ErrorSample((a, b), RuntimeError, "must match the size of tensor")
    yield ErrorSample((make((2,)), make((2,))), RuntimeError, "not implemented for 'Double'")


for _name, _which in (("gcd", "greatest common divisor"), ("lcm", "least common multiple")):
    binary(
        _name,
        None,
        None,
        samples=_integer_samples,
        errors=_integer_errors,
        inplace_function=True,
        doc=f"The {_which} of integers, elementwise.",
    )
binary(
    "nextafter",
    lambda F, g, self, other: F.where(self == other, 0.0, g),
    lambda F, g: zeros(F, g),
    real_only=True,
    samples=pair_samples(),
    doc="The next floating-point number from self towards other, elementwise.",
)


def _isclose(xp, self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    return xp.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _isclose_errors(make):
    a, b = make((2,)), make((2,))
    yield ErrorSample((a, b, -1.0), RuntimeError, "rtol must be greater than or equal to zero")
    yield ErrorSample((a, b, 0.1, -1.0), RuntimeError, "atol must be greater than or equal to zero")


op(
    "isclose",
    _isclose,
    policy=PROMOTE,
    dtype_check=lambda self, other: f"{self.scalar_name} did not match {other.scalar_name}",
    samples=pair_samples(),
    errors=_isclose_errors,
    doc="|self - other| <= atol + rtol * |other|, elementwise; equal_nan: NaN is close to NaN.",
)


@composite()
def allclose(
    F, input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements agree: |input - other| <= atol + rtol * |other|."""
    if is_batchedtensor(input) or is_batchedtensor(other):
        raise RuntimeError(
            "vmap over torch.allclose isn't supported yet. Take torch.isclose(...).all(), which "
            "has a value for each slice."
        )
    return bool(F.isclose(input, other, rtol, atol, equal_nan).all())


@composite()
def equal(F, self, other) -> bool:
    """Whether two tensors have the same shape and the same elements."""
    if is_batchedtensor(self) or is_batchedtensor(other):
        raise not_batched("equal")
    return tuple(self.shape) == tuple(other.shape) and bool(F.eq(self, other).all())


# Bits ---------------------------------------------------------------------------------------------


def _bits(name: str, kernel: str, sign: str, symbol: str = ""):
    return binary(
        name,
        None,
        None,
        kernel,
        symbol=symbol,
        samples=_integer_samples,
        errors=_integer_errors,
        doc=f"self {sign} other, bit by bit, of integers{' or bools' if len(sign) == 1 else ''}.",
    )


bitwise_and = _bits("bitwise_and", "bitwise_and", "&", "and")
bitwise_or = _bits("bitwise_or", "bitwise_or", "|", "or")
bitwise_xor = _bits("bitwise_xor", "bitwise_xor", "^")
left_shift = _bits("bitwise_left_shift", "left_shift", "<<")
right_shift = _bits("bitwise_right_shift", "right_shift", ">>")
bitwise_not = unary(
    "bitwise_not",
    None,
    "invert",
    policy=KEEP,
    samples=lambda make: (Sample(s.args[:1]) for s in _integer_samples(make)),
    doc="~self, bit by bit, of integers; the opposite of bools.",
    out="check_overlap",
    inplace_function=False,
    symbol="not",
)
