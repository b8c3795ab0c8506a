"""Connectionist temporal classification: forward and backward variables in log space.

Layer 1. One step per time, over the whole batch and all labels at once. Source: Graves et al.,
Connectionist Temporal Classification (ICML 2006). `labels` are the targets with a blank before,
between and after, (N, L); lengths are arrays of N.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.backend import Array


def extended(xp: Any, targets: Array, lengths: Any, blank: int) -> Array:
    """(N, 2 S + 1): targets, padded (N, S) or joined in one row, with blanks around each."""
    longest = int(max(lengths, default=0))
    rows = xp.full((len(lengths), 2 * longest + 1), blank, xp.int64)
    if longest == 0:
        return rows
    if targets.ndim == 2:
        rows[:, 1::2] = targets[:, :longest]
        return rows
    starts = numpy.cumsum([0, *lengths[:-1]]).tolist()
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        rows[row, 1 : 2 * length : 2] = targets[start : start + length]
    return rows


def _added(xp: Any, first: Array, *others: Array) -> Array:
    """log(sum(exp(terms))), where all may be -inf."""
    for other in others:
        first = xp.logaddexp(first, other)
    return first


def _emitted(xp: Any, log_probs: Array, labels: Array) -> Array:
    """(T, N, L): the log-probability of each label at each time."""
    index = xp.broadcast_to(labels[None], (log_probs.shape[0], *labels.shape))
    return xp.take_along_axis(log_probs, index, axis=2)


def _skips(xp: Any, labels: Array, dtype: Any) -> Array:
    """(N, L - 2): 0 where a label may follow the one before the last, -inf where it may not."""
    same = labels[:, 2:] == labels[:, :-2]
    return xp.where(same, -xp.inf, 0.0).astype(dtype)


def _shifted(xp: Any, values: Array, by: int, back: bool, skips: Array | None = None) -> Array:
    """The values of the labels `by` before (or behind), -inf where there is none."""
    moved = xp.full(values.shape, -xp.inf, values.dtype)
    if by < values.shape[1]:
        if back:
            moved[:, :-by] = values[:, by:]
            if skips is not None:
                moved[:, :-by] += skips
        else:
            moved[:, by:] = values[:, :-by]
            if skips is not None:
                moved[:, by:] += skips
    return moved


def forward(
    xp: Any, log_probs: Array, labels: Array, input_lengths: Array, target_lengths: Array
) -> tuple[Array, Array]:
    """The negative log-likelihood (N), and log alpha (N, T, L)."""
    steps, rows, _ = log_probs.shape
    width = labels.shape[1]
    emitted = _emitted(xp, log_probs, labels)
    alpha = xp.full((steps, rows, width), -xp.inf, log_probs.dtype)
    skips = _skips(xp, labels, log_probs.dtype)
    if steps:
        alpha[0, :, :2] = emitted[0, :, :2]
        alpha[0, :, 1:2] += xp.where(target_lengths > 0, 0.0, -xp.inf).reshape(-1, 1)
    for t in range(1, steps):
        before = alpha[t - 1]
        one, two = _shifted(xp, before, 1, False), _shifted(xp, before, 2, False, skips)
        alpha[t] = _added(xp, before, one, two) + emitted[t]
    loss = xp.where((input_lengths == 0) & (target_lengths == 0), 0.0, xp.inf)
    loss = loss.astype(log_probs.dtype)
    if steps:
        row = xp.arange(rows)
        last = alpha[xp.maximum(input_lengths - 1, 0), row]
        end = last[row, 2 * target_lengths]
        label = last[row, xp.maximum(2 * target_lengths - 1, 0)]
        label = xp.where(target_lengths > 0, label, -xp.inf).astype(last.dtype)
        loss = xp.where(input_lengths > 0, -_added(xp, end, label), loss)
    return loss, xp.ascontiguousarray(alpha.swapaxes(0, 1))


def backward(
    xp: Any,
    g: Array,
    log_probs: Array,
    labels: Array,
    input_lengths: Array,
    target_lengths: Array,
    loss: Array,
    log_alpha: Array,
    zero_infinity: bool,
) -> Array:
    """exp(log_probs) - posterior of each class, times g: the gradient through a log_softmax.

    As in torch it is that of the logits behind, whose sum over the classes is 0.
    """
    steps, rows, classes = log_probs.shape
    width = labels.shape[1]
    dtype = log_probs.dtype
    emitted = _emitted(xp, log_probs, labels)
    place = xp.arange(width).reshape(1, -1)
    final = (place == 2 * target_lengths.reshape(-1, 1)) | (
        place == 2 * target_lengths.reshape(-1, 1) - 1
    )
    ended = xp.where(final, 0.0, -xp.inf).astype(dtype)
    known = xp.where(place <= 2 * target_lengths.reshape(-1, 1), 0.0, -xp.inf).astype(dtype)
    skips = _skips(xp, labels, dtype)
    beta = xp.full((rows, width), -xp.inf, dtype)
    share = xp.zeros((steps, rows, width), dtype)
    for t in range(steps - 1, -1, -1):
        one, two = _shifted(xp, beta, 1, True), _shifted(xp, beta, 2, True, skips)
        going = _added(xp, beta, one, two)
        last = (input_lengths - 1 == t).reshape(-1, 1)
        beta = xp.where(last, ended, going) + emitted[t] + known
        path = log_alpha[:, t] + beta
        there = xp.isfinite(path)
        power = xp.where(there, path + loss.reshape(-1, 1) - emitted[t], -xp.inf)
        share[t] = xp.exp(power)
    chosen = (labels[:, :, None] == xp.arange(classes)).astype(dtype)
    posterior = xp.matmul(share.swapaxes(0, 1), chosen).swapaxes(0, 1)
    # Without any alignment there is no posterior.
    posterior = xp.where((loss == xp.inf).reshape(1, -1, 1), xp.nan, posterior)
    grad = (xp.exp(log_probs) - posterior) * g.reshape(1, -1, 1)
    inside = xp.arange(steps).reshape(-1, 1) < input_lengths.reshape(1, -1)
    if zero_infinity:
        inside = inside & (loss != xp.inf).reshape(1, -1)
    return xp.where(inside[:, :, None], grad, 0.0).astype(dtype, copy=False)
