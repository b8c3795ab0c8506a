"""Sparse tensors in coordinate form (COO): made, taken apart, turned dense."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.coo import Coo
from ag_visual.core import modes
from ag_visual.core.sparse import SparseTensor
from ag_visual.core.tensor import Tensor, before_write, check_inplace, from_array
from ag_visual.dispatch import sparse
from ag_visual.dispatch.table import composite, function, functions


def expected(name: str, words: str, x: Tensor) -> RuntimeError:
    """torch's error of a question that only another layout answers."""
    if type(x) is not SparseTensor:
        return RuntimeError(
            f"{name} expected {words} layout but got Strided: this tensor is dense, make a sparse "
            "one of it with .to_sparse() or .to_sparse_csr()"
        )
    if x._array.csr:
        return RuntimeError(
            f"{name} expected {words} layout but got SparseCsr: call .to_sparse_coo() first"
        )
    return RuntimeError(
        f"{name} expected {words} layout but got Sparse: call .to_sparse_csr() first"
    )


def _by_coordinates(x: Tensor) -> bool:
    return type(x) is SparseTensor and not x._array.csr


def _no_dense(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: this tensor is "
        "dense, make a sparse one of it with .to_sparse()"
    )


def _uncoalesced(what: str) -> RuntimeError:
    return RuntimeError(
        f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
    )


def _check(indices: Any, values: Any, size: tuple[int, ...]) -> None:
    """What is always checked of the parts."""
    dims, dense = indices.shape[0], values.ndim - 1
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{indices.shape[1]}, nnz from values: {values.shape[0]}"
        )
    if len(size) != dims + dense:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {dims}, dense_dim = {dense}"
        )
    expected = [values.shape[0], *size[dims:]]
    if expected != list(values.shape):
        raise RuntimeError(
            f"values has incorrect size, expected {expected}, got {list(values.shape)}"
        )


def _check_bounds(indices: Any, size: tuple[int, ...]) -> None:
    """That indices name elements: here always, as NumPy would take negative ones from the end."""
    for dim, row in enumerate(indices):
        if not row.size:
            continue
        least, most = int(row.min()), int(row.max())
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if most >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found "
                f"index {most}"
            )


def _parts(indices: Any, values: Any, dtype: Any, device: Any) -> tuple[Any, Tensor]:
    """Indices as an array of int64, values as a tensor."""
    make = functions["tensor"]
    if not isinstance(values, Tensor):
        values = make(values, dtype=dtype, device=device)
    elif dtype is not None or device is not None:
        values = values.to(dtype=dtype, device=device)
    if values.ndim == 0:
        values = values.reshape(1)
    if not isinstance(indices, Tensor):
        indices = make(indices)
    given = indices.detach().to(device=values.device)._array.astype(numpy.int64)
    if given.ndim == 1:
        given = given.reshape(given.shape[0], -1) if given.size else given.reshape(1, 0)
    if given.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(given.shape)}")
    return given, values


@function()
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A sparse tensor with `values` at `indices`, zero elsewhere; gradients flow to `values`.

    indices: integers (sparse dimensions, nnz); values: (nnz, dense dimensions...); size: of the
    whole, else as small as holds the indices. Values at the same position add up. is_coalesced:
    promises that positions are sorted and occur once. Raises RuntimeError for parts that do not
    fit together.

    >>> import ag_visual as ag
    >>> ag.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:  # of a size alone
        size = tuple(indices if size is None else size)
        values = functions["empty"](0, dtype=dtype, device=device)
        indices = functions["empty"]((len(size), 0), device=device)
    at, given = _parts(indices, values, dtype, device)
    array = given._array
    if size is None:
        found = [int(row.max()) + 1 if row.size else 0 for row in at]
        size = (*found, *array.shape[1:])
    size = tuple(int(n) for n in size)
    _check(at, array, size)
    _check_bounds(at, size)
    if is_coalesced and check_invariants:
        flat = Coo(at, array, size).flat()
        if not bool((flat[1:] > flat[:-1]).all()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )
    if requires_grad:
        given = given.detach()
    result = sparse.assembled(at, given, size, bool(is_coalesced))
    return result._require_grad(True) if requires_grad else result


def _method(name: str) -> Any:
    return function(name=name, method=True, spaces="")


def _held(x: Tensor) -> Coo | None:
    held = x._array
    return held if type(held) is Coo else None


@_method("to_dense")
def _to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """All elements of a sparse tensor; a dense one as it is.

    masked_grad=False: the gradient of elements that it does not name counts, too.
    """
    result = self
    if type(self) is SparseTensor:
        result = sparse.to_dense(self, masked_grad)
    return result if dtype is None else result.to(dtype)


