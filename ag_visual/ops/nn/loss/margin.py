"""Losses of margins between classes, and between near and far examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels.activation import softplus
from ag_visual.dispatch import dtype_errors, vmap
from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op, raw
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.nn.loss.pointwise import (
    MEAN,
    NONE,
    SUM,
    _back_samples,
    _pair_samples,
    _share,
    reduced,
    reduction_of,
)

# Of one pair of signs -----------------------------------------------------------------------------


def _soft_margin(xp: Any, self: Any, target: Any, reduction: int = MEAN) -> Any:
    values = softplus(xp, -target * self)
    if reduction == NONE:
        return values
    return values.sum() if reduction == SUM else values.sum() / values.size


def _soft_slope(F: Any, self: Any, target: Any, reduction: int) -> Any:
    return -target * (F.sigmoid(-target * self) * _share(self, reduction))


def _soft_backward(xp: Any, grad_output: Any, self: Any, target: Any, reduction: int) -> Any:
    return grad_output * _soft_slope(raw(xp), self, target, reduction)


def _soft_curve(F: Any, g: Any, grad_output: Any, self: Any, target: Any, reduction: int) -> Any:
    z = F.sigmoid(-target * self)
    return g * (grad_output * (target * target * (z * (1 - z)) * _share(self, reduction)))


op(
    "soft_margin_loss_backward",
    _soft_backward,
    vjp={
        "grad_output": lambda F, g, self, target, reduction: (
            g * _soft_slope(F, self, target, reduction)
        ),
        "self": _soft_curve,
    },
    jvp={"grad_output": LINEAR, "self": ELEMENTWISE},
    inputs=("grad_output", "self", "target"),
    public=False,
    batch=vmap.reduced_back(vmap.elementwise),
    samples=_back_samples((NONE,), (MEAN,), (SUM,)),
    real_only=True,
)
op(
    "soft_margin_of",
    _soft_margin,
    vjp={
        "self": lambda F, g, self, target, reduction: F.soft_margin_loss_backward(
            g, self, target, reduction
        )
    },
    jvp=ELEMENTWISE,
    inputs=("self", "target"),
    public=False,
    node="SoftMarginLossBackward0",
    public_name="soft_margin_loss",
    oracle="_C._nn.soft_margin_loss",
    batch=vmap.reduced(vmap.elementwise),
    samples=_pair_samples((NONE,), (MEAN,), (SUM,)),
    real_only=True,
)


@composite("soft_margin_loss", method=False, spaces="nn.functional")
def _soft_margin_loss(
    F: Any,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """log(1 + exp(-target * input))."""
    number = reduction_of(reduction, size_average, reduce)
    if F.traced and target.dtype is not input.dtype:
        target = target.to(input.dtype)
    return F.soft_margin_of(*F.broadcast_tensors(input, target), number)


# Of classes ---------------------------------------------------------------------------------------


def _check_scores(self: Any) -> None:
    if self.ndim > 2 or (self.ndim and self.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self.shape)}"
        )


def _rows(x: Any) -> Any:
    return x.reshape((1, -1)) if x.ndim < 2 else x


def _collected(total: Any, shape: tuple[int, ...], reduction: int) -> Any:
    """The losses of the rows, reduced; one row alone has no dimension."""
    if reduction == NONE and len(shape) > 1:
        return total
    result = total.sum()
    return result / max(shape[0], 1) if reduction == MEAN and len(shape) > 1 else result


def _spread(g: Any, self: Any, reduction: int) -> Any:
    """The gradient of each row's loss."""
    if reduction == MEAN and self.ndim > 1:
        g = g / self.shape[0]
    return g.reshape((-1, 1))


def _check_multi_margin(self: Any, target: Any, weight: Any) -> None:
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


def _violations(F: Any, x: Any, target: Any, margin: float) -> tuple[Any, Any]:
    """By how much each class comes too near to the target's score (0 where it doesn't)."""
    classes = x.shape[1]
    picked = target.reshape((-1, 1))
    z = x - F.gather(x, 1, picked) + margin
    counted = (z > 0) & (F.index_of(x, list(range(classes))) != picked)
    return z, counted


