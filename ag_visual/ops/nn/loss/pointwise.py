"""Fused losses of single elements, as torch's nodes: squared, absolute, Huber, cross entropy.

A reduction is torch's number inside: 0 none, 1 mean, 2 sum. Each `x_backward` is an op of its own
with rules of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import is_narrow
from ag_visual.arrays.kernels import activation
from ag_visual.arrays.kernels.choice import where
from ag_visual.core.source import warn
from ag_visual.dispatch import vmap
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, PROMOTE, ROWS, ErrorSample, Sample
from ag_visual.dispatch.rules import requesting, takes
from ag_visual.dispatch.table import composite, op

NONE, MEAN, SUM = 0, 1, 2
_REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": SUM}


def reduction_of(reduction, size_average=None, reduce=None) -> int:
    """The number of a reduction by name; the old size_average and reduce warn."""
    if size_average is not None or reduce is not None:
        average = True if size_average is None else size_average
        together = True if reduce is None else reduce
        reduction = ("mean" if average else "sum") if together else "none"
        warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead."
        )
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


def reduced_array(values, reduction: int):
    """The values, or their mean or sum; of 16-bit floats that is computed in float32."""
    if reduction == NONE:
        return values
    if is_narrow(values):
        return reduced_array(values.astype(numpy.float32), reduction).astype(values.dtype)
    total = values.sum()
    return total if reduction == SUM else total / values.size


def reduced(F, values, reduction: int):
    """The same of Tensors, where torch makes a loss of smaller ops."""
    if reduction == NONE:
        return values
    return F.mean(values) if reduction == MEAN else F.sum(values)


def _weighted_mean(F, values, weight, reduction: int):
    """Losses times their weights; the mean is divided by the sum of the weights."""
    total = reduced(F, values * weight, SUM if reduction == MEAN else reduction)
    return total / F.sum(weight) if reduction == MEAN else total


def _check_weight(input, weight) -> None:
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError(
            f"Weights and input must have the same size. They have {list(weight.shape)} and "
            f"{list(input.shape)}."
        )


def share_of(self, reduction: int) -> float:
    """What the reduction multiplies each element's gradient with."""
    return 1 / max(math.prod(self.shape), 1) if reduction == MEAN else 1.0


def _shared(grad_output, slope, reduction: int):
    """The backward op of a loss as readers see it: divided by what the mean divides by."""
    share = grad_output * slope
    return share / max(math.prod(slope.shape), 1) if reduction == MEAN else share


def pair_samples(*options: tuple[Any, ...]):
    return lambda make: [Sample((make((3, 4)), make((3, 4)), *args)) for args in options]


def back_samples(*options: tuple[Any, ...]):
    def samples(make):
        for args in options:
            g = make((3, 4)) if args[0] == NONE else make(())
            yield Sample((g, make((3, 4)), make((3, 4)), *args))

    return samples


def _same_size(name: str, input, target) -> None:
    if tuple(input.shape) != tuple(target.shape):
        warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )


loss_op = functools.partial(
    op, jvp=ELEMENTWISE, public=False, batch=vmap.reduced(vmap.elementwise), real_only=True
)
"""A loss of pairs of elements, and its reduction."""


def loss_backward(name: str, kernel: Callable[..., Any], rules: dict[str, Any], **options) -> None:
    """The backward op of such a loss, linear in grad_output."""
    op(
        name,
        kernel,
        vjp=rules,
        jvp={key: LINEAR if key == "grad_output" else ELEMENTWISE for key in rules},
        public=False,
        batch=vmap.reduced_back(vmap.elementwise),
        real_only=True,
        **options,
    )


# Squares and absolute values ----------------------------------------------------------------------


def _mse(xp, self, target, reduction: int = MEAN):
    off = self - target
    return reduced_array(off * off, reduction)


def _mse_backward(xp, grad_output, self, target, reduction: int):
    off = self - target
    return grad_output * (off.dtype.type(2 * share_of(self, reduction)) * off)


