"""Piecewise linear gates: hardsigmoid, hardswish, shrinking, softsign, tanhshrink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.dispatch.families import unary
from ag_visual.dispatch.record import (
    ErrorSample,
)
from ag_visual.dispatch.table import composite
from ag_visual.ops.nn.activation import _backward, in_float32, no_curve, sampled


def _hardsigmoid(xp: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return in_float32(_hardsigmoid, xp, self)
    return xp.clip(self + 3, 0, 6) / 6


def _hardswish(xp: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return in_float32(_hardswish, xp, self)
    return self * (xp.clip(self + 3, 0, 6) / 6)


def _hardswish_backward(xp: Any, grad_output: Any, self: Any) -> Any:
    # At -3 and 3 the slopes are those of outside: 0 and 1.
    if self.itemsize == 2:
        return in_float32(_hardswish_backward, xp, grad_output, self)
    inner = grad_output * (self / 3 + 0.5)
    return xp.where(self <= -3, 0, xp.where(self < 3, inner, grad_output))


def _hardswish_curve(F: Any, g: Any, grad_output: Any, self: Any) -> Any:
    return F.where((self > -3) & (self < 3), g * grad_output / 3, 0.0)


def _hardsigmoid_backward(xp: Any, grad_output: Any, self: Any) -> Any:
    slope = (grad_output / 6).astype(grad_output.dtype, copy=False)
    return xp.where((self > -3) & (self < 3), slope, 0)


_backward(
    "hardsigmoid_backward",
    _hardsigmoid_backward,
    {"grad_output": lambda F, g, self: F.hardsigmoid_backward(g, self), "self": no_curve},
    "HardsigmoidBackwardBackward0",
    oracle=False,  # torch has the function and refuses its derivative
    formula=lambda F, grad_output, self: F.where((self > -3) & (self < 3), grad_output / 6, 0.0),
    real_only=True,
)
_backward(
    "hardswish_backward",
    _hardswish_backward,
    {
        "grad_output": lambda F, g, self: F.hardswish_backward(g, self),
        "self": _hardswish_curve,
    },
    "HardswishBackwardBackward0",
    formula=lambda F, grad_output, self: F.where(
        self <= -3, 0.0, F.where(self < 3, grad_output * (self / 3 + 0.5), grad_output)
    ),
    real_only=True,
)
unary(
    "hardsigmoid",
    lambda F, g, self: F.hardsigmoid_backward(g, self),
    _hardsigmoid,
    method=False,
    real_only=True,
    doc="min(max(x / 6 + 1/2, 0), 1), elementwise.",
    spaces="nn.functional",
)
unary(
    "hardswish",
    lambda F, g, self: F.hardswish_backward(g, self),
    _hardswish,
    method=False,
    real_only=True,
    reference=lambda np, x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
    doc="x * min(max(x + 3, 0), 6) / 6, elementwise.",
    spaces="nn.functional",
)


def _softshrink(xp: Any, self: Any, lambd: Any = 0.5) -> Any:
    if lambd < 0:
        kind = dtypes.of_array(self)
        raise RuntimeError(
            f"lambda must be in range [0, {dtypes.finfo(kind).max:.6g}] for input dtype "
            f"{kind.scalar_name}, but found {lambd:g}"
        )
    return xp.where(self > lambd, self - lambd, xp.where(self < -lambd, self + lambd, 0 * self))


def _hardshrink(xp: Any, self: Any, lambd: Any = 0.5) -> Any:
    return xp.where((self >= -lambd) & (self <= lambd), 0, self)


def _shrink_backward(xp: Any, grad_output: Any, self: Any, lambd: Any) -> Any:
    return xp.where((self >= -lambd) & (self <= lambd), 0, grad_output)


def _shrink(name: str, kernel: Callable[..., Any], **options: Any) -> None:
    """A function that is zero between -lambd and lambd, and its backward op."""

    def back(F: Any, g: Any, self: Any, lambd: Any) -> Any:
        return getattr(F, f"{name}_backward")(g, self, lambd)

    rules = {"grad_output": back, "self": no_curve}
    node = f"{name.capitalize()}BackwardBackward0"
    _backward(f"{name}_backward", _shrink_backward, rules, node, 0.4, real_only=True)
    unary(name, back, kernel, inplace=False, samples=sampled(0.4), real_only=True, **options)


_shrink(
    "softshrink",
    _softshrink,
    method=False,
    spaces="nn.functional",
    errors=lambda make: iter(
        [ErrorSample((make((2,)), -0.5), RuntimeError, "lambda must be in range [0, ")]
    ),
    reference=lambda np, x, b: np.sign(x) * np.maximum(np.abs(x) - b, 0),
    doc="x - lambd where x > lambd, x + lambd where x < -lambd, elsewhere 0.",
    out="exact",
)
_shrink(
    "hardshrink",
    _hardshrink,
    spaces="torch nn.functional",
    reference=lambda np, x, b: x * (np.abs(x) > b),
    doc="x where |x| > lambd, elsewhere 0.",
    out="exact",
)


@composite("softsign", method=False, spaces="nn.functional")
def _softsign(F: Any, input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (F.abs(input) + 1)


@composite("tanhshrink", method=False, spaces="nn.functional")
def _tanhshrink(F: Any, input: Any) -> Any:
    """x - tanh(x)."""
    return input - F.tanh(input)
