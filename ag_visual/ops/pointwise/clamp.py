"""Signs, rounding, extrema, bounds and choice, where derivatives jump, and what blends tensors.

The derivatives at kinks are torch's: abs(0) and sgn(0) 0, ties of maximum shared, clamp at its
bound 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels import activation as kernels
from ag_visual.arrays.kernels.order import copied, expanded
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.arguments import NUMBERS, plain_number
from ag_visual.dispatch.families import (
    binary,
    binary_errors,
    binary_samples,
    chosen_twin,
    elementwise,
    is_complex,
    number_in,
    pair_samples,
    promoted_with,
    refused,
    unary,
    zeros,
)
from ag_visual.dispatch.memory_overlap import unless_idle
from ag_visual.dispatch.overflow import refuse_overflow
from ag_visual.dispatch.record import EACH, FLOAT, KEEP, Sample
from ag_visual.dispatch.table import composite, ops

# Steps, signs and kinks ---------------------------------------------------------------------------


def _step(name: str, kernel: Any = None, **options: Any) -> Any:
    """An op whose derivative is zero wherever it has one; integers stay as they are."""
    options.setdefault("policy", KEEP)
    return unary(name, lambda F, g: zeros(F, g), kernel, **options)


def _sign(xp: Any, self: Any) -> Any:
    """-1, 0 or 1, and 0 for NaN, where NumPy says NaN."""
    if self.dtype.kind == "b":
        return copied(xp, self)
    return xp.subtract(self > 0, self < 0, dtype=self.dtype)


def _sgn(xp: Any, self: Any) -> Any:
    if self.dtype.kind != "c":
        return _sign(xp, self)
    size = xp.abs(self)
    return xp.where(size == 0, xp.zeros_like(self), self / xp.where(size == 0, 1, size))


def _sgn_rule(F: Any, g: Any, self: Any, result: Any) -> Any:
    """For complex numbers the part of g across the direction of self, over its size."""
    if not is_complex(self):
        return zeros(F, g)
    along = F.real(g * F.conj(result)) * result
    size = F.abs(self)
    return F.where(size == 0, 0.0, (g - along) / F.where(size == 0, 1.0, size))


def _abs_jvp(F: Any, t_self: Any, self: Any) -> Any:
    moved = t_self * F.conj(F.sgn(self)) if is_complex(self) else t_self * F.sgn(self)
    return F.real(moved) if is_complex(moved) else moved


def _angle_rule(F: Any, g: Any, self: Any) -> Any:
    if not is_complex(self):
        return zeros(F, g)
    size = F.abs(self)
    return F.where(size == 0, 0.0, g * (1j * self) / F.where(size == 0, 1.0, size * size))


def _angle(xp: Any, self: Any) -> Any:
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
)
unary(
    "sgn",
    lambda F, g, self, result: _sgn_rule(F, g, self, result),
    _sgn,
    policy=KEEP,
    holomorphic=False,
    doc="The sign of x; of complex numbers x / |x|, elementwise: 0 at 0.",
)
unary(
    "angle",
    _angle_rule,
    _angle,
    holomorphic=False,
    inplace=False,
    jvp=EACH,
    doc="The angle of complex numbers in radians; of real ones 0, or pi below 0.",
)
_step("sign", _sign, real=True)


def _rounded(name: str) -> Callable[..., Any]:
    def kernel(xp: Any, self: Any) -> Any:
        return copied(xp, self) if self.dtype.kind in "iub" else getattr(xp, name)(self)

    return kernel


def _round_to(xp: Any, self: Any, decimals: int) -> Any:
    return xp.around(self, decimals)


_step(
    "floor",
    _rounded("floor"),
    real=True,
    doc="The largest integer not above x, elementwise.",
)
_step(
    "ceil",
    _rounded("ceil"),
    real=True,
    doc="The smallest integer not below x, elementwise.",
)
_step(
    "trunc",
    _rounded("trunc"),
    real=True,
    doc="x without its fraction (rounded towards zero), elementwise.",
)
_step(
    "round_even",
    _rounded("rint"),
    public=False,
    node="RoundBackward0",
    called="round",
    real=True,
    reference=lambda np, x: np.round(x),
)
_step(
    "round_to",
    _round_to,
    public=False,
    node="RoundBackward1",
    called="round",
    oracle=lambda torch, self, decimals: torch.round(self, decimals=decimals),
    samples=lambda make: iter([Sample((make((3, 4)), 1))]),
    real=True,
)


@composite(out=True)
def round(F: Any, self: Any, *, decimals: int = 0) -> Any:
    """The nearest integer (or multiple of 10**-decimals); ties go to the even one."""
    return F.round_even(self) if decimals == 0 else F.round_to(self, decimals)


@composite()
def round_(F: Any, self: Any, *, decimals: int = 0) -> Any:
    """`round` in place."""
    if decimals == 0:
        return ops["round_even"].write(self)
    return ops["round_to"].write(self, decimals)


def _frac(xp: Any, self: Any) -> Any:
    return self - xp.trunc(self)


unary(
    "frac",
    lambda g: g,
    _frac,
    real=True,
    reference=lambda np, x: np.sign(x) * (np.abs(x) - np.floor(np.abs(x))),
    doc="x - trunc(x), elementwise.",
)


def _tie(F: Any, g: Any, mine: Any, theirs: Any) -> Any:
    """g where mine is the larger, half of it in a tie."""
    return F.where(mine == theirs, g / 2, F.where(mine < theirs, 0.0, g))


def _extremum(name: str, sign: int) -> None:
    """maximum (sign 1) or minimum (-1): NaN wins, ties share the gradient."""
    binary(
        name,
        lambda F, g, self, other: _tie(F, g, sign * self, sign * other),
        lambda F, g, self, other: _tie(F, g, sign * other, sign * self),
        inplace=False,
        samples=pair_samples(),
        real=True,
        doc=f"The {'larger' if sign > 0 else 'smaller'} of two elements, NaN if one of them is. "
        "Ties share the gradient.",
    )


_extremum("maximum", 1)
_extremum("minimum", -1)


def _ignoring_nan(name: str, wins: Callable[[Any, Any], Any]) -> None:
    """fmax and fmin: a number wins over NaN, the first of two equal ones takes the gradient."""

    def mine(F: Any, self: Any, other: Any) -> Any:
        return wins(self, other) | F.isnan(other)

    binary(
        name,
        lambda F, g, self, other: F.masked_fill(g, ~mine(F, self, other), 0),
        lambda F, g, self, other: F.masked_fill(g, mine(F, self, other), 0),
        inplace=False,
        samples=pair_samples(),
        real=True,
        doc=f"The {'larger' if name == 'fmax' else 'smaller'} of two elements; a number wins over "
        "NaN.",
    )


_ignoring_nan("fmax", lambda a, b: a >= b)
_ignoring_nan("fmin", lambda a, b: a <= b)


def _copysign(xp: Any, self: Any, other: Any) -> Any:
    return xp.copysign(self, other)


def _copysign_rule(F: Any, g: Any, self: Any, result: Any) -> Any:
    return F.where(self == 0, 0.0, g * (result / F.where(self == 0, 1.0, self)))


binary(
    "copysign_tensor",
    _copysign_rule,
    lambda F, g: zeros(F, g),
    _copysign,
    policy=FLOAT,
    public=False,
    node="CopysignBackward0",
    called="copysign",
    samples=pair_samples(0.3, 2.0, -2.0, 1.0),
    real=True,
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
    called="copysign",
    samples=lambda make: iter([Sample((make((3, 4), low=-2.0, high=2.0), -0.5))]),
    real=True,
)


def _copysign_kind(other: Any) -> str:
    return "copysign_number" if isinstance(other, NUMBERS) else "copysign_tensor"


@composite(out=True)
def copysign(F: Any, self: Any, other: Any) -> Any:
    """|self| with the sign of other, elementwise."""
    return getattr(F, _copysign_kind(other))(self, other)


chosen_twin("copysign_", _copysign_kind)


def _heaviside(xp: Any, self: Any, values: Any) -> Any:
    return xp.where(self == 0, values, (self > 0).astype(self.dtype))


elementwise(
    "heaviside",
    _heaviside,
    {"self": refused("heaviside"), "values": refused("heaviside")},
    inplace=True,
    node="NotImplemented",
    alike=lambda self, values: "heaviside is not yet implemented for tensors with different dtypes",
    samples=pair_samples(),
    doc="0 below 0, 1 above it, `values` at 0, elementwise. Not differentiable.",
)

# Bounds and choice --------------------------------------------------------------------------------


def _where(xp: Any, condition: Any, self: Any, other: Any) -> Any:
    if condition.dtype != bool:
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.name}. Compare it with something first."
        )
    return xp.where(condition, self, other)


def _where_samples(make: Any) -> Iterator[Sample]:
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
    aside=("condition",),
    public=False,
    node="WhereBackward0",
    called="where",
    samples=_where_samples,
    reference=lambda np, c, x, y: c * x + (1 - c) * y,
    formula=lambda F, condition, self, other: F.where(condition, self, other),
)


@composite(method=False, out=True)
def where(F: Any, condition: Any, input: Any = None, other: Any = None) -> Any:
    """Elementwise `input` where condition is true and `other` elsewhere; alone: the true places."""
    if input is None and other is None:
        return F.nonzero(condition, as_tuple=True)
    return F.where_of(condition, input, other)


@method("where")
def _where_method(self: Tensor, condition: Any, other: Any) -> Any:
    """`self` where condition is true and `other` elsewhere."""
    return ops["where_of"].call(condition, self, other)


def _bounded(name: str, min: Any, max: Any) -> None:
    if min is None and max is None:
        raise RuntimeError(f"torch.{name}: At least one of 'min' or 'max' must not be None")


def _bound(value: Any, self: Any) -> Any:
    """A number in the dtype of what it bounds, as torch converts it; arrays are let be.

    (So is a fraction that bounds integers in place: their result is no integer.)
    """
    dtype = self.dtype
    kind = dtype.kind
    if kind == "f" and dtype.itemsize > 2:
        return value
    if kind in "iu" and isinstance(value, int):
        return number_in(value, dtype)
    if kind in "fV" and isinstance(value, NUMBERS):
        refuse_overflow(value, dtypes.of_array(self))
    return value


def _clamp(xp: Any, self: Any, min: Any = None, max: Any = None) -> Any:
    return xp.clip(self, _bound(min, self), _bound(max, self))


def _between(self: Any, min: Any, max: Any) -> Any:
    if min is None:
        return self <= max
    return self >= min if max is None else (self >= min) & (self <= max)


def _clamp_rule(F: Any, g: Any, self: Any, min: Any, max: Any) -> Any:
    return F.where(_between(self, min, max), g, 0.0)


def _clamp_min_rule(F: Any, g: Any, self: Any, min: Any, max: Any) -> Any:
    below = self < min if max is None else (self < min) & (min < max)
    return F.where(below, g, 0.0)


def _clamp_max_rule(F: Any, g: Any, self: Any, min: Any, max: Any) -> Any:
    above = self > max if min is None else (self > max) | (max < min)
    return F.where(above, g, 0.0)


def _clamp_number_samples(make: Any) -> Iterator[Sample]:
    for bounds in ((-0.7, 0.9), (None, 0.5), (-0.5, None)):
        yield Sample((make((3, 4)), *bounds))


def _clamp_tensor_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 4)), make((4,), low=-1, high=0), make((3, 1), low=0.2, high=1)))
    yield Sample((make((3, 4)), make((), low=-1, high=0), None))
    yield Sample((make((3, 4)), None, make((3, 4))))


elementwise(
    "clamp_number",
    _clamp,
    {"self": _clamp_rule},
    policy=KEEP,
    public=False,
    inplace=True,
    node="ClampBackward1",
    called="clamp",
    samples=_clamp_number_samples,
    real=True,
    reference=lambda np, x, low, high: np.clip(x, low, high),
)
elementwise(
    "clamp_tensor",
    _clamp,
    {"self": _clamp_rule, "min": _clamp_min_rule, "max": _clamp_max_rule},
    public=False,
    inplace=True,
    node="ClampBackward0",
    called="clamp",
    samples=_clamp_tensor_samples,
    real=True,
)


def _clamp_kind(min: Any = None, max: Any = None) -> str:
    """Which clamp: a number beside a tensor makes numbers of both, as far as that is possible."""
    _bounded("clamp", min, max)
    tensors = [b for b in (min, max) if isinstance(b, Tensor)]
    if len(tensors) == 1 and isinstance(min, NUMBERS) + isinstance(max, NUMBERS) == 1:
        plain_number("clamp", "min" if tensors[0] is min else "max", tensors[0])
        return "clamp_number"
    return "clamp_tensor" if tensors else "clamp_number"


@composite(aliases=("clip",), out=True)
def clamp(F: Any, self: Any, min: Any = None, max: Any = None) -> Any:
    """self, but not below min and not above max (numbers or tensors); where min > max: max."""
    if _clamp_kind(min, max) == "clamp_tensor":
        return F.clamp_tensor(self, min, max)
    min, max = (b.item() if isinstance(b, Tensor) else b for b in (min, max))
    return F.clamp_number(promoted_with(F, self, min, max), min, max)


chosen_twin("clamp_", _clamp_kind)


def _clamp_min(xp: Any, self: Any, min: Any) -> Any:
    return kernels.at_least(xp, self, _bound(min, self))


def _clamp_max(xp: Any, self: Any, max: Any) -> Any:
    return kernels.at_most(xp, self, _bound(max, self))


def _above(F: Any, g: Any, self: Any, min: Any) -> Any:
    return F.where(self >= min, g, 0.0)


def _replaced_below(F: Any, g: Any, self: Any, min: Any) -> Any:
    return F.where(self < min, g, 0.0)


def _below(F: Any, g: Any, self: Any, max: Any) -> Any:
    return F.where(self <= max, g, 0.0)


def _replaced_above(F: Any, g: Any, self: Any, max: Any) -> Any:
    return F.where(self > max, g, 0.0)


def _one_bound(name: str, kernel: Any, rules: dict[str, Any]) -> None:
    """clamp_min and clamp_max: with a number, and with a tensor."""
    node = "".join(part.capitalize() for part in name.split("_"))
    shared = {"public": False, "inplace": True, "called": name}
    elementwise(
        f"{name}_number",
        kernel,
        {"self": rules["self"]},
        policy=KEEP,
        node=f"{node}Backward0",
        samples=lambda make: iter([Sample((make((3, 4)), 0.4))]),
        **shared,
        real=True,
    )
    elementwise(
        f"{name}_tensor",
        kernel,
        rules,
        node=f"{node}Backward1",
        samples=pair_samples(),
        errors=binary_errors,
        **shared,
        real=True,
    )

    def kind(bound: Any) -> str:
        return f"{name}_number" if isinstance(bound, NUMBERS) else f"{name}_tensor"

    def one(F: Any, self: Any, bound: Any) -> Any:
        if isinstance(bound, NUMBERS):
            self = promoted_with(F, self, bound)
        return getattr(F, kind(bound))(self, bound)

    def least(F: Any, self: Any, min: Any) -> Any:
        return one(F, self, min)

    def most(F: Any, self: Any, max: Any) -> Any:
        return one(F, self, max)

    body = least if name == "clamp_min" else most

    choice = "max(self, min)" if name == "clamp_min" else "min(self, max)"
    body.__doc__ = f"{choice}, elementwise, with a number or a tensor."
    composite(name, out=True)(body)
    chosen_twin(f"{name}_", kind)


_one_bound("clamp_min", _clamp_min, {"self": _above, "min": _replaced_below})
_one_bound("clamp_max", _clamp_max, {"self": _below, "max": _replaced_above})


def _nan_to_num(xp: Any, self: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if self.dtype.kind in "iub":
        return copied(xp, self)
    if expanded(self):  # NumPy's copy would lie in another order
        self = copied(xp, self)
    if self.dtype.kind == "c":
        result = xp.empty_like(self)
        result.real = _nan_to_num(xp, self.real, nan, posinf, neginf)
        result.imag = _nan_to_num(xp, self.imag, nan, posinf, neginf)
        return result
    # (NumPy's nan_to_num lets bfloat16 be.)
    most = float(dtypes.finfo(dtypes.of_array(self)).max)
    result = xp.where(xp.isnan(self), self.dtype.type(0.0 if nan is None else nan), self)
    result = xp.where(self == xp.inf, self.dtype.type(most if posinf is None else posinf), result)
    return xp.where(self == -xp.inf, self.dtype.type(-most if neginf is None else neginf), result)


def _nan_to_num_rule(F: Any, g: Any, self: Any) -> Any:
    if is_complex(self):
        real = F.where(F.isfinite(F.real(self)), F.real(g), 0.0)
        return F.complex(real, F.where(F.isfinite(F.imag(self)), F.imag(g), 0.0))
    return F.where(F.isfinite(self), g, 0.0)


unary(
    "nan_to_num",
    _nan_to_num_rule,
    _nan_to_num,
    policy=KEEP,
    repeated=unless_idle("iub"),
    doc="NaN, inf and -inf replaced by `nan`, `posinf` and `neginf` (0 and the dtype's limits).",
)

# Several tensors ----------------------------------------------------------------------------------


def _lerp(xp: Any, self: Any, end: Any, weight: Any) -> Any:
    """As torch: from the nearer end."""
    step = end - self
    if isinstance(weight, NUMBERS):
        near = abs(weight) < 0.5
        return self + weight * step if near else end - step * (1 - weight)
    return xp.where(xp.abs(weight) < 0.5, self + weight * step, end - step * (1 - weight))


def _check_weight(self: Any, end: Any, weight: Any) -> None:
    """A weight of its own dtype may have no dimensions only."""
    if isinstance(self, Tensor) and isinstance(weight, Tensor) and weight.ndim:
        text = dtype_errors.beside(self.dtype, "weight", weight.dtype)
        if text is not None:
            raise RuntimeError(f"{text}. Convert it with .to({self.dtype}).")


def _lerp_samples(weights: Callable[[Any], Any]) -> Callable[[Any], Iterator[Sample]]:
    def samples(make: Any) -> Iterator[Sample]:
        for w in weights(make):
            yield Sample((make((3, 4)), make((4,)), w))

    return samples


elementwise(
    "lerp_number",
    _lerp,
    {"self": lambda weight: 1 - weight, "end": lambda weight: weight},
    public=False,
    inplace=True,
    node="LerpBackward0",
    called="lerp",
    alike=lambda self, end: dtype_errors.beside(self, "end", end),
    samples=_lerp_samples(lambda make: (0.3, 0.8)),
    reference=lambda np, a, b, w: (1 - w) * a + w * b,
)
elementwise(
    "lerp_tensor",
    _lerp,
    {
        "self": lambda weight: 1 - weight,
        "end": lambda weight: weight,
        "weight": lambda self, end: end - self,
    },
    public=False,
    inplace=True,
    node="LerpBackward1",
    called="lerp",
    alike=lambda self, end: dtype_errors.beside(self, "end", end),
    check=_check_weight,
    samples=_lerp_samples(lambda make: (make((3, 1)), make((3, 4), low=0.0, high=1.0))),
    reference=lambda np, a, b, w: (1 - w) * a + w * b,
)


def _lerp_kind(end: Any, weight: Any) -> str:
    return "lerp_number" if isinstance(weight, NUMBERS) else "lerp_tensor"


@composite(out=True)
def lerp(F: Any, self: Any, end: Any, weight: Any) -> Any:
    """self + weight * (end - self)."""
    return getattr(F, _lerp_kind(end, weight))(self, end, weight)


chosen_twin("lerp_", _lerp_kind)


def _scaled(x: Any, value: Any) -> Any:
    return x if value == 1 else x * value


def _addcmul(xp: Any, self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    return self + _scaled(tensor1 * tensor2, number_in(value, self.dtype))


def _addcdiv(xp: Any, self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    if self.dtype.kind in "iub":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported. Use (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype), or convert the tensors to floats."
        )
    return self + _scaled(tensor1 / tensor2, number_in(value, self.dtype))


def _three_samples(low: float) -> Callable[[Any], Iterator[Sample]]:
    def samples(make: Any) -> Iterator[Sample]:
        three = (make((3, 4)), make((4,)), make((3, 1), low=low, high=2.0))
        yield Sample(three)
        yield Sample(three, {"value": -1.5})

    return samples


elementwise(
    "addcmul",
    _addcmul,
    {
        "self": lambda g: g,
        "tensor1": lambda tensor2, value: _scaled(tensor2, value),
        "tensor2": lambda tensor1, value: _scaled(tensor1, value),
    },
    inplace=True,
    samples=_three_samples(-2.0),
    reference=lambda np, x, a, b, value: x + value * a * b,
    doc="self + value * tensor1 * tensor2, elementwise.",
)
elementwise(
    "addcdiv",
    _addcdiv,
    {
        "self": lambda g: g,
        "tensor1": lambda tensor2, value: value / tensor2,
        "tensor2": lambda tensor1, tensor2, value: -_scaled(tensor1, value) / (tensor2 * tensor2),
    },
    inplace=True,
    samples=_three_samples(0.4),
    reference=lambda np, x, a, b, value: x + value * a / b,
    doc="self + value * tensor1 / tensor2, elementwise.",
)
