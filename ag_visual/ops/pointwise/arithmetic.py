"""Elementwise arithmetic: sums, products, quotients and remainders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import (
    EXACT,
    binary,
    binary_errors,
    binary_samples,
    chosen_variant,
    elementwise,
    not_differentiable,
    number_in,
    pair_samples,
    unary,
    zeros_like,
)
from ag_visual.dispatch.record import EACH, FLOAT, KEEP, LINEAR, PROMOTE, Sample
from ag_visual.dispatch.rules import inlined
from ag_visual.dispatch.table import composite, op, ops

_BOOL_MINUS = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
    "invert a mask, use the `~` or `logical_not()` operator instead."
)
_BOOLS_MINUS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
    "`logical_xor()` operator instead."
)


_ONE = 1  # compared by identity, in a sixth of the time: True and 1.0 are not 1


@inlined
def _add(xp, self, other, *, alpha=1):
    return xp.add(self, other if alpha is _ONE else _times_alpha(xp, "add", self, other, alpha))


@inlined
def _sub(xp, self, other, *, alpha=1):
    return xp.subtract(
        self, other if alpha is _ONE else _times_alpha(xp, "sub", self, other, alpha)
    )


def _number(name: str, alpha):
    if isinstance(alpha, Tensor) and alpha._array.ndim == 0 and not alpha.requires_grad:
        return alpha.item()
    if not isinstance(alpha, NUMBERS):
        raise TypeError(f"{name}(): argument 'alpha' must be Number, not {type(alpha).__name__}")
    return alpha


def _times_alpha(xp, name: str, self, other, alpha):
    """alpha * other in the dtype of the result, with torch's restrictions on alpha."""
    alpha = _number(name, alpha)
    given = numpy.asarray(alpha).dtype.kind
    dtype = (other if hasattr(other, "dtype") else self).dtype
    kind = dtype.kind
    if given == "b" and kind != "b":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if given in "fc" and kind in "biu":
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if given == "c" and kind != "c":
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if alpha == 1:
        return other
    if type(other) is float or type(other) is int:
        return other * alpha  # Python's product: NumPy's would have a dtype of its own
    return xp.multiply(other, number_in(alpha, dtype))


def _no_bools(self, other, alpha) -> None:
    """torch's `-` takes no bools, whatever they would be promoted to."""
    _number("sub", alpha)
    bools = [type(x) is bool or getattr(x, "dtype", None) is dtypes.bool for x in (self, other)]
    if any(bools):
        raise RuntimeError(_BOOLS_MINUS if all(bools) else _BOOL_MINUS)


@inlined
def _unchanged(g):
    return g


@inlined
def _scaled(g, alpha):
    return g if alpha == 1 else g * (alpha.item() if isinstance(alpha, Tensor) else alpha)


def _sum_samples(make):
    yield from binary_samples()(make)
    yield Sample((make((3, 4)), make((3, 4))), {"alpha": 2.5})


# In a sum torch rounds numbers to 16 bits first; in a product and a quotient it doesn't.
_SUMMED = frozenset(("self", "other", "alpha"))
_DIVIDED = frozenset(("self",))

add = op(
    "add",
    _add,
    vjp={"self": _unchanged, "other": _scaled},
    jvp=LINEAR,
    policy=PROMOTE,
    opmath=True,
    rounds=_SUMMED,
    rounding=EACH,
    inplace=True,
    vmap_inplace="",
    samples=_sum_samples,
    errors=binary_errors,
    reference=lambda np, x, y, alpha: x + alpha * y,
    doc="self + alpha * other, elementwise.",
    symbol="+",
    foreach="binary tensor alpha",
    flops="elements",
)
sub = op(
    "sub",
    _sub,
    vjp={"self": _unchanged, "other": lambda g, alpha: -_scaled(g, alpha)},
    jvp=LINEAR,
    policy=PROMOTE,
    opmath=True,
    rounds=_SUMMED,
    rounding=EACH,
    inplace=True,
    vmap_inplace="inplace arithmetic",
    samples=_sum_samples,
    check=_no_bools,
    errors=binary_errors,
    reference=lambda np, x, y, alpha: x - alpha * y,
    doc="self - alpha * other, elementwise.\n\nRaises RuntimeError for bools.",
    symbol="−",
    foreach="binary alpha",
    aliases=("subtract",),
    flops="elements",
)


