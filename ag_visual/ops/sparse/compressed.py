"""Sparse matrices of compressed rows (CSR): made, and taken apart."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.core.sparse import SparseTensor
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import sparse
from ag_visual.dispatch.table import function, functions
from ag_visual.ops.sparse.coordinates import expected


def _unmet(condition: str) -> RuntimeError:
    return RuntimeError(f"`{condition}` is not satisfied.")


def _check(ends: Any, columns: Any, nnz: int, size: tuple[int, int]) -> None:
    """What is always checked: NumPy would take negative columns from the end."""
    rows = size[0]
    if ends.shape[0] != rows + 1:
        raise RuntimeError(
            "crow_indices.shape[-1] must be equal to the number of rows + 1 "
            f"(={rows + 1}), but got {ends.shape[0]}"
        )
    if columns.shape[0] != nnz:
        raise RuntimeError(
            "number of elements in col_indices and values must be equal, but got "
            f"{columns.shape[0]} and {nnz}"
        )
    if int(ends[0]) != 0:
        raise _unmet("crow_indices[..., 0] == 0")
    if int(ends[-1]) != nnz:
        raise _unmet("crow_indices[..., -1] == nnz")
    if bool((ends[1:] < ends[:-1]).any()) or bool((ends[1:] - ends[:-1] > size[1]).any()):
        raise _unmet("0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols")
    if bool(((columns < 0) | (columns >= size[1])).any()):
        raise _unmet("0 <= col_indices < ncols")


@function()
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse matrix of compressed rows; gradients flow to `values`.

    crow_indices: integers (rows + 1), where each row begins among the values, and the last ends;
    col_indices: (nnz), sorted in each row and none twice; values: (nnz). Indices are always
    checked, and int64. Raises RuntimeError for parts that do not fit together.

    >>> import ag_visual as ag
    >>> ag.sparse_csr_tensor([0, 1, 3], [2, 0, 1], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 5., 0.]])
    """
    make = functions["tensor"]
    if not isinstance(values, Tensor):
        values = make(values, dtype=dtype, device=device)
    elif dtype is not None or device is not None:
        values = values.to(dtype=dtype, device=device)
    ends, columns = (
        (x if isinstance(x, Tensor) else make(x, dtype=functions["arange"](1).dtype))
        .detach()
        .to(device=values.device)
        ._array.astype(numpy.int64)
        for x in (crow_indices, col_indices)
    )
    if ends.ndim != 1 or columns.ndim != 1 or values.ndim != 1:
        raise NotImplementedError(
            "sparse_csr_tensor: batches of matrices and blocks of values are not there, make one "
            f"matrix; got indices of {ends.ndim} and {columns.ndim} and values of {values.ndim} "
            "dimensions"
        )
    if size is None:
        size = (ends.shape[0] - 1, int(columns.max()) + 1 if columns.size else 0)
    size = tuple(int(n) for n in size)
    if len(size) != 2:
        raise NotImplementedError(f"sparse_csr_tensor: one matrix, not a batch of size {size}")
    _check(ends, columns, values.shape[0], size)
    xp = sparse.backend_of(columns).xp
    rows = xp.searchsorted(ends, xp.arange(columns.shape[0]), side="right") - 1
    flat = rows * size[1] + columns
    if bool((flat[1:] <= flat[:-1]).any()):
        raise _unmet(
            "col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all i = 1, ..., "
            "nrows are sorted and distinct along the last dimension values"
        )
    indices = xp.stack((rows, columns)).astype(xp.int64)
    given = values.detach() if requires_grad else values
    result = sparse.assembled(indices, given, size, True, True)
    return result._require_grad(True) if requires_grad else result


def _method(name: str) -> Any:
    return function(name=name, method=True, spaces="")


@_method("to_sparse_csr")
def _to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The elements of a matrix that are not zero, by compressed rows."""
    if self.ndim != 2 or dense_dim:
        raise NotImplementedError(
            f"to_sparse_csr: one matrix of numbers, not a tensor of {self.ndim} dimensions with "
            f"{dense_dim or 0} dense ones: use .to_sparse()"
        )
    if type(self) is not SparseTensor:
        self = sparse.to_sparse(self)
    return sparse.in_rows(self)


def _rows(self: Tensor, name: str) -> Any:
    if type(self) is not SparseTensor or not self._array.csr:
        raise expected(name, "sparse row compressed tensor", self)
    return self._array


@_method("crow_indices")
def _crow_indices(self: Tensor) -> Tensor:
    """Where each row of a matrix of compressed rows begins among its values, and the last ends."""
    return from_array(_rows(self, "crow_indices").row_ends())


@_method("col_indices")
def _col_indices(self: Tensor) -> Tensor:
    """The column of each value of a matrix of compressed rows."""
    return from_array(_rows(self, "col_indices").indices[1])