def _margin_slices(batch: Batch) -> Any:
    """The losses of all rows, each with its class's weight, then the reduction of each slice."""
    F, size = batch.F, batch.size
    x, target = batch.full("self"), F.reshape(batch.full("target"), (size, -1))
    rows = F.reshape(x, (-1, x.shape[-1]))
    losses = batch.run(self=rows, target=F.reshape(target, (-1,)), weight=None, reduction=NONE)
    losses = F.reshape(losses, (size, *batch.shape("target")))
    if batch["weight"] is not None:
        used = F.gather(batch.full("weight"), 1, target)
        losses = losses * F.reshape(used, tuple(losses.shape))
    return vmap.collected(batch, losses)


def _multi_margin(
    xp: Any,
    self: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: int = MEAN,
) -> Any:
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


def _multi_margin_rule(
    F: Any, g: Any, self: Any, target: Any, p: int, margin: float, weight: Any, reduction: int
) -> Any:
    x = _rows(self)
    z, counted = _violations(F, x, target, margin)
    share = _spread(g, self, reduction) / x.shape[1]
    if weight is not None:
        share = share * F.index_select(weight, 0, target.reshape((-1,))).reshape((-1, 1))
    each = F.where(counted, share * (2 * z if p == 2 else z * 0 + 1), 0.0)
    both = F.scatter_add(each, 1, target.reshape((-1, 1)), -F.sum(each, 1, True))
    return both.reshape(tuple(self.shape))


def _classes(make: Any, shape: tuple[int, ...], count: int) -> Any:
    return make(shape, low=0.0, high=count - 0.01).astype(int)


def _multi_margin_samples(make: Any) -> Iterator[Sample]:
    target = _classes(make, (3,), 5)
    for p, reduction in ((1, MEAN), (2, SUM), (2, NONE)):
        yield Sample((make((3, 5)), target, p, 0.7, None, reduction))
    yield Sample((make((3, 5)), target, 1, 1.0, make((5,), low=0.3, high=2.0), MEAN))
    yield Sample((make((5,)), target[:1], 2, 1.0, None, MEAN))


op(
    "multi_margin_of",
    _multi_margin,
    vjp={"self": _multi_margin_rule},
    inputs=("self", "target", "weight"),
    public=False,
    node="MultiMarginLossBackward0",
    public_name="multi_margin_loss",
    dtype_check=lambda self, weight: dtype_errors.scalar_type(self, weight),
    oracle="_C._nn.multi_margin_loss",
    batch=_margin_slices,
    samples=_multi_margin_samples,
    errors=lambda make: iter(
        [
            ErrorSample(
                (make((3, 4)), _classes(make, (2,), 4)), RuntimeError, "Expected target size [3]"
            ),
            ErrorSample(
                (make((3, 4)), _classes(make, (3,), 4) + 9), RuntimeError, "target out of range"
            ),
        ]
    ),
    real_only=True,
)


