"""Clamping to bounds, and nan_to_num. At its bound clamp has derivative 1, as torch's."""

from __future__ import annotations

from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels import activation as kernels
from ag_visual.arrays.kernels.order import copied, expanded
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import NUMBERS, plain_number
from ag_visual.dispatch.families import (
    EXACT,
    binary_errors,
    chosen_variant,
    elementwise,
    is_complex,
    number_in,
    pair_samples,
    promoted_with,
    unary,
)
from ag_visual.dispatch.memory_overlap import unless_idle
from ag_visual.dispatch.overflow import check_overflow
from ag_visual.dispatch.record import KEEP, Sample
from ag_visual.dispatch.table import composite


def _bounded(name: str, min, max) -> None:
    if min is None and max is None:
        raise RuntimeError(f"torch.{name}: At least one of 'min' or 'max' must not be None")


def _bound(value, self):
    """A number in the dtype of what it bounds, as torch converts it; arrays are left as they are.

    (So is a fraction that bounds integers in place: their result is not an integer.)
    """
    dtype = self.dtype
    kind = dtype.kind
    if kind == "f" and dtype.itemsize > 2:
        return value
    if kind in "iu" and isinstance(value, int):
        return number_in(value, dtype)
    if kind in "fV" and isinstance(value, NUMBERS):
        check_overflow(value, dtypes.of_array(self))
    return value


def _clamp(xp, self, min=None, max=None):
    return kernels.between(xp, self, _bound(min, self), _bound(max, self))


def _between(self, min, max):
    if min is None:
        return self <= max
    return self >= min if max is None else (self >= min) & (self <= max)


def _clamp_rule(F, g, self, min, max):
    return F.where(_between(self, min, max), g, 0.0)


def _clamp_min_rule(F, g, self, min, max):
    below = self < min if max is None else (self < min) & (min < max)
    return F.where(below, g, 0.0)


def _clamp_max_rule(F, g, self, min, max):
    above = self > max if min is None else (self > max) | (max < min)
    return F.where(above, g, 0.0)


elementwise(
    "clamp_number",
    _clamp,
    {"self": _clamp_rule},
    policy=KEEP,
    public=False,
    inplace=True,
    node="ClampBackward1",
    public_name="clamp",
    samples=lambda make: [
        Sample((make((3, 4)), *bounds)) for bounds in ((-0.7, 0.9), (None, 0.5), (-0.5, None))
    ],
    real_only=True,
    reference=lambda np, x, low, high: np.clip(x, low, high),
    opmath=False,
)
elementwise(
    "clamp_tensor",
    _clamp,
    {"self": _clamp_rule, "min": _clamp_min_rule, "max": _clamp_max_rule},
    public=False,
    inplace=True,
    node="ClampBackward0",
    public_name="clamp",
    samples=lambda make: [
        Sample((make((3, 4)), make((4,), low=-1, high=0), make((3, 1), low=0.2, high=1))),
        Sample((make((3, 4)), make((), low=-1, high=0), None)),
        Sample((make((3, 4)), None, make((3, 4)))),
    ],
    real_only=True,
    **EXACT,
)


def _clamp_kind(min=None, max=None) -> str:
    """Which clamp: a number beside a tensor makes numbers of both, as far as that is possible."""
    _bounded("clamp", min, max)
    tensors = [b for b in (min, max) if isinstance(b, Tensor)]
    if len(tensors) == 1 and isinstance(min, NUMBERS) + isinstance(max, NUMBERS) == 1:
        plain_number("clamp", "min" if tensors[0] is min else "max", tensors[0])
        return "clamp_number"
    return "clamp_tensor" if tensors else "clamp_number"


@composite(aliases=("clip",), out="casts check_overlap broadcasts")
def clamp(F, self, min=None, max=None):
    """self, but not below min and not above max (numbers or tensors); where min > max: max."""
    if _clamp_kind(min, max) == "clamp_tensor":
        return F.clamp_tensor(self, min, max)
    min, max = (b.item() if isinstance(b, Tensor) else b for b in (min, max))
    return F.clamp_number(promoted_with(F, self, min, max), min, max)


chosen_variant("clamp_", _clamp_kind, "torch", aliases=("clip_",))


def _clamp_min(xp, self, min):
    return kernels.at_least(xp, self, _bound(min, self))


def _clamp_max(xp, self, max):
    return kernels.at_most(xp, self, _bound(max, self))


def _above(F, g, self, min):
    return F.where(self >= min, g, 0.0)


def _replaced_below(F, g, self, min):
    return F.where(self < min, g, 0.0)


def _below(F, g, self, max):
    return F.where(self <= max, g, 0.0)


def _replaced_above(F, g, self, max):
    return F.where(self > max, g, 0.0)


def _one_bound(name: str, kernel, rules: dict[str, Any]) -> None:
    """clamp_min and clamp_max: with a number, and with a tensor."""
    node = "".join(part.capitalize() for part in name.split("_"))
    shared = {"public": False, "inplace": True, "public_name": name, "opmath": False}
    elementwise(
        f"{name}_number",
        kernel,
        {"self": rules["self"]},
        policy=KEEP,
        node=f"{node}Backward0",
        samples=lambda make: [Sample((make((3, 4)), 0.4))],
        **shared,
        real_only=True,
    )
    elementwise(
        f"{name}_tensor",
        kernel,
        rules,
        node=f"{node}Backward1",
        samples=pair_samples(),
        errors=binary_errors,
        vmap_inplace="inplace arithmetic",
        **shared,
        real_only=True,
    )

    def kind(bound) -> str:
        return f"{name}_number" if isinstance(bound, NUMBERS) else f"{name}_tensor"

    def one(F, self, bound):
        if isinstance(bound, NUMBERS):
            self = promoted_with(F, self, bound)
        return getattr(F, kind(bound))(self, bound)

    def least(F, self, min):
        return one(F, self, min)

    def most(F, self, max):
        return one(F, self, max)

    body = least if name == "clamp_min" else most

    choice = "max(self, min)" if name == "clamp_min" else "min(self, max)"
    body.__doc__ = f"{choice}, elementwise, with a number or a tensor."
    composite(name, out="casts check_overlap broadcasts", foreach="binary", symbol=choice[:3])(body)
    chosen_variant(f"{name}_", kind, "torch")


_one_bound("clamp_min", _clamp_min, {"self": _above, "min": _replaced_below})
_one_bound("clamp_max", _clamp_max, {"self": _below, "max": _replaced_above})


def _nan_to_num(xp, self, nan=None, posinf=None, neginf=None):
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


def _nan_to_num_rule(F, g, self):
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
    out="check_overlap",
    **EXACT,
)
