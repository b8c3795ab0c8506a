"""Products with sparse matrices, and transposed ones.

The gradient of a sparse factor is dense after `mm` and `@`, as in torch, and has the factor's
positions after `torch.sparse.mm` and between two sparse matrices.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.coo import Coo, no_sparse_rule
from ag_visual.arrays.kernels import sparse_products as kernels
from ag_visual.core.sparse import SparseTensor, tensor_of
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.sparse import (
    is_sparse,
    like,
    needed,
    node_kind,
    rule,
    values_at,
    with_history,
)
from ag_visual.dispatch.table import traced as F

# Products ---------------------------------------------------------------------------------------


def _check(name: str, one: Any, other: Any) -> None:
    for x in (one, other):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): argument must be Tensor, not {type(x).__name__}")
        if is_sparse(x) and x._array.sparse_dim != x.ndim:
            raise RuntimeError(
                f"{name}: a sparse factor has indices of all dimensions, but got sparse_dim="
                f"{x._array.sparse_dim} of {x.ndim} dimensions"
            )
    if one.dtype != other.dtype:
        raise RuntimeError(
            f"expected scalar type {one.dtype.scalar_name} but found {other.dtype.scalar_name}"
        )
    if one.ndim != 2 or other.ndim not in (1, 2):
        found = one if one.ndim != 2 else other
        raise RuntimeError(f"addmm: matrices expected, got {found.ndim}D tensor")
    if one.shape[1] != other.shape[0]:
        if other.ndim == 1:
            raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {one.shape[1]}, got {other.shape[0]}"
        )


def _turned(x: Any) -> Any:
    """The conjugate transpose of a matrix of any kind."""
    if isinstance(x, Tensor):
        return x.conj().t()
    turned = x.permuted((1, 0)) if type(x) is Coo else x.T
    return turned.conj() if turned.dtype.kind == "c" else turned


def _times(one: Any, other: Any) -> Any:
    if isinstance(one, Tensor):
        return F.mm(one, other)
    if type(one) is Coo or type(other) is Coo:
        return kernels.times(one, other)
    return one @ other


def _at(where: Coo, one: Any, other: Any) -> Any:
    """The elements of one @ other^H at some positions, as a gradient there."""
    if not isinstance(one, Tensor):
        other = other.conj() if other.dtype.kind == "c" else other
        return like(where, kernels.sampled(one, other, where))
    if is_sparse(one) or is_sparse(other):
        return like(where, values_at(F.mm(one, _turned(other)), where))
    rows, columns = map(from_array, where.indices)
    return like(where, (F.index(one, (rows,)) * F.index(other, (columns,)).conj()).sum(-1))


def _back(kept: Any, g: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """kept: the positions at which alone the gradient of each factor is wanted, or None."""
    of_one, of_other = kept
    by_one = by_other = None
    if other is not None:
        by_one = _times(g, _turned(other)) if of_one is None else _at(of_one, g, other)
    if one is not None:
        left = _turned(one)
        by_other = _times(left, g) if of_other is None else _at(of_other, left, _turned(g))
    return by_one, by_other


Mm = node_kind("MmBackward0", _back, ("self", "mat2"))
SparseAddmm = node_kind("SparseAddmmBackward0", _back, ("mat1", "mat2"))
SparseSparse = node_kind("SparseSparseMatmulBackward0", _back, ("self", "other"))


def _product(kind: Any, one: Any, other: Any, masked: bool) -> Any:
    where = (x._array.coalesced() if masked and is_sparse(x) else None for x in (one, other))
    kept = (*needed(one, other), *where)
    return kind, (one, other), kernels.times(one._array, other._array), kept


@rule("mm")
def _mm(given: dict[str, Any]) -> Any:
    one, other = given["self"], given["mat2"]
    _check("mm", one, other)
    if other.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {other.ndim}-D tensor")
    return _product(Mm, one, other, is_sparse(one) and is_sparse(other))


@rule("mv")
def _mv(given: dict[str, Any]) -> Any:
    matrix, vector = given["self"], given["vec"]
    _check("mv", matrix, vector)
    if is_sparse(vector):
        raise no_sparse_rule("mv")
    return F.squeeze(F.mm(matrix, F.unsqueeze(vector, 1)), 1)


def _added(c: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    if is_sparse(c) != is_sparse(product):
        raise no_sparse_rule("addmm")
    if not is_sparse(c) and tuple(c.shape) != tuple(product.shape):
        c = c.expand(tuple(product.shape))
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (c if beta == 1 else c * beta) + scaled


@rule("addmm")
def _addmm(given: dict[str, Any]) -> Any:
    product = F.mm(given["mat1"], given["mat2"])
    return _added(given["self"], product, given["beta"], given["alpha"])


@rule("addmv")
def _addmv(given: dict[str, Any]) -> Any:
    product = F.mv(given["mat"], given["vec"])
    return _added(given["self"], product, given["beta"], given["alpha"])


@rule("bmm")
def _bmm(given: dict[str, Any]) -> Any:
    """Matrix by matrix: a batch of sparse matrices of one shape times dense ones."""
    one, other = given["self"], given["mat2"]
    if not is_sparse(one) or is_sparse(other) or one.ndim != 3:
        raise no_sparse_rule("bmm")
    return F.stack([F.mm(F.select(one, 0, i), other[i]) for i in range(one.shape[0])])


def sparse_mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of matrices of which the first, the second or both are sparse.

    Dense where one of them is; two sparse ones give a sparse one. The gradient of a sparse factor
    is sparse: it has the factor's positions. Raises RuntimeError for shapes or dtypes that do not
    fit, and where both are dense.

    >>> import ag_visual as ag
    >>> a = ag.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> ag.sparse.mm(a, ag.ones(2, 1))
    tensor([[2.],
            [3.]])
    """
    _check("sparse.mm", mat1, mat2)
    if not is_sparse(mat1) and not is_sparse(mat2):
        return F.mm(mat1, mat2)
    both = is_sparse(mat1) and is_sparse(mat2)
    found = _product(SparseSparse if both else SparseAddmm, mat1, mat2, masked=True)
    kind, inputs, held, kept = found
    result = tensor_of(held) if type(held) is Coo else from_array(held)
    return with_history(kind, inputs, result, kept)


