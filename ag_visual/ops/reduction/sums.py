"""Sums and means over dimensions, logsumexp and trace.

Rules return the reduced gradient with its dimensions restored; the edge expands it. Only those of
sums expand it themselves, into a gradient whose elements share memory, as torch's do.
"""

from __future__ import annotations

from ag_visual.arrays.kernels import softmax as kernels
from ag_visual.arrays.kernels.rows import MANY, summed
from ag_visual.dispatch.arguments import DType, SomeDims
from ag_visual.dispatch.record import ELEMENTWISE, FLOAT, LINEAR, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.validate_grad import expand_for_good
from ag_visual.dispatch.vmap import over_all
from ag_visual.ops.reduction.along_dim import (
    Dims,
    axes,
    cast,
    count,
    dims_errors,
    dims_samples,
    narrow,
    several_dims,
    spread,
    whole_samples,
    wide,
)

# Sums and means -----------------------------------------------------------------------------------


def _sum_all(xp, self):
    dtype = self.dtype
    if dtype.kind == "f" and dtype.itemsize > 2:
        return self.sum()
    return narrow(self.sum(dtype=wide(xp, self)), self)


def _sum_dims(xp, self, dim, keepdim=False):
    if self.size >= MANY and self.dtype.kind in "fc":
        return summed(xp, self, axes(dim), keepdim)
    return narrow(self.sum(axis=axes(dim), dtype=wide(xp, self), keepdims=keepdim), self)


def _sum_rule(F, g, self_shape):
    if F.traced:
        return F.expand(g, self_shape)
    return expand_for_good(F.xp, g, self_shape)


op(
    "sum_all",
    _sum_all,
    vjp={"self": _sum_rule},
    jvp=LINEAR,
    public=False,
    node="SumBackward0",
    public_name="sum",
    batch=over_all("sum_dims"),
    samples=lambda make: [*whole_samples()(make), Sample((make((2, 0)),))],
    symbol="∑",
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
    public_name="sum",
    samples=lambda make: [
        *dims_samples(make),
        Sample((make((2, 0)), 1, False)),
        Sample((make((2, 3)), (), True)),
    ],
    errors=dims_errors,
    symbol="∑",
)


@composite("sum", out="casts", autocast="cuda result", symbol="∑", flops="reduction")
def _sum(
    F, self, dim: SomeDims | None = None, keepdim: bool = False, *, dtype: DType | None = None
):
    """The sum of all elements, or over `dim`.

    dim: an int or several. Integers add up in int64.
    """
    if dtype is not None:  # of integers, too, whose sum is int64 otherwise
        return F.sum(self.to(dtype), dim, keepdim).to(dtype)
    return F.sum_all(self) if dim is None and not keepdim else F.sum_dims(self, dim, keepdim)


def _check_floating(self) -> None:
    if self.dtype.kind in "iub":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {self.dtype.name}. Convert it with .float(), or pass dtype=."
        )


def _mean_all(xp, self):
    _check_floating(self)
    return narrow(self.sum(dtype=wide(xp, self)) / self.size, self)


def _mean_dims(xp, self, dim, keepdim=False):
    _check_floating(self)
    if self.size >= MANY and self.dtype.itemsize > 2:
        return summed(xp, self, axes(dim), keepdim) / count(self.shape, dim)
    total = self.sum(axis=axes(dim), dtype=wide(xp, self), keepdims=keepdim)
    return narrow(total / count(self.shape, dim), self)


def mean_rule(F, g, self_shape, dim, keepdim):
    g = spread(g, self_shape, dim, keepdim)
    if F.traced:  # a gradient that has memory of its own, as torch's
        g = F.expand(g, self_shape)
    return g / count(self_shape, dim)


op(
    "mean_all",
    _mean_all,
    vjp={"self": lambda F, g, self_shape: mean_rule(F, g, self_shape, (), False)},
    jvp=LINEAR,
    public=False,
    node="MeanBackward0",
    public_name="mean",
    batch=over_all("mean_dims"),
    samples=whole_samples(),
)
op(
    "mean_dims",
    _mean_dims,
    vjp={"self": mean_rule},
    jvp=LINEAR,
    normalize=several_dims,
    public=False,
    node="MeanBackward1",
    public_name="mean",
    samples=dims_samples,
    errors=dims_errors,
)


@composite("mean", out="casts", flops="reduction")
def _mean(
    F, self, dim: SomeDims | None = None, keepdim: bool = False, *, dtype: DType | None = None
):
    """The mean of all elements, or over `dim` (an int or several)."""
    self = cast(F, self, dtype)
    return F.mean_all(self) if dim is None and not keepdim else F.mean_dims(self, dim, keepdim)


def _nansum(xp, self, dim=None, keepdim=False):
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
    jvp=ELEMENTWISE,
    normalize=several_dims,
    public=False,
    node="NansumBackward0",
    public_name="nansum",
    samples=dims_samples,
    real_only=True,
)


@composite("nansum", out="casts")
def _nansum_of(
    F, self, dim: SomeDims | None = None, keepdim: bool = False, *, dtype: DType | None = None
):
    """`sum` with NaN as zero."""
    if dtype is not None:
        return F.nansum(self.to(dtype), dim, keepdim).to(dtype)
    return F.nansum_dims(self, dim, keepdim)


@composite("nanmean", out="casts")
def _nanmean(
    F, self, dim: SomeDims | None = None, keepdim: bool = False, *, dtype: DType | None = None
):
    """`mean` of the elements that are not NaN."""
    known = F.sum(F.logical_not(F.isnan(self)), dim, keepdim)
    return F.nansum(self, dim, keepdim, dtype=dtype) / known


@composite("count_nonzero", varargs="dim")
def _count_nonzero(F, self, dim: SomeDims | None = None):
    """How many elements are not zero."""
    return F.sum(self != 0, dim)


# Exponential sums, traces -------------------------------------------------------------------------


def _logsumexp(xp, self, dim: SomeDims, keepdim: bool = False):
    return kernels.logsumexp(xp, self, dim, keepdim)


def _logsumexp_rule(F, g, self, result, dim: Dims, keepdim: bool):
    shape = tuple(self.shape)
    return spread(g, shape, dim, keepdim) * F.exp(self - spread(result, shape, dim, keepdim))


op(
    "logsumexp",
    _logsumexp,
    vjp={"self": _logsumexp_rule},
    jvp=ELEMENTWISE,
    policy=FLOAT,
    normalize=several_dims,
    samples=dims_samples,
    errors=dims_errors,
    doc="log of the sum of exp(x) over `dim`, without overflow.",
    formula=lambda F, self, dim, keepdim: F.log(F.sum(F.exp(self), dim, keepdim)),
    spaces="torch special",
    out="casts",
    autocast="cuda float32",
)


def _trace(xp, self):
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    return narrow(self.trace(dtype=wide(xp, self)), self)


def _trace_rule(F, g, self_shape):
    rows, columns = self_shape
    return F.where(F.diagonal_mask(g, rows, columns), g, 0.0)


op(
    "trace",
    _trace,
    vjp={"self": _trace_rule},
    jvp=LINEAR,
    batch=lambda batch: batch.F.sum(batch.F.diagonal(batch["self"], 0, 1, 2), -1),
    samples=lambda make: [Sample((make((3, 3)),)), Sample((make((2, 4)),))],
    doc="The sum of a matrix's diagonal.",
    autocast="cpu float32",
)
