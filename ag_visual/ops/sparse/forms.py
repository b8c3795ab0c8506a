"""Parts, sums and softmaxes of sparse tensors, of their coalesced values by ops of dense ones.

What is computed so has derivatives of every order, by way of the values.
"""

from __future__ import annotations

import math
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo, no_sparse_rule
from ag_visual.core.sparse import SparseTensor
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.dims import wrap, wrap_all
from ag_visual.dispatch.sparse import assembled, coalesced, is_sparse, rule, values_of
from ag_visual.dispatch.table import traced as F


def _coordinates(name: str, x: SparseTensor) -> SparseTensor:
    if x._array.csr:
        raise NotImplementedError(
            f"{name}: a matrix of compressed rows (SparseCsrCPU) has no rule for it here. Call "
            ".to_sparse_coo() or .to_dense() first."
        )
    return x


def _open(x: SparseTensor) -> tuple[Coo, Tensor]:
    """The coalesced form, and its values with their history."""
    own = coalesced(x)
    return own._array, values_of(own)


# Parts ------------------------------------------------------------------------------------------


def _selected(x: SparseTensor, dim: int, index: Any) -> Tensor:
    """Slices of a dimension, in the order of an index array."""
    held, values = _open(x)
    xp = held.xp
    shape = (*held.shape[:dim], int(index.shape[0]), *held.shape[dim + 1 :])
    if dim >= held.sparse_dim:
        picked = F.index_select(values, dim - held.sparse_dim + 1, from_array(index))
        return assembled(held.indices, picked, shape, True)
    # Where each slice that is asked for stands among positions that are sorted by this dimension.
    order = xp.argsort(held.indices[dim], kind="stable")
    row = held.indices[dim][order]
    first, last = xp.searchsorted(row, index), xp.searchsorted(row, index, side="right")
    counts = last - first
    new = xp.repeat(xp.arange(index.shape[0]), _lengths(counts))
    begins = xp.cumsum(counts) - counts
    at = order[xp.arange(int(counts.sum())) + (first - begins)[new]]
    indices = held.indices[:, at]
    indices[dim] = new
    return assembled(indices, F.index_select(values, 0, from_array(at)), shape)


def _lengths(counts: Any) -> Any:
    """Counts as numpy.repeat wants them: CuPy takes a list alone."""
    return counts if backend_of(counts).device_type == "cpu" else counts.tolist()


@rule("index_select")
def _index_select(given: dict[str, Any]) -> Any:
    x = _coordinates("index_select", given["self"])
    dim = wrap(given["dim"], x.ndim)
    index = given["index"]
    if not isinstance(index, Tensor) or is_sparse(index) or index.dtype.category != 1:
        raise RuntimeError("index_select(): expected a tensor of integers as index")
    array = index._array.reshape(-1).astype("int64")
    for wrong in array[(array < 0) | (array >= x.shape[dim])][:1].tolist():
        raise IndexError(
            f"index_select(): index contains {wrong} that is out of range for tensor of size "
            f"{list(x.shape)} at dimension {dim}"
        )
    return _selected(x, dim, array)


def _without(x: Tensor, dim: int) -> Tensor:
    """Without a dimension of size 1."""
    held, values = _open(x)
    shape = held.shape[:dim] + held.shape[dim + 1 :]
    if dim >= held.sparse_dim:
        return assembled(held.indices, F.squeeze(values, dim - held.sparse_dim + 1), shape, True)
    keep = [d for d in range(held.sparse_dim) if d != dim]
    if not keep:  # no sparse dimension is left
        return F.sum(values, 0)
    return assembled(held.indices[keep], values, shape, True)


@rule("select")
def _select(given: dict[str, Any]) -> Any:
    x = given["self"]
    dim, index = wrap(given["dim"], x.ndim), int(given["index"])
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension "
            f"{dim}"
        )
    xp = x._array.xp
    return _without(_selected(x, dim, xp.asarray([index % x.shape[dim]])), dim)


@rule("unbind")
def _unbind(given: dict[str, Any]) -> Any:
    x = _coordinates("unbind", given["self"])
    dim = wrap(given["dim"], x.ndim)
    return tuple(F.select(x, dim, i) for i in range(x.shape[dim]))


