"""Products of matrices of which at least one is a `Coo`, by scipy.sparse or cupyx.scipy.sparse."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.backend import Array, backend_of
from ag_visual.arrays.coo import Coo


def _wide(dtype: Any) -> Any:
    """The dtype in which the library multiplies: it has no 16-bit numbers, on a GPU no integers."""
    if dtype.kind == "V" or dtype == numpy.float16:
        return numpy.dtype(numpy.float32)
    return dtype


def _matrix(held: Coo) -> Any:
    backend = backend_of(held.values)
    dtype = _wide(held.dtype)
    if backend.device_type != "cpu" and dtype.kind not in "fc":
        dtype = numpy.dtype(numpy.float64)
    values = held.values.astype(dtype, copy=False)
    indices = (held.indices[0], held.indices[1])
    return backend.sparse.coo_matrix((values, indices), shape=held.shape).tocsr()


def times(one: Any, other: Any) -> Any:
    """one @ other, of which one or both are matrices in coordinate form; both: so is the result."""
    dtype = one.dtype
    if type(one) is not Coo:
        return times(other.permuted((1, 0)), one.T).T
    left = _matrix(one)
    if type(other) is Coo:
        return _held(left @ _matrix(other), dtype, one.csr and other.csr)
    dense: Array = other.astype(left.dtype, copy=False)
    return backend_of(dense).asarray(left @ dense).astype(dtype, copy=False)


def _held(product: Any, dtype: Any, csr: bool) -> Coo:
    product.sort_indices()
    found = product.tocoo()
    xp = backend_of(found.data).xp
    indices = xp.stack((found.row, found.col)).astype(xp.int64)
    return Coo(indices, found.data.astype(dtype, copy=False), found.shape, True, csr)


def sampled(one: Any, other: Any, where: Coo) -> Any:
    """The elements of one @ other.T at the positions of a matrix."""
    if type(one) is Coo or type(other) is Coo:
        turned = other.permuted((1, 0)) if type(other) is Coo else other.T
        product = times(one, turned)
        return product.values_at(where) if type(product) is Coo else product[tuple(where.indices)]
    rows, columns = where.indices
    return (one[rows] * other[columns]).sum(axis=-1).astype(one.dtype, copy=False)
