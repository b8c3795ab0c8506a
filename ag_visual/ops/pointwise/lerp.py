"""lerp, addcmul and addcdiv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import chosen_variant, elementwise, number_in
from ag_visual.dispatch.record import Sample
from ag_visual.dispatch.table import composite


def _lerp(xp, self, end, weight):
    """As torch: from the nearer end."""
    step = end - self
    if isinstance(weight, NUMBERS):
        near = abs(weight) < 0.5
        return self + weight * step if near else end - step * (1 - weight)
    return xp.where(xp.abs(weight) < 0.5, self + weight * step, end - step * (1 - weight))


def _check_weight(self, end, weight) -> None:
    """A weight of its own dtype may have no dimensions only."""
    if isinstance(self, Tensor) and isinstance(weight, Tensor) and weight.ndim:
        text = dtype_errors.beside(self.dtype, "weight", weight.dtype)
        if text is not None:
            raise RuntimeError(f"{text}. Convert it with .to({self.dtype}).")


def _lerp_samples(weights: Callable[[Any], Any]):
    return lambda make: [Sample((make((3, 4)), make((4,)), w)) for w in weights(make)]


elementwise(
    "lerp_number",
    _lerp,
    {"self": lambda weight: 1 - weight, "end": lambda weight: weight},
    public=False,
    inplace=True,
    node="LerpBackward0",
    public_name="lerp",
    dtype_check=lambda self, end: dtype_errors.beside(self, "end", end),
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
    public_name="lerp",
    dtype_check=lambda self, end: dtype_errors.beside(self, "end", end),
    check=_check_weight,
    samples=_lerp_samples(lambda make: (make((3, 1)), make((3, 4), low=0.0, high=1.0))),
    reference=lambda np, a, b, w: (1 - w) * a + w * b,
)


def _lerp_kind(end, weight) -> str:
    return "lerp_number" if isinstance(weight, NUMBERS) else "lerp_tensor"


@composite(out="casts check_overlap broadcasts", foreach="lerp")
def lerp(F, self, end, weight):
    """self + weight * (end - self)."""
    return getattr(F, _lerp_kind(end, weight))(self, end, weight)


chosen_variant("lerp_", _lerp_kind)


def _scaled(x, value):
    return x if value == 1 else x * value


def _check_addcdiv(self, tensor1, tensor2, *_) -> None:
    pair = tensor1, tensor2
    if all(isinstance(x, Tensor) and x._array.dtype.kind in "iub" for x in pair):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported. Use (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype), or convert the tensors to floats."
        )


def _addcdiv(xp, self, tensor1, tensor2, *, value=1):
    return self + _scaled(tensor1 / tensor2, number_in(value, self.dtype))


def _three_samples(low: float):
    def samples(make):
        three = (make((3, 4)), make((4,)), make((3, 1), low=low, high=2.0))
        yield Sample(three)
        yield Sample(three, {"value": -1.5})

    return samples


elementwise(
    "addcmul",
    lambda xp, self, tensor1, tensor2, *, value=1: (
        self + _scaled(tensor1 * tensor2, number_in(value, self.dtype))
    ),
    {
        "self": lambda g: g,
        "tensor1": lambda tensor2, value: _scaled(tensor2, value),
        "tensor2": lambda tensor1, value: _scaled(tensor1, value),
    },
    inplace=True,
    samples=_three_samples(-2.0),
    reference=lambda np, x, a, b, value: x + value * a * b,
    doc="self + value * tensor1 * tensor2, elementwise.",
    autocast="cuda widest",
    foreach="ternary",
)
elementwise(
    "addcdiv",
    _addcdiv,
    {
        "self": lambda g: g,
        "tensor1": lambda F, tensor2, value: (
            F.true_divide(value, tensor2) if F.traced else value / tensor2
        ),
        "tensor2": lambda tensor1, tensor2, value: _scaled(tensor1, -value) / (tensor2 * tensor2),
    },
    inplace=True,
    check=_check_addcdiv,
    samples=_three_samples(0.4),
    reference=lambda np, x, a, b, value: x + value * a / b,
    doc="self + value * tensor1 / tensor2, elementwise.",
    autocast="cuda widest",
    foreach="ternary",
)
