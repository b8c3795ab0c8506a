"""Norms of vectors and distances."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import DType, SomeDims, wrong_type
from ag_visual.dispatch.record import ELEMENTWISE, UNSEEN, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.ops.linalg.checks import array_of, check_kind
from ag_visual.ops.reduction.along_dim import Dims, all_dims, axes, cast, narrow, spread, wide


def _normal_norm(self, ord, dim, keepdim) -> tuple[Any, ...]:
    return ord, all_dims(self, dim), bool(keepdim)


def _norm_of(xp, size, ord, dim, keepdim):
    axis = axes(dim)
    along = axis if isinstance(axis, tuple) else range(size.ndim) if axis is None else (axis,)
    alone = ord != 0 and math.prod(size.shape[each] for each in along) == 1
    if ord == math.inf or alone:  # a power and its root would lose what one number is
        return size.max(axis=axis, keepdims=keepdim)
    if ord == -math.inf:
        return size.min(axis=axis, keepdims=keepdim)
    if ord == 0:
        return (size != 0).sum(axis=axis, keepdims=keepdim).astype(size.dtype)
    if ord == 1:
        return size.sum(axis=axis, keepdims=keepdim)
    if ord == 2:
        return xp.sqrt((size * size).sum(axis=axis, keepdims=keepdim))
    return (size**ord).sum(axis=axis, keepdims=keepdim) ** (1 / ord)


def _vector_norm(xp, self, ord=2, dim=None, keepdim=False):
    size = xp.abs(self)
    if wide(xp, self):  # squares of 16-bit floats overflow and vanish
        size = size.astype(wide(xp, self))
    return narrow(_norm_of(xp, size, ord, dim, keepdim), self)


def _norm_rule(F, g, self, result, ord, dim: Dims, keepdim: bool):
    shape = tuple(self.shape)
    g, norm = spread(g, shape, dim, keepdim), spread(result, shape, dim, keepdim)
    if ord == 0:
        return None
    if ord == 1:
        return g * F.sgn(self)
    if abs(ord) == math.inf:
        mask = (F.abs(self) == norm) | ((self != self) & (norm != norm))
        return F.sgn(self) * (mask * (g / F.sum(mask, dim, True)))
    empty = norm == 0
    safe = F.where(empty, 1.0, norm)
    if ord == 2:
        return g * F.where(empty, 0.0, self / safe)
    if ord < 2:
        zero = self == 0
        size = F.where(zero, 1.0, F.abs(self)) ** (ord - 1)
        return F.where(zero | empty, 0.0, F.sgn(self) * size * (g / safe ** (ord - 1)))
    return F.where(empty, 0.0, self * F.abs(self) ** (ord - 2) * (g / safe ** (ord - 1)))


def _norm_samples(make):
    for ord in (2, 1, 3, 1.5, math.inf, -math.inf):
        yield Sample((make((3, 4), low=0.2, high=2.0), ord, 1, False))
    yield Sample((make((3, 4)), 2, None, False))
    yield Sample((make((2, 3, 4)), 2, (0, 2), True))


op(
    "vector_norm",
    _vector_norm,
    doc="The length of a vector: the p-norm of all elements, or over `dim`.",
    vjp={"self": _norm_rule},
    jvp=ELEMENTWISE,
    normalize=_normal_norm,
    holomorphic=False,
    public=False,
    node="LinalgVectorNormBackward0",
    public_name="linalg.vector_norm",
    samples=_norm_samples,
)


@composite("norm", out=True, autocast="cuda result", profiled=UNSEEN)
def _norm(
    F, self, p="fro", dim: SomeDims | None = None, keepdim: bool = False, dtype: DType | None = None
):
    """(sum |x|^p)^(1/p) over `dim` (all elements by default).

    p: also inf, -inf, 0, 'fro' (2) and, for matrices, 'nuc' (the sum of singular values).
    """
    if p in ("fro", None):
        p = 2
    if p == "nuc":
        return F.linalg_matrix_norm(cast(F, self, dtype), "nuc", dim or (0, 1), keepdim)
    if not isinstance(p, (str, int, float, complex, numpy.number, Tensor)):
        raise wrong_type("norm", "p", "Number", p)
    if isinstance(p, str):
        raise RuntimeError(f"norm(): p must be a number, 'fro' or 'nuc', not {p!r}")
    check_kind("linalg.vector_norm", array_of(self), low_allowed=True)
    return F.vector_norm(cast(F, self, dtype), p, dim, keepdim)


@composite("dist", autocast="cuda float32")
def _dist(F, self, other, p: float = 2):
    """The p-norm of self - other."""
    return F.vector_norm(self - other, p, None, False)