@composite("multi_margin_loss", method=False, spaces="nn.functional")
def _multi_margin_loss(
    F: Any,
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """sum over i != y of max(0, margin - x[y] + x[i])^p, divided by the number of classes."""
    number = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    return F.multi_margin_of(input, target, p, margin, weight, number)


def _check_labels(self: Any, target: Any) -> None:
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


def _listed(xp: Any, target: Any) -> tuple[Any, Any]:
    """Each row's classes up to the first -1 (0 behind it), and which places are among them."""
    rows = _rows(target)
    there = xp.cumsum(rows < 0, axis=1) == 0
    count = int(there.sum(axis=1).max()) if there.size else 0
    return xp.where(there, rows, 0)[:, :count], there[:, :count]


def _label_slices(batch: Batch) -> Any:
    F = batch.F
    x, target = batch.full("self"), batch.full("target")
    rows = (-1, x.shape[-1])
    losses, named = batch.run(
        self=F.reshape(x, rows), target=F.reshape(target, rows), reduction=NONE
    )
    losses = F.reshape(losses, tuple(x.shape[:-1]))
    return vmap.collected(batch, losses), F.reshape(named, tuple(x.shape))


def _multilabel_margin(xp: Any, self: Any, target: Any, reduction: int = MEAN) -> tuple[Any, Any]:
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


def _distances(F: Any, x: Any, classes: Any) -> Any:
    """(N, listed, C): 1 - (x[listed] - x[i])."""
    return 1 - F.unsqueeze(F.gather(x, 1, classes), 2) + F.unsqueeze(x, 1)


def _multilabel_margin_rule(
    F: Any, g: Any, self: Any, target: Any, is_target: Any, reduction: int
) -> Any:
    x, array = _rows(self), getattr(target, "_array", target)
    classes, there = _on_face(F, target, array)
    z = _distances(F, x, classes)
    counted = (z > 0) & F.unsqueeze(there, 2) & F.unsqueeze(_rows(is_target) == 0, 1)
    share = F.unsqueeze(_spread(g, self, reduction) / x.shape[1], 2)
    each = F.where(counted, share + z * 0, 0.0)
    both = F.scatter_add(F.sum(each, 1), 1, classes, -F.sum(each, 2))
    return both.reshape(tuple(self.shape))


def _on_face(F: Any, target: Any, array: Any) -> tuple[Any, Any]:
    """`_listed`, as the face's own kind of array."""
    from ag_visual.arrays.backend import backend_of
    from ag_visual.core.tensor import from_array

    found = _listed(backend_of(array).xp, array)
    return (from_array(found[0]), from_array(found[1])) if F.traced else found


def _multilabel_samples(make: Any) -> Iterator[Sample]:
    import numpy

    target = numpy.array([[3, 0, -1, 1], [1, 2, 0, 3], [-1, 0, 0, 0]])
    for reduction in (MEAN, SUM, NONE):
        yield Sample((make((3, 4)), target, reduction))
    yield Sample((make((4,)), target[0], MEAN))


op(
    "multilabel_margin_of",
    _multilabel_margin,
    vjp={"self": _multilabel_margin_rule},
    inputs=("self", "target"),
    outputs=("output", "is_target"),
    differentiable=(0,),
    public=False,
    node="MultilabelMarginLossBackward0",
    public_name="multilabel_margin_loss",
    oracle="_C._nn.multilabel_margin_loss",
    batch=_label_slices,
    samples=_multilabel_samples,
    errors=lambda make: iter(
        [
            ErrorSample(
                (make((3, 4)), _classes(make, (3, 3), 4)), RuntimeError, "inconsistent target size"
            ),
            ErrorSample(
                (make((3, 4)), _classes(make, (3, 4), 4) + 9), RuntimeError, "is out of range"
            ),
        ]
    ),
    real_only=True,
)


@composite("multilabel_margin_loss", method=False, spaces="nn.functional")
def _multilabel_margin_loss(
    F: Any,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """sum over listed y and others i of max(0, 1 - (x[y] - x[i])), divided by the classes.

    target: each row's classes, ended by -1 where there are fewer than classes.
    """
    number = reduction_of(reduction, size_average, reduce)
    return F.multilabel_margin_of(input, target, number)[0]


# Of near and far examples -------------------------------------------------------------------------


def _check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


@composite("triplet_margin_loss", method=False, spaces="torch nn.functional")
def _triplet_margin_loss(
    F: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    _check_margin(margin)

    def distance(a: Any, b: Any) -> Any:
        return F.pairwise_distance(a, b, p, eps)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    loss = F.clamp_min(margin + near - far, 0)
    return reduced(F, loss, reduction_of(reduction, size_average, reduce))


@composite("triplet_margin_with_distance_loss", method=False, spaces="nn.functional")
def _triplet_margin_with_distance_loss(
    F: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
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
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    return reduced(F, F.clamp_min(margin + near - far, 0), number)


# Of a linear layer's outputs ----------------------------------------------------------------------


@composite("linear_cross_entropy", method=False, spaces="nn.functional")
def _linear_cross_entropy(
    F: Any,
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
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
