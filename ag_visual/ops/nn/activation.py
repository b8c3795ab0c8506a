"""Rectifiers and their backward ops, in torch's names and saved fields: relu, elu, softplus ...

A backward op (`elu_backward` ...) is an op of its own with rules of its own: in a recorded
backward it is the node that a torch user expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ag_visual.arrays.kernels import activation as kernels
from ag_visual.arrays.kernels.order import copied
from ag_visual.dispatch.families import elementwise, unary, unary_samples, zeros
from ag_visual.dispatch.memory_overlap import ALLOWED
from ag_visual.dispatch.record import (
    KEEP,
    ErrorSample,
    Sample,
)
from ag_visual.dispatch.table import composite

# Looking a name up in the module takes longer than to compare a type.
ndarray, multiply, subtract = numpy.ndarray, numpy.multiply, numpy.subtract


def sampled(*args: Any, low: float = -3.0, high: float = 3.0) -> Callable[[Any], Iterator[Sample]]:
    """Samples of an elementwise op with these further arguments."""

    def samples(make: Any) -> Iterator[Sample]:
        for sample in unary_samples(low, high)(make):
            yield Sample((*sample.args, *args))

    return samples


def _back_sampled(*args: Any, inputs: int = 2) -> Callable[[Any], Iterator[Sample]]:
    """Samples of a backward op: gradient, saved value(s), further arguments."""

    def samples(make: Any) -> Iterator[Sample]:
        for shape in ((3, 4), ()):
            yield Sample((*(make(shape, low=-0.9, high=0.9) for _ in range(inputs)), *args))

    return samples


def _backward(
    name: str,
    kernel: Callable[..., Any],
    rules: dict[str, Callable[..., Any]],
    node: str,
    *args: Any,
    inputs: tuple[str, ...] = ("grad_output", "self"),
    **options: Any,
) -> None:
    """The backward op of an activation, linear in grad_output."""
    elementwise(
        name,
        kernel,
        rules,
        policy=KEEP,
        inputs=inputs,
        public=False,
        node=node,
        samples=_back_sampled(*args, inputs=len(inputs)),
        **options,
    )


def in_float32(kernel: Callable[..., Any], xp: Any, *args: Any) -> Any:
    """The kernel of 16-bit floats (and numbers), computed in float32 and rounded once.

    In the narrow type 1 - tanh(x)^2 and its like lose all digits where the function saturates.
    """
    wide = (copied(xp, x, xp.float32) if hasattr(x, "itemsize") else x for x in args)
    return xp.asarray(kernel(xp, *wide)).astype(args[0].dtype)


# Saturating functions -----------------------------------------------------------------------------


def no_curve(F: Any, g: Any) -> Any:
    """The second derivative between kinks: zero, not absent, so that `grad` of a gradient runs."""
    return zeros(F, g)


def _relu(xp: Any, self: Any) -> Any:
    return kernels.positive_part(xp, self)


def _threshold_backward(xp: Any, grad_output: Any, self: Any, threshold: Any) -> Any:
    return kernels.where_above(xp, self, threshold, grad_output)


def _threshold(xp: Any, self: Any, threshold: Any, value: Any) -> Any:
    return xp.where(self <= threshold, value, self)


_backward(
    "threshold_backward",
    _threshold_backward,
    {
        "grad_output": lambda F, g, self, threshold: F.threshold_backward(g, self, threshold),
        "self": no_curve,
    },
    "ThresholdBackwardBackward0",
    0.1,
    real_only=True,
    formula=lambda F, grad_output, self, threshold: F.where(self <= threshold, 0.0, grad_output),
)
unary(
    "relu",
    lambda F, g, result: F.threshold_backward(g, result, 0),
    _relu,
    policy=KEEP,
    real_only=True,
    reference=lambda np, x: x * (x > 0),
    doc="max(x, 0), elementwise; its derivative at 0 is 0.",
    formula=lambda F, self: F.clamp_min(self, 0),
)
unary(
    "threshold",
    lambda F, g, self, threshold: F.threshold_backward(g, self, threshold),
    _threshold,
    policy=KEEP,
    method=False,
    repeated=ALLOWED,
    inplace_node="ThresholdBackward1",
    samples=sampled(0.1, 20.0),
    real_only=True,
    doc="x where x > threshold, elsewhere `value`.",
)


def _leaky_relu(xp: Any, self: Any, negative_slope: Any = 0.01) -> Any:
    return xp.where(self > 0, self, self * negative_slope)


def _leaky_relu_backward(
    xp: Any, grad_output: Any, self: Any, negative_slope: Any, self_is_result: bool = False
) -> Any:
    return xp.where(self > 0, grad_output, grad_output * negative_slope)


_backward(
    "leaky_relu_backward",
    _leaky_relu_backward,
    {
        "grad_output": lambda F, g, self, negative_slope: F.leaky_relu_backward(
            g, self, negative_slope
        ),
        "self": no_curve,
    },
    "LeakyReluBackwardBackward0",
    0.2,
    False,
    real_only=True,
    formula=lambda F, grad_output, self, negative_slope: F.where(
        self > 0, grad_output, grad_output * negative_slope
    ),
)
unary(
    "leaky_relu",
    lambda F, g, self, negative_slope: F.leaky_relu_backward(g, self, negative_slope),
    _leaky_relu,
    method=False,
    inplace_node="LeakyReluBackward1",
    samples=sampled(0.2),
    real_only=True,
    reference=lambda np, x, slope: np.maximum(x, 0) + slope * np.minimum(x, 0),
    doc="x where x > 0, elsewhere negative_slope * x.",
    spaces="nn.functional",
)


def _hardtanh(xp: Any, self: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """Integers stay integers: fractions of the bounds are cut off."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    kind = self.dtype.kind
    if kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh. Convert with .float() first.")
    if kind in "iu":
        min_val, max_val = int(min_val), int(max_val)
        if kind == "u" and min(min_val, max_val) < 0:
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
        return xp.minimum(xp.maximum(self, min_val), max_val)
    return xp.clip(self, min_val, max_val)


