"""nll_loss and its backward: one value picked per row, weighted, summed or averaged.

Layer 1. `logp` is (C,), (N, C) or (N, C, d1, ...), `target` has the class dimension removed and is
int64. Reductions are torch's numbers: 0 none, 1 mean, 2 sum. Nothing returned aliases an input.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.bounds import first_outside
from ag_visual.arrays.kernels.rows import summed
from ag_visual.arrays.kernels.softmax import log_softmax

NONE = 0
MEAN = 1
SUM = 2


_I64, _U64 = numpy.dtype(numpy.int64), numpy.dtype(numpy.uint64)
# A row's label takes NumPy as long as a compiled kernel takes for so many elements.
_WORTH = 64


@functools.lru_cache(maxsize=16)
def _row_starts(rows: int, width: int) -> Array:
    return numpy.arange(0, rows * width, width)


def _flat(xp: Any, matrix: Array, classes: Array) -> Array | None:
    """Where in the memory of a (N, C) matrix the class of each row is; None where that is no gain.

    One index into memory is read and written three times as fast as a pair of indices.
    """
    if xp is not numpy or not matrix.flags.c_contiguous or matrix.size > 1 << 16:
        return None
    return classes + _row_starts(*matrix.shape)


def _selection(
    xp: Any, logp: Array, target: Array, weight: Array | None, ignore_index: int
) -> tuple[Array, Array | None, Array | None]:
    """The classes to pick (0 where ignored), the mask of counted positions, their weights.

    The mask is None when every position counts, the weights are None when all are 1.
    """
    classes = logp.shape[1] if logp.ndim > 1 else logp.shape[0]
    counted = None
    # As unsigned numbers, negative ones are larger than any class: one search finds both.
    unsigned = target.view(_U64) if target.dtype == _I64 else target
    if target.size and unsigned.reshape(-1)[unsigned.argmax()] >= classes:
        counted = target != ignore_index
        target = xp.where(counted, target, xp.zeros_like(target))
        if int(target.min()) < 0 or int(target.max()) >= classes:
            raise IndexError(
                f"Target {first_outside(xp, target, classes)} is out of bounds. There are "
                f"{classes} classes and ignore_index is {ignore_index}"
            )
    elif 0 <= ignore_index < classes:
        counted = target != ignore_index
    weights = None if weight is None else weight[target]
    if counted is not None:
        weights = (
            counted.astype(logp.dtype)
            if weights is None
            else xp.where(counted, weights, xp.zeros_like(weights))
        )
    return target, counted, weights


def _of_rows(xp: Any, logp: Array, target: Array) -> bool:
    """Whether a compiled kernel is to look up the classes."""
    return (
        fast.wanted(xp, _WORTH * target.size)
        and logp.ndim == 2
        and target.dtype == _I64
        and target.flags.carray
    )


def nll_loss(
    xp: Any,
    logp: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> tuple[Array, Array]:
    """-w[t] * logp[t] per position, and the sum of the weights used (0-d, 0 for reduction none).

    The mean divides by that sum: all positions ignored, or none given, is 0 / 0 = nan.
    """
    if weight is None and reduction != NONE and _of_rows(xp, logp, target):
        run = fast.kernel("nll_loss", logp)
        if run is not None:
            loss, total = numpy.empty((), logp.dtype), numpy.empty((), logp.dtype)
            run(logp, target, ignore_index, reduction == MEAN, loss, total)
            if total >= 0:
                return loss, total
    classes, counted, weights = _selection(xp, logp, target, weight, ignore_index)
    if logp.ndim == 1:
        picked = logp[classes]
    elif logp.ndim == 2:
        flat = _flat(xp, logp, classes)
        if flat is None:
            picked = logp[xp.arange(classes.size), classes]
        else:
            picked = logp.reshape(-1).take(flat)
    else:
        picked = xp.take_along_axis(logp, xp.expand_dims(classes, 1), axis=1)
        picked = picked.reshape(target.shape)
    if weights is None and reduction != NONE and logp.dtype.itemsize > 2:
        total = xp.asarray(target.size, dtype=logp.dtype)
        loss = 0 - picked.sum()  # and not the -0.0 of none
        return xp.asarray(loss / total if reduction == MEAN else loss), total
    picked = xp.asarray(-picked)
    if weights is not None:
        picked = picked * weights
    if counted is not None:
        picked = xp.where(counted, picked, xp.zeros_like(picked))
    if reduction == NONE:
        return xp.asarray(picked), xp.zeros((), logp.dtype)
    used = target.size if weights is None else summed(xp, weights, None)
    total = xp.asarray(used, dtype=logp.dtype)
    if logp.dtype.itemsize == 2:
        loss = picked.sum(dtype=xp.float32)
        loss = loss / total.astype(xp.float32) if reduction == MEAN else loss
        return xp.asarray(loss, dtype=logp.dtype), total
    loss = picked.sum()
    return xp.asarray(loss / total if reduction == MEAN else loss), total


def of_scores(
    xp: Any, scores: Array, target: Array, reduction: int, ignore_index: int
) -> tuple[Array, Array, Array] | None:
    """log_softmax of rows, and what `nll_loss` gives for it; None for what takes two calls."""
    if xp is not numpy or scores.ndim != 2 or reduction == NONE or target.dtype != _I64:
        return None
    if not scores.size or target.shape != scores.shape[:1] or not scores.flags.c_contiguous:
        return None
    if fast.wanted(xp, _WORTH * target.size) and target.flags.carray:
        run = fast.kernel("of_scores", scores)
        if run is not None:
            kind = scores.dtype
            logp = numpy.empty(scores.shape, kind)
            loss, total = numpy.empty((), kind), numpy.empty((), kind)
            run(scores, target, ignore_index, reduction == MEAN, logp, loss, total)
            return (logp, loss, total) if total >= 0 else None
    logp = log_softmax(xp, scores, 1)
    return logp, *nll_loss(xp, logp, target, None, reduction, ignore_index)


def nll_loss_backward(
    xp: Any,
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    total_weight: Any = None,
) -> Array:
    """-w[t] * grad_output where a class was picked, 0 elsewhere; the mean's by `total_weight`."""
    if weight is None and reduction != NONE and _of_rows(xp, self, target):
        run = fast.kernel("nll_loss_backward", self, grad_output, total_weight)
        if run is not None:
            grad = numpy.empty(self.shape, self.dtype)
            if run(grad_output, total_weight, reduction == MEAN, target, ignore_index, grad):
                return grad
    if weight is None and reduction == MEAN and total_weight == target.size:
        # Every position counted, and the forward has checked the classes.
        classes, counted, weights = target, None, None
    else:
        classes, counted, weights = _selection(xp, self, target, weight, ignore_index)
    value = -grad_output / total_weight if reduction == MEAN else -grad_output
    if weights is not None:
        value = value * weights
    if counted is not None:
        value = xp.where(counted, value, xp.zeros_like(value))
    grad = xp.zeros(self.shape, self.dtype)
    if self.ndim == 1:
        grad[classes] = value
    elif self.ndim == 2:
        flat = _flat(xp, grad, classes)
        if flat is None:
            grad[xp.arange(classes.size), classes] = value
        else:
            grad.reshape(-1)[flat] = value
    else:
        rows = self.shape[0]
        inner = target.size // rows if rows else 0
        flat = grad.reshape(rows, self.shape[1], inner)
        value = xp.broadcast_to(value, target.shape).reshape(rows, inner)
        flat[
            xp.arange(rows).reshape(rows, 1),
            classes.reshape(rows, inner),
            xp.arange(inner).reshape(1, inner),
        ] = value
    return grad
