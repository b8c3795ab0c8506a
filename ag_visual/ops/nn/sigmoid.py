"""Sigmoid, tanh and the logarithm of sigmoid."""

from __future__ import annotations

from typing import Any, Final

import numpy

from ag_visual.arrays.kernels import activation as kernels
from ag_visual.arrays.kernels.order import copied, empty_as
from ag_visual.dispatch import vmap
from ag_visual.dispatch.families import unary
from ag_visual.dispatch.record import ELEMENTWISE, FLOAT, LINEAR, ONCE, OWN, ROWS, Sample
from ag_visual.dispatch.rules import inlined
from ag_visual.dispatch.table import composite, op
from ag_visual.ops.nn.activation import (
    backward_op,
    in_float32,
    multiply,
    ndarray,
    sampled,
    subtract,
)


def _sigmoid_backward(xp, grad_output, output):
    if output.itemsize == 2:
        return in_float32(_sigmoid_backward, xp, grad_output, output)
    if type(output) is ndarray and type(grad_output) is ndarray and output.ndim:
        # Not 1 - output: each number of Python's costs NumPy 0.2 us.
        kept = subtract(_ONES[output.dtype.char], output)
        multiply(kept, output, kept)
        # Lanes of a vmap may stand in the gradient alone.
        return multiply(grad_output, kept, kept if kept.shape == grad_output.shape else None)
    return grad_output * ((1 - output) * output)


_ONES: Final = {char: numpy.ones((), char) for char in "fdFD"}


def _tanh_backward(xp, grad_output, output):
    if output.itemsize == 2:
        return in_float32(_tanh_backward, xp, grad_output, output)
    kept = output * output
    if type(kept) is ndarray:
        subtract(_ONES[kept.dtype.char], kept, kept)
        # Lanes of a vmap may stand in the gradient alone.
        return multiply(grad_output, kept, kept if kept.shape == grad_output.shape else None)
    return grad_output * (1 - kept)


backward_op(
    "sigmoid_backward",
    _sigmoid_backward,
    {"output": lambda g, grad_output, output: g * (grad_output * (1 - 2 * output))},
    also_saves=("grad_output", "output"),
    formula=lambda grad_output, output: grad_output * output * (1 - output),
)
backward_op(
    "tanh_backward",
    _tanh_backward,
    {"output": lambda g, grad_output, output: -2 * (g * (grad_output * output))},
    formula=lambda grad_output, output: grad_output * (1 - output * output),
)
unary(
    "sigmoid",
    lambda F, g, result: F.sigmoid_backward(g, result),
    kernels.sigmoid,
    reference=lambda np, x: 0.5 * (1 + np.tanh(x / 2)),
    formula=lambda F, self: 1 / (1 + F.exp(-self)),
    spaces="torch nn.functional special.expit",
    symbol="σ",
    rounding=ONCE,
    foreach="unary",
    flops="elements",
)


@inlined
def _tanh_rule(F, g, result):
    return F.tanh_backward(g, result) if F.xp is None else _tanh_backward(F.xp, g, result)


unary(
    "tanh",
    _tanh_rule,
    reference=lambda np, x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
    doc="The hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x) + exp(-x)), elementwise.",
    spaces="torch nn.functional",
    rounding=ONCE,
    zero_preserving=True,
    foreach="unary",
    flops="elements",
)


def _log_sigmoid(xp, self) -> tuple[Any, Any]:
    x = self if self.dtype.itemsize > 2 else copied(xp, self, xp.float32)
    buffer = xp.exp(-xp.abs(x)).astype(self.dtype)
    return kernels.log_sigmoid(xp, self), buffer


def _log_sigmoid_backward(xp, grad_output, self, buffer):
    # The buffer, exp(-|x|), is torch's field; here it is not needed.
    if self.itemsize == 2:
        return in_float32(_log_sigmoid_backward, xp, grad_output, self, buffer)
    back = empty_as(xp, grad_output)  # torch's is like the gradient, others are like self
    return xp.multiply(grad_output, kernels.sigmoid(xp, -self), back)


def _log_sigmoid_curve(F, g, grad_output, self):
    z = F.sigmoid(self)
    return g * (grad_output * (z * (z - 1)))


op(
    "log_sigmoid_forward",
    _log_sigmoid,
    profiled=OWN,
    vjp={"self": lambda F, g, self, buffer: F.log_sigmoid_backward(g, self, buffer)},
    outputs=("output", "buffer"),
    differentiable=(0,),
    policy=FLOAT,
    opmath=True,
    rounding=ONCE,
    jvp=ELEMENTWISE,
    layout=ROWS,
    public=False,
    node="LogSigmoidBackward0",
    public_name="logsigmoid",
    samples=sampled(),
    real_only=True,
    reference=lambda np, x: -np.logaddexp(0, -x),
)
op(
    "log_sigmoid_backward",
    _log_sigmoid_backward,
    vjp={
        "grad_output": lambda F, g, self, buffer: F.log_sigmoid_backward(g, self, buffer),
        "self": _log_sigmoid_curve,
    },
    jvp={"grad_output": LINEAR, "self": ELEMENTWISE},
    inputs=("grad_output", "self", "buffer"),
    opmath=True,
    rounding=ONCE,
    public=False,
    batch=vmap.all_stacked,
    samples=lambda make: [_with_buffer(make((3, 4)), make((3, 4)))],
    real_only=True,
    formula=lambda F, grad_output, self: grad_output * F.sigmoid(-self),
)


def _with_buffer(grad, x) -> Sample:

    return Sample((grad, x, numpy.exp(-numpy.abs(x))))


@composite("logsigmoid", method=False, out=True, spaces="nn.functional", profiled="log_sigmoid")
def _logsigmoid(F, input):
    """log(1 / (1 + exp(-x)))."""
    return F.log_sigmoid_forward(input)[0]
