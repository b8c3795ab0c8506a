"""Powers."""

from __future__ import annotations

import cmath
import math

import numpy

from ag_visual import dtypes
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import (
    binary_errors,
    chosen_variant,
    elementwise,
    is_complex,
    number_in,
    pair_samples,
    promoted_with,
    zeros,
)
from ag_visual.dispatch.opmath import narrowed, rounded, widened
from ag_visual.dispatch.record import KEEP, ROWS, Sample
from ag_visual.dispatch.rules import inlined
from ag_visual.dispatch.table import composite, ops


def _no_bool_powers(*arrays) -> None:
    if all(getattr(array, "dtype", None) == numpy.bool_ for array in arrays):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


@inlined
def _pow_number(xp, self, exponent):
    return (
        self**exponent
        if self.dtype.kind == "f" and exponent not in (0.5, -0.5, 3, -2)
        else _special_power(xp, self, exponent)
    )


def _special_power(xp, self, exponent):
    if self.dtype.kind in "iub":
        if exponent not in (0, 1):
            _no_bool_powers(self)
        if exponent < 0:
            raise RuntimeError(
                "Integers to negative integer powers are not allowed. Convert with .float() first."
            )
        return xp.power(self, number_in(exponent, self.dtype)).astype(self.dtype, copy=False)
    if self.dtype == numpy.float16:  # (`**` would take roots)
        return xp.power(self, exponent)
    if self.dtype.kind == "V":
        return _bfloat16_power(xp, self, exponent)
    if exponent in (0.5, -0.5):  # as the root itself: NaN at -inf, -0.0 at -0.0
        root = xp.sqrt(self)
        return root if exponent > 0 else (1 / root).astype(self.dtype, copy=False)
    if self.dtype.kind == "f" and exponent in (3, -2):  # by products, as torch: 35 times as fast
        square_ = self * self
        return square_ * self if exponent == 3 else 1 / square_
    return self**exponent


def _bfloat16_power(xp, self, exponent):
    """As torch: the powers that it takes by products round after each of them."""
    if exponent in (2, 3, -2):
        square_ = self * self
        return square_ * self if exponent == 3 else 1 / square_ if exponent < 0 else square_
    found = _pow_number(xp, widened(xp, self), rounded(exponent, self.dtype))
    return narrowed(found, self.dtype)


def _integer_power(xp, self, exponent):
    """self ** exponent of one integer dtype; a fraction is 0, as torch has it."""
    _no_bool_powers(self, exponent)
    negative = exponent < 0
    if not bool(negative.any()):
        return xp.power(self, exponent)
    sign = xp.where(self == -1, 1 - 2 * (exponent & 1), 0)
    fraction = xp.where(self == 1, 1, sign)
    powers = xp.power(self, xp.where(negative, 0, exponent))
    return xp.where(negative, fraction, powers).astype(self.dtype)


def _power_of_repeated(xp, self, exponent):
    """A power whose exponents are not one for each number, and may be repeated.

    NumPy takes roots where 0.5 is: NaN at -inf, -0.0 at -0.0. Powers have no sign there.
    """
    half = exponent == 0.5
    if self.dtype.kind != "c" and half.any():
        self = xp.where(half & ((self == 0) | xp.isinf(self)), xp.abs(self), self)
    return xp.power(self, exponent)


@inlined
def _power(xp, self, exponent):
    return (
        _integer_power(xp, self, exponent)
        if self.dtype.kind in "iub"
        else _power_of_repeated(xp, self, exponent)
        if exponent.shape != self.shape or 0 in exponent.strides or not exponent.ndim
        else xp.power(self, exponent)
    )


def _pow_number_rule(F, g, self, exponent):
    if exponent == 0:
        return zeros(F, g)
    if exponent == 2 and not F.traced:
        return g * (self * 2)
    if exponent == 0.5 and not F.traced and self.dtype != numpy.float16:
        return g * (0.5 / F.sqrt(self))  # -inf at -0.0, NaN at -inf
    if exponent == 4 and not F.traced:
        return g * ((self * self * self) * 4)
    # On Tensors a power again, whose own derivative is zero in the end, not none.
    return g * (exponent * self ** (exponent - 1))


def _pow_number_samples(make):
    for exponent in (2, 3, 0, 0.5, -1.5):
        yield Sample((make((3, 4), low=0.5, high=2.0), exponent))
    yield Sample((make((), low=-2, high=2), 3))
    yield Sample((make((2, 0)), 2))