@rule("narrow_copy")
def _narrow(given: dict[str, Any]) -> Any:
    x = _coordinates("narrow_copy", given["self"])
    dim = wrap(given["dim"], x.ndim)
    start, length = int(given["start"]), int(given["length"])
    if not 0 <= start <= start + length <= x.shape[dim]:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({x.shape[dim]})."
        )
    return _selected(x, dim, x._array.xp.arange(start, start + length))


@rule("unsqueeze")
def _unsqueeze(given: dict[str, Any]) -> Any:
    x = _coordinates("unsqueeze", given["self"])
    dim = wrap(given["dim"], x.ndim + 1)
    held, values = _open(x)
    shape = (*held.shape[:dim], 1, *held.shape[dim:])
    if dim > held.sparse_dim:
        return assembled(held.indices, F.unsqueeze(values, dim - held.sparse_dim + 1), shape, True)
    xp = held.xp
    zeros = xp.zeros((1, held.nnz), xp.int64)
    indices = xp.concatenate((held.indices[:dim], zeros, held.indices[dim:]))
    return assembled(indices, values, shape, True)


@rule("cat")
def _cat(given: dict[str, Any]) -> Any:
    parts = given["tensors"]
    for at, part in enumerate(parts):
        if not is_sparse(part):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {at}."
            )
        _coordinates("cat", part)
    first = parts[0]._array
    dim = wrap(given["dim"], first.ndim)
    for part in parts:
        other = part._array
        sizes = enumerate(zip(first.shape, other.shape, strict=False))
        rest = [a == b for d, (a, b) in sizes if d != dim]
        if other.ndim != first.ndim or other.sparse_dim != first.sparse_dim or not all(rest):
            raise RuntimeError(
                "All tensors must have the same shape: "
                f"{list(first.shape)} and {list(other.shape)} differ in a dimension that is not "
                f"{dim}, or in their number of sparse dimensions"
            )
    size = sum(part.shape[dim] for part in parts)
    shape = (*first.shape[:dim], size, *first.shape[dim + 1 :])
    xp = first.xp
    indices, values, begin = [], [], 0
    for part in parts:
        held, each = _open(part)
        at = held.indices.copy()
        if dim < held.sparse_dim:
            at[dim] += begin
        else:  # zeros around the part in a dimension of the values
            own = dim - held.sparse_dim + 1
            after = size - begin - part.shape[dim]
            pads = [0, 0] * (each.ndim - 1 - own) + [begin, after]
            each = F.pad(each, tuple(pads))
        begin += part.shape[dim]
        indices.append(at)
        values.append(each)
    return assembled(xp.concatenate(indices, axis=1), F.cat(values, 0), shape)


@rule("stack")
def _stack(given: dict[str, Any]) -> Any:
    parts = given["tensors"]
    if not all(map(is_sparse, parts)):
        raise no_sparse_rule("stack")
    return F.cat([F.unsqueeze(part, given["dim"]) for part in parts], given["dim"])


# Sums -------------------------------------------------------------------------------------------


def _summed(x: SparseTensor, dims: tuple[int, ...], keepdim: bool = False) -> Tensor:
    held, values = _open(x)
    count = held.sparse_dim
    dense = tuple(d - count + 1 for d in dims if d >= count)
    if dense:
        values = F.sum(values, dense, keepdim)
    keep = [d for d in range(count) if d not in dims]
    if not keep and not keepdim:
        return F.sum(values, 0)
    shape = [1 if d in dims else n for d, n in enumerate(held.shape) if keepdim or d not in dims]
    indices = held.indices.copy()
    for d in range(count):
        if d in dims:
            indices[d] = 0
    indices = indices if keepdim else indices[keep]
    return coalesced(assembled(indices, values, tuple(shape)))


def _dims(dim: Any, ndim: int) -> Any:
    """Dimensions as a tuple; none are all."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return range(ndim)
    return (dim,) if isinstance(dim, int) else dim


@rule("sum_dims")
def _sum_dims(given: dict[str, Any]) -> Any:
    x = given["self"]
    dims, keepdim = wrap_all(_dims(given["dim"], x.ndim), x.ndim), bool(given["keepdim"])
    if x._array.csr and not keepdim:
        raise RuntimeError(
            "reduction operations on CSR tensors with keepdim=False is unsupported: call "
            ".to_sparse_coo() first"
        )
    return _summed(x, dims, keepdim)


def sparse_sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum over some dimensions, or over all; its gradient has the positions of the input.

    Sparse where a sparse dimension is left, otherwise dense. dtype: of the result.
    """
    if not is_sparse(input):
        return F.sum(input) if dim is None else F.sum(input, dim)
    if dtype is not None:
        input = input.to(dtype)
    return _summed(input, wrap_all(_dims(dim, input.ndim), input.ndim))


