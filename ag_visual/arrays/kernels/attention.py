"""Attention that keeps one number per query instead of a weight per query and key.

Layer 1. Arrays are (..., queries, size), (..., keys, size), (..., keys, values); the backward forms
the weights again from the logarithms of their sums. Source: Dao et al., FlashAttention
(arXiv:2205.14135), without the tiling, which is for memories that NumPy does not manage.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.rows import row_products, row_sums
from ag_visual.arrays.kernels.softmax import LEAST, MOST


def _wide(xp: Any, x: Array) -> Array:
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


def _turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _masked(xp: Any, scores: Array, mask: Array | None, is_causal: bool) -> Array:
    """The scores with the mask added (numbers) or -inf where it is False; they may be changed."""
    if is_causal:
        xp.copyto(scores, -xp.inf, where=_future(xp, *scores.shape[-2:]))
    elif mask is not None and mask.dtype.kind == "b":
        scores = xp.where(mask, scores, xp.asarray(-xp.inf, scores.dtype))
    elif mask is not None:
        scores += mask
    return xp.ascontiguousarray(scores)


def _future(xp: Any, queries: int, keys: int) -> Array:
    """True where a key comes after the query."""
    if xp is numpy and queries * keys <= _KEPT:
        return _known_future(queries, keys)
    return ~xp.tri(queries, keys, dtype=bool)


_KEPT = 1 << 16


@functools.lru_cache(maxsize=16)
def _known_future(queries: int, keys: int) -> Array:
    return ~numpy.tri(queries, keys, dtype=bool)


def _less(xp: Any, a: Array, b: Array, column: Array, factor: float = 1.0) -> Array:
    """factor * a b^T - column, in one product: subtracting takes as long as it on short rows."""
    size, kind = a.shape[-1], a.dtype
    left = xp.empty((*a.shape[:-1], size + 1), kind)
    right = xp.empty((*b.shape[:-1], size + 1), kind)
    xp.multiply(a, kind.type(factor), out=left[..., :size])
    xp.negative(column, out=left[..., size])
    right[..., :size] = b
    right[..., size] = 1
    return xp.matmul(left, _turned(right))


def _product(xp: Any, a: Array, b: Array, like: Array) -> Array:
    """a b, which lies in memory as `like` does: heads go back to their places without a copy."""
    rows = like.strides[-1] == like.dtype.itemsize and like.dtype == a.dtype == b.dtype
    if xp is not numpy or not rows or like.shape != (*a.shape[:-1], b.shape[-1]):
        return xp.matmul(a, b)
    return numpy.matmul(a, b, out=numpy.empty_like(like))


def attention(
    xp: Any,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    is_causal: bool,
    scale: float,
) -> tuple[Array, Array]:
    """softmax(query key^T * scale + mask) value, and log(sum(exp(scores))) of each query.

    A query that may see nothing gives 0. The result lies in memory as the query does, so that heads
    go back to their places without a copy.
    """
    q, k, v = (_wide(xp, x) for x in (query, key, value))
    scores = _masked(xp, xp.matmul(q * scale, _turned(k)), mask, is_causal)
    peak = None
    weights = xp.exp(scores) if xp is numpy and scores.size else None
    total = None if weights is None else row_sums(xp, weights)
    if total is None or not (total.min() >= LEAST and total.max() <= MOST):
        peak = scores.max(axis=-1, keepdims=True) if scores.size else scores[..., :1]
        peak = xp.where(peak == -xp.inf, 0, peak).astype(scores.dtype)
        scores -= peak
        weights = xp.exp(scores, out=scores)
        total = row_sums(xp, weights)
    result = xp.matmul(weights, v)
    known = None if peak is None else total > 0
    total = total if known is None else xp.where(known, total, 1)
    factor = 1 / total if known is None else xp.where(known, 1 / total, 0)
    rows = query.strides[-1] == query.dtype.itemsize and result.shape == query.shape
    if query.flags.c_contiguous or not rows:
        result *= factor
    else:
        result = xp.multiply(result, factor, out=xp.empty_like(query, result.dtype))
    lse = xp.log(total)
    if peak is not None:
        lse += peak
    # In 16 bits its rounding would be a factor of the weights that backward makes of it.
    return result.astype(query.dtype, copy=False), lse[..., 0]


def attention_backward(
    xp: Any,
    g: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    lse: Array,
    mask: Array | None,
    is_causal: bool,
    scale: float,
    needs: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of query, key and value."""
    kind = query.dtype
    g, q, k, v, out = (_wide(xp, x) for x in (g, query, key, value, output))
    weights = _masked(xp, _less(xp, q, k, _wide(xp, lse), scale), mask, is_causal)
    xp.exp(weights, out=weights)
    d_query = d_key = d_value = None
    if needs[2]:
        d_value = _product(xp, _turned(weights), g, v).astype(kind, copy=False)
    if needs[0] or needs[1]:
        slopes = _less(xp, g, v, row_products(xp, g, out)[..., 0])
        slopes *= weights
        if needs[0]:
            d_query = _product(xp, slopes, k, q)
            d_query *= scale
            d_query = d_query.astype(kind, copy=False)
        if needs[1]:
            d_key = _product(xp, _turned(slopes), q * scale, k).astype(kind, copy=False)
    return d_query, d_key, d_value