elementwise(
    "pow_number",
    _pow_number,
    {"self": _pow_number_rule},
    policy=KEEP,
    public=False,
    inplace=True,
    node="PowBackward0",
    public_name="pow",
    samples=_pow_number_samples,
    reference=lambda np, x, e: np.exp(e * np.log(np.abs(x))) * np.where(x < 0, -1.0, 1.0) ** e,
    formula=lambda self, exponent: self**exponent,
    opmath=False,
)


def _base_rule(F, g, self, exponent):
    return F.where(exponent == 0, 0.0, g * (exponent * F.pow_tensor(self, exponent - 1)))


def _ends_at_zero(F, exponent):
    """Where 0 ** exponent stays as it is when the exponent moves."""
    if is_complex(exponent):
        return (F.imag(exponent) == 0) & (F.real(exponent) >= 0)
    return exponent >= 0


def _exponent_rule(F, g, self, exponent, result):
    flat = (self == 0) & _ends_at_zero(F, exponent)
    # In the dtype of the result: the logarithm of a negative number is complex there.
    base = F.cast(self, getattr(result, "_array", result).dtype)
    return g * F.where(flat, 0.0, result * F.log(base))


elementwise(
    "pow_tensor",
    _power,
    {"self": _base_rule, "exponent": _exponent_rule},
    public=False,
    inplace=True,
    node="PowBackward1",
    public_name="pow",
    samples=pair_samples(0.5, 2.0, -1.5, 1.5),
    errors=binary_errors,
    reference=lambda np, x, e: np.exp(e * np.log(x)),
    formula=lambda self, exponent: self**exponent,
)


def _pow_base(xp, self, exponent):
    if exponent.dtype.kind in "iub":
        _no_bool_powers(exponent)
        return _integer_power(xp, xp.asarray(self).astype(exponent.dtype), exponent)
    if self == 1:  # whatever the exponent is, as a real 1
        return xp.ones_like(exponent)
    if exponent.dtype.kind == "V":
        found = _pow_base(xp, rounded(self, exponent.dtype), widened(xp, exponent))
        return narrowed(found, exponent.dtype)
    if self in (-math.inf, 0) and exponent.dtype.kind != "c":
        return _power_of_repeated(xp, xp.asarray(self, dtype=exponent.dtype), exponent)
    return self**exponent


def _pow_base_rule(F, g, self, exponent, result):
    if self == 0:
        return g * F.where(_ends_at_zero(F, exponent), 0.0, result * -math.inf)
    if isinstance(self, complex) or is_complex(exponent):
        return g * (result * cmath.log(self))
    return g * (result * (math.log(self) if self > 0 else math.nan))


elementwise(
    "pow_base",
    _pow_base,
    {"exponent": _pow_base_rule},
    policy=KEEP,
    layout=ROWS,
    public=False,
    node="PowBackward2",
    public_name="pow",
    samples=lambda make: [Sample((2.0, make((3, 4)))), Sample((0.7, make(())))],
    formula=lambda self, exponent: self**exponent,
    opmath=False,
)


@composite(
    out="casts check_overlap broadcasts",
    autocast="cuda float32",
    foreach="binary",
    symbol="^",
    flops="elements",
)
def pow(F, self, exponent):
    """self to the power of exponent, elementwise; either may be a number."""
    if isinstance(exponent, NUMBERS):
        return F.pow_number(promoted_with(F, self, exponent), exponent)
    if isinstance(self, NUMBERS):
        return F.pow_base(self, promoted_with(F, exponent, self))
    return F.pow_tensor(self, exponent)


chosen_variant("pow_", lambda e: "pow_number" if isinstance(e, NUMBERS) else "pow_tensor")


@composite(out="casts check_overlap")
def square(F, self):
    """self * self."""
    return F.pow(self, 2)


@composite()
def square_(F, self):
    """`square` in place."""
    return ops["pow_number"].write(self, 2)


@composite(out=True)
def float_power(F, self, exponent):
    """`pow` in double precision."""
    wide = [
        x
        if isinstance(x, NUMBERS)
        else x.to(dtypes.complex128 if x.dtype.is_complex else dtypes.float64)
        for x in (self, exponent)
    ]
    return F.pow(*wide)


@composite(spaces="")
def float_power_(F, self, exponent):
    """`float_power` in place, of a tensor that is double precision already."""
    complex_ = self.dtype.is_complex or isinstance(exponent, complex)
    wide = dtypes.complex128 if complex_ else dtypes.float64
    if self.dtype is not wide:
        one, other = (t.scalar_name for t in (self.dtype, wide))
        raise RuntimeError(
            f"the base given to float_power_ has dtype {one} but the operation's result requires "
            f"dtype {other}"
        )
    return F.pow_(self, exponent if isinstance(exponent, NUMBERS) else exponent.to(wide))
