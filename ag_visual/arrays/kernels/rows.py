"""Sums along the last dimension, as products with BLAS.

Layer 1. Measured on 2048 x 256 float32: `sum(axis=-1)` 112 us, a product with ones 32 us.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import Array


# Below this many elements the product is no faster.
_SMALL = 2048


def is_matrix(array: Array) -> bool:
    """Whether the array is rows in one block of memory."""
    return bool(array.size and array.ndim and array.flags.c_contiguous)


def row_sums(xp: Any, array: Array) -> Array:
    """(..., 1): the sum of each row."""
    width = array.shape[-1]
    if array.size < _SMALL or not is_matrix(array) or array.dtype.itemsize == 2:
        return xp.add.reduce(array, axis=-1, keepdims=True)
    sums = xp.matmul(array.reshape(-1, width), xp.ones((width, 1), array.dtype))
    return sums.reshape((*array.shape[:-1], 1))


def row_products(xp: Any, a: Array, b: Array) -> Array:
    """(..., 1): the sum of a * b over each row."""
    if not (is_matrix(a) and is_matrix(b)) or a.dtype.itemsize == 2:
        return (a * b).sum(axis=-1, keepdims=True)
    return xp.matmul(a[..., None, :], b[..., :, None])[..., 0]


def column_sums(xp: Any, matrix: Array) -> Array:
    """The sum of the rows of (rows, width)."""
    if not is_matrix(matrix) or matrix.dtype.itemsize == 2:
        return matrix.sum(axis=0)
    return xp.matmul(xp.ones((matrix.shape[0],), matrix.dtype), matrix)