def _rsub_rule(g, alpha):
    return -_scaled(g, alpha)


def _from_number(make):
    yield Sample((make((2, 3)), 1.5))


_RSUB = {"self": _rsub_rule, "other": lambda g: g}
_RSUB_NUMBER = {"self": lambda t_self, alpha: _rsub_rule(t_self, alpha)}
for _name, _node, _rules, _moves, _pairs in (
    ("rsub_tensor", "RsubBackward0", _RSUB, LINEAR, pair_samples()),
    ("rsub_number", "RsubBackward1", {"self": _rsub_rule}, _RSUB_NUMBER, _from_number),
):
    op(
        _name,
        lambda xp, self, other, *, alpha=1: _sub(xp, other, self, alpha=alpha),
        vjp=_rules,
        jvp=_moves,
        policy=PROMOTE,
        opmath=True,
        rounds=_SUMMED,
        rounding=EACH,
        node=_node,
        check=_no_bools,
        public_name="rsub",
        public=False,
        also_saves=("alpha",),
        samples=_pairs,
        errors=binary_errors,
        formula=lambda self, other, alpha: other - alpha * self,
    )


@composite(method=False)
def rsub(F, self, other, *, alpha=1):
    """other - alpha * self."""
    kind = F.rsub_number if isinstance(other, NUMBERS) else F.rsub_tensor
    return kind(self, other, alpha=alpha)


@inlined
def _times_other(g, other):
    return g * other


@inlined
def _times_self(g, self):
    return g * self


mul = binary(
    "mul",
    _times_other,
    _times_self,
    "multiply",
    rounds=_DIVIDED,
    doc="self * other, elementwise.",
    formula=lambda self, other: self * other,
    symbol="·",
    vmap_inplace="inplace arithmetic",
    foreach="binary tensor",
    aliases=("multiply",),
    flops="elements",
)
true_divide = binary(
    "true_divide",
    lambda g, other: g / other,
    lambda g, self, other: -g * ((self / other) / other),
    policy=FLOAT,
    rounds=_DIVIDED,
    node="DivBackward0",
    public_name="div",
    samples=binary_samples(0.5, 2.0),
    reference=lambda np, x, y: x * (1 / y),
    doc="self / other, elementwise, as floating-point numbers.",
    formula=lambda self, other: self / other,
    symbol="/",
    vmap_inplace="inplace arithmetic",
    flops="elements",
)

_ROUNDING = {"floor": "floor_divide", "trunc": "trunc_divide"}


def _int_division(xp, self, other) -> None:
    """torch refuses to divide integers by zero; NumPy would say 0."""
    dtype = getattr(self, "dtype", None)
    if dtype is None or dtype.kind not in "iu":
        return
    if getattr(other, "dtype", dtype).kind in "iu":  # (formulas divide by floating-point ones, too)
        zero = (other == 0).any() if hasattr(other, "any") else other == 0
        if zero and self.size and getattr(other, "size", 1):
            raise RuntimeError("ZeroDivisionError: integer division by zero")


def _div_mode(xp, self, other, *, rounding_mode: str):
    _int_division(xp, self, other)
    if rounding_mode == "floor":
        return xp.floor_divide(self, other)
    if self.dtype.kind in "iub":
        quotient = xp.floor_divide(self, other)
        uneven = (quotient * other != self) & ((self < 0) != (other < 0))
        return quotient + uneven.astype(quotient.dtype)
    return xp.trunc(xp.true_divide(self, other))


def _check_mode(self, other, rounding_mode) -> tuple[Any]:
    if rounding_mode not in _ROUNDING:
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return (rounding_mode,)


def _div_mode_samples(make):
    for mode in _ROUNDING:
        for sample in binary_samples(-3.7, 3.3, 0.6, 1.9)(make):
            yield Sample(sample.args, {"rounding_mode": mode})


