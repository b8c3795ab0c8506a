"""Normalisation of rows and of channels, with the gradients from saved statistics.

Layer 1. Statistics and results are fresh arrays; 16-bit floats compute in float32.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.rows import (
    add_product,
    by_column,
    column_sums,
    outer,
    row_products,
    row_sums,
)

# How many times the variance a squared mean may be without losing digits to it.
_NEAR: Final = 16
# From so many elements on, products with BLAS beat broadcasting (see rows.py).
_LARGE: Final = 1 << 16


def _wide(xp: Any, x: Array) -> Array:
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


def layer_norm(
    xp: Any, input: Array, width: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Rows of `width` elements normalised, times weight, plus bias; (rows, 1) statistics."""
    x = _wide(xp, input).reshape(-1, width)
    weight = None if weight is None else _wide(xp, weight).reshape(-1)
    bias = None if bias is None else _wide(xp, bias).reshape(-1)
    run = fast.kernel("layer_norm", x, weight, bias) if fast.wanted(xp, x.size) else None
    if run is not None:
        weight, bias = _factors(x, weight), numpy.zeros(width, x.dtype) if bias is None else bias
        # Of its final shape from the start, as below.
        given = numpy.empty(input.shape, x.dtype)
        result = given.reshape(-1, width)
        mean, rstd = numpy.empty((len(x), 1), x.dtype), numpy.empty((len(x), 1), x.dtype)
        run(x, weight, bias, eps, result, mean, rstd)
        return given.astype(input.dtype, copy=False), mean, rstd
    if xp is numpy and x.size >= _LARGE and x.dtype.kind == "f":
        result, mean, rstd = _large(xp, x, weight, bias, eps)
    else:
        mean = row_sums(xp, x)
        mean /= width
        result = x - mean
        rstd = _deviation(xp, result, eps)
        if weight is None:
            result *= rstd
        else:
            result *= outer(xp, rstd, weight)
        if bias is not None:
            result += bias
    return result.reshape(input.shape).astype(input.dtype, copy=False), mean, rstd


def _factors(x: Array, weight: Array | None) -> Array:
    return numpy.ones(x.shape[1], x.dtype) if weight is None else weight.reshape(-1)


def _deviation(xp: Any, off: Array, eps: float) -> Array:
    variance = row_products(xp, off, off)
    variance /= off.shape[1]
    variance += eps
    return 1 / xp.sqrt(variance)


def _large(
    xp: Any, x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """The same by few passes over the memory: x * (rstd weight) + (-mean rstd) weight + bias."""
    width = x.shape[1]
    ones = xp.ones((width,), x.dtype)
    weight = ones if weight is None else weight
    bias = ones * 0 if bias is None else bias
    mean = row_sums(xp, x)
    mean /= width
    square = mean * mean
    variance = row_products(xp, x, x)
    variance /= width
    variance -= square
    if bool((square <= _NEAR * variance).all()):
        variance += eps
        rstd = 1 / xp.sqrt(variance)
        center = -mean * rstd
    else:
        x = by_column(xp, xp.subtract, x, mean)
        rstd = _deviation(xp, x, eps)
        center = mean * 0
    result = outer(xp, rstd, weight)
    result *= x
    columns = xp.concatenate([center, xp.ones_like(mean)], axis=1)
    add_product(xp, result, columns, xp.stack([weight, bias]))
    return result, mean, rstd


def _dot(xp: Any, a: Array, b: Array) -> Array:
    """The product of a matrix and a vector; on few rows the method beats the ufunc matmul."""
    return a.dot(b) if xp is numpy else xp.matmul(a, b)


def layer_norm_backward(
    xp: Any,
    g: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    needs: tuple[bool, bool, bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """The gradients of input, weight and bias.

    That of a row x, with n = (x - mean) rstd and h = g weight, is
    rstd (h - mean(h) - n mean(h n)) = rstd h + b x + c with two numbers b, c for the row.
    """
    width = input.size // mean.size
    x, upper = _wide(xp, input).reshape(-1, width), _wide(xp, g).reshape(-1, width)
    mean, rstd = mean.reshape(-1, 1), rstd.reshape(-1, 1)
    arrays = x, upper, mean, rstd, None if weight is None else _wide(xp, weight)
    run = fast.kernel("layer_norm_backward", *arrays) if fast.wanted(xp, x.size) else None
    if run is not None:
        given = numpy.empty(input.shape, x.dtype)
        sums = numpy.empty(width, x.dtype), numpy.empty(width, x.dtype)
        run(upper, x, mean, rstd, _factors(x, arrays[-1]), given.reshape(-1, width), *sums)
        found = zip((given, *sums), needs, strict=True)
        return tuple([each if need else None for each, need in found])
    d_input = d_weight = d_bias = None
    product = upper * x if needs[0] or needs[1] else None
    if needs[1]:
        # The sum of g n; two products instead of writing n down.
        d_weight = _dot(xp, rstd.reshape(-1), product)
        d_weight -= _dot(xp, (rstd * mean).reshape(-1), upper)
    if needs[2]:
        d_bias = column_sums(xp, upper)
    if needs[0]:
        column = xp.ones((width, 1), x.dtype) if weight is None else _wide(xp, weight)
        column = column.reshape(-1, 1)
        total, along = _dot(xp, upper, column), _dot(xp, product, column)
        share = rstd / width
        slope = (total * mean - along) * (rstd * rstd * share)
        shift = slope * mean
        shift += total * share
        # Of its final shape from the start: an array that is nobody's view becomes .grad uncopied.
        d_input = xp.empty(input.shape, x.dtype)
        there = d_input.reshape(-1, width)
        if xp is numpy and x.size >= _LARGE and x.dtype.kind == "f":
            bent = outer(xp, slope, xp.ones((width,), x.dtype), out=product)
            bent *= x
            add_product(xp, bent, -shift, xp.ones((1, width), x.dtype))
        else:
            bent = xp.multiply(x, slope, out=product)
            bent -= shift
        outer(xp, rstd, column, out=there)
        there *= upper
        there += bent
    return d_input, d_weight, d_bias
