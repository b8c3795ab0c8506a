"""lerp, addcmul and addcdiv."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import (
    chosen_twin,
    elementwise,
    number_in,
)
from ag_visual.dispatch.record import Sample
from ag_visual.dispatch.table import composite

# Steps, signs and kinks ---------------------------------------------------------------------------


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


def _lerp_kind(end: Any, weight: Any) -> str:
    return "lerp_number" if isinstance(weight, NUMBERS) else "lerp_tensor"


@composite(out="casts check_overlap broadcasts")
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
        "tensor2": lambda tensor1, tensor2, value: _scaled(tensor1, -value) / (tensor2 * tensor2),
    },
    inplace=True,
    samples=_three_samples(0.4),
    reference=lambda np, x, a, b, value: x + value * a / b,
    doc="self + value * tensor1 / tensor2, elementwise.",
)
