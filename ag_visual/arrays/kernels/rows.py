"""Sums along the last dimension, as products with BLAS.

Layer 1. Measured on 2048 x 256 float32: `sum(axis=-1)` 112 us, a product with ones 32 us.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ag_visual.arrays.backend import Array, is_narrow


@functools.lru_cache(maxsize=16)
def _ones(width: int, dtype: Any) -> Array:
    return numpy.ones((width, 1), dtype)


def is_matrix(array: Array) -> bool:
    """Whether the array is rows in one block of memory."""
    return bool(array.size and array.ndim and array.flags.c_contiguous)


# BLAS adds up one number after the other: rows wider than this lose digits to it, and are summed in
# parts of this width. Measured on two rows of 2,359,296 float32: an error of 1e-5 against 2e-7.
_PART, _WIDE = 1024, 8192


def _in_parts(array: Array) -> tuple[Array, Array]:
    """A vector as rows of _PART elements, and the rest."""
    whole = array.size - array.size % _PART
    return array[:whole].reshape(-1, _PART), array[whole:]


def _wide_row_sums(rows: Array) -> Array:
    sums = numpy.empty((rows.shape[0], 1), rows.dtype)
    for at, row in enumerate(rows):
        parts, rest = _in_parts(row)
        sums[at] = parts.dot(_ones(_PART, rows.dtype)).sum() + rest.sum()
    return sums


def _wide_row_products(a: Array, b: Array) -> Array:
    sums = numpy.empty((a.shape[0], 1), a.dtype)
    for at, (x, y) in enumerate(zip(a, b, strict=True)):
        (parts, rest), (others, more) = _in_parts(x), _in_parts(y)
        products = numpy.matmul(parts[:, None, :], others[:, :, None])
        sums[at] = products.sum() + rest.dot(more)
    return sums


# Of so many rows a sum is taken in parts, and not before an array has so many elements.
_ROWS, MANY = 128, 1 << 14


def summed(xp: Any, array: Array, axis: tuple[int, ...] | None, keepdims: bool = False) -> Array:
    """`array.sum(axis)` without the digits that NumPy loses where it adds many rows one by one.

    16-bit floats are added up in float32, and the sum is rounded once.
    """
    if is_narrow(array):
        wide = array.sum(axis=axis, keepdims=keepdims, dtype=numpy.float32)
        return wide.astype(array.dtype)
    if xp is not numpy or axis is None or array.size < MANY:
        return array.sum(axis=axis, keepdims=keepdims)
    left = sorted(a % array.ndim for a in axis)
    last: list[int] = []  # the last dimensions together: they may lie in one block
    while left and left[-1] == array.ndim - 1 - len(last):
        last.append(left.pop())
    result = array.sum(axis=tuple(last), keepdims=True) if last else array
    for each in left:
        result = _summed_rows(result, each)
    return result if keepdims else result.squeeze(tuple(axis))


def _summed_rows(array: Array, axis: int) -> Array:
    """The sum over one axis, kept."""
    n = array.shape[axis]
    # Along the fastest axis NumPy sums in pairs.
    if n <= _ROWS or array.strides[axis] == min(map(abs, array.strides)):
        return array.sum(axis=axis, keepdims=True)
    whole, before = n - n % _ROWS, (slice(None),) * axis
    shape = (*array.shape[:axis], whole // _ROWS, _ROWS, *array.shape[axis + 1 :])
    parts = array[(*before, slice(whole))].reshape(shape).sum(axis=axis + 1)
    total = _summed_rows(parts, axis)
    if whole < n:
        total += array[(*before, slice(whole, n))].sum(axis=axis, keepdims=True)
    return total


def row_sums(xp: Any, array: Array) -> Array:
    """(..., 1): the sum of each row."""
    width = array.shape[-1]
    if is_narrow(array):
        return summed(xp, array, (-1,), keepdims=True)
    if not is_matrix(array):
        return xp.add.reduce(array, axis=-1, keepdims=True)
    if xp is numpy:
        if width > _WIDE:
            return _wide_row_sums(array.reshape(-1, width)).reshape((*array.shape[:-1], 1))
        # The method: on few rows it takes a quarter of the time of the ufunc matmul.
        ones = _ones(width, array.dtype)
        if array.ndim == 2:
            return array.dot(ones)
        sums = array.reshape(-1, width).dot(ones)
    else:
        sums = xp.matmul(array.reshape(-1, width), xp.ones((width, 1), array.dtype))
    return sums.reshape((*array.shape[:-1], 1))


# A product of two rows costs NumPy 25 ns however short they are: 1024 x 16 27 us, this way 8.
_SLIM = 64


def row_products(xp: Any, a: Array, b: Array) -> Array:
    """(..., 1): the sum of a * b over each row."""
    width = a.shape[-1]
    if is_narrow(a):
        return row_sums(xp, a * b)
    if 0 < width <= _SLIM and a.size:
        return row_sums(xp, xp.ascontiguousarray(a * b))
    if not (is_matrix(a) and is_matrix(b)):
        return (a * b).sum(axis=-1, keepdims=True)
    if xp is numpy and width > _WIDE:
        rows = _wide_row_products(a.reshape(-1, width), b.reshape(-1, width))
        return rows.reshape((*a.shape[:-1], 1))
    return xp.matmul(a[..., None, :], b[..., :, None])[..., 0]


def column_sums(xp: Any, matrix: Array) -> Array:
    """The sum of the rows of (rows, width)."""
    if not is_matrix(matrix) or is_narrow(matrix):
        return summed(xp, matrix, (0,))
    if xp is numpy:
        if matrix.shape[0] > _WIDE:
            return summed(xp, matrix, (0,))
        return _ones(matrix.shape[0], matrix.dtype).reshape(-1).dot(matrix)
    return xp.matmul(xp.ones((matrix.shape[0],), matrix.dtype), matrix)


def weighted_sums(xp: Any, matrix: Array, array: Array, axis: int) -> Array:
    """matrix @ array along an axis; where the matrix is 0, inf and NaN are left out, too."""
    if axis in (-1, array.ndim - 1):
        result = xp.matmul(array, matrix.T)
    else:
        result = xp.moveaxis(xp.matmul(matrix, xp.moveaxis(array, axis, -2)), -2, axis)
    if not bool(xp.isfinite(result.sum())):
        moved = xp.moveaxis(array, axis, -1)
        used = [xp.flatnonzero(weights) for weights in matrix]
        lines = [xp.matmul(moved[..., at], w[at]) for at, w in zip(used, matrix, strict=True)]
        result = xp.stack(lines, axis=axis)
    return xp.ascontiguousarray(result)


# NumPy pays 30 ns for each row of a broadcast, as much as for 200 elements. So a column is written
# out where there are many short rows. Measured on 2048 x 256: 113 -> 90 us.
_MANY, _SHORT = 1 << 16, 1024


def by_column(
    xp: Any, combine: Any, matrix: Array, column: Array, out: Array | None = None
) -> Array:
    """combine(matrix, column) for (rows, width) and (rows, 1); `out` may be the matrix."""
    if matrix.size < _MANY or matrix.shape[1] > _SHORT:
        return combine(matrix, column, out=out)
    spread = xp.repeat(column.reshape(-1), matrix.shape[1]).reshape(matrix.shape)
    return combine(matrix, spread, out=spread if out is None else out)


def _gemm(xp: Any, matrix: Array) -> Any:
    """BLAS's `c = a b + beta c` for the matrix, where writing c beats broadcasting; or None."""
    if xp is not numpy or matrix.size < _MANY or not matrix.flags.c_contiguous:
        return None
    from scipy.linalg import blas  # 50 ms: only for those who need it

    return {"f": blas.sgemm, "d": blas.dgemm}.get(matrix.dtype.char)


def outer(xp: Any, column: Array, row: Array, out: Array | None = None) -> Array:
    """column * row for (rows, 1) and (width,); 2048 x 256: 37 us, by broadcasting 99."""
    row = row.reshape(1, -1)
    shape = (column.shape[0], row.shape[1])
    result = xp.empty(shape, column.dtype) if out is None else out
    gemm = _gemm(xp, result)
    if gemm is None:
        # On few rows, too, BLAS takes less time than broadcasting.
        alike = column.dtype == row.dtype == result.dtype and result.flags.c_contiguous
        if xp is numpy and alike and result.dtype.char in "fd":
            return column.dot(row, result)
        return xp.multiply(column, row, out=result)
    gemm(1.0, row.T, column.T, beta=0.0, c=result.T, overwrite_c=1)
    return result


def add_product(xp: Any, matrix: Array, columns: Array, rows: Array) -> None:
    """matrix += columns @ rows, of few columns and rows, in place."""
    gemm = _gemm(xp, matrix)
    if gemm is None:
        matrix += xp.matmul(columns, rows)
    else:
        gemm(1.0, rows.T, columns.T, beta=1.0, c=matrix.T, overwrite_c=1)
