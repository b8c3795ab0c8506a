"""Piecewise linear gates: hardsigmoid, hardswish, shrinking, softsign, tanhshrink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels.choice import where
from ag_visual.dispatch.families import unary
from ag_visual.dispatch.record import ONCE, UNSEEN, ErrorSample
from ag_visual.dispatch.table import composite
from ag_visual.ops.nn.activation import backward_op, in_float32, no_curve, sampled


def _hardsigmoid(xp, self):
    if self.itemsize == 2:
        return in_float32(_hardsigmoid, xp, self)
    return xp.clip(self + 3, 0, 6) / 6


def _hardswish(xp, self):
    if self.itemsize == 2:
        return in_float32(_hardswish, xp, self)
    return self * (xp.clip(self + 3, 0, 6) / 6)


def _hardswish_backward(xp, grad_output, self):
    # At -3 and 3 the slopes are those of outside: 0 and 1.
    if self.itemsize == 2:
        return in_float32(_hardswish_backward, xp, grad_output, self)
    inner = grad_output * (self / 3 + 0.5)
    return where(xp, self <= -3, 0, where(xp, self < 3, inner, grad_output))


def _hardswish_curve(F, g, grad_output, self):
    return F.where((self > -3) & (self < 3), g * grad_output / 3, 0.0)


def _hardsigmoid_backward(xp, grad_output, self):
    inside = where(xp, (self > -3) & (self < 3), grad_output, 0)
    return (inside / 6).astype(grad_output.dtype, copy=False)


backward_op(
    "hardsigmoid_backward",
    _hardsigmoid_backward,
    {"self": no_curve},
    oracle=False,  # torch has the function and refuses its derivative
    formula=lambda F, grad_output, self: F.where((self > -3) & (self < 3), grad_output / 6, 0.0),
    real_only=True,
)
backward_op(
    "hardswish_backward",
    _hardswish_backward,
    {"self": _hardswish_curve},
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
    rounding=ONCE,
    functional_inplace="flag",
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
    rounding=ONCE,
    functional_inplace="flag",
)


def _softshrink(xp, self, lambd=0.5):
    if lambd < 0:
        kind = dtypes.of_array(self)
        raise RuntimeError(
            f"lambda must be in range [0, {dtypes.finfo(kind).max:.6g}] for input dtype "
            f"{kind.scalar_name}, but found {lambd:g}"
        )
    return where(xp, self > lambd, self - lambd, where(xp, self < -lambd, self + lambd, 0 * self))


def _shrink_backward(xp, grad_output, self, lambd):
    return where(xp, (self >= -lambd) & (self <= lambd), 0, grad_output)


def _shrink(name: str, kernel: Callable[..., Any], **options) -> None:
    """A function that is zero between -lambd and lambd, and its backward op."""

    def back(F, g, self, lambd):
        return getattr(F, f"{name}_backward")(g, self, lambd)

    rules = {"self": no_curve}
    given = {"real_only": True, "rounds": frozenset(("lambd",))}
    backward_op(f"{name}_backward", _shrink_backward, rules, 0.4, **given)
    unary(name, back, kernel, inplace=False, samples=sampled(0.4), real_only=True, **options)


_shrink(
    "softshrink",
    _softshrink,
    method=False,
    spaces="nn.functional",
    errors=lambda make: [
        ErrorSample((make((2,)), -0.5), RuntimeError, "lambda must be in range [0, ")
    ],
    reference=lambda np, x, b: np.sign(x) * np.maximum(np.abs(x) - b, 0),
    doc="x - lambd where x > lambd, x + lambd where x < -lambd, elsewhere 0.",
    out="exact",
)
_shrink(
    "hardshrink",
    lambda xp, self, lambd=0.5: where(xp, (self >= -lambd) & (self <= lambd), 0, self),
    spaces="torch nn.functional",
    reference=lambda np, x, b: x * (np.abs(x) > b),
    doc="x where |x| > lambd, elsewhere 0.",
    out="exact",
    rounds=frozenset(("lambd",)),
)


@composite("softsign", method=False, spaces="nn.functional", profiled=UNSEEN)
def _softsign(F, input):
    """x / (1 + |x|)."""
    return input / (F.abs(input) + 1)


@composite("tanhshrink", method=False, spaces="nn.functional", profiled=UNSEEN)
def _tanhshrink(F, input):
    """x - tanh(x)."""
    return input - F.tanh(input)