def _hardtanh_backward(xp: Any, grad_output: Any, self: Any, min_val: Any, max_val: Any) -> Any:
    return xp.where((self <= min_val) | (self >= max_val), 0, grad_output)


_backward(
    "hardtanh_backward",
    _hardtanh_backward,
    {
        "grad_output": lambda F, g, self, min_val, max_val: F.hardtanh_backward(
            g, self, min_val, max_val
        ),
        "self": no_curve,
    },
    "HardtanhBackwardBackward0",
    -0.5,
    0.6,
    real_only=True,
    formula=lambda F, grad_output, self, min_val, max_val: F.where(
        (self <= min_val) | (self >= max_val), 0.0, grad_output
    ),
)

unary(
    "hardtanh",
    lambda F, g, self, min_val, max_val: F.hardtanh_backward(g, self, min_val, max_val),
    _hardtanh,
    policy=KEEP,
    method=False,
    samples=sampled(-0.5, 0.6),
    errors=lambda make: iter(
        [ErrorSample((make((2,)), 1.0, -1.0), ValueError, "min_val cannot be greater than max_val")]
    ),
    real_only=True,
    doc="min(max(x, min_val), max_val), elementwise; its derivative at the bounds is 0.",
    spaces="nn.functional",
)


@composite("relu6", method=False, spaces="nn.functional")
def _relu6(F: Any, input: Any) -> Any:
    """min(max(x, 0), 6)."""
    if input.dtype.category == 0:
        raise RuntimeError("Boolean inputs not supported for relu6. Convert with .float() first.")
    return F.hardtanh(input, 0, 6)


def _prelu(xp: Any, self: Any, weight: Any) -> Any:
    return xp.where(self > 0, self, weight * self)


def _prelu_backward(xp: Any, grad_output: Any, self: Any, weight: Any) -> Any:
    """The gradient of self alone."""
    return xp.where(self > 0, grad_output, weight * grad_output)


def _prelu_weight(F: Any, g: Any, self: Any, weight: Any) -> Any:
    return F.where(self > 0, 0.0, self * g)


_backward(
    "prelu_backward",
    _prelu_backward,
    {
        "grad_output": lambda F, g, self, weight: F.prelu_backward(g, self, weight),
        "self": no_curve,
        "weight": lambda F, g, grad_output, self: F.where(self > 0, 0.0, g * grad_output),
    },
    "PreluKernelBackwardBackward0",
    inputs=("grad_output", "self", "weight"),
    real_only=True,
)
elementwise(
    "prelu_kernel",
    _prelu,
    {
        "self": lambda F, g, self, weight: F.prelu_backward(g, self, weight),
        "weight": _prelu_weight,
    },
    public=False,
    public_name="prelu",
    dtype_check=lambda self, weight: (
        f"prelu: Type promoting not supported. Got {self.scalar_name} and {weight.scalar_name}"
    ),
    oracle="_prelu_kernel",
    samples=lambda make: iter(
        [Sample((make((2, 3)), make((1, 3)))), Sample((make((4,)), make(())))]
    ),
    real_only=True,
)


@composite("prelu", spaces="torch nn.functional")
def _prelu_of(F: Any, input: Any, weight: Any) -> Any:
    """max(x, 0) + weight * min(x, 0), with one weight or one per channel (dimension 1)."""
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    count = weight.numel()
    if count != 1 and not input.ndim:
        raise RuntimeError("Not allow zero-dim input tensor.")
    if count != 1 and (input.ndim < 2 or input.shape[1] != count):
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{count} and channel size = {input.shape[1] if input.ndim > 1 else 1}."
        )
    shape = (1,) * input.ndim if input.ndim < 2 else (1, count, *(1,) * (input.ndim - 2))
    return F.prelu_kernel(input, F.reshape(weight, shape))


