"""Normalisation of images: a factor and a summand for each sample and channel.

Layer 1. Arrays are (samples, channels, ...) in rows; a channel of a sample is one block of memory.
Sums over blocks are products with BLAS; results are made in two passes, gradients in four.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.rows import is_matrix, row_products, row_sums

# Blocks of fewer elements are not worth a row of their own.
_LEAST: Final = 16
# How many times the variance a squared mean may be without losing digits to it.
_NEAR: Final = 16


def fits(*arrays: Array) -> bool:
    """Whether these are images of such blocks, in 32 or 64 bits."""
    x = arrays[0]
    if x.ndim < 3 or x.dtype.char not in "fd" or math.prod(x.shape[2:]) < _LEAST:
        return False
    return all(is_matrix(y) and y.dtype == x.dtype and y.shape == x.shape for y in arrays)


def _blocks(x: Array) -> Array:
    """(samples * channels, block)."""
    return x.reshape(x.shape[0] * x.shape[1], -1)


def _sums(xp: Any, x: Array) -> Array:
    """(samples, channels): the sum of each block."""
    return row_sums(xp, _blocks(x)).reshape(x.shape[:2])


def _products(xp: Any, a: Array, b: Array) -> Array:
    """(samples, channels): the sum of a * b over each block."""
    return row_products(xp, _blocks(a), _blocks(b)).reshape(a.shape[:2])


def _pooled(sums: Array, groups: int) -> Array:
    """What a statistic is taken over: all samples (groups 0), or a group's channels.

    (samples, channels) become (1, channels) or (samples, groups, 1).
    """
    if not groups:
        return sums.sum(axis=0, keepdims=True)
    return sums.reshape(len(sums), groups, -1).sum(axis=2, keepdims=True)


def _spread(statistic: Array, channels: int, groups: int) -> Array:
    """A pooled statistic for each channel again."""
    if not groups:
        return statistic
    return statistic.repeat(channels // groups, axis=2).reshape(len(statistic), channels)


def moments(xp: Any, x: Array, groups: int, eps: float) -> tuple[Array, Array]:
    """Means and 1 / sqrt(variance + eps), pooled: over samples, or over `groups` of channels."""
    channels = x.shape[1]
    mean = _pooled(_sums(xp, x), groups)
    count = x.size // mean.size
    mean /= count
    square = mean * mean
    variance = _pooled(_products(xp, x, x), groups)
    variance /= count
    variance -= square
    if not bool((square <= _NEAR * variance).all()):
        center = _spread(mean, channels, groups)
        off = x - center.reshape(*center.shape, *(1,) * (x.ndim - 2))
        variance = _pooled(_products(xp, off, off), groups)
        variance /= count
    variance += eps
    return mean, 1 / xp.sqrt(variance)


def normed(
    xp: Any,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    groups: int,
) -> Array:
    """(x - mean) * rstd * weight + bias, by pooled statistics."""
    mean, rstd = (_spread(s, x.shape[1], groups) for s in (mean, rstd))
    scale = rstd if weight is None else rstd * weight
    shift = -mean * scale
    if bias is not None:
        shift += bias
    ends = (1,) * (x.ndim - 2)
    result = xp.multiply(x, scale.reshape(*scale.shape, *ends))
    result += shift.reshape(*shift.shape, *ends)
    return result


def group_norm(
    xp: Any, x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float
) -> tuple[Array, Array, Array]:
    """The input normed by the moments of groups of channels, and these."""
    run = fast.kernel("group_norm", x, weight, bias) if fast.wanted(xp, x.size) else None
    if run is None:
        mean, rstd = moments(xp, x, groups, eps)
        return normed(xp, x, mean, rstd, weight, bias, groups), mean, rstd
    result, (mean, rstd) = numpy.empty_like(x), numpy.empty((2, len(x), groups, 1), x.dtype)
    ones, zeros = _ends(x, weight, bias)
    run(_blocks(x), ones, zeros, eps, _blocks(result), mean.reshape(-1), rstd.reshape(-1))
    return result, mean, rstd


def _ends(x: Array, weight: Array | None, bias: Array | None = None) -> tuple[Array, Array]:
    """The factor and the summand of each channel."""
    ones = numpy.ones(x.shape[1], x.dtype) if weight is None else weight
    return ones, numpy.zeros(x.shape[1], x.dtype) if bias is None else bias


def group_norm_backward(
    xp: Any,
    g: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    groups: int,
    needs: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None] | None:
    """`backward` by the compiled kernel, however far from 0 the means are; None without one."""
    arrays = g, x, mean, rstd, weight
    run = fast.kernel("group_norm_backward", *arrays) if fast.wanted(xp, x.size) else None
    if run is None:
        return None
    result, sums = numpy.empty_like(x), numpy.empty((2, x.shape[1]))
    moments_ = mean.reshape(-1), rstd.reshape(-1)
    run(_blocks(g), _blocks(x), *moments_, _ends(x, weight)[0], _blocks(result), *sums)
    found = (result, *(each.astype(x.dtype) for each in sums))
    d_x, d_weight, d_bias = (a if need else None for a, need in zip(found, needs, strict=True))
    return d_x, d_weight, d_bias


def is_near(mean: Array, rstd: Array) -> bool:
    """Whether the gradients below lose no digits to the means."""
    return bool((abs(mean * rstd) <= math.sqrt(_NEAR)).all())


def backward(
    xp: Any,
    g: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    groups: int,
    needs: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of x, weight and bias.

    With n = (x - mean) rstd and h = g weight that of x is rstd (h - mean(h) - n mean(h n)): a
    factor of g, one of x and a summand for each block.
    """
    channels = x.shape[1]
    total = _sums(xp, g)
    along = _products(xp, g, x) if needs[0] or needs[1] else None
    d_x = d_weight = None
    if along is not None:  # of x; now of n
        along -= _spread(mean, channels, groups) * total
        along *= _spread(rstd, channels, groups)
    if needs[1]:
        d_weight = along.sum(axis=0)
    if needs[0]:
        count = x.size // mean.size
        whole = total if weight is None else total * weight
        moved = along if weight is None else along * weight
        if not groups:  # a channel has one weight: it is left for the factors
            whole, moved = total, along
        lean = -(rstd * rstd) * _pooled(moved, groups) / count
        level = -rstd * _pooled(whole, groups) / count - lean * mean
        factor, lean, level = (_spread(s, channels, groups) for s in (rstd, lean, level))
        if weight is not None:
            factor = factor * weight
            if not groups:
                lean, level = lean * weight, level * weight
        ends = (1,) * (x.ndim - 2)
        factor, lean, level = (s.reshape(*s.shape, *ends) for s in (factor, lean, level))
        d_x = xp.multiply(g, factor)
        bent = xp.multiply(x, lean)
        bent += level
        d_x += bent
    return d_x, d_weight, total.sum(axis=0) if needs[2] else None
