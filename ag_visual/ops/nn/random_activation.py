"""Noise for training: rrelu, and the dropouts that keep mean and variance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.record import Sample
from ag_visual.dispatch.table import composite, op, ops
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.tensor.generator import source_of

# Randomised leaky ReLU ----------------------------------------------------------------------------


def _spread(lower: float, upper: float, training: bool) -> bool:
    """Whether the slopes were drawn; below torch's bound it takes their mean instead."""
    return training and upper - lower > 1e-6


def _rrelu(
    xp: Any,
    self: Any,
    noise: Any,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
) -> Any:
    """The slopes of negative elements are those of `noise`, or the mean of lower and upper."""
    if training:
        return xp.where(self <= 0, self * noise, self)
    return xp.where(self <= 0, self * ((lower + upper) / 2), self)


def _rrelu_backward(
    xp: Any,
    grad_output: Any,
    self: Any,
    noise: Any,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool = False,
) -> Any:
    if _spread(lower, upper, training):
        return grad_output * noise
    return xp.where(self > 0, grad_output, grad_output * ((lower + upper) / 2))


def _again(
    F: Any, g: Any, self: Any, noise: Any, lower: float, upper: float, training: bool
) -> Any:
    return F.rrelu_with_noise_backward(g, self, noise, lower, upper, training, False)


def _of_result(
    F: Any, g: Any, result: Any, noise: Any, lower: float, upper: float, training: bool
) -> Any:
    return F.rrelu_with_noise_backward(g, result, noise, lower, upper, training, True)


def _noise_of(make: Any, x: Any) -> Any:
    return numpy.where(x <= 0, make(x.shape, low=0.1, high=0.3), 1.0)


def _rrelu_samples(make: Any) -> Iterator[Sample]:
    for shape in ((3, 4), ()):
        x = make(shape)
        for training in (True, False):
            yield Sample((x, _noise_of(make, x), 0.1, 0.3, training), oracle=not training)


def _rrelu_back_samples(make: Any) -> Iterator[Sample]:
    x = make((3, 4))
    for training in (True, False):
        yield Sample((make((3, 4)), x, _noise_of(make, x), 0.1, 0.3, training, False))


def _in_front(batch: Batch) -> Any:
    """All inputs with the batch: a result may not depend on the one that has it."""
    return batch.run(**{name: batch.full(name) for name in batch.tensors})


_shared: dict[str, Any] = {"public": False, "real_only": True, "batch": _in_front}
for _name, _rule, _node, _twin in (
    ("rrelu_with_noise", _again, "RreluWithNoiseBackward0", False),
    # In place torch's node keeps the result, whose sign is that of the input.
    ("rrelu_in_place", _of_result, "RreluWithNoiseBackward1", True),
):
    op(
        _name,
        _rrelu,
        vjp={"self": _rule},
        inputs=("self", "noise"),
        inplace=_twin,
        node=_node,
        public_name="rrelu_with_noise",
        oracle=None if _node.endswith("0") else False,
        samples=_rrelu_samples,
        **_shared,
    )
op(
    "rrelu_with_noise_backward",
    _rrelu_backward,
    # Between kinks the slope does not change: a second derivative of zero, not none.
    vjp={"grad_output": _again, "self": lambda F, g: zeros(F, g)},
    jvp={
        "grad_output": lambda F, t_grad_output, self, noise, lower, upper, training: (
            F.rrelu_with_noise_backward(t_grad_output, self, noise, lower, upper, training, False)
        ),
        "self": lambda F, t_self: zeros(F, t_self),
    },
    inputs=("grad_output", "self", "noise"),
    node="RreluWithNoiseBackwardBackward0",
    samples=_rrelu_back_samples,
    **_shared,
)


def _drawn(input: Any, lower: float, upper: float, training: bool) -> Any:
    """A slope for each element that is not positive, 1 for the others."""
    array = input._array
    backend = backends.backend_of(array)
    if not training:
        return from_array(backend.xp.zeros(array.shape, array.dtype))
    slopes = source_of(backend).rand(array.shape, array.dtype) * (upper - lower) + lower
    noise = backend.xp.where(array <= 0, slopes, 1)
    return from_array(noise.astype(array.dtype))


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
    F: Any,
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """x where it is positive, else x times a slope: drawn in training, else the mean of the bounds.

    Source: Xu et al., Empirical evaluation of rectified activations (arXiv:1505.00853).
    """
    _check_slopes(lower, upper)
    options = (_drawn(input, lower, upper, training), lower, upper, bool(training))
    if inplace:
        return ops["rrelu_in_place"].write(input, *options)
    return F.rrelu_with_noise(input, *options)


@composite("rrelu_", method=False)
def _rrelu_in_place(
    F: Any, input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """rrelu, in place."""
    return F.rrelu(input, lower, upper, training, True)


# Dropout that keeps mean and variance -------------------------------------------------------------

# The limit of selu for ever smaller numbers, negated: -scale * alpha.
_FLOOR = 1.7580993408473766


def _alpha(F: Any, input: Any, p: float, training: bool, inplace: bool, whole: bool) -> Any:
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
    array = input._array
    backend = backends.backend_of(array)
    if p == 1:
        zero = from_array(backend.xp.zeros((), array.dtype))
        return input.mul_(zero) if inplace else F.mul(input, zero)
    drawn = source_of(backend).bernoulli(1 - p, shape)
    kept = backend.xp.asarray(drawn).astype(array.real.dtype)
    a = 1 / math.sqrt((_FLOOR * _FLOOR * p + 1) * (1 - p))
    xp, b = backend.xp, _FLOOR * a
    scale = from_array(xp.asarray(kept * a, dtype=array.dtype))
    move = from_array(xp.asarray((kept - 1) * b + b * p, dtype=array.dtype))
    if inplace:
        return input.mul_(scale).add_(move)
    return F.add(F.mul(input, scale), move)


def _declare(name: str, whole: bool, what: str) -> None:
    def body(
        F: Any, input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
    ) -> Any:
        return _alpha(F, input, p, training, inplace, whole)

    def twin(F: Any, input: Any, p: float = 0.5, training: bool = False) -> Any:
        return _alpha(F, input, p, training, True, whole)

    body.__doc__ = f"Dropout of {what} that keeps mean and variance of a selu network."
    twin.__doc__ = f"{name}, in place."
    composite(name, method=False, spaces="torch nn.functional")(body)
    composite(f"{name}_", method=False)(twin)


_declare("alpha_dropout", False, "elements")
_declare("feature_alpha_dropout", True, "whole channels (dimension 1)")