# Exponential units --------------------------------------------------------------------------------


def _elu(xp: Any, self: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    if self.itemsize == 2:
        return in_float32(_elu, xp, self, alpha, scale, input_scale)
    below = xp.expm1(xp.minimum(self, 0) * input_scale) * (alpha * scale)
    return xp.where(self >= 0, self * scale, below)


def _elu_backward(
    xp: Any,
    grad_output: Any,
    alpha: Any,
    scale: Any,
    input_scale: Any,
    is_result: bool,
    self_or_result: Any,
) -> Any:
    if self_or_result.itemsize == 2:
        rest = (alpha, scale, input_scale, is_result, self_or_result)
        return in_float32(_elu_backward, xp, grad_output, *rest)
    below = xp.exp(xp.minimum(self_or_result, 0) * input_scale) * (input_scale * alpha * scale)
    return grad_output * xp.where(self_or_result <= 0, below, scale)


def _elu_curve(
    F: Any, g: Any, grad_output: Any, alpha: Any, scale: Any, input_scale: Any, self_or_result: Any
) -> Any:
    x = self_or_result
    below = F.exp(F.clamp_max(x, 0) * input_scale) * (input_scale * input_scale * alpha * scale)
    return g * (grad_output * F.where(x < 0, below, 0.0))


def _elu_again(
    F: Any, g: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Any
) -> Any:
    return F.elu_backward(g, alpha, scale, input_scale, is_result, self_or_result)


def _elu_rule(F: Any, g: Any, self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    return F.elu_backward(g, alpha, scale, input_scale, False, self)


elementwise(
    "elu_backward",
    _elu_backward,
    {"grad_output": _elu_again, "self_or_result": _elu_curve},
    policy=KEEP,
    public=False,
    samples=lambda make: iter([Sample((make((3, 4)), 1.2, 1.1, 0.9, False, make((3, 4))))]),
    real_only=True,
)
unary(
    "elu",
    _elu_rule,
    _elu,
    method=False,
    inplace_node="EluBackward1",
    samples=sampled(1.3, 1.1, 0.7),
    real_only=True,
    reference=lambda np, x, a, s, i: s * np.where(x > 0, x, a * (np.exp(np.minimum(i * x, 0)) - 1)),
    doc="scale * x where x > 0, elsewhere scale * alpha * (exp(input_scale * x) - 1).",
    spaces="nn.functional",
)


@composite("selu", method=False)
def _selu(F: Any, input: Any) -> Any:
    """elu with the scale and alpha that keep mean and variance."""
    return F.elu(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def _celu(xp: Any, self: Any, alpha: Any = 1.0) -> Any:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _elu(xp, self, alpha, 1.0, 1.0 / alpha)


unary(
    "celu",
    lambda F, g, self, alpha: F.elu_backward(g, alpha, 1.0, 1.0 / alpha, False, self),
    _celu,
    method=False,
    inplace_node="CeluBackward1",
    samples=sampled(1.4),
    real_only=True,
    reference=lambda np, x, a: np.maximum(x, 0) + np.minimum(a * (np.exp(x / a) - 1), 0),
    doc="max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), elementwise.",
)


def _softplus(xp: Any, self: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    return kernels.softplus(xp, self, beta, threshold)


def _softplus_backward(xp: Any, grad_output: Any, self: Any, beta: Any, threshold: Any) -> Any:
    if self.itemsize == 2:
        return in_float32(_softplus_backward, xp, grad_output, self, beta, threshold)
    x = self * beta
    return grad_output * xp.where(x > threshold, 1, kernels.sigmoid(xp, x))


def _softplus_curve(F: Any, g: Any, grad_output: Any, self: Any, beta: Any, threshold: Any) -> Any:
    z = F.sigmoid(self * beta)
    return g * F.where(self * beta > threshold, 0.0, grad_output * (beta * (z * (1 - z))))


_backward(
    "softplus_backward",
    _softplus_backward,
    {
        "grad_output": lambda F, g, self, beta, threshold: F.softplus_backward(
            g, self, beta, threshold
        ),
        "self": _softplus_curve,
    },
    "SoftplusBackwardBackward0",
    1.5,
    20.0,
    real_only=True,
    formula=lambda F, grad_output, self, beta, threshold: F.where(
        self * beta > threshold, grad_output, grad_output * F.sigmoid(self * beta)
    ),
)
unary(
    "softplus",
    lambda F, g, self, beta, threshold: F.softplus_backward(g, self, beta, threshold),
    _softplus,
    method=False,
    inplace=False,
    samples=sampled(1.5, 2.0),
    real_only=True,
    reference=lambda np, x, beta, threshold: np.where(
        x * beta > threshold, x, np.logaddexp(0, beta * x) / beta
    ),
    doc="log(1 + exp(beta * x)) / beta, elementwise; x itself where beta * x > threshold.",
    spaces="nn.functional",
    out="exact",
)

# Smooth gates -------------------------------------------------------------------------------------