elementwise(
    "div_mode",
    _div_mode,
    {
        # They name what torch's node saves for them.
        "self": lambda F, g, other, rounding_mode: zeros_like(F, g),
        "other": lambda F, g, self, other, rounding_mode: zeros_like(F, g),
    },
    normalize=_check_mode,
    public=False,
    rounds=_DIVIDED,
    inplace=True,
    vmap_inplace="inplace arithmetic",
    node="DivBackward2",
    public_name="div",
    samples=_div_mode_samples,
    real_only=True,
)


@composite(
    aliases=("divide",), out="casts check_overlap broadcasts", symbol="/", foreach="binary tensor"
)
def div(F, self, other, *, rounding_mode: str | None = None):
    """self / other, optionally rounded: rounding_mode 'floor', or 'trunc' (towards zero)."""
    if rounding_mode is None:
        return F.true_divide(self, other)
    return F.div_mode(self, other, rounding_mode=rounding_mode)


@composite(aliases=("divide_",), spaces="")
def div_(F, self, other, *, rounding_mode: str | None = None):
    """`div` in place."""
    if rounding_mode is None:
        return ops["true_divide"].write(self, other)
    return ops["div_mode"].write(self, other, rounding_mode=rounding_mode)


def _floor_divide(xp, self, other):
    _int_division(xp, self, other)
    return xp.floor_divide(self, other)


# As in torch: the result requires grad, and its backward says that there is none.
floor_divide = binary(
    "floor_divide",
    not_differentiable("floor_divide"),
    not_differentiable("floor_divide"),
    _floor_divide,
    aten="aten::floor_divide",
    node="NotImplemented",
    samples=binary_samples(-3.7, 3.3, 0.6, 1.9),
    real_only=True,
    doc="floor(self / other), elementwise. Not differentiable.",
)


def _quotient_rule(mode: str) -> Callable[..., Any]:
    return lambda F, g, self, other: -g * F.div_mode(self, other, rounding_mode=mode)


def _remainder(xp, self, other):
    _int_division(xp, self, other)
    result = xp.remainder(self, other)
    if result.dtype.kind in "iub":
        return result
    # NumPy's zero has the sign of the divisor, C's and torch's that of the dividend.
    return xp.where(result == 0, xp.copysign(result, self), result)


def _fmod(xp, self, other):
    _int_division(xp, self, other)
    return xp.fmod(self, other)


def _modulus(name: str, kernel, mode: str, symbol: str = "") -> None:
    """remainder and fmod: one op for a tensor divisor, one for a number, as torch has them."""
    node = name.capitalize()
    binary(
        f"{name}_tensor",
        lambda g: g,
        _quotient_rule(mode),
        kernel,
        public=False,
        node=f"{node}Backward1",
        public_name=name,
        samples=pair_samples(-3.7, 3.3, 0.6, 1.9),
        real_only=True,
    )
    elementwise(
        f"{name}_number",
        kernel,
        {"self": lambda g: g},
        inputs=("self", "other"),
        public=False,
        inplace=True,
        node=f"{node}Backward0",
        public_name=name,
        samples=lambda make: [Sample((make((3, 4), low=-3.7, high=3.3), 0.9))],
        real_only=True,
    )

    def kind(other) -> str:
        return f"{name}_number" if isinstance(other, NUMBERS) else f"{name}_tensor"

    def body(F, self, other):
        return getattr(F, kind(other))(self, other)

    rounded, owner = ("floor", "other") if mode == "floor" else ("trunc", "self")
    body.__doc__ = f"self - other * {rounded}(self / other), elementwise: the sign is {owner}'s."
    composite(name, out="casts check_overlap broadcasts", symbol=symbol)(body)
    chosen_variant(f"{name}_", kind)


_modulus("remainder", _remainder, "floor", "mod")
_modulus("fmod", _fmod, "trunc")


def _neg(xp, self):
    try:
        return xp.negative(self)
    except TypeError:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        ) from None


neg = unary(
    "neg",
    lambda g: -g,
    _neg,
    policy=KEEP,
    doc="-x, elementwise.\n\nRaises RuntimeError for bools.",
    out="check_overlap",
    **EXACT,
    foreach="unary",
    aliases=("negative",),
    symbol="−",
    flops="elements",
)


@composite()
def positive(F, self):
    """The tensor itself."""
    if self.dtype.category == 0:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self
