"""Losses of margins between classes, and between near and far examples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels.activation import softplus
from ag_visual.core.level import all_values
from ag_visual.dispatch import dtype_errors, vmap
from ag_visual.dispatch.record import UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.rules import calls
from ag_visual.dispatch.table import composite, op, raw
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.nn.loss.pointwise import (
    MEAN,
    NONE,
    SUM,
    back_samples,
    loss_backward,
    loss_op,
    pair_samples,
    reduced,
    reduced_array,
    reduction_of,
    share_of,
)

# Of one pair of signs -----------------------------------------------------------------------------


def _soft_margin(xp, self, target, reduction: int = MEAN):
    return reduced_array(softplus(xp, -target * self), reduction)


def _soft_slope(F, self, target, reduction: int):
    return -target * (F.sigmoid(-target * self) * share_of(self, reduction))


def _soft_backward(xp, grad_output, self, target, reduction: int):
    return grad_output * _soft_slope(raw(xp), self, target, reduction)


def _soft_curve(F, g, grad_output, self, target, reduction: int):
    z = F.sigmoid(-target * self)
    return g * (grad_output * (target * target * (z * (1 - z)) * share_of(self, reduction)))


loss_backward(
    "soft_margin_loss_backward",
    _soft_backward,
    {
        "grad_output": lambda F, g, self, target, reduction: (
            g * _soft_slope(F, self, target, reduction)
        ),
        "self": _soft_curve,
    },
    inputs=("grad_output", "self", "target"),
    samples=back_samples((NONE,), (MEAN,), (SUM,)),
)
loss_op(
    "soft_margin_of",
    _soft_margin,
    vjp={"self": calls("soft_margin_loss_backward", "g", "self", "target", "reduction")},
    inputs=("self", "target"),
    node="SoftMarginLossBackward0",
    public_name="soft_margin_loss",
    oracle="_C._nn.soft_margin_loss",
    samples=pair_samples((NONE,), (MEAN,), (SUM,)),
)


@composite("soft_margin_loss", method=False, spaces="nn.functional", autocast="float32")
def _soft_margin_loss(F, input, target, size_average=None, reduce=None, reduction: str = "mean"):
    """log(1 + exp(-target * input))."""
    number = reduction_of(reduction, size_average, reduce)
    if F.traced and target.dtype is not input.dtype:
        target = target.to(input.dtype)
    return F.soft_margin_of(*F.broadcast_tensors(input, target), number)


# Of classes ---------------------------------------------------------------------------------------


def _check_scores(self) -> None:
    if self.ndim > 2 or (self.ndim and self.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self.shape)}"
        )


def _rows(x):
    return x.reshape((1, -1)) if x.ndim < 2 else x


def _collected(total, shape: tuple[int, ...], reduction: int):
    """The losses of the rows, reduced; one row alone has no dimension."""
    if reduction == NONE and len(shape) > 1:
        return total
    result = total.sum()
    return result / max(shape[0], 1) if reduction == MEAN and len(shape) > 1 else result


def _spread(g, self, reduction: int):
    """The gradient of each row's loss."""
    if reduction == MEAN and self.ndim > 1:
        g = g / self.shape[0]
    return g.reshape((-1, 1))


def _check_multi_margin(self, target, weight) -> None:
    _check_scores(self)
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    rows, classes = (1, self.size) if self.ndim < 2 else self.shape
    if target.ndim > 1 or target.size != rows:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{rows}], but got {list(target.shape)}. "
            f"Input has shape {list(self.shape)}."
        )
    if target.size and (int(target.min()) < 0 or int(target.max()) >= classes):
        raise RuntimeError(f"target out of range\nThere are {classes} classes.")
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )


def _violations(F, x, target, margin: float) -> tuple[Any, Any]:
    """By how much each class comes too near to the target's score (0 where it doesn't)."""
    classes = x.shape[1]
    picked = target.reshape((-1, 1))
    z = x - F.gather(x, 1, picked) + margin
    counted = (z > 0) & (F.index_of(x, list(range(classes))) != picked)
    return z, counted


def _margin_slices(batch: Batch):
    """The losses of all rows, each with its class's weight, then the reduction of each slice."""
    F, size = batch.F, batch.size
    x, target = batch.full("self"), F.reshape(batch.full("target"), (size, -1))
    x = x if x.ndim > 1 else F.unsqueeze(x, 1)
    rows = F.reshape(x, (-1, x.shape[-1]))
    losses = batch.run(self=rows, target=F.reshape(target, (-1,)), weight=None, reduction=NONE)
    losses = F.reshape(losses, (size, *batch.shape("target")))
    if batch["weight"] is not None:
        used = F.gather(batch.full("weight"), 1, target)
        losses = losses * F.reshape(used, tuple(losses.shape))
    return vmap.collected(batch, losses)


