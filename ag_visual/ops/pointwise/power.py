"""Powers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import (
    binary_errors,
    chosen_twin,
    elementwise,
    is_complex,
    number_in,
    pair_samples,
    promoted_with,
    zeros,
)
from ag_visual.dispatch.record import (
    KEEP,
    ROWS,
    Sample,
)
from ag_visual.dispatch.rules import inlined
from ag_visual.dispatch.table import composite, ops

# Arithmetic ---------------------------------------------------------------------------------------


def _no_bool_powers(*arrays: Any) -> None:
    if all(getattr(array, "dtype", None) == numpy.bool_ for array in arrays):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


@inlined
def _pow_number(xp: Any, self: Any, exponent: Any) -> Any:
    return (
        self**exponent
        if self.dtype.kind == "f" and exponent != -0.5
        else _special_power(xp, self, exponent)
    )


def _special_power(xp: Any, self: Any, exponent: Any) -> Any:
    if self.dtype.kind in "iub":
        if exponent not in (0, 1):
            _no_bool_powers(self)
        if exponent < 0:
            raise RuntimeError(
                "Integers to negative integer powers are not allowed. Convert with .float() first."
            )
        return xp.power(self, number_in(exponent, self.dtype)).astype(self.dtype, copy=False)
    if exponent == -0.5:  # as the root itself: NaN at -inf, -inf at -0.0
        return (1 / xp.sqrt(self)).astype(self.dtype, copy=False)
    return self**exponent


def _integer_power(xp: Any, self: Any, exponent: Any) -> Any:
    """self ** exponent of one integer dtype; a fraction is 0, as torch has it."""
    _no_bool_powers(self, exponent)
    negative = exponent < 0
    if not bool(negative.any()):
        return xp.power(self, exponent)
    sign = xp.where(self == -1, 1 - 2 * (exponent & 1), 0)
    fraction = xp.where(self == 1, 1, sign)
    powers = xp.power(self, xp.where(negative, 0, exponent))
    return xp.where(negative, fraction, powers).astype(self.dtype)


@inlined
def _power(xp: Any, self: Any, exponent: Any) -> Any:
    return (
        _integer_power(xp, self, exponent) if self.dtype.kind in "iub" else xp.power(self, exponent)
    )


def _pow_number_rule(F: Any, g: Any, self: Any, exponent: Any) -> Any:
    if exponent == 0:
        return zeros(F, g)
    if exponent == 2 and not F.traced:
        return g * (self * 2)
    if exponent == 0.5 and not F.traced:
        return g * (0.5 / F.sqrt(self))  # -inf at -0.0, NaN at -inf
    # On Tensors a power again, whose own derivative is zero in the end, not none.
    return g * (exponent * self ** (exponent - 1))


def _pow_number_samples(make: Any) -> Iterator[Sample]:
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
)


def _base_rule(F: Any, g: Any, self: Any, exponent: Any) -> Any:
    return F.where(exponent == 0, 0.0, g * (exponent * self ** (exponent - 1)))


def _ends_at_zero(F: Any, exponent: Any) -> Any:
    """Where 0 ** exponent stays as it is when the exponent moves."""
    if is_complex(exponent):
        return (F.imag(exponent) == 0) & (F.real(exponent) >= 0)
    return exponent >= 0


def _exponent_rule(F: Any, g: Any, self: Any, exponent: Any, result: Any) -> Any:
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


def _pow_base(xp: Any, self: Any, exponent: Any) -> Any:
    if exponent.dtype.kind in "iub":
        _no_bool_powers(exponent)
        return _integer_power(xp, xp.asarray(self).astype(exponent.dtype), exponent)
    return self**exponent


def _pow_base_rule(F: Any, g: Any, self: Any, exponent: Any, result: Any) -> Any:
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
    samples=lambda make: iter([Sample((2.0, make((3, 4)))), Sample((0.7, make(())))]),
    formula=lambda self, exponent: self**exponent,
)


@composite(out="casts check_overlap broadcasts")
def pow(F: Any, self: Any, exponent: Any) -> Any:
    """self to the power of exponent, elementwise; either may be a number."""
    if isinstance(exponent, NUMBERS):
        return F.pow_number(promoted_with(F, self, exponent), exponent)
    if isinstance(self, NUMBERS):
        return F.pow_base(self, promoted_with(F, exponent, self))
    return F.pow_tensor(self, exponent)


chosen_twin("pow_", lambda e: "pow_number" if isinstance(e, NUMBERS) else "pow_tensor")


@composite(out="casts check_overlap")
def square(F: Any, self: Any) -> Any:
    """self * self."""
    return F.pow(self, 2)


@composite()
def square_(F: Any, self: Any) -> Any:
    """`square` in place."""
    return ops["pow_number"].write(self, 2)


@composite(out=True)
def float_power(F: Any, self: Any, exponent: Any) -> Any:
    """`pow` in double precision."""
    wide = [
        x
        if isinstance(x, NUMBERS)
        else x.to(dtypes.complex128 if x.dtype.is_complex else dtypes.float64)
        for x in (self, exponent)
    ]
    return F.pow(*wide)


@composite()
def float_power_(F: Any, self: Any, exponent: Any) -> Any:
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


# Names and operators ------------------------------------------------------------------------------
