"""Noise for training: rrelu, and the dropouts that keep mean and variance."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels.activation import slopes
from ag_visual.arrays.kernels.choice import where
from ag_visual.core.level import all_values, drawn
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.record import ELEMENTWISE, ONCE, ROWS, Sample
from ag_visual.dispatch.table import composite, op, ops
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.tensor.generator import source_of

# Randomised leaky ReLU ----------------------------------------------------------------------------


def _spread(lower: float, upper: float, training: bool) -> bool:
    """Whether the slopes were drawn; below torch's bound it takes their mean instead."""
    return training and upper - lower > 1e-6


def _rrelu(xp, self, noise, lower: float = 0.125, upper: float = 1 / 3, training: bool = False):
    """The slopes of negative elements are those of `noise`, or the mean of lower and upper."""
    if training:
        return where(xp, self <= 0, self * noise, self)
    return where(xp, self <= 0, self * ((lower + upper) / 2), self)


def _rrelu_backward(xp, grad_output, self, noise, lower, upper, training, self_is_result=False):
    if _spread(lower, upper, training):
        return grad_output * noise
    return grad_output * slopes(xp, self, (lower + upper) / 2)


def _again(F, g, self, noise, lower: float, upper: float, training: bool):
    return F.rrelu_with_noise_backward(g, self, noise, lower, upper, training, False)


def _of_result(F, g, result, noise, lower: float, upper: float, training: bool):
    return F.rrelu_with_noise_backward(g, result, noise, lower, upper, training, True)


def _noise_of(make, x):
    return numpy.where(x <= 0, make(x.shape, low=0.1, high=0.3), 1.0)


def _rrelu_samples(make):
    for shape in ((3, 4), ()):
        x = make(shape)
        for training in (True, False):
            yield Sample((x, _noise_of(make, x), 0.1, 0.3, training), oracle=not training)


def _rrelu_back_samples(make):
    x = make((3, 4))
    for training in (True, False):
        yield Sample((make((3, 4)), x, _noise_of(make, x), 0.1, 0.3, training, False))


def _in_front(batch: Batch):
    """All inputs with the batch: a result may not depend on the one that has it."""
    return batch.run(**{name: batch.full(name) for name in batch.tensors})


_shared: dict[str, Any] = {"public": False, "real_only": True, "batch": _in_front}
_shared.update(opmath=True, rounding=ONCE)
for _name, _rule, _node, _variant in (
    ("rrelu_with_noise", _again, "RreluWithNoiseBackward0", False),
    # In place torch's node keeps the result, whose sign is that of the input.
    ("rrelu_in_place", _of_result, "RreluWithNoiseBackward1", True),
):
    op(
        _name,
        _rrelu,
        vjp={"self": _rule},
        jvp=None if _variant else ELEMENTWISE,
        aten="rrelu_with_noise",
        inputs=("self", "noise"),
        inplace=_variant,
        node=_node,
        public_name="rrelu_with_noise",
        layout=ROWS,
        oracle=None if _node.endswith("0") else False,
        samples=_rrelu_samples,
        **_shared,
    )
op(
    "rrelu_with_noise_backward",
    _rrelu_backward,
    # Between non-smooth points the slope does not change: a second derivative of zero, not none.
    vjp={"grad_output": _again, "self": lambda F, g: zeros(F, g)},
    jvp={
        "grad_output": lambda F, t_grad_output, self, noise, lower, upper, training: (
            F.rrelu_with_noise_backward(t_grad_output, self, noise, lower, upper, training, False)
        ),
        "self": lambda F, t_self: zeros(F, t_self),
    },
    inputs=("grad_output", "self", "noise"),
    samples=_rrelu_back_samples,
    **_shared,
)


def _drawn(F, input, lower: float, upper: float, training: bool):
    """A slope for each element that is not positive, 1 for the others."""
    shape, dtype = tuple(input.shape), input._array.dtype
    if not training:
        return F.zeros_of(input, shape)
    backend = backends.backend_of(all_values(input))
    source = source_of(backend)

    def slopes_of(whole: tuple[int, ...]):
        return backend.asarray(source.rand(whole, dtype) * (upper - lower) + lower)

    chosen = drawn(shape, slopes_of)
    return F.cast(F.where(input.detach() <= 0, chosen, 1.0), dtype)


def _check_slopes(lower: float, upper: float) -> None:
    for name, value in (("lower", lower), ("upper", upper)):
        if not math.isfinite(value):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {value}")
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )


@composite("rrelu", method=False, spaces="torch nn.functional")
def _rrelu_of(
    F,
    input,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
):
    """x where it is positive, else x times a slope: drawn in training, else the mean of the bounds.

    Source: Xu et al., Empirical evaluation of rectified activations (arXiv:1505.00853).
    """
    _check_slopes(lower, upper)
    options = (_drawn(F, input, lower, upper, training), lower, upper, bool(training))
    if inplace:
        return ops["rrelu_in_place"].write(input, *options)
    return F.rrelu_with_noise(input, *options)


@composite("rrelu_", method=False, spaces="torch nn.functional")
def _rrelu_in_place(
    F, input, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
):
    """rrelu, in place."""
    return F.rrelu(input, lower, upper, training, True)


# Dropout that keeps mean and variance -------------------------------------------------------------

# The limit of selu for ever smaller numbers, negated: -scale * alpha.
_FLOOR = 1.7580993408473766


def _alpha(F, input, p: float, training: bool, inplace: bool, whole: bool):
    """Dropped elements (or channels) become selu's lowest value, then all are scaled and moved.

    Source: Klambauer et al., Self-normalizing neural networks (arXiv:1706.02515).
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not training or not input.numel():
        return input
    shape = tuple(input.shape)
    if whole:
        if input.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        shape = (*shape[:2], *(1,) * (input.ndim - 2))
    if p == 1:
        zero = F.zeros_of(input, ())
        return input.mul_(zero) if inplace else F.mul(input, zero)
    dtype, source = input._array.dtype, source_of(backends.backend_of(all_values(input)))
    real = numpy.empty(0, dtype).real.dtype
    kept = drawn(shape, lambda whole: source.bernoulli(1 - p, whole).astype(real))
    a = 1 / math.sqrt((_FLOOR * _FLOOR * p + 1) * (1 - p))
    b = _FLOOR * a
    scale = F.cast(kept * a, dtype)
    move = F.cast((kept - 1) * b + b * p, dtype)
    if inplace:
        return input.mul_(scale).add_(move)
    return F.add(F.mul(input, scale), move)


def _declare(name: str, whole: bool, what: str) -> None:
    def body(F, input, p: float = 0.5, training: bool = False, inplace: bool = False):
        return _alpha(F, input, p, training, inplace, whole)

    def variant(F, input, p: float = 0.5, training: bool = False):
        return _alpha(F, input, p, training, True, whole)

    body.__doc__ = f"Dropout of {what} that keeps mean and variance of a selu network."
    variant.__doc__ = f"{name}, in place."
    composite(name, method=False, spaces="torch nn.functional")(body)
    composite(f"{name}_", method=False)(variant)


_declare("alpha_dropout", False, "elements")
_declare("feature_alpha_dropout", True, "whole channels (dimension 1)")