@_method("to_sparse")
def _to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Tensor:
    """The elements that are not zero, in coordinate form.

    sparse_dim: how many dimensions, from the front, have indices (all of them).
    """
    if layout is not None and str(layout) != "torch.sparse_coo":
        if str(layout) == "torch.sparse_csr":
            return self.to_sparse_csr()
        raise NotImplementedError(
            "to_sparse: there are the layouts torch.sparse_coo and torch.sparse_csr here, not "
            f"{layout}"
        )
    if type(self) is SparseTensor:
        return sparse.in_rows(self, False) if self._array.csr else self
    if sparse_dim is not None and not 0 < sparse_dim <= self.ndim:
        raise RuntimeError(
            "number of dimensions must be in [1, "
            f"{self.ndim}] for the sparse part, got sparse_dim={sparse_dim}"
        )
    return sparse.to_sparse(self, sparse_dim)


@_method("to_sparse_coo")
def _to_sparse_coo(self: Tensor) -> Tensor:
    """`to_sparse()`."""
    return self.to_sparse()


@_method("coalesce")
def _coalesce(self: Tensor) -> Tensor:
    """The same sparse tensor with sorted positions that occur once, their values added up."""
    if not _by_coordinates(self):
        raise expected("coalesce", "sparse coordinate tensor", self)
    return sparse.coalesced(self)


@_method("is_coalesced")
def _is_coalesced(self: Tensor) -> bool:
    """Whether positions are known to be sorted and to occur once."""
    if not _by_coordinates(self):
        raise expected("is_coalesced", "sparse coordinate tensor", self)
    return self._array.coalesced_


@_method("indices")
def _indices_of(self: Tensor) -> Tensor:
    """The indices (sparse dimensions, nnz) of a sparse tensor that is coalesced."""
    if not _by_coordinates(self):
        raise expected("indices", "sparse coordinate tensor", self)
    if not self._array.coalesced_:
        raise _uncoalesced("indices")
    return from_array(self._array.indices)


@_method("values")
def _values_of(self: Tensor) -> Tensor:
    """The values (nnz, dense dimensions...) of a sparse tensor that is coalesced."""
    if type(self) is not SparseTensor:
        raise expected("values", "sparse tensor", self)
    if not self._array.coalesced_:
        raise _uncoalesced("values")
    return sparse.values_of(self)


@_method("_indices")
def _raw_indices(self: Tensor) -> Tensor:
    """The indices as they are, coalesced or not."""
    if type(self) is not SparseTensor:
        raise _no_dense("_indices")
    return from_array(self._array.indices)


@_method("_values")
def _raw_values(self: Tensor) -> Tensor:
    """The values as they are, coalesced or not, without history."""
    if type(self) is not SparseTensor:
        raise _no_dense("_values")
    return from_array(self._array.values)


@_method("_nnz")
def _count(self: Tensor) -> int:
    """How many positions have a value; those that occur twice count twice."""
    if type(self) is not SparseTensor:
        raise _no_dense("_nnz")
    return self._array.nnz


@_method("sparse_dim")
def _sparse_dim(self: Tensor) -> int:
    """How many dimensions have indices; 0 of a dense tensor."""
    held = _held(self)
    return 0 if held is None else held.sparse_dim


@_method("dense_dim")
def _dense_dim(self: Tensor) -> int:
    """How many dimensions each value has; all of a dense tensor."""
    held = _held(self)
    return self.ndim if held is None else held.ndim - held.sparse_dim


@_method("sparse_mask")
def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the positions of a sparse tensor."""
    where = _held(mask)
    if where is None:
        raise RuntimeError(
            "sparse_mask: expected self and mask to have the same layout: the mask must be sparse"
        )
    if tuple(self.shape) != where.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} "
            f"but mask has size {list(where.shape)}"
        )
    values = sparse.values_at(self, where)
    return sparse.assembled(where.indices, values, where.shape, where.coalesced_)


def _zero_(self: SparseTensor) -> SparseTensor:
    """Without any values, in place."""
    before_write(self)
    if modes.grad_enabled() and self.requires_grad:
        check_inplace(self, "zero_")
    self._array = self._array.nothing()
    self._storage.wrote("zero_", None, self._array.values)
    return self


SparseTensor.zero_ = _zero_  # type: ignore[attr-defined]


@composite("embedding_sparse_backward", public=False)
def _embedding_sparse_backward(
    F: Any, g: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """The gradient of a table without a row for what was not looked up."""
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    at = getattr(indices, "_array", indices)
    if not hasattr(at, "reshape"):
        raise at.unsupported()
    size = g.shape[-1]
    at = at.reshape(-1)
    rows = F.reshape(g, (at.shape[0], size))
    if padding_idx >= 0:
        keep = (at != padding_idx).nonzero()[0]
        rows = F.index_select(rows, 0, from_array(keep) if F.traced else keep)
        at = at[keep]
    at = at.reshape(1, -1).astype(numpy.int64)
    shape = (num_weights, size)
    if F.traced:
        return sparse.assembled(at, rows, shape)
    return Coo(at, rows if rows.flags.c_contiguous else rows.copy(), shape)