loss_backward(
    "mse_loss_backward",
    _mse_backward,
    {
        "grad_output": lambda g, self, target, reduction: (
            g * ((2 * share_of(self, reduction)) * (self - target))
        ),
        "self": lambda g, grad_output, self, reduction: (
            g * (grad_output * (2 * share_of(self, reduction)))
        ),
        "target": lambda g, grad_output, self, reduction: (
            -g * (grad_output * (2 * share_of(self, reduction)))
        ),
    },
    layout=ROWS,
    samples=back_samples((NONE,), (MEAN,), (SUM,)),
    formula=lambda grad_output, self, target, reduction: _shared(
        grad_output, 2 * (self - target), reduction
    ),
)
loss_op(
    "mse_of",
    _mse,
    vjp={
        "self": lambda F, g, self, target, reduction: F.mse_loss_backward(
            g, self, target, reduction
        ),
        "target": lambda F, g, self, target, reduction: F.mse_loss_backward(
            g, target, self, reduction
        ),
    },
    policy=PROMOTE,
    node="MseLossBackward0",
    public_name="mse_loss",
    samples=pair_samples((NONE,), (MEAN,), (SUM,)),
    reference=lambda np, x, t, reduction: [lambda v: v, np.mean, np.sum][reduction]((x - t) ** 2),
    formula=lambda F, self, target, reduction: reduced(F, (self - target) ** 2, reduction),
)


@composite("mse_loss", method=False, spaces="nn.functional", autocast="float32")
def _mse_loss(
    F, input, target, size_average=None, reduce=None, reduction: str = "mean", weight=None
):
    """The mean (or sum, or all) of (input - target)^2, with weights a weighted mean."""
    _same_size("mse_loss", input, target)
    number = reduction_of(reduction, size_average, reduce)
    if weight is not None:
        _check_weight(input, weight)
        return _weighted_mean(F, F.pow(input - target, 2), weight, number)
    return F.mse_of(*F.broadcast_tensors(input, target), number)


@composite("l1_loss", method=False, spaces="nn.functional", autocast="float32")
def _l1_loss(
    F, input, target, size_average=None, reduce=None, reduction: str = "mean", weight=None
):
    """The mean (or sum, or all) of |input - target|, with weights a weighted mean."""
    _same_size("l1_loss", input, target)
    number, values = reduction_of(reduction, size_average, reduce), F.abs(input - target)
    if weight is None:
        return reduced(F, values, number)
    _check_weight(input, weight)
    return _weighted_mean(F, values, weight, number)


def _bowl(name: str, arg: str, value, clipped, slope, curve) -> None:
    """A loss of the difference alone, quadratic inside and linear outside of a bound."""
    title = "".join(part.capitalize() for part in name.split("_")).replace("L1L", "L1L")

    known = ("self", "target", "reduction", arg)

    @takes("xp", "self", "target", reduction=1, **{arg: 1.0})
    def kernel(xp, self, target, reduction: int, bound: float):
        off = self - target
        if off.dtype.kind in "bu":  # of which differences are not
            raise not_implemented(name, dtypes.of_array(off), ". Convert with .float() first.")
        return reduced_array(value(xp, off, bound), reduction)

    def rule(F, g, *known):
        return getattr(F, f"{name}_backward")(g, *known)

    @takes("xp", "grad_output", *known)
    def backward(xp, grad_output, self, target, reduction: int, bound: float):
        return grad_output * (clipped(xp, self - target, bound) * share_of(self, reduction))

    def bend(F, g, grad_output, self, target, reduction: int, bound: float):
        curved = curve(F.where, self - target, bound)
        return g * (grad_output * (curved * share_of(self, reduction)))

    loss_backward(
        f"{name}_backward",
        backward,
        {
            "grad_output": requesting("F", "g", *known)(
                lambda F, g, self, target, reduction, bound: (
                    g * (slope(F.where, self - target, bound) * share_of(self, reduction))
                )
            ),
            "self": requesting("F", "g", "grad_output", *known)(bend),
            "target": requesting("F", "g", "grad_output", *known)(lambda *known: -bend(*known)),
        },
        layout=ROWS,
        samples=back_samples((NONE, 0.8), (MEAN, 1.1), (SUM, 0.5)),
    )
    loss_op(
        f"{name}_of",
        kernel,
        vjp={
            "self": requesting("F", "g", *known)(rule),
            "target": requesting("F", "g", "target", "self", "reduction", arg)(
                lambda *known: rule(*known)
            ),
        },
        policy=PROMOTE,
        node=f"{title}Backward0",
        public_name=name,
        samples=pair_samples((NONE, 0.8), (MEAN, 1.1), (SUM, 0.5)),
    )


# Values and clipped slopes of arrays. Slopes and curves also of Tensors, each with its `where`.
def _huber_value(xp, off, delta: float):
    size = abs(off)
    inside = xp.minimum(size, delta)
    return inside * (size - 0.5 * inside)


