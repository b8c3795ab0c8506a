"""Activation functions and their backward ops, in torch's names and saved fields.

A backward op (`tanh_backward` ...) is an op of its own with rules of its own: in a recorded
backward it is the node that a torch user expects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels import activation as kernels
from ag_visual.arrays.kernels.order import copied
from ag_visual.dispatch import dtype_errors, vmap
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import elementwise, unary, unary_samples, zeros
from ag_visual.dispatch.memory_overlap import ALLOWED
from ag_visual.dispatch.record import (
    EACH,
    FLOAT,
    KEEP,
    LINEAR,
    ROWS,
    ErrorSample,
    Sample,
    on_arrays,
)
from ag_visual.dispatch.table import composite, op

# Looking a name up in the module takes longer than to compare a type.
_ndarray, _multiply, _subtract = numpy.ndarray, numpy.multiply, numpy.subtract


def _sampled(*args: Any, low: float = -3.0, high: float = 3.0) -> Callable[[Any], Iterator[Sample]]:
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


def _in_float32(kernel: Callable[..., Any], xp: Any, *args: Any) -> Any:
    """The kernel of 16-bit floats (and numbers), computed in float32 and rounded once.

    In the narrow type 1 - tanh(x)^2 and its like lose all digits where the function saturates.
    """
    wide = (copied(xp, x, xp.float32) if hasattr(x, "itemsize") else x for x in args)
    return xp.asarray(kernel(xp, *wide)).astype(args[0].dtype)


# Saturating functions -----------------------------------------------------------------------------


def _sigmoid_backward(xp: Any, grad_output: Any, output: Any) -> Any:
    if output.itemsize == 2:
        return _in_float32(_sigmoid_backward, xp, grad_output, output)
    return grad_output * ((1 - output) * output)


def _tanh_backward(xp: Any, grad_output: Any, output: Any) -> Any:
    if output.itemsize == 2:
        return _in_float32(_tanh_backward, xp, grad_output, output)
    # Without a number of Python's in it: each costs NumPy 0.2 us.
    lost = grad_output * output
    if type(lost) is _ndarray:
        _multiply(lost, output, lost)
        return _subtract(grad_output, lost, lost)
    return grad_output - lost * output


_backward(
    "sigmoid_backward",
    _sigmoid_backward,
    {
        "grad_output": lambda F, g, output: F.sigmoid_backward(g, output),
        "output": lambda g, grad_output, output: g * (grad_output * (1 - 2 * output)),
    },
    "SigmoidBackwardBackward0",
    inputs=("grad_output", "output"),
    keeps=("grad_output", "output"),
    formula=lambda grad_output, output: grad_output * output * (1 - output),
)
_backward(
    "tanh_backward",
    _tanh_backward,
    {
        "grad_output": lambda F, g, output: F.tanh_backward(g, output),
        "output": lambda g, grad_output, output: -2 * (g * (grad_output * output)),
    },
    "TanhBackwardBackward0",
    inputs=("grad_output", "output"),
    formula=lambda grad_output, output: grad_output * (1 - output * output),
)
unary(
    "sigmoid",
    lambda F, g, result: F.sigmoid_backward(g, result),
    kernels.sigmoid,
    reference=lambda np, x: 0.5 * (1 + np.tanh(x / 2)),
    formula=lambda F, self: 1 / (1 + F.exp(-self)),
)
unary(
    "tanh",
    on_arrays("_tanh_backward(F.xp, g, result)")(lambda F, g, result: F.tanh_backward(g, result)),
    reference=lambda np, x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
    doc="The hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x) + exp(-x)), elementwise.",
)


def _log_sigmoid(xp: Any, self: Any) -> tuple[Any, Any]:
    x = self if self.dtype.itemsize > 2 else copied(xp, self, xp.float32)
    buffer = xp.exp(-xp.abs(x)).astype(self.dtype)
    return kernels.log_sigmoid(xp, self), buffer


def _log_sigmoid_backward(xp: Any, grad_output: Any, self: Any, buffer: Any) -> Any:
    # The buffer, exp(-|x|), is torch's field; here it is not needed.
    if self.itemsize == 2:
        return _in_float32(_log_sigmoid_backward, xp, grad_output, self, buffer)
    return grad_output * kernels.sigmoid(xp, -self)


def _log_sigmoid_curve(F: Any, g: Any, grad_output: Any, self: Any) -> Any:
    z = F.sigmoid(self)
    return g * (grad_output * (z * (z - 1)))


op(
    "log_sigmoid_forward",
    _log_sigmoid,
    vjp={"self": lambda F, g, self, buffer: F.log_sigmoid_backward(g, self, buffer)},
    outputs=("output", "buffer"),
    differentiable=(0,),
    policy=FLOAT,
    jvp=EACH,
    layout=ROWS,
    public=False,
    node="LogSigmoidBackward0",
    called="logsigmoid",
    samples=_sampled(),
    real=True,
    reference=lambda np, x: -np.logaddexp(0, -x),
)
op(
    "log_sigmoid_backward",
    _log_sigmoid_backward,
    vjp={
        "grad_output": lambda F, g, self, buffer: F.log_sigmoid_backward(g, self, buffer),
        "self": _log_sigmoid_curve,
    },
    jvp={"grad_output": LINEAR, "self": EACH},
    inputs=("grad_output", "self", "buffer"),
    public=False,
    node="LogSigmoidBackwardBackward0",
    batch=vmap.whole,
    samples=lambda make: iter([_with_buffer(make((3, 4)), make((3, 4)))]),
    real=True,
    formula=lambda F, grad_output, self: grad_output * F.sigmoid(-self),
)


def _with_buffer(grad: Any, x: Any) -> Sample:
    import numpy

    return Sample((grad, x, numpy.exp(-numpy.abs(x))))


@composite("logsigmoid", method=False, out=True)
def _logsigmoid(F: Any, input: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    return F.log_sigmoid_forward(input)[0]


# Rectifiers ---------------------------------------------------------------------------------------


def _no_curve(F: Any, g: Any) -> Any:
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
        "self": _no_curve,
    },
    "ThresholdBackwardBackward0",
    0.1,
    real=True,
    formula=lambda F, grad_output, self, threshold: F.where(self <= threshold, 0.0, grad_output),
)
unary(
    "relu",
    lambda F, g, result: F.threshold_backward(g, result, 0),
    _relu,
    policy=KEEP,
    real=True,
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
    twin="ThresholdBackward1",
    samples=_sampled(0.1, 20.0),
    real=True,
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
        "self": _no_curve,
    },
    "LeakyReluBackwardBackward0",
    0.2,
    False,
    real=True,
    formula=lambda F, grad_output, self, negative_slope: F.where(
        self > 0, grad_output, grad_output * negative_slope
    ),
)
unary(
    "leaky_relu",
    lambda F, g, self, negative_slope: F.leaky_relu_backward(g, self, negative_slope),
    _leaky_relu,
    method=False,
    twin="LeakyReluBackward1",
    samples=_sampled(0.2),
    real=True,
    reference=lambda np, x, slope: np.maximum(x, 0) + slope * np.minimum(x, 0),
    doc="x where x > 0, elsewhere negative_slope * x.",
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
        "self": _no_curve,
    },
    "HardtanhBackwardBackward0",
    -0.5,
    0.6,
    real=True,
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
    samples=_sampled(-0.5, 0.6),
    errors=lambda make: iter(
        [ErrorSample((make((2,)), 1.0, -1.0), ValueError, "min_val cannot be greater than max_val")]
    ),
    real=True,
    doc="min(max(x, min_val), max_val), elementwise; its derivative at the bounds is 0.",
)


@composite("relu6", method=False)
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
        "self": _no_curve,
        "weight": lambda F, g, grad_output, self: F.where(self > 0, 0.0, g * grad_output),
    },
    "PreluKernelBackwardBackward0",
    inputs=("grad_output", "self", "weight"),
    real=True,
)
elementwise(
    "prelu_kernel",
    _prelu,
    {
        "self": lambda F, g, self, weight: F.prelu_backward(g, self, weight),
        "weight": _prelu_weight,
    },
    public=False,
    called="prelu",
    alike=lambda self, weight: (
        "prelu: Type promoting not supported. "
        f"Got {dtype_errors.told(self)} and {dtype_errors.told(weight)}"
    ),
    oracle="_prelu_kernel",
    samples=lambda make: iter(
        [Sample((make((2, 3)), make((1, 3)))), Sample((make((4,)), make(())))]
    ),
    real=True,
)


@composite("prelu")
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
        return _in_float32(_elu, xp, self, alpha, scale, input_scale)
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
        return _in_float32(_elu_backward, xp, grad_output, *rest)
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
    real=True,
)
unary(
    "elu",
    _elu_rule,
    _elu,
    method=False,
    twin="EluBackward1",
    samples=_sampled(1.3, 1.1, 0.7),
    real=True,
    reference=lambda np, x, a, s, i: s * np.where(x > 0, x, a * (np.exp(np.minimum(i * x, 0)) - 1)),
    doc="scale * x where x > 0, elsewhere scale * alpha * (exp(input_scale * x) - 1).",
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
    twin="CeluBackward1",
    samples=_sampled(1.4),
    real=True,
    reference=lambda np, x, a: np.maximum(x, 0) + np.minimum(a * (np.exp(x / a) - 1), 0),
    doc="max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), elementwise.",
)


def _softplus(xp: Any, self: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    return kernels.softplus(xp, self, beta, threshold)


def _softplus_backward(xp: Any, grad_output: Any, self: Any, beta: Any, threshold: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_softplus_backward, xp, grad_output, self, beta, threshold)
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
    real=True,
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
    samples=_sampled(1.5, 2.0),
    real=True,
    reference=lambda np, x, beta, threshold: np.where(
        x * beta > threshold, x, np.logaddexp(0, beta * x) / beta
    ),
    doc="log(1 + exp(beta * x)) / beta, elementwise; x itself where beta * x > threshold.",
)

# Smooth gates -------------------------------------------------------------------------------------


def _silu(xp: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_silu, xp, self)
    return self * kernels.sigmoid(xp, self)


def _silu_backward(xp: Any, g: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_silu_backward, xp, g, self)
    z = kernels.sigmoid(xp, self)
    return g * (z * (1 + self * (1 - z)))


def _silu_rule(F: Any, g: Any, self: Any) -> Any:
    if F.xp is not None:
        return _silu_backward(F.xp, g, self)
    z = F.sigmoid(self)
    return g * (z * (1 + self * (1 - z)))


def _mish(xp: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_mish, xp, self)
    return self * xp.tanh(kernels.softplus(xp, self))


def _mish_backward(xp: Any, g: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_mish_backward, xp, g, self)
    t = xp.tanh(kernels.softplus(xp, self))
    return g * (t + self * kernels.sigmoid(xp, self) * (1 - t * t))


def _mish_rule(F: Any, g: Any, self: Any) -> Any:
    if F.xp is not None:
        return _mish_backward(F.xp, g, self)
    t = F.tanh(F.softplus(self))
    return g * (t + self * F.sigmoid(self) * (1 - t * t))


unary(
    "silu",
    _silu_rule,
    _silu,
    method=False,
    reference=lambda np, x: x / (1 + np.exp(-x)),
    doc="x * sigmoid(x), elementwise.",
)
unary(
    "mish",
    _mish_rule,
    _mish,
    method=False,
    real=True,
    reference=lambda np, x: x * np.tanh(np.log(1 + np.exp(x))),
    doc="x * tanh(softplus(x)), elementwise.",
)


_SCALE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _gelu(xp: Any, self: Any, *, approximate: str = "none") -> Any:
    return kernels.gelu(xp, self, approximate)


def _gelu_backward(xp: Any, grad_output: Any, self: Any, *, approximate: str = "none") -> Any:
    return kernels.gelu_backward(xp, grad_output, self, approximate)


def _gelu_formula(F: Any, self: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * self * (1 + F.tanh(_SCALE * (self + _CUBIC * self**3)))
    return self * (1 + F.erf(self / math.sqrt(2))) / 2


def _gelu_backward_formula(F: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    if approximate == "tanh":
        t = F.tanh(_SCALE * (self + _CUBIC * self**3))
        slope = self * (1 - t * t) * (_SCALE * (1 + 3 * _CUBIC * self**2))
        return grad_output * (1 + t + slope) / 2
    share = (1 + F.erf(self / math.sqrt(2))) / 2
    return grad_output * (share + self * F.exp(-(self**2) / 2) / math.sqrt(2 * math.pi))


def _check_gelu(*args: Any) -> tuple[str]:
    approximate = args[-1]
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return (approximate,)


def _gelu_curve(F: Any, g: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    """The second derivative of gelu, times both gradients."""
    x = self
    if approximate == "none":
        density = F.exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))
        return g * (grad_output * (density * (2 - x * x)))
    scale, cubic = _SCALE, _CUBIC
    t = F.tanh(scale * (x + cubic * (x * x * x)))
    slope = scale * (1 + 3 * cubic * (x * x))
    rest = 1 - t * t
    bend = 0.5 * x * (6 * scale * cubic * x - 2 * (t * (slope * slope)))
    return g * (grad_output * (rest * (slope + bend)))


_backward(
    "gelu_backward",
    _gelu_backward,
    {
        "grad_output": lambda F, g, self, approximate: F.gelu_backward(
            g, self, approximate=approximate
        ),
        "self": _gelu_curve,
    },
    "GeluBackwardBackward0",
    keeps=("grad_output",),
    real=True,
    formula=_gelu_backward_formula,
)
unary(
    "gelu",
    lambda F, g, self, approximate: F.gelu_backward(g, self, approximate=approximate),
    _gelu,
    method=False,
    inplace=False,
    normalize=_check_gelu,
    samples=lambda make: iter(
        [Sample((make((3, 4)),)), Sample((make((3, 4)),), {"approximate": "tanh"})]
    ),
    errors=lambda make: iter(
        [ErrorSample((make((2,)),), RuntimeError, "none or tanh", {"approximate": "erf"})]
    ),
    real=True,
    doc="x * P(X <= x) of a standard normal X; approximate='tanh': by the usual tanh formula.",
    formula=_gelu_formula,
)


def _halves(F: Any, x: Any, dim: int) -> tuple[Any, Any]:
    size = x.shape[dim] // 2
    return F.narrow(x, dim, 0, size), F.narrow(x, dim, size, size)


def _glu(xp: Any, self: Any, dim: int = -1) -> Any:
    if self.itemsize == 2:
        return _in_float32(_glu, xp, self, dim)
    size = self.shape[dim] // 2
    before = (slice(None),) * dim
    return self[(*before, slice(0, size))] * kernels.sigmoid(xp, self[(*before, slice(size, None))])


def _glu_along(F: Any, t_self: Any, self: Any, dim: int) -> Any:
    half = self.shape[dim] // 2
    (a, b), (t_a, t_b) = (
        (F.slice(x, dim, 0, half, 1), F.slice(x, dim, half, 2 * half, 1)) for x in (self, t_self)
    )
    gate = F.sigmoid(b)
    return gate * (t_a + a * (1 - gate) * t_b)


def _glu_rule(F: Any, g: Any, self: Any, dim: int) -> Any:
    a, b = _halves(F, self, dim)
    z = F.sigmoid(b)
    return F.cat((g * z, g * (a * (z * (1 - z)))), dim)


def _normal_glu(self: Any, dim: Any) -> tuple[int]:
    dim = wrap(dim, self.ndim)
    if self.ndim == 0 or self.shape[dim] % 2:
        size = self.shape[dim] if self.ndim else 1
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    return (dim,)


op(
    "glu",
    _glu,
    vjp={"self": _glu_rule},
    policy=FLOAT,
    jvp={"self": _glu_along},
    normalize=_normal_glu,
    method=False,
    samples=lambda make: iter([Sample((make((3, 4)),)), Sample((make((4, 3)), 0))]),
    errors=lambda make: iter([ErrorSample((make((3,)),), RuntimeError, "must be even")]),
    real=True,
    doc="a * sigmoid(b) of the two halves a and b of `dim`, whose size must be even.",
)

# Piecewise linear gates ---------------------------------------------------------------------------


def _hardsigmoid(xp: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_hardsigmoid, xp, self)
    return xp.clip(self + 3, 0, 6) / 6


def _hardswish(xp: Any, self: Any) -> Any:
    if self.itemsize == 2:
        return _in_float32(_hardswish, xp, self)
    return self * (xp.clip(self + 3, 0, 6) / 6)


def _hardswish_backward(xp: Any, grad_output: Any, self: Any) -> Any:
    # At -3 and 3 the slopes are those of outside: 0 and 1.
    if self.itemsize == 2:
        return _in_float32(_hardswish_backward, xp, grad_output, self)
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
    {"grad_output": lambda F, g, self: F.hardsigmoid_backward(g, self), "self": _no_curve},
    "HardsigmoidBackwardBackward0",
    oracle=False,  # torch has the function and refuses its derivative
    formula=lambda F, grad_output, self: F.where((self > -3) & (self < 3), grad_output / 6, 0.0),
    real=True,
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
    real=True,
)
unary(
    "hardsigmoid",
    lambda F, g, self: F.hardsigmoid_backward(g, self),
    _hardsigmoid,
    method=False,
    real=True,
    doc="min(max(x / 6 + 1/2, 0), 1), elementwise.",
)
unary(
    "hardswish",
    lambda F, g, self: F.hardswish_backward(g, self),
    _hardswish,
    method=False,
    real=True,
    reference=lambda np, x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6,
    doc="x * min(max(x + 3, 0), 6) / 6, elementwise.",
)


def _softshrink(xp: Any, self: Any, lambd: Any = 0.5) -> Any:
    if lambd < 0:
        kind = dtypes.of_array(self)
        raise RuntimeError(
            f"lambda must be in range [0, {dtypes.finfo(kind).max:.6g}] for input dtype "
            f"{dtype_errors.told(kind)}, but found {lambd:g}"
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

    rules = {"grad_output": back, "self": _no_curve}
    node = f"{name.capitalize()}BackwardBackward0"
    _backward(f"{name}_backward", _shrink_backward, rules, node, 0.4, real=True)
    unary(name, back, kernel, inplace=False, samples=_sampled(0.4), real=True, **options)


_shrink(
    "softshrink",
    _softshrink,
    method=False,
    errors=lambda make: iter(
        [ErrorSample((make((2,)), -0.5), RuntimeError, "lambda must be in range [0, ")]
    ),
    reference=lambda np, x, b: np.sign(x) * np.maximum(np.abs(x) - b, 0),
    doc="x - lambd where x > lambd, x + lambd where x < -lambd, elsewhere 0.",
)
_shrink(
    "hardshrink",
    _hardshrink,
    reference=lambda np, x, b: x * (np.abs(x) > b),
    doc="x where |x| > lambd, elsewhere 0.",
)


@composite("softsign", method=False)
def _softsign(F: Any, input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (F.abs(input) + 1)


@composite("tanhshrink", method=False)
def _tanhshrink(F: Any, input: Any) -> Any:
    """x - tanh(x)."""
    return input - F.tanh(input)
