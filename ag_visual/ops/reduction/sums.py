"""Sums, means, products, moments and norms over dimensions.

Rules return the reduced gradient with its dimensions restored; the edge expands it. Only those of
sums expand it themselves, into a gradient whose elements share memory, as torch's do.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual.arrays.kernels import softmax as kernels
from ag_visual.arrays.kernels.rows import MANY, summed
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import (
    LEFT_OUT,
    DType,
    SomeDims,
    checked,
    kind_named,
    outside,
    refused,
)
from ag_visual.dispatch.families import is_complex, zeros
from ag_visual.dispatch.record import EACH, FLOAT, LINEAR, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.validate_grad import expand_for_good
from ag_visual.dispatch.vmap import constant, flattened, over_all
from ag_visual.ops.reduction.along_dim import (
    Dims,
    all_dims,
    axes,
    cast,
    count,
    dims_errors,
    dims_samples,
    narrow,
    one_dim,
    several_dims,
    spread,
    whole_samples,
    wide,
)

# Sums and means -----------------------------------------------------------------------------------


def _sum_all(xp: Any, self: Any) -> Any:
    dtype = self.dtype
    if dtype.kind == "f" and dtype.itemsize > 2:
        return self.sum()
    return narrow(self.sum(dtype=wide(xp, self)), self)


def _sum_dims(xp: Any, self: Any, dim: Any, keepdim: Any = False) -> Any:
    if self.size >= MANY and self.dtype.kind in "fc":
        return summed(xp, self, axes(dim), keepdim)
    return narrow(self.sum(axis=axes(dim), dtype=wide(xp, self), keepdims=keepdim), self)


def _sum_rule(F: Any, g: Any, self_shape: Any) -> Any:
    if F.xp is None:
        return F.expand(g, self_shape)
    return expand_for_good(F.xp, g, self_shape)


op(
    "sum_all",
    _sum_all,
    vjp={"self": _sum_rule},
    jvp=LINEAR,
    public=False,
    node="SumBackward0",
    called="sum",
    batch=over_all("sum_dims", False),
    samples=lambda make: iter([*whole_samples()(make), Sample((make((2, 0)),))]),
)
op(
    "sum_dims",
    _sum_dims,
    vjp={
        "self": lambda F, g, self_shape, dim, keepdim: _sum_rule(
            F, spread(g, self_shape, dim, keepdim), self_shape
        )
    },
    jvp=LINEAR,
    normalize=several_dims,
    public=False,
    node="SumBackward1",
    called="sum",
    samples=lambda make: iter(
        [
            *dims_samples()(make),
            Sample((make((2, 0)), 1, False)),
            Sample((make((2, 3)), (), True)),
        ]
    ),
    errors=dims_errors,
)


@composite("sum", out=True)
def _sum(
    F: Any,
    self: Any,
    dim: SomeDims | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """The sum of all elements, or over `dim` (an int or several); integers add up in int64."""
    if dtype is not None:  # of integers, too, whose sum is int64 otherwise
        return F.sum(self.to(dtype), dim, keepdim).to(dtype)
    return F.sum_all(self) if dim is None and not keepdim else F.sum_dims(self, dim, keepdim)


def _refuse_integers(self: Any) -> None:
    if self.dtype.kind in "iub":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {self.dtype.name}. Convert it with .float(), or pass dtype=."
        )


def _mean_all(xp: Any, self: Any) -> Any:
    _refuse_integers(self)
    return narrow(self.sum(dtype=wide(xp, self)) / self.size, self)


def _mean_dims(xp: Any, self: Any, dim: Any, keepdim: Any = False) -> Any:
    _refuse_integers(self)
    if self.size >= MANY and self.dtype.itemsize > 2:
        return summed(xp, self, axes(dim), keepdim) / count(self.shape, dim)
    total = self.sum(axis=axes(dim), dtype=wide(xp, self), keepdims=keepdim)
    return narrow(total / count(self.shape, dim), self)


def _mean_rule(F: Any, g: Any, self_shape: Any, dim: Any, keepdim: Any) -> Any:
    g = spread(g, self_shape, dim, keepdim)
    if F.xp is None:  # a gradient that has memory of its own, as torch's
        g = F.expand(g, self_shape)
    return g / count(self_shape, dim)


op(
    "mean_all",
    _mean_all,
    vjp={"self": lambda F, g, self_shape: _mean_rule(F, g, self_shape, (), False)},
    jvp=LINEAR,
    public=False,
    node="MeanBackward0",
    called="mean",
    batch=over_all("mean_dims", False),
    samples=whole_samples(),
)
op(
    "mean_dims",
    _mean_dims,
    vjp={"self": _mean_rule},
    jvp=LINEAR,
    normalize=several_dims,
    public=False,
    node="MeanBackward1",
    called="mean",
    samples=dims_samples(),
    errors=dims_errors,
)


@composite("mean", out=True)
def _mean(
    F: Any,
    self: Any,
    dim: SomeDims | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """The mean of all elements, or over `dim` (an int or several)."""
    self = cast(F, self, dtype)
    return F.mean_all(self) if dim is None and not keepdim else F.mean_dims(self, dim, keepdim)


def _nansum(xp: Any, self: Any, dim: Any = None, keepdim: Any = False) -> Any:
    known = xp.where(xp.isnan(self), xp.zeros_like(self), self)
    return _sum_dims(xp, known, dim, keepdim)


op(
    "nansum_dims",
    _nansum,
    vjp={
        "self": lambda F, g, self, self_shape, dim, keepdim: F.where(
            F.isnan(self), 0.0, spread(g, self_shape, dim, keepdim)
        )
    },
    jvp=EACH,
    normalize=several_dims,
    public=False,
    node="NansumBackward0",
    called="nansum",
    samples=dims_samples(),
    real=True,
)


@composite("nansum", out=True)
def _nansum_of(
    F: Any,
    self: Any,
    dim: SomeDims | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """`sum` with NaN as zero."""
    if dtype is not None:
        return F.nansum(self.to(dtype), dim, keepdim).to(dtype)
    return F.nansum_dims(self, dim, keepdim)


@composite("nanmean", out=True)
def _nanmean(
    F: Any,
    self: Any,
    dim: SomeDims | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """`mean` of the elements that are not NaN."""
    known = F.sum(F.logical_not(F.isnan(self)), dim, keepdim)
    return F.nansum(self, dim, keepdim, dtype=dtype) / known


@composite("count_nonzero", varargs="dim")
def _count_nonzero(F: Any, self: Any, dim: SomeDims | None = None) -> Any:
    """How many elements are not zero."""
    return F.sum(self != 0, dim)


# Products -----------------------------------------------------------------------------------------


def _prod_all(xp: Any, self: Any) -> Any:
    return narrow(self.prod(dtype=wide(xp, self)), self)


def _prod_dim(xp: Any, self: Any, dim: Any, keepdim: Any = False) -> Any:
    axis = dim if self.ndim else None
    return narrow(self.prod(axis=axis, dtype=wide(xp, self), keepdims=keepdim), self)


@composite("product_of_others", public=False)
def _product_of_others(F: Any, self: Any, dim: int) -> Any:
    """For each element the product of all others along `dim`, exact where there are zeros."""
    last = F.unsqueeze(F.movedim(self, dim, -1), -2)
    n = last.shape[-1]
    ones = F.diagonal_mask(last, n, n)
    others = F.prod_dim(F.where(ones, 1.0, last), -1, False)
    return F.contiguous(F.movedim(others, -1, dim))


def _diagonal_mask(xp: Any, self: Any, rows: int, columns: int) -> Any:
    return xp.eye(rows, columns, dtype=bool)


op(
    "diagonal_mask",
    _diagonal_mask,
    public=False,
    batch=constant,
    samples=lambda make: iter([Sample((make((2,)), 3, 2))]),
)


def _prod_rule(F: Any, g: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    g = spread(g, tuple(self.shape), (dim,), keepdim)
    if not self.shape:
        return g
    if not bool((self == 0).any()):
        return g * (spread(result, tuple(self.shape), (dim,), keepdim) / self)
    return g * F.product_of_others(self, dim)


def _prod_all_rule(F: Any, g: Any, self: Any, result: Any) -> Any:
    if not self.shape:
        return g
    zero = self == 0
    if not bool(zero.any()):
        return g * (result / self)
    if F.xp is not None and int(zero.sum()) > 1:
        return zeros(F, self)  # be the gradient infinite
    shape = tuple(self.shape)
    return g * F.product_of_others(self.reshape((-1,)), 0).reshape(shape)


def _prod_samples(make: Any) -> Iterator[Sample]:
    for shape, dim, keepdim in (((3, 4), 0, False), ((3, 4), -1, True), ((5,), 0, False)):
        yield Sample((make(shape, low=0.3, high=2.0), dim, keepdim))
        x = make(shape, low=0.3, high=2.0)
        x[(1,) * len(shape)] = 0.0
        yield Sample((x, dim, keepdim))
    yield Sample((make((), low=0.3, high=2.0), 0, False))


def _prod_all_samples(make: Any) -> Iterator[Sample]:
    yield from whole_samples(0.3, 2.0)(make)
    for empty in (1, 2):
        x = make((2, 3), low=0.3, high=2.0)
        x.reshape(-1)[:empty] = 0.0
        yield Sample((x,))


op(
    "prod_all",
    _prod_all,
    vjp={"self": _prod_all_rule},
    jvp=EACH,
    public=False,
    node="ProdBackward0",
    called="prod",
    batch=flattened("prod_dim", False),
    samples=_prod_all_samples,
)
op(
    "prod_dim",
    _prod_dim,
    vjp={"self": _prod_rule},
    jvp=EACH,
    normalize=one_dim,
    public=False,
    node="ProdBackward1",
    called="prod",
    samples=_prod_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)), 2, False), IndexError, "Dimension out of range")]
    ),
)


@composite("prod", out=True)
def _prod(
    F: Any, self: Any, dim: int = LEFT_OUT, keepdim: bool = False, *, dtype: DType | None = None
) -> Any:
    """The product of all elements, or along one dimension."""
    if dtype is not None:
        self = self.to(dtype)
    found = F.prod_all(self) if dim is None else F.prod_dim(self, dim, keepdim)
    return found if dtype is None else found.to(dtype)


# Spread -------------------------------------------------------------------------------------------


def _freedom(shape: Any, dim: Dims, correction: Any) -> float:
    return max(0, count(shape, dim) - (1 if correction is None else correction))


# Up to so many float32 elements are computed with in float64.
_FEW = 1 << 11
# How many times the variance a squared mean may be before its last digit shows in the deviations.
_FAR = 1e4


def _var(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    kind, x = self.dtype, self
    if kind.itemsize == 2:
        x = x.astype(xp.float32)
    elif kind.char == "f" and x.size <= _FEW:
        x = x.astype(xp.float64)
    axis, n = axes(dim), count(self.shape, dim)
    mean = summed(xp, x, axis, True) / n
    off = x - mean
    square = off * off if kind.kind != "c" else off.real**2 + off.imag**2
    total = summed(xp, square, axis, True)
    if n and x.dtype.char == "f" and bool((mean * mean * n > _FAR * total).any()):
        # The mean was rounded: what the deviations add up to tells by how much.
        lost = summed(xp, off, axis, True)
        total -= lost * lost / n
    total = total / _freedom(self.shape, dim, correction)
    if not keepdim:
        total = total.reshape(()) if axis is None else total.squeeze(axis)
    return total.astype(_real_type(xp, self))


def _real_type(xp: Any, self: Any) -> Any:
    if self.dtype.kind != "c":
        return self.dtype
    return xp.float32 if self.dtype.itemsize == 8 else xp.float64


def _std(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    return xp.sqrt(_var(xp, self, dim, correction, keepdim))


def _squeezed_mean(xp: Any, self: Any, dim: Dims, keepdim: bool) -> Any:
    return summed(xp, self, axes(dim), keepdim) / count(self.shape, dim)


def _var_mean(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    return _var(xp, self, dim, correction, keepdim), _squeezed_mean(xp, self, dim, keepdim)


def _std_mean(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    return _std(xp, self, dim, correction, keepdim), _squeezed_mean(xp, self, dim, keepdim)


def _var_rule(F: Any, g: Any, self: Any, dim: Dims, correction: Any, keepdim: bool) -> Any:
    shape = tuple(self.shape)
    mean = F.mean_dims(self, dim, True)
    free = _freedom(shape, dim, correction)
    g = spread(g, shape, dim, keepdim)
    if free:
        return g * (self - mean) * (2 / free)
    # As torch divides by 0: by all elements it keeps no sign of their deviations.
    if axes(dim) is None or not shape:
        return g * F.where(self == mean, math.nan, math.inf)
    return g * (self - mean) * math.inf


def _std_rule(
    F: Any, g: Any, self: Any, result: Any, dim: Dims, correction: Any, keepdim: bool
) -> Any:
    g = F.where(result == 0, 0.0, g / (2 * F.where(result == 0, 1.0, result)))
    return _var_rule(F, g, self, dim, correction, keepdim)


def _with_mean(F: Any, gs: Any, moment: Any, shape: Any, dim: Dims, keepdim: bool) -> Any:
    """The gradient of a moment and the mean from those of both, either of which may be None."""
    total = None if gs[0] is None else moment(gs[0])
    if gs[1] is not None:
        mean = _mean_rule(F, gs[1], shape, dim, keepdim)
        total = mean if total is None else total + mean
    return total


def _var_mean_rule(F: Any, gs: Any, self: Any, dim: Dims, correction: Any, keepdim: bool) -> Any:
    return _with_mean(
        F,
        gs,
        lambda g: _var_rule(F, g, self, dim, correction, keepdim),
        tuple(self.shape),
        dim,
        keepdim,
    )


def _std_mean_rule(
    F: Any, gs: Any, self: Any, result0: Any, dim: Dims, correction: Any, keepdim: bool
) -> Any:
    return _with_mean(
        F,
        gs,
        lambda g: _std_rule(F, g, self, result0, dim, correction, keepdim),
        tuple(self.shape),
        dim,
        keepdim,
    )


def _spread_samples(make: Any) -> Iterator[Sample]:
    for shape, dim, correction, keepdim in (
        ((3, 4), None, 1, False),
        ((3, 4), 0, 0, True),
        ((2, 3, 4), (0, 2), 1, False),
        ((5,), 0, 2, False),
    ):
        yield Sample((make(shape), dim, correction, keepdim))


def _both_along(
    F: Any,
    t_self: Any,
    self: Any,
    result0: Any,
    std: bool,
    dim: Dims,
    correction: Any,
    keepdim: bool,
) -> tuple[Any, Any]:
    """The tangents of a moment and of the mean."""
    ones = F.zeros_of(result0, tuple(result0.shape)) + 1
    args = (dim, correction, keepdim)
    slope = _std_rule(F, ones, self, result0, *args) if std else _var_rule(F, ones, self, *args)
    moved = F.sum_dims(F.conj(slope) * t_self, dim, keepdim)
    moved = F.real(moved) if is_complex(self) else moved
    return moved, F.mean_dims(t_self, dim, keepdim)


def _var_mean_along(
    F: Any, t_self: Any, self: Any, result0: Any, dim: Dims, correction: Any, keepdim: bool
) -> tuple[Any, Any]:
    return _both_along(F, t_self, self, result0, False, dim, correction, keepdim)


def _std_mean_along(
    F: Any, t_self: Any, self: Any, result0: Any, dim: Dims, correction: Any, keepdim: bool
) -> tuple[Any, Any]:
    return _both_along(F, t_self, self, result0, True, dim, correction, keepdim)


def _moment(name: str, kernel: Any, rule: Any, **options: Any) -> None:
    op(
        f"{name}_dims",
        kernel,
        vjp={"self": rule},
        jvp=options.pop("jvp", EACH),
        normalize=lambda self, dim, correction, keepdim: (
            all_dims(self, dim),
            correction,
            bool(keepdim),
        ),
        holomorphic=False,
        public=False,
        node="".join(p.capitalize() for p in name.split("_")) + "Backward0",
        called=name,
        oracle=lambda torch, self, dim, correction, keepdim: getattr(torch, name)(
            self, dim, correction=correction, keepdim=keepdim
        ),
        samples=_spread_samples,
        **options,
    )

    def body(
        F: Any,
        self: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        elif dim is not None:
            dim = checked(name, "dim", kind_named("SomeDims"), dim)
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        if count(tuple(self.shape), all_dims(self, dim)) <= correction:
            warnings.warn(
                f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than "
                "the reduction factor (input numel divided by output numel).",
                UserWarning,
                stacklevel=outside(),
            )
        return getattr(F, f"{name}_dims")(self, dim, correction, keepdim)

    body.__doc__ = (
        f"{name.replace('_', ' and ')} over `dim` (all by default); the sum of squares is divided "
        "by n - correction (1 by default)."
    )
    single = not name.endswith("_mean")
    composite(name, method=single, out=single)(body)


_moment("var", _var, _var_rule)
_moment("std", _std, _std_rule)
_BOTH: dict[str, Any] = {"outputs": ("result0", "result1")}
_moment(
    "var_mean",
    _var_mean,
    _var_mean_rule,
    jvp={"self": _var_mean_along},
    returns="var_mean",
    **_BOTH,
)
_moment(
    "std_mean",
    _std_mean,
    _std_mean_rule,
    jvp={"self": _std_mean_along},
    returns="std_mean",
    **_BOTH,
)

# Exponential sums and norms -----------------------------------------------------------------------


def _logsumexp(xp: Any, self: Any, dim: SomeDims, keepdim: bool = False) -> Any:
    return kernels.logsumexp(xp, self, dim, keepdim)


def _logsumexp_rule(F: Any, g: Any, self: Any, result: Any, dim: Dims, keepdim: bool) -> Any:
    shape = tuple(self.shape)
    return spread(g, shape, dim, keepdim) * F.exp(self - spread(result, shape, dim, keepdim))


op(
    "logsumexp",
    _logsumexp,
    vjp={"self": _logsumexp_rule},
    jvp=EACH,
    policy=FLOAT,
    normalize=several_dims,
    samples=dims_samples(),
    errors=dims_errors,
    doc="log of the sum of exp(x) over `dim`, without overflow.",
    formula=lambda F, self, dim, keepdim: F.log(F.sum(F.exp(self), dim, keepdim)),
)


def _normal_norm(self: Any, ord: Any, dim: Any, keepdim: Any) -> tuple[Any, ...]:
    return ord, all_dims(self, dim), bool(keepdim)


def _norm_of(xp: Any, size: Any, ord: Any, dim: Any, keepdim: Any) -> Any:
    axis = axes(dim)
    if ord == math.inf:
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


def _vector_norm(xp: Any, self: Any, ord: Any = 2, dim: Any = None, keepdim: Any = False) -> Any:
    return narrow(_norm_of(xp, xp.abs(self), ord, dim, keepdim), self)


def _norm_rule(F: Any, g: Any, self: Any, result: Any, ord: Any, dim: Dims, keepdim: bool) -> Any:
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
        return F.where(empty, 0.0, self * (g / safe))
    if ord < 2:
        zero = self == 0
        size = F.where(zero, 1.0, F.abs(self)) ** (ord - 1)
        return F.where(zero | empty, 0.0, F.sgn(self) * size * (g / safe ** (ord - 1)))
    return F.where(empty, 0.0, self * F.abs(self) ** (ord - 2) * (g / safe ** (ord - 1)))


def _norm_samples(make: Any) -> Iterator[Sample]:
    for ord in (2, 1, 3, 1.5, math.inf, -math.inf):
        yield Sample((make((3, 4), low=0.2, high=2.0), ord, 1, False))
    yield Sample((make((3, 4)), 2, None, False))
    yield Sample((make((2, 3, 4)), 2, (0, 2), True))


op(
    "vector_norm",
    _vector_norm,
    vjp={"self": _norm_rule},
    jvp=EACH,
    normalize=_normal_norm,
    holomorphic=False,
    public=False,
    node="LinalgVectorNormBackward0",
    called="linalg.vector_norm",
    samples=_norm_samples,
)


@composite("norm", out=True)
def _norm(
    F: Any,
    self: Any,
    p: Any = "fro",
    dim: SomeDims | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    """(sum |x|^p)^(1/p) over `dim` (all elements by default).

    p: also inf, -inf, 0, 'fro' (2) and, for matrices, 'nuc' (the sum of singular values).
    """
    if p in ("fro", None):
        p = 2
    if p == "nuc":
        return F.linalg_matrix_norm(cast(F, self, dtype), "nuc", dim or (0, 1), keepdim)
    if not isinstance(p, (str, int, float, complex, numpy.number, Tensor)):
        raise refused("norm", "p", "Number", p)
    if isinstance(p, str):
        raise RuntimeError(f"norm(): p must be a number, 'fro' or 'nuc', not {p!r}")
    return F.vector_norm(cast(F, self, dtype), p, dim, keepdim)


@composite("dist")
def _dist(F: Any, self: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of self - other."""
    return F.vector_norm(self - other, p, None, False)


def _trace(xp: Any, self: Any) -> Any:
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    return narrow(self.trace(dtype=wide(xp, self)), self)


def _trace_rule(F: Any, g: Any, self_shape: Any) -> Any:
    rows, columns = self_shape
    return F.where(F.diagonal_mask(g, rows, columns), g, 0.0)


op(
    "trace",
    _trace,
    vjp={"self": _trace_rule},
    jvp=LINEAR,
    batch=lambda batch: batch.F.sum(batch.F.diagonal(batch["self"], 0, 1, 2), -1),
    samples=lambda make: iter([Sample((make((3, 3)),)), Sample((make((2, 4)),))]),
    doc="The sum of a matrix's diagonal.",
)