def _huber_clipped(xp, off, delta: float):
    return activation.between(xp, off, -delta, delta)


def _huber_slope(where, off, delta: float):
    return where(off < -delta, -delta, where(off > delta, delta, off))


def _huber_curve(where, off, delta: float):
    return where(abs(off) < delta, off * 0 + 1, 0.0)  # as torch's, at the kink too


def _smooth_value(xp, off, beta: float):
    if beta == 1:
        return _huber_value(xp, off, beta)
    size = abs(off)
    return where(xp, size < beta, (0.5 / beta) * (off * off), size - 0.5 * beta)


def _smooth_clipped(xp, off, beta: float):
    return activation.between(xp, off / beta, -1.0, 1.0)


def _smooth_slope(where, off, beta: float):
    return where(off <= -beta, -1.0, where(off >= beta, 1.0, off / beta))


def _smooth_curve(where, off, beta: float):
    return where(abs(off) < beta, off * 0 + 1 / beta, 0.0)


_bowl("huber_loss", "delta", _huber_value, _huber_clipped, _huber_slope, _huber_curve)
_bowl("smooth_l1_loss", "beta", _smooth_value, _smooth_clipped, _smooth_slope, _smooth_curve)


@composite("huber_loss", method=False, spaces="nn.functional", autocast="float32")
def _huber_loss(F, input, target, reduction: str = "mean", delta: float = 1.0, weight=None):
    """d^2 / 2 for |d| <= delta, delta (|d| - delta / 2) beyond, of d = input - target."""
    _same_size("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        _check_weight(input, weight)
        return reduced(
            F, F.huber_loss_of(input, target, NONE, delta) * weight, reduction_of(reduction)
        )
    return F.huber_loss_of(*F.broadcast_tensors(input, target), reduction_of(reduction), delta)


@composite("smooth_l1_loss", method=False, spaces="nn.functional", autocast="float32")
def _smooth_l1_loss(
    F, input, target, size_average=None, reduce=None, reduction: str = "mean", beta: float = 1.0
):
    """d^2 / (2 beta) for |d| < beta, |d| - beta / 2 beyond, of d = input - target."""
    _same_size("smooth_l1_loss", input, target)
    number = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return reduced(F, F.abs(input - target), number)
    return F.smooth_l1_loss_of(*F.broadcast_tensors(input, target), number, float(beta))


# Binary cross entropy -----------------------------------------------------------------------------

_LEAST = 1e-12


def weighted(x, weight):
    return x if weight is None else x * weight


def _bce(xp, self, target, weight=None, reduction: int = MEAN):
    if self.size and not bool(((self >= 0) & (self <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    known = xp.maximum(xp.log(self), -100)
    missed = xp.maximum(xp.log1p(-self), -100)
    return reduced_array(weighted(-(target * known + (1 - target) * missed), weight), reduction)


def _bce_slope(F, self, target, weight, reduction: int):
    slope = (self - target) / F.clamp_min((1 - self) * self, _LEAST)
    return weighted(slope, weight) * share_of(self, reduction)


def _bce_backward(xp, grad_output, self, target, weight=None, reduction: int = MEAN):
    slope = (self - target) / xp.maximum((1 - self) * self, _LEAST)
    return grad_output * (weighted(slope, weight) * share_of(self, reduction))


def _bce_target(F, g, self, target, weight, reduction: int):
    odds = F.log(1 - self) - F.log(self)
    return g * (weighted(odds, weight) * share_of(self, reduction))


def _bce_curve(F, g, grad_output, self, target, weight, reduction: int):
    inner = F.clamp_min((1 - self) * self, _LEAST)
    bend = (self * self - 2 * (self * target) + target) / (inner * inner)
    return g * (grad_output * (weighted(bend, weight) * share_of(self, reduction)))


def _bce_cross(F, g, grad_output, self, weight, reduction: int):
    inner = F.clamp_min((1 - self) * self, _LEAST)
    return -g * (grad_output * (weighted(1 / inner, weight) * share_of(self, reduction)))


def _bce_samples(make):
    for reduction in (NONE, MEAN, SUM):
        x, t = make((3, 4), low=0.1, high=0.9), make((3, 4), low=0.1, high=0.9)
        yield Sample((x, t, None, reduction))
    yield Sample((x, t, make((4,), low=0.2, high=1.0), MEAN))


def _bce_back_samples(make):
    for reduction in (NONE, MEAN):
        x, t = make((3, 4), low=0.1, high=0.9), make((3, 4), low=0.1, high=0.9)
        yield Sample((make((3, 4) if reduction == NONE else ()), x, t, None, reduction))
    yield Sample((make(()), x, t, make((4,), low=0.2, high=1.0), SUM))


loss_backward(
    "binary_cross_entropy_backward",
    _bce_backward,
    {
        "grad_output": lambda F, g, self, target, weight, reduction: (
            g * _bce_slope(F, self, target, weight, reduction)
        ),
        "self": _bce_curve,
        "target": _bce_cross,
    },
    inputs=("grad_output", "self", "target", "weight"),
    samples=_bce_back_samples,
)
loss_op(
    "binary_cross_entropy_of",
    _bce,
    vjp={
        "self": lambda F, g, self, target, weight, reduction: F.binary_cross_entropy_backward(
            g, self, target, weight, reduction
        ),
        "target": _bce_target,
    },
    inputs=("self", "target", "weight"),
    policy=PROMOTE,
    node="BinaryCrossEntropyBackward0",
    public_name="binary_cross_entropy",
    dtype_check=lambda self, target: (
        None
        if self is target
        else f"Found dtype {target.scalar_name} but expected {self.scalar_name}"
    ),
    samples=_bce_samples,
    errors=lambda make: [
        ErrorSample((make((2,)) + 9, make((2,))), RuntimeError, "should be between 0 and 1")
    ],
)


@composite(
    "binary_cross_entropy",
    method=False,
    spaces="nn.functional",
    autocast="cpu float32, cuda banned",
)
def _binary_cross_entropy(
    F, input, target, weight=None, size_average=None, reduce=None, reduction: str = "mean"
):
    """-(t log x + (1 - t) log(1 - x)) of probabilities x; logarithms not below -100."""
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    number = reduction_of(reduction, size_average, reduce)
    return F.binary_cross_entropy_of(input, target, weight, number)


def _bce_logits(xp, self, target, weight=None, pos_weight=None, reduction: int = MEAN):
    log = activation.log_sigmoid(xp, self)
    if pos_weight is None:
        values = (1 - target) * self - log
    else:
        values = (1 - target) * self - (1 + (pos_weight - 1) * target) * log
    return reduced_array(weighted(values, weight), reduction)


def _bce_logits_rule(F, g, self, target, weight, pos_weight, reduction: int):
    if pos_weight is None:
        slope = F.sigmoid(self) - target
    else:
        t = pos_weight * target
        slope = (t + 1 - target) * F.sigmoid(self) - t
    return g * (weighted(slope, weight) * share_of(self, reduction))


def _bce_logits_target(F, g, self, weight, pos_weight, reduction: int):
    slope = -self
    if pos_weight is not None:
        slope = F.logsigmoid(-self) - pos_weight * F.logsigmoid(self)
    return g * (weighted(slope, weight) * share_of(self, reduction))


def _bce_logits_samples(make):
    x, t = make((3, 4)), make((3, 4), low=0.0, high=1.0)
    for reduction in (NONE, MEAN, SUM):
        yield Sample((x, t, None, None, reduction))
    yield Sample((x, t, make((4,), low=0.2, high=1), make((4,), low=0.5, high=2), MEAN))


def _logits_alike(self, target) -> str | None:
    """Classes as whole numbers are no targets: the loss is computed in their dtype."""
    if target.category > 1:
        return None
    return (
        f"result type {self.scalar_name} can't be cast to the desired output type "
        f"{target.scalar_name}: targets are probabilities"
    )


loss_op(
    "binary_cross_entropy_with_logits_of",
    _bce_logits,
    vjp={"self": _bce_logits_rule, "target": _bce_logits_target},
    inputs=("self", "target", "weight", "pos_weight"),
    policy=PROMOTE,
    node="BinaryCrossEntropyWithLogitsBackward0",
    public_name="binary_cross_entropy_with_logits",
    dtype_check=_logits_alike,
    samples=_bce_logits_samples,
)


@composite(
    "binary_cross_entropy_with_logits",
    method=False,
    spaces="torch nn.functional",
    autocast="float32",
)
def _binary_cross_entropy_with_logits(
    F,
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction: str = "mean",
    pos_weight=None,
):
    """binary_cross_entropy of sigmoid(input), without overflow."""
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    number = reduction_of(reduction, size_average, reduce)
    return F.binary_cross_entropy_with_logits_of(input, target, weight, pos_weight, number)
