"""Rectifiers and their backward ops, in torch's names and saved fields: relu, elu, softplus ...

A backward op (`elu_backward` ...) is an op of its own with rules of its own: in a recorded
backward it is the node that a torch user expects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays.kernels import activation as kernels
from ag_visual.arrays.kernels.choice import where
from ag_visual.arrays.kernels.order import copied
from ag_visual.dispatch.families import EXACT, elementwise, unary, unary_samples, zeros
from ag_visual.dispatch.memory_overlap import ALLOWED
from ag_visual.dispatch.record import KEEP, ONCE, ErrorSample, Sample
from ag_visual.dispatch.rules import calls, inlined
from ag_visual.dispatch.table import composite

# Looking a name up in the module takes longer than to compare a type.
ndarray, multiply, subtract = numpy.ndarray, numpy.multiply, numpy.subtract


def sampled(*args, low: float = -3.0, high: float = 3.0):
    """Samples of an elementwise op with these further arguments."""
    return lambda make: [Sample((*sample.args, *args)) for sample in unary_samples(low, high)(make)]


def _back_sampled(*args, inputs: int = 2):
    """Samples of a backward op: gradient, saved value(s), further arguments."""
    return lambda make: [
        Sample((*(make(shape, low=-0.9, high=0.9) for _ in range(inputs)), *args))
        for shape in ((3, 4), ())
    ]


def backward_op(
    name: str, kernel: Callable[..., Any], rules: dict[str, Callable[..., Any]], *args, **options
) -> None:
    """The backward op of an activation, linear in grad_output: itself is its rule for that."""
    _, _, *known = inspect.signature(kernel).parameters
    rules = {"grad_output": calls(name, "g", *known), **rules}
    samples = _back_sampled(*args, inputs=len(rules))
    options.setdefault("rounding", ONCE)
    elementwise(name, kernel, rules, policy=KEEP, public=False, samples=samples, **options)


def in_float32(kernel: Callable[..., Any], xp, *args):
    """The kernel of 16-bit floats (and numbers), computed in float32 and rounded once.

    In the narrow type 1 - tanh(x)^2 and its like lose all digits where the function saturates.
    """
    wide = (copied(xp, x, xp.float32) if hasattr(x, "itemsize") else x for x in args)
    return xp.asarray(kernel(xp, *wide)).astype(args[0].dtype)


# Saturating functions -----------------------------------------------------------------------------


def no_curve(F, g):
    """Second derivative where the first is constant: zero, not absent, so `grad` of `grad` runs."""
    return zeros(F, g)


backward_op(
    "threshold_backward",
    lambda xp, grad_output, self, threshold: kernels.where_above(xp, self, threshold, grad_output),
    {"self": no_curve},
    0.1,
    real_only=True,
    formula=lambda F, grad_output, self, threshold: F.where(self <= threshold, 0.0, grad_output),
)


@inlined
def _relu_back(F, g, result):
    return F.threshold_backward(g, result, 0)


unary(
    "relu",
    _relu_back,
    kernels.positive_part,
    policy=KEEP,
    real_only=True,
    reference=lambda np, x: x * (x > 0),
    doc="max(x, 0), elementwise; its derivative at 0 is 0.",
    formula=lambda F, self: F.clamp_min(self, 0),
    **EXACT,
    zero_preserving=True,
    functional_inplace="flag function",
    flops="elements",
)
unary(
    "threshold",
    lambda F, g, self, threshold: F.threshold_backward(g, self, threshold),
    lambda xp, self, threshold, value: where(xp, self <= threshold, value, self),
    policy=KEEP,
    method=False,
    repeated=ALLOWED,
    inplace_node="ThresholdBackward1",
    samples=sampled(0.1, 20.0),
    real_only=True,
    doc="x where x > threshold, elsewhere `value`.",
    **EXACT,
    functional_inplace="flag function",
)


def _leaky_relu(xp, self, negative_slope=0.01):
    if 0 < negative_slope <= 1:  # the larger one of both, NaN and zeros as they are
        return xp.maximum(self, self * negative_slope)
    return where(xp, self > 0, self, self * negative_slope)


def _leaky_relu_backward(xp, grad_output, self, negative_slope, self_is_result: bool = False):
    return grad_output * kernels.slopes(xp, self, negative_slope)


backward_op(
    "leaky_relu_backward",
    _leaky_relu_backward,
    {"grad_output": calls("leaky_relu_backward", "g", "self", "negative_slope"), "self": no_curve},
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
    rounding=ONCE,
    functional_inplace="flag function",
)


def _hardtanh(xp, self, min_val=-1.0, max_val=1.0):
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
    return kernels.between(xp, self, min_val, max_val)


backward_op(
    "hardtanh_backward",
    lambda xp, grad_output, self, min_val, max_val: where(
        xp, (self <= min_val) | (self >= max_val), 0, grad_output
    ),
    {"self": no_curve},
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
    errors=lambda make: [
        ErrorSample((make((2,)), 1.0, -1.0), ValueError, "min_val cannot be greater than max_val")
    ],
    real_only=True,
    doc="min(max(x, min_val), max_val), elementwise; its derivative at the bounds is 0.",
    spaces="nn.functional",
    **EXACT,
    functional_inplace="flag function",
)


@composite("relu6", method=False, spaces="nn.functional")
def _relu6(F, input):
    """min(max(x, 0), 6)."""
    if input.dtype.category == 0:
        raise RuntimeError("Boolean inputs not supported for relu6. Convert with .float() first.")
    return F.hardtanh(input, 0, 6)


def _prelu_backward(xp, grad_output, self, weight):
    """The gradient of self alone."""
    return grad_output * kernels.slopes(xp, self, weight)


def _prelu_weight(F, g, self, weight):
    return F.where(self > 0, 0.0, self * g)


backward_op(
    "prelu_backward",
    _prelu_backward,
    {
        "self": no_curve,
        "weight": lambda F, g, grad_output, self: F.where(self > 0, 0.0, g * grad_output),
    },
    node="PreluKernelBackwardBackward0",
    real_only=True,
)
elementwise(
    "prelu_kernel",
    lambda xp, self, weight: where(xp, self > 0, self, weight * self),
    {"self": lambda F, g, self, weight: F.prelu_backward(g, self, weight), "weight": _prelu_weight},
    public=False,
    public_name="prelu",
    dtype_check=lambda self, weight: (
        f"prelu: Type promoting not supported. Got {self.scalar_name} and {weight.scalar_name}"
    ),
    oracle="_prelu_kernel",
    samples=lambda make: [Sample((make((2, 3)), make((1, 3)))), Sample((make((4,)), make(())))],
    real_only=True,
)


@composite("prelu", spaces="torch nn.functional", autocast="lower")
def _prelu_of(F, input, weight):
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


def _elu(xp, self, alpha=1.0, scale=1.0, input_scale=1.0):
    if self.itemsize == 2:
        return in_float32(_elu, xp, self, alpha, scale, input_scale)
    below = kernels.expm1(xp, xp.minimum(self, 0) * input_scale) * (alpha * scale)
    return where(xp, self >= 0, self * scale, below)


def _elu_backward(xp, grad_output, alpha, scale, input_scale, is_result: bool, self_or_result):
    if self_or_result.itemsize == 2:
        rest = (alpha, scale, input_scale, is_result, self_or_result)
        return in_float32(_elu_backward, xp, grad_output, *rest)
    below = xp.exp(xp.minimum(self_or_result, 0) * input_scale) * (input_scale * alpha * scale)
    return grad_output * where(xp, self_or_result <= 0, below, scale)


def _elu_curve(F, g, grad_output, alpha, scale, input_scale, self_or_result):
    x = self_or_result
    below = F.exp(F.clamp_max(x, 0) * input_scale) * (input_scale * input_scale * alpha * scale)
    return g * (grad_output * F.where(x < 0, below, 0.0))


_ELU_OPTIONS = ("alpha", "scale", "input_scale", "is_result", "self_or_result")


elementwise(
    "elu_backward",
    _elu_backward,
    {"grad_output": calls("elu_backward", "g", *_ELU_OPTIONS), "self_or_result": _elu_curve},
    policy=KEEP,
    public=False,
    samples=lambda make: [Sample((make((3, 4)), 1.2, 1.1, 0.9, False, make((3, 4))))],
    real_only=True,
    rounding=ONCE,
)
unary(
    "elu",
    lambda F, g, self, alpha, scale, input_scale: F.elu_backward(
        g, alpha, scale, input_scale, False, self
    ),
    _elu,
    method=False,
    inplace_node="EluBackward1",
    samples=sampled(1.3, 1.1, 0.7),
    real_only=True,
    reference=lambda np, x, a, s, i: s * np.where(x > 0, x, a * (np.exp(np.minimum(i * x, 0)) - 1)),
    doc="scale * x where x > 0, elsewhere scale * alpha * (exp(input_scale * x) - 1).",
    spaces="nn.functional",
    rounding=ONCE,
    functional_inplace="function",
)


@composite("selu", method=False)
def _selu(F, input):
    """elu with the scale and alpha that keep mean and variance."""
    return F.elu(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def _celu(xp, self, alpha=1.0):
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
    rounding=ONCE,
    functional_inplace="flag function",
)


def _softplus_backward(xp, grad_output, self, beta, threshold):
    if self.itemsize == 2:
        return in_float32(_softplus_backward, xp, grad_output, self, beta, threshold)
    x = self * beta
    return grad_output * where(xp, x > threshold, 1, kernels.sigmoid(xp, x))


def _softplus_curve(F, g, grad_output, self, beta, threshold):
    z = F.sigmoid(self * beta)
    return g * F.where(self * beta > threshold, 0.0, grad_output * (beta * (z * (1 - z))))


backward_op(
    "softplus_backward",
    _softplus_backward,
    {"self": _softplus_curve},
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
    lambda xp, self, beta=1.0, threshold=20.0: kernels.softplus(xp, self, beta, threshold),
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
    autocast="cuda float32",
    rounding=ONCE,
)
