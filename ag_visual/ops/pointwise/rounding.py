"""Sign, absolute value (both with derivative 0 at 0), angle, rounding and fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ag_visual.arrays.kernels.order import copied
from ag_visual.dispatch.families import (
    EXACT,
    is_complex,
    unary,
    zeros,
    zeros_like,
)
from ag_visual.dispatch.record import ELEMENTWISE, KEEP, Sample
from ag_visual.dispatch.table import composite, ops, spaces


def _step(name: str, kernel=None, **options):
    """An op whose derivative is zero wherever it has one; integers stay as they are."""
    options.setdefault("policy", KEEP)
    return unary(name, lambda F, g: zeros_like(F, g), kernel, **EXACT, **options)


def _sign(xp, self):
    """The sign of x: -1, 0 or 1, elementwise.

    0 for NaN, where NumPy says NaN.
    """
    if self.dtype.kind == "b":
        return copied(xp, self)
    return xp.subtract(self > 0, self < 0, dtype=self.dtype)


def _sgn(xp, self):
    if self.dtype.kind != "c":
        return _sign(xp, self)
    size = xp.abs(self)
    return xp.where(size == 0, xp.zeros_like(self), self / xp.where(size == 0, 1, size))


def _sgn_rule(F, g, self, result):
    """For complex numbers the part of g across the direction of self, over its size."""
    if not is_complex(self):
        return zeros(F, g)
    along = F.real(g * F.conj(result)) * result
    size = F.abs(self)
    return F.where(size == 0, 0.0, (g - along) / F.where(size == 0, 1.0, size))


def _abs_jvp(F, t_self, self):
    moved = t_self * F.conj(F.sgn(self)) if is_complex(self) else t_self * F.sgn(self)
    return F.real(moved) if is_complex(moved) else moved


def _angle_rule(F, g, self):
    if not is_complex(self):
        return zeros_like(F, self)
    size = F.abs(self)
    return F.where(size == 0, 0.0, g * (1j * self) / F.where(size == 0, 1.0, size * size))


def _angle(xp, self):
    if self.dtype.kind == "c":
        return xp.asarray(xp.angle(self), order="C")  # row-major, as torch's
    zero = xp.zeros_like(self)
    return xp.where(xp.isnan(self), self, xp.where(self < 0, zero + math.pi, zero))


unary(
    "abs",
    lambda F, g, self: g * F.sgn(self),
    policy=KEEP,
    holomorphic=False,
    jvp={"self": _abs_jvp},
    doc="|x|, elementwise; of complex numbers their size. The derivative at 0 is 0.",
    out="check_overlap",
    **EXACT,
    zero_preserving=True,
    foreach="unary",
    aliases=("absolute",),
    symbol="|",
    flops="elements",
)
del spaces["torch"]["absolute_"]  # in torch a method alone
unary(
    "sgn",
    lambda F, g, self, result: _sgn_rule(F, g, self, result),
    _sgn,
    policy=KEEP,
    holomorphic=False,
    doc="The sign of x; of complex numbers x / |x|, elementwise: 0 at 0.",
    out="check_overlap",
    symbol="sign",
    inplace_function=False,
    **EXACT,
    zero_preserving=True,
)
unary(
    "angle",
    _angle_rule,
    _angle,
    holomorphic=False,
    inplace=False,
    jvp=ELEMENTWISE,
    doc="The angle of complex numbers in radians; of real ones 0, or pi below 0.",
)
_step(
    "sign",
    _sign,
    real_only=True,
    inplace_function=False,
    out="check_overlap",
    zero_preserving=True,
    foreach="unary",
)


def _rounded(name: str) -> Callable[..., Any]:
    def kernel(xp, self):
        return copied(xp, self) if self.dtype.kind in "iub" else getattr(xp, name)(self)

    return kernel


_step(
    "floor",
    _rounded("floor"),
    real_only=True,
    doc="The largest integer not above x, elementwise.",
    out="check_overlap",
    zero_preserving=True,
    foreach="unary",
)
_step(
    "ceil",
    _rounded("ceil"),
    real_only=True,
    doc="The smallest integer not below x, elementwise.",
    out="check_overlap",
    zero_preserving=True,
    foreach="unary",
)
_step(
    "trunc",
    _rounded("trunc"),
    real_only=True,
    doc="x without its fraction (rounded towards zero), elementwise.",
    out="check_overlap",
    zero_preserving=True,
    foreach="unary",
    aliases=("fix",),
)
_step(
    "round_even",
    _rounded("rint"),
    public=False,
    node="RoundBackward0",
    public_name="round",
    real_only=True,
    reference=lambda np, x: np.round(x),
    zero_preserving=True,
)
_step(
    "round_to",
    lambda xp, self, decimals: xp.around(self, decimals),
    public=False,
    node="RoundBackward1",
    public_name="round",
    oracle=lambda torch, self, decimals: torch.round(self, decimals=decimals),
    samples=lambda make: [Sample((make((3, 4)), 1))],
    real_only=True,
)


@composite(out="check_overlap", spaces="torch special", foreach="unary")
def round(F, self, *, decimals: int = 0):
    """The nearest integer (or multiple of 10**-decimals); ties go to the even one."""
    return F.round_even(self) if decimals == 0 else F.round_to(self, decimals)


@composite()
def round_(F, self, *, decimals: int = 0):
    """`round` in place."""
    if decimals == 0:
        return ops["round_even"].write(self)
    return ops["round_to"].write(self, decimals)


unary(
    "frac",
    lambda g: g,
    lambda xp, self: self - xp.trunc(self),
    real_only=True,
    reference=lambda np, x: np.sign(x) * (np.abs(x) - np.floor(np.abs(x))),
    doc="x - trunc(x), elementwise.",
    out="exact",
    zero_preserving=True,
    foreach="unary",
)