# Softmax ----------------------------------------------------------------------------------------


def _softmax(name: str, input: Tensor, dim: int, dtype: Any, log: bool) -> Tensor:
    if not is_sparse(input):
        raise NotImplementedError(
            f"Could not run 'aten::_{name}' with arguments from the 'CPU' backend: this tensor is "
            "dense, call torch.softmax or make a sparse one of it with .to_sparse()"
        )
    x = _coordinates(f"sparse.{name}", input)
    if dtype is not None:
        x = x.to(dtype)
    if x.dtype.category < 2:
        raise RuntimeError(
            f"{name}: expected floating-point values, but got {x.dtype}: convert them first"
        )
    dim = wrap(dim, x.ndim)
    held, values = _open(x)
    if dim >= held.sparse_dim:
        own = F.log_softmax if log else F.softmax
        result = own(values, dim - held.sparse_dim + 1)
        return assembled(held.indices, result, held.shape, True)
    rows, count = _groups(held, dim)
    at = from_array(rows)
    largest = _largest(held, rows, count)
    shifted = values - from_array(largest[rows].astype(values._array.dtype))
    exps = F.exp(shifted)
    empty = from_array(held.xp.zeros((count, *values.shape[1:]), values._array.dtype))
    totals = F.index_select(F.index_add(empty, 0, at, exps), 0, at)
    result = shifted - F.log(totals) if log else exps / totals
    return assembled(held.indices, result, held.shape, True)


def _groups(held: Coo, dim: int) -> tuple[Any, int]:
    """For each position a number of the row that it is normalised with, and how many rows."""
    xp = held.xp
    rest = [d for d in range(held.sparse_dim) if d != dim]
    flat = Coo(held.indices[rest], held.values, tuple(held.shape[d] for d in rest)).flat()
    places, rows = xp.unique(flat, return_inverse=True)
    return rows.reshape(-1), int(places.shape[0])


def _largest(held: Coo, rows: Any, count: int) -> Any:
    """The largest value of each row; infinite ones count as 0, so that they stay what they are."""
    xp = held.xp
    wide = held.values.astype(xp.float64)
    largest = xp.full(count * math.prod(held.dense_shape), -xp.inf)
    width = math.prod(held.dense_shape)
    at = (rows[:, None] * width + xp.arange(width)).reshape(-1)
    backend_of(wide).maximum_at(largest, at, wide.reshape(-1))
    largest = xp.where(xp.isfinite(largest), largest, 0.0)
    return largest.reshape(count, *held.dense_shape)


def sparse_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax over the elements that a sparse tensor names: all others stay zero.

    As if they were -inf: each row of `dim` sums to 1 where it has any element.

    >>> import ag_visual as ag
    >>> x = ag.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 1.0, 5.0], (2, 3))
    >>> ag.sparse.softmax(x, 1).to_dense()
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000]])
    """
    return _softmax("sparse_softmax", input, dim, dtype, log=False)


def sparse_log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithms of `softmax`, at the elements that a sparse tensor names."""
    return _softmax("sparse_log_softmax", input, dim, dtype, log=True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with rows of `diagonals` (or one vector) on its diagonals.

    offsets: of each row, the column of its diagonal's first row; an element stands in the column
    that it has in its row. layout: torch.sparse_coo or torch.sparse_csr.
    """
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    places = [int(k) for k in offsets.reshape(-1).tolist()]
    if len(places) != rows.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({len(places)})"
        )
    if len(set(places)) != len(places):
        raise RuntimeError("Offset tensor contains duplicate values")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    xp = backend_of(rows._array).xp
    indices, values = [], []
    for row, offset in enumerate(places):
        columns = xp.arange(max(offset, 0), min(shape[1], shape[0] + offset, rows.shape[1]))
        indices.append(xp.stack((columns - offset, columns)))
        values.append(F.index_select(F.select(rows, 0, row), 0, from_array(columns)))
    at = xp.concatenate(indices, axis=1).astype(xp.int64)
    result = assembled(at, F.cat(values, 0), tuple(int(n) for n in shape))
    if layout is not None and str(layout) == "torch.sparse_csr":
        return result.to_sparse_csr()
    return result
