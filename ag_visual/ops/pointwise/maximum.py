"""The larger or smaller of two (equal ones share the gradient), copysign, heaviside and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.arrays.kernels import choice
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import (
    EXACT,
    binary,
    binary_samples,
    chosen_variant,
    elementwise,
    not_differentiable,
    pair_samples,
    zeros,
)
from ag_visual.dispatch.record import FLOAT, Sample
from ag_visual.dispatch.table import composite, ops

# Maximum and minimum


def _tie(F, g, mine, theirs):
    """g where mine is the larger, half of it in a tie."""
    return F.where(mine == theirs, g / 2, F.where(mine < theirs, 0.0, g))


def _to_self(F, g, self, other):
    return _tie(F, g, self, other)


def _to_other(F, g, self, other):
    return _tie(F, g, other, self)


def _extremum(name: str, *rules: Callable[..., Any]) -> None:
    """maximum or minimum: NaN wins, ties share the gradient."""
    binary(
        name,
        *rules,
        **EXACT,
        inplace=False,
        samples=pair_samples(),
        real_only=True,
        flops="elements",
        foreach=f"binary number:clamp_{'min' if name == 'maximum' else 'max'}",
        doc=f"The {'larger' if name == 'maximum' else 'smaller'} of two elements, NaN if one is. "
        "Ties share the gradient.",
    )


_extremum("maximum", _to_self, _to_other)
_extremum("minimum", _to_other, _to_self)


def _ignoring_nan(name: str, wins: Callable[[Any, Any], Any]) -> None:
    """fmax and fmin: a number wins over NaN, the first of two equal ones takes the gradient."""

    def mine(F, self, other):
        return wins(self, other) | F.isnan(other)

    binary(
        name,
        lambda F, g, self, other: F.masked_fill(g, ~mine(F, self, other), 0),
        lambda F, g, self, other: F.masked_fill(g, mine(F, self, other), 0),
        **EXACT,
        inplace=False,
        samples=pair_samples(),
        real_only=True,
        doc=f"The {'larger' if name == 'fmax' else 'smaller'} of two elements; a number wins over "
        "NaN.",
    )


_ignoring_nan("fmax", lambda a, b: a >= b)
_ignoring_nan("fmin", lambda a, b: a <= b)


def _copysign(xp, self, other):
    return xp.copysign(self, other)


def _copysign_rule(F, g, self, result):
    return g * F.where(self == 0, 0.0, result / F.where(self == 0, 1.0, self))


binary(
    "copysign_tensor",
    _copysign_rule,
    lambda F, g: zeros(F, g),
    _copysign,
    policy=FLOAT,
    public=False,
    node="CopysignBackward0",
    public_name="copysign",
    samples=pair_samples(0.3, 2.0, -2.0, 1.0),
    real_only=True,
    vmap_inplace="",
    **EXACT,
)
elementwise(
    "copysign_number",
    _copysign,
    {"self": _copysign_rule},
    inputs=("self", "other"),
    policy=FLOAT,
    public=False,
    inplace=True,
    node="CopysignBackward1",
    public_name="copysign",
    samples=lambda make: [Sample((make((3, 4), low=-2.0, high=2.0), -0.5))],
    real_only=True,
    **EXACT,
)


def _copysign_kind(other) -> str:
    return "copysign_number" if isinstance(other, NUMBERS) else "copysign_tensor"


@composite(out="casts check_overlap broadcasts")
def copysign(F, self, other):
    """|self| with the sign of other, elementwise."""
    return getattr(F, _copysign_kind(other))(self, other)


chosen_variant("copysign_", _copysign_kind)


elementwise(
    "heaviside",
    lambda xp, self, values: xp.where(self == 0, values, (self > 0).astype(self.dtype)),
    {"self": not_differentiable("heaviside"), "values": not_differentiable("heaviside")},
    aten="aten::heaviside",
    inplace=True,
    node="NotImplemented",
    dtype_check=lambda self, values: (
        "heaviside is not yet implemented for tensors with different dtypes"
    ),
    samples=pair_samples(),
    doc="0 below 0, 1 above it, `values` at 0, elementwise. Not differentiable.",
    out="exact",
    **EXACT,
)

# Bounds and choice --------------------------------------------------------------------------------


def _where(xp, condition, self, other):
    if condition.dtype != bool:
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.name}. Compare it with something first."
        )
    result = choice.where(xp, condition, self, other)
    given = [x.dtype for x in (self, other) if hasattr(x, "dtype")]
    # NumPy widens bfloat16 beside a number, CuPy beside bfloat16, too.
    if given and result.dtype.kind != "V" and all(each.kind == "V" for each in given):
        return result.astype(given[0])
    return result


def _where_samples(make):
    for sample in binary_samples()(make):
        a = sample.args[0]
        yield Sample((make(a.shape) > 0, *sample.args))
    yield Sample((make((3, 1)) > 0, make((4,)), make((3, 4))))
    yield Sample((make((3,)) > 0, 1.5, make((3,))))


elementwise(
    "where_of",
    _where,
    {
        "self": lambda F, g, condition: F.where(condition, g, 0.0),
        "other": lambda F, g, condition: F.where(condition, 0.0, g),
    },
    inputs=("condition", "self", "other"),
    no_promotion=("condition",),
    public=False,
    node="WhereBackward0",
    public_name="where",
    samples=_where_samples,
    reference=lambda np, c, x, y: c * x + (1 - c) * y,
    formula=lambda F, condition, self, other: F.where(condition, self, other),
    **EXACT,
)


@composite(method=False, out="check_overlap broadcasts", symbol="{")
def where(F, condition, input=None, other=None):
    """Elementwise `input` where condition is true and `other` elsewhere; alone: the true places."""
    if input is None and other is None:
        return F.nonzero(condition, as_tuple=True)
    return F.where_of(condition, input, other)


@method("where")
def _where_method(self: Tensor, condition, other):
    """`self` where condition is true and `other` elsewhere."""
    return ops["where_of"].call(condition, self, other)