def sparse_addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2), with a sparse mat1; its gradient has its positions."""
    return _added(mat, sparse_mm(mat1, mat2), beta, alpha)


# Dimensions in another order --------------------------------------------------------------------


def _permuted(kind: Any, x: SparseTensor, dims: tuple[int, ...]) -> Any:
    back = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    return kind, (x,), x._array.permuted(dims), back


def _permuted_back(dims: tuple[int, ...], g: Any) -> tuple[Any]:
    if isinstance(g, Tensor):
        return (g.permute(dims),)
    return (g.permuted(dims) if type(g) is Coo else g.transpose(dims),)


Turn = node_kind("TBackward0", _permuted_back)
Transpose = node_kind("TransposeBackward0", _permuted_back)
Permute = node_kind("PermuteBackward0", _permuted_back)


@rule("t")
def _t(given: dict[str, Any]) -> Any:
    x = given["self"]
    count, dense = x._array.sparse_dim, x.ndim - x._array.sparse_dim
    if count > 2 or dense:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{count} sparse and {dense} dense dimensions"
        )
    return _permuted(Turn, x, tuple(reversed(range(count))))


@rule("transpose")
def _transpose(given: dict[str, Any]) -> Any:
    x = given["self"]
    one, two = (wrap(given[name], x.ndim) for name in ("dim0", "dim1"))
    if one != two and max(one, two) >= x._array.sparse_dim:
        raise RuntimeError(
            "sparse transpose: transposed dimensions must be sparse Got sparse_dim: "
            f"{x._array.sparse_dim}, d0: {one}, d1: {two}"
        )
    dims = list(range(x.ndim))
    dims[one], dims[two] = two, one
    return _permuted(Transpose, x, tuple(dims))


@rule("permute")
def _permute(given: dict[str, Any]) -> Any:
    x = given["self"]
    dims = tuple(wrap(d, x.ndim) for d in given["dims"])
    count = x._array.sparse_dim
    if sorted(dims) != list(range(x.ndim)):
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {x.ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        )
    if any(d >= count for d in dims[:count]):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not "
            "allowed.Only transpositions within sparse and dense dimensions are supported."
        )
    return _permuted(Permute, x, dims)