def _multi_margin(
    xp, self, target, p: int = 1, margin: float = 1.0, weight=None, reduction: int = MEAN
):
    _check_multi_margin(self, target, weight)
    if target.dtype != numpy.int64:
        raise RuntimeError(
            f"expected scalar type Long but found {dtypes.of_array(target).scalar_name}"
        )
    x = _rows(self)
    z, counted = _violations(raw(xp), x, target, margin)
    z = xp.where(counted, z, 0).astype(self.dtype, copy=False)
    total = (z * z if p == 2 else z).sum(axis=1) / x.shape[1]
    if weight is not None:
        total = total * weight[target.reshape(-1)]
    if reduction == NONE:
        return total.reshape(target.shape)  # a row alone has the dimensions of its target
    return _collected(total, self.shape, reduction)


def _multi_margin_rule(F, g, self, target, p: int, margin: float, weight, reduction: int):
    x = _rows(self)
    z, counted = _violations(F, x, target, margin)
    share = _spread(g, self, reduction) / x.shape[1]
    if weight is not None:
        share = share * F.index_select(weight, 0, target.reshape((-1,))).reshape((-1, 1))
    each = F.where(counted, share * (2 * z if p == 2 else z * 0 + 1), 0.0)
    both = F.scatter_add(each, 1, target.reshape((-1, 1)), -F.sum(each, 1, True))
    return both.reshape(tuple(self.shape))


def _classes(make, shape: tuple[int, ...], count: int):
    return make(shape, low=0.0, high=count - 0.01).astype(int)


def _multi_margin_samples(make):
    target = _classes(make, (3,), 5)
    for p, reduction in ((1, MEAN), (2, SUM), (2, NONE)):
        yield Sample((make((3, 5)), target, p, 0.7, None, reduction))
    yield Sample((make((3, 5)), target, 1, 1.0, make((5,), low=0.3, high=2.0), MEAN))
    yield Sample((make((5,)), target[:1], 2, 1.0, None, MEAN))


op(
    "multi_margin_of",
    _multi_margin,
    vjp={"self": _multi_margin_rule},
    aten="multi_margin_loss",
    inputs=("self", "target", "weight"),
    public=False,
    node="MultiMarginLossBackward0",
    public_name="multi_margin_loss",
    dtype_check=lambda self, weight: dtype_errors.scalar_type(self, weight),
    oracle="_C._nn.multi_margin_loss",
    batch=_margin_slices,
    samples=_multi_margin_samples,
    errors=lambda make: [
        ErrorSample(
            (make((3, 4)), _classes(make, (2,), 4)), RuntimeError, "Expected target size [3]"
        ),
        ErrorSample(
            (make((3, 4)), _classes(make, (3,), 4) + 9), RuntimeError, "target out of range"
        ),
    ],
    real_only=True,
)


@composite("multi_margin_loss", method=False, spaces="nn.functional", autocast="float32")
def _multi_margin_loss(
    F,
    input,
    target,
    p: int = 1,
    margin: float = 1.0,
    weight=None,
    size_average=None,
    reduce=None,
    reduction: str = "mean",
):
    """sum over i != y of max(0, margin - x[y] + x[i])^p, divided by the number of classes."""
    number = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    return F.multi_margin_of(input, target, p, margin, weight, number)


def _check_labels(self, target) -> None:
    _check_scores(self)
    if target.shape != self.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}"
        )
    classes = self.shape[-1] if self.ndim else 1
    if target.size and (int(target.min()) < -1 or int(target.max()) >= classes):
        raise RuntimeError(
            f"argument #2 'target' is out of range: classes go from 0 to {classes - 1}, and "
            "-1 ends the list"
        )


def _listed(xp, target) -> tuple[Any, Any]:
    """Each row's classes up to the first -1 (0 behind it), and which places are among them."""
    rows = _rows(target)
    there = xp.cumsum(rows < 0, axis=1) == 0
    count = int(there.sum(axis=1).max()) if there.size else 0
    return xp.where(there, rows, 0)[:, :count], there[:, :count]


def _label_slices(batch: Batch):
    F = batch.F
    x, target = batch.full("self"), batch.full("target")
    shape = tuple(x.shape)
    lead = shape if len(shape) == 1 else shape[:-1]
    rows = (-1, 1 if len(shape) == 1 else shape[-1])
    losses, named = batch.run(
        self=F.reshape(x, rows), target=F.reshape(target, rows), reduction=NONE
    )
    losses = F.reshape(losses, lead)
    return vmap.collected(batch, losses), F.reshape(named, shape)


def _multilabel_margin(xp, self, target, reduction: int = MEAN) -> tuple[Any, Any]:
    _check_labels(self, target)
    x = _rows(self)
    classes, there = _listed(xp, target)
    named = xp.zeros(x.shape, bool)
    if classes.size:
        hits = classes[:, :, None] == xp.arange(x.shape[1])
        named = (hits & there[:, :, None]).any(axis=1)
    z = _distances(raw(xp), x, classes)
    counted = (z > 0) & there[:, :, None] & ~named[:, None, :]
    total = xp.where(counted, z, 0).sum(axis=(1, 2)) / x.shape[1]
    result = _collected(total.astype(self.dtype, copy=False), self.shape, reduction)
    return result, named.astype(self.dtype).reshape(target.shape)


