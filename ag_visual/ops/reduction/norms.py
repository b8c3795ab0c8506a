"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math

from ag_visual.core.level import all_values, anywhere
from ag_visual.dispatch.dims import wrap
from ag_visual.ops.linalg.checks import array_of, check_kind, check_matrix, check_square, composed
from ag_visual.ops.reduction.along_dim import cast


def _cast(F, x, name: str, dtype):
    check_kind(name, array_of(x), low_allowed=True)
    return x if dtype is None else cast(F, x, dtype)


@composed("linalg.vector_norm", out=True, autocast="cuda result")
def linalg_vector_norm(F, x, ord=2, dim=None, keepdim: bool = False, *, dtype=None):
    """(sum |x|^ord)^(1/ord) over `dim`, over all elements by default.

    ord: also inf and -inf (the largest and the smallest |x|) and 0 (how many are not 0).
    """
    return F.vector_norm(_cast(F, x, "linalg.vector_norm", dtype), ord, dim, keepdim)


def _two_dims(name: str, self, dim) -> tuple[int, int]:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    first, second = (wrap(d, self.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    return first, second


def _along_lines(F, self, ord: float, dims: tuple[int, int], keepdim: bool):
    """1 and inf: the largest (smallest, if negative) sum of |x| of a column or a row."""
    summed, other = dims if abs(ord) == 1 else dims[::-1]
    if not keepdim and summed < other:
        other -= 1
    sums = F.linalg_vector_norm(self, 1, (summed,), keepdim)
    return (F.amax if ord > 0 else F.amin)(sums, (other,), keepdim)


def _of_singular_values(F, self, dims: tuple[int, int], keepdim: bool, reduce: str):
    s = F.linalg_svdvals(F.movedim(self, dims, (-2, -1)))
    result = getattr(F, reduce)(s, (-1,), False)
    if keepdim:
        for d in sorted(dims):
            result = F.unsqueeze(result, d)
    return result


@composed("linalg.matrix_norm", out=True, autocast="cuda result")
def linalg_matrix_norm(F, self, ord="fro", dim=(-2, -1), keepdim: bool = False, *, dtype=None):
    """A norm of each matrix of two dimensions.

    ord: "fro" (of all elements as one vector), "nuc" (the sum of singular values), 2 and -2 (the
    largest and the smallest of them), 1 and -1 (of sums of columns), inf and -inf (of rows).
    """
    name = "linalg.matrix_norm"
    check_matrix(name, array_of(self), low_allowed=True)
    dims = _two_dims(name, self, dim)
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"{name}: Order {ord} not supported.")
        self = _cast(F, self, name, dtype)
        if ord == "fro":
            return F.vector_norm(self, 2, dims, keepdim)
        return _of_singular_values(F, self, dims, keepdim, "sum")
    if abs(ord) not in (1, 2, math.inf):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    self = _cast(F, self, name, dtype)
    if abs(ord) == 2:
        return _of_singular_values(F, self, dims, keepdim, "amax" if ord > 0 else "amin")
    return _along_lines(F, self, ord, dims, keepdim)


@composed("linalg.norm", out=True)
def linalg_norm(F, self, ord=None, dim=None, keepdim: bool = False, *, dtype=None):
    """A vector norm over one dimension, a matrix norm over two: by `ord`, `dim` and the shape.

    Without ord the 2-norm over `dim` (all elements by default); with ord and without dim the input
    must have one or two dimensions.
    """
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    if dims is not None and len(dims) not in (1, 2) and ord is not None:
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if dims is None and ord is not None and self.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{self.ndim}D."
        )
    if ord is not None and len(dims if dims is not None else tuple(self.shape)) == 2:
        return F.linalg_matrix_norm(self, ord, dims or (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} is of matrices, but one dimension was given")
    return F.linalg_vector_norm(self, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@composed("linalg.cond", out="casts", autocast="cpu float32")
def linalg_cond(F, self, p=None):
    """The condition number of each matrix in a norm of `linalg.matrix_norm` (2 by default).

    For None, 2 and -2 from the singular values, of matrices of any shape; else of square matrices,
    |A| |A^-1|; inf for a singular one.
    """
    name = "linalg.cond"
    check_matrix(name, array_of(self))
    if array_of(self).size == 0:
        return F.linalg_vector_norm(F.zeros_of(self, (*tuple(self.shape)[:-2], 0)), 2, (-1,))
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        s = F.linalg_svdvals(self)
        first, last = F.narrow(s, -1, 0, 1), F.narrow(s, -1, s.shape[-1] - 1, 1)
        ratio = last / first if p == -2 else first / last
        return F.squeeze(ratio, -1)
    check_square(f"{name}(ord={p})", array_of(self))
    inverse, info = F.linalg_inv_ex(self)
    failed = anywhere(all_values(info) > 0)
    if failed:
        mask = F.unsqueeze(F.unsqueeze(info > 0, -1), -1)
        inverse = F.masked_fill(inverse, mask, math.inf)
    result = F.linalg_matrix_norm(self, p) * F.linalg_matrix_norm(inverse, p)
    return F.nan_to_num(result, math.inf, math.inf, -math.inf) if failed else result
