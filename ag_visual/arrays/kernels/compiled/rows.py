"""Softmax, layer norm and group norm of rows.

Layer 1. `compiled/__init__.py` says what kernels are given.
"""

from __future__ import annotations

import math

import numpy

from ag_visual.arrays.kernels.compiled.making import exact, ordered, summing
from ag_visual.arrays.kernels.compiled.numbers import exp, from_key, key_of

# Sums are taken in the arrays' type over so many numbers, and over more than that in float64.
_PART, _BLOCK = 512, 32


@ordered
def _less(x, a, b):
    """(x - a) - b, in this order."""
    return (x - a) - b


@summing
def _sum(x):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j]
    return total


@summing
def _squares(x, mean):
    """The sum of (x - mean)^2."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total += (x[j] - mean) * (x[j] - mean)
    return total


@summing
def _along(g, x, weight, mean, rstd):
    """The sums of h = g weight, and of h n."""
    total = other = x.dtype.type(0)
    for j in range(x.size):
        h = g[j] * weight[j]
        total += h
        other += h * ((x[j] - mean) * rstd)
    return total, other


@summing
def layer_norm(x, weight, bias, eps, out, means, rstds):
    """Rows normalised, times weight, plus bias; both (width,)."""
    rows, width = x.shape
    kind = x.dtype.type
    for i in range(rows):
        total = 0.0
        for begin in range(0, width, _PART):
            total += _sum(x[i, begin : begin + _PART])
        mean = kind(total / width)
        total = 0.0
        for begin in range(0, width, _PART):
            total += _squares(x[i, begin : begin + _PART], mean)
        rstd = kind(1 / math.sqrt(total / width + eps))
        means[i, 0], rstds[i, 0] = mean, rstd
        for j in range(width):
            out[i, j] = (x[i, j] - mean) * rstd * weight[j] + bias[j]


@summing
def layer_norm_backward(g, x, means, rstds, weight, d_x, d_weight, d_bias):
    """With n = (x - mean) rstd and h = g weight: rstd (h - mean(h) - n mean(h n)) of each row.

    d_weight and d_bias, (width,), are the sums of g n and of g.
    """
    rows, width = x.shape
    kind = x.dtype.type
    parts, sums = numpy.empty((2, width), x.dtype), numpy.zeros((2, width))
    of_weight, of_bias = parts[0], parts[1]
    for block in range(0, rows, _BLOCK):
        parts[:] = kind(0)
        for i in range(block, min(block + _BLOCK, rows)):
            mean, rstd = means[i, 0], rstds[i, 0]
            total = along = 0.0
            for begin in range(0, width, _PART):
                end = begin + _PART
                part, other = _along(
                    g[i, begin:end], x[i, begin:end], weight[begin:end], mean, rstd
                )
                total += part
                along += other
            level, lean = kind(total / width), kind(along / width)
            for j in range(width):
                n = (x[i, j] - mean) * rstd
                d_x[i, j] = rstd * (g[i, j] * weight[j] - level - n * lean)
            # (Apart: a loop that stores to three arrays is not vectorised.)
            for j in range(width):
                of_weight[j] += g[i, j] * ((x[i, j] - mean) * rstd)
            for j in range(width):
                of_bias[j] += g[i, j]
        for j in range(width):
            sums[0, j] += of_weight[j]
            sums[1, j] += of_bias[j]
    d_weight[:], d_bias[:] = sums[0], sums[1]


@summing
def _with_normal(g, x, mean, rstd):
    """The sums of g, and of g n with n = (x - mean) rstd."""
    total = other = x.dtype.type(0)
    for j in range(x.size):
        total += g[j]
        other += g[j] * ((x[j] - mean) * rstd)
    return total, other


@summing
def group_norm(x, weight, bias, eps, out, means, rstds):
    """Groups of channels normalised, times weight, plus bias; both (channels,).

    x: a row for each sample and channel; means and rstds: one for each sample and group.
    """
    rows, width = x.shape
    kind = x.dtype.type
    of_group = rows // means.size
    for group in range(means.size):
        total = 0.0
        for i in range(group * of_group, (group + 1) * of_group):
            for begin in range(0, width, _PART):
                total += _sum(x[i, begin : begin + _PART])
        mean = kind(total / (of_group * width))
        total = 0.0
        for i in range(group * of_group, (group + 1) * of_group):
            for begin in range(0, width, _PART):
                total += _squares(x[i, begin : begin + _PART], mean)
        rstd = kind(1 / math.sqrt(total / (of_group * width) + eps))
        means[group], rstds[group] = mean, rstd
        for i in range(group * of_group, (group + 1) * of_group):
            scale, shift = rstd * weight[i % weight.size], bias[i % weight.size]
            for j in range(width):
                out[i, j] = (x[i, j] - mean) * scale + shift


@summing
def group_norm_backward(g, x, means, rstds, weight, d_x, d_weight, d_bias):
    """`layer_norm_backward` of groups of channels; d_weight and d_bias, (channels,) of float64."""
    rows, width = x.shape
    kind = x.dtype.type
    of_group = rows // means.size
    d_weight[:], d_bias[:] = 0.0, 0.0
    for group in range(means.size):
        mean, rstd = means[group], rstds[group]
        whole = moved = 0.0
        for i in range(group * of_group, (group + 1) * of_group):
            channel = i % weight.size
            total = along = 0.0
            for begin in range(0, width, _PART):
                end = begin + _PART
                part, other = _with_normal(g[i, begin:end], x[i, begin:end], mean, rstd)
                total += part
                along += other
            d_bias[channel] += total
            d_weight[channel] += along
            whole += total * weight[channel]
            moved += along * weight[channel]
        level = rstd * kind(whole / (of_group * width))
        lean = rstd * rstd * kind(moved / (of_group * width))
        for i in range(group * of_group, (group + 1) * of_group):
            factor = rstd * weight[i % weight.size]
            for j in range(width):
                d_x[i, j] = g[i, j] * factor - level - (x[i, j] - mean) * lean


@summing
def _largest(row):
    """The largest number of a row; with NaN there, NaN or the largest of the rest."""
    best = key_of(row[0])
    for j in range(1, row.size):
        key = key_of(row[j])
        best = key if key > best else best
    return from_key(best)


@summing
def softmax(x, out, least, most):
    """exp(x) / sum(exp(x)) of each row, shifted where the sum is not between least and most."""
    rows, width = x.shape
    kind = x.dtype.type
    for i in range(rows):
        total = 0.0
        for j in range(width):
            power = exp(x[i, j])
            out[i, j] = power
            total += power
        if not (total >= least and total <= most):
            top = _largest(x[i])
            total = 0.0
            for j in range(width):
                power = exp(x[i, j] - top)
                out[i, j] = power
                total += power
        divisor = kind(total)
        for j in range(width):
            out[i, j] = out[i, j] / divisor


@summing
def _wide_sum(x):
    total = 0.0
    for j in range(x.size):
        total += x[j]
    return total


@summing
def _wide_product(x, y):
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@summing
def softmax_backward(g, y, out, log):
    """y (g - sum(g y)) of each row; with log, y being logarithms, g - exp(y) sum(g)."""
    rows, width = g.shape
    kind = g.dtype.type
    for i in range(rows):
        if log:
            level = kind(_wide_sum(g[i]))
            for j in range(width):
                out[i, j] = g[i, j] - exp(y[i, j]) * level
        else:
            level = kind(_wide_product(g[i], y[i]))
            for j in range(width):
                out[i, j] = y[i, j] * (g[i, j] - level)


@summing
def log_softmax(x, out):
    """(x - max) - log(sum(exp(x - max))) of each row."""
    rows, width = x.shape
    kind = x.dtype.type
    for i in range(rows):
        top = _largest(x[i])
        total = 0.0
        for j in range(width):
            total += exp(x[i, j] - top)
        level = kind(math.log(total))
        for j in range(width):
            out[i, j] = _less(x[i, j], top, level)


@exact
def nll_loss(logp, target, ignored, mean, out, total):
    """-logp[i, target[i]] summed, and how many are not ignored; -1 of a class that is none."""
    found, count = 0.0, 0
    for i in range(target.size):
        label = target[i]
        if label == ignored:
            continue
        if label < 0 or label >= logp.shape[1]:
            total[()] = -1
            return
        found += logp[i, label]
        count += 1
    total[()] = count
    out[()] = (0 - found) / count if mean else 0 - found


@exact
def of_scores(x, target, ignored, mean, logp, out, total):
    """`log_softmax` of the rows of x, and `nll_loss` of that."""
    log_softmax(x, logp)
    nll_loss(logp, target, ignored, mean, out, total)


@exact
def nll_loss_backward(g, total, mean, target, ignored, out):
    """-g, by the total for the mean, where each row's class is; False if a class is none."""
    value = -g[()] / total[()] if mean else -g[()]
    for i in range(target.size):
        if not (target[i] == ignored or 0 <= target[i] < out.shape[1]):
            return False
    for i in range(target.size):
        for j in range(out.shape[1]):
            out[i, j] = 0
        if target[i] != ignored:
            out[i, target[i]] = value
    return True


TAKES = {
    nll_loss: "m n l b z z",
    of_scores: "m n l b m z z",
    nll_loss_backward: "z z b n l m",
    layer_norm: "m v v d m m m",
    layer_norm_backward: "m m m m v m v v",
    group_norm: "m v v d m v v",
    group_norm_backward: "m m v v v m q q",
    softmax: "m m d d",
    softmax_backward: "m m m b",
    log_softmax: "m m",
}