def _distances(F, x, classes):
    """(N, listed, C): 1 - (x[listed] - x[i])."""
    return 1 - F.unsqueeze(F.gather(x, 1, classes), 2) + F.unsqueeze(x, 1)


def _multilabel_margin_rule(F, g, self, target, is_target, reduction: int):
    x, rows = _rows(self), _rows(target)
    there = F.cumsum(F.cast(rows < 0, dtypes.int64.np), 1) == 0
    count = int(all_values(there).sum(axis=-1).max()) if rows.shape[0] else 0
    classes = F.narrow(F.where(there, rows, 0), 1, 0, count)
    there = F.narrow(there, 1, 0, count)
    z = _distances(F, x, classes)
    counted = (z > 0) & F.unsqueeze(there, 2) & F.unsqueeze(_rows(is_target) == 0, 1)
    share = F.unsqueeze(_spread(g, self, reduction) / x.shape[1], 2)
    each = F.where(counted, share + z * 0, 0.0)
    both = F.scatter_add(F.sum(each, 1), 1, classes, -F.sum(each, 2))
    return both.reshape(tuple(self.shape))


def _multilabel_samples(make):
    target = numpy.array([[3, 0, -1, 1], [1, 2, 0, 3], [-1, 0, 0, 0]])
    for reduction in (MEAN, SUM, NONE):
        yield Sample((make((3, 4)), target, reduction))
    yield Sample((make((4,)), target[0], MEAN))


op(
    "multilabel_margin_of",
    _multilabel_margin,
    vjp={"self": _multilabel_margin_rule},
    aten="multilabel_margin_loss_forward",
    inputs=("self", "target"),
    outputs=("output", "is_target"),
    differentiable=(0,),
    public=False,
    node="MultilabelMarginLossBackward0",
    public_name="multilabel_margin_loss",
    oracle="_C._nn.multilabel_margin_loss",
    batch=_label_slices,
    samples=_multilabel_samples,
    errors=lambda make: [
        ErrorSample(
            (make((3, 4)), _classes(make, (3, 3), 4)), RuntimeError, "inconsistent target size"
        ),
        ErrorSample((make((3, 4)), _classes(make, (3, 4), 4) + 9), RuntimeError, "is out of range"),
    ],
    real_only=True,
)


@composite("multilabel_margin_loss", method=False, spaces="nn.functional", autocast="float32")
def _multilabel_margin_loss(
    F, input, target, size_average=None, reduce=None, reduction: str = "mean"
):
    """sum over listed y and others i of max(0, 1 - (x[y] - x[i])), divided by the classes.

    target: each row's classes, ended by -1 where there are fewer than classes.
    """
    number = reduction_of(reduction, size_average, reduce)
    return F.multilabel_margin_of(input, target, number)[0]


# Of near and far examples -------------------------------------------------------------------------


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


@composite("triplet_margin_loss", method=False, spaces="torch nn.functional", autocast="float32")
def _triplet_margin_loss(
    F,
    anchor,
    positive,
    negative,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average=None,
    reduce=None,
    reduction: str = "mean",
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    _check_margin(margin)

    number = reduction_of(reduction, size_average, reduce)
    distance = functools.partial(F.pairwise_distance, p=p, eps=eps)
    return _triplets(F, distance, anchor, positive, negative, margin, swap, number)


def _triplets(F, distance, anchor, positive, negative, margin: float, swap: bool, number: int):
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    return reduced(F, F.clamp_min(margin + near - far, 0), number)


@composite(
    "triplet_margin_with_distance_loss", method=False, spaces="nn.functional", profiled=UNSEEN
)
def _triplet_margin_with_distance_loss(
    F,
    anchor,
    positive,
    negative,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
):
    """triplet_margin_loss with any distance (pairwise_distance, if none is given)."""
    number = reduction_of(reduction)
    _check_margin(margin)
    distance = F.pairwise_distance if distance_function is None else distance_function
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    return _triplets(F, distance, anchor, positive, negative, margin, swap, number)


# Of a linear layer's outputs ----------------------------------------------------------------------


@composite("linear_cross_entropy", method=False, spaces="nn.functional", profiled=UNSEEN)
def _linear_cross_entropy(
    F,
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options=None,
):
    """cross_entropy of linear(input, linear_weight, linear_bias).

    input: (features) or (N, features); linear_weight: (classes, d1, ..., features). options say how
    torch cuts the batch to save memory; the result does not depend on them, nor does this function.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    features, (classes, *inner, expected) = input.shape[-1], linear_weight.shape
    if features != expected:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {expected}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *inner):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *inner)}, got {tuple(linear_bias.shape)}"
        )
    if inner and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    shape = (*tuple(input.shape)[:-1], classes, *inner)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if inner:
        linear_weight = linear_weight.reshape((-1, features))
        linear_bias = None if linear_bias is None else linear_bias.reshape((-1,))
    scores = F.reshape(F.linear(input, linear_weight, linear_bias), shape)
    ignored = -100 if ignore_index is None else ignore_index
    return F.cross_entropy(scores, target, weight, None, ignored, None, reduction, label_smoothing)
