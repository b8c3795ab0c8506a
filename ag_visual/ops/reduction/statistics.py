"""Quantiles, covariance and correlation, made of other ops."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.level import all_values, anywhere
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.table import composite
from ag_visual.ops.tensor.creation import scalar_tensor

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


# Quantiles --------------------------------------------------------------------------------------


def _check_quantile(name: str, self, q, interpolation: str):
    """q as a tensor like self."""
    if self.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype, got {self.dtype}"
        )
    if self.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return scalar_tensor(q, dtype=self.dtype, device=self.device)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got {q.ndim}D")
    if q.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor, got {q.dtype} and "
            f"{self.dtype}"
        )
    values = all_values(q)
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def _quantiles(F, self, q, dim: int | None, keepdim: bool, how: str, ignore: bool):
    """The values at rank q * (n - 1) of the elements in order, between neighbours by `how`."""
    rank = self.ndim
    dim = None if dim is None else wrap(dim, rank)
    if rank == 0:
        dim = None
    kept = (1,) * rank if dim is None else _with_one(self.shape, dim)
    if not keepdim:
        kept = () if dim is None else (*kept[:dim], *kept[dim + 1 :])
    if dim is None:
        rows = F.reshape(self, (-1,))
    elif dim == rank - 1:
        rows = self
    else:
        rows = F.transpose(F.unsqueeze(self, rank), dim, rank)
    ordered = F.sort_dim(rows, rows.ndim - 1, False)[0]
    ordered = F.reshape(ordered, (*kept, rows.shape[-1]))
    missing = F.isnan(ordered)
    several = F.reshape(q, (-1,))
    last = rows.shape[-1] - 1
    if ignore:
        counts = F.sum(F.logical_not(missing), -1, True)
        ranks = several * F.clamp(F.cast(counts, self._array.dtype) - 1, 0)
    else:
        # A row with NaN has it in the last place.
        ranks = F.where(F.any(missing, (-1,), True), float(last), several * float(last))
    if how == "lower":
        ranks = F.floor(ranks)
    elif how == "higher":
        ranks = F.ceil(ranks)
    elif how == "nearest":
        ranks = F.round(ranks)
    below = F.cast(ranks, numpy.dtype(numpy.int64))
    values = F.gather(ordered, ordered.ndim - 1, below)
    if how in ("linear", "midpoint"):
        above = F.cast(F.ceil(ranks), numpy.dtype(numpy.int64))
        weight = ranks - below if how == "linear" else 0.5
        values = F.lerp(values, F.gather(ordered, ordered.ndim - 1, above), weight)
    # In place, as torch: what is returned is nobody's view.
    if q.ndim:
        values = values.unsqueeze_(0).transpose_(0, -1)
    return values.squeeze_(-1)


def _with_one(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], 1, *shape[dim + 1 :])


def _quantile(name: str, ignore: bool, what: str) -> None:
    def body(
        F, self, q, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ):
        q = _check_quantile(name, self, q, interpolation)
        return _quantiles(F, self, q, dim, keepdim, interpolation, ignore)

    body.__doc__ = (
        f"The q-quantiles {what}, at rank q (n - 1) in order: of all of them, or along `dim`.\n\n"
        "    q: a number, or a vector of them, whose dimension comes first in the result.\n"
        "    interpolation between neighbours: 'linear', 'lower', 'higher', 'midpoint' or "
        "'nearest'."
    )
    composite(name, out=True, autocast="cpu float32")(body)


_quantile("quantile", False, "of the elements (NaN where there is one)")
_quantile("nanquantile", True, "of the elements that are not NaN")


# Covariance -------------------------------------------------------------------------------------


def _check_weights(name: str, weights, kind: int, described: str, count: int) -> None:
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.ndim} dimensions"
        )
    if weights.dtype.category != kind:
        label = weights.dtype.scalar_name
        raise RuntimeError(
            f"cov(): expected {name} to have {described} dtype but got {name} with {label} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {count}"
        )
    if anywhere(all_values(weights) < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composite("cov")
def _cov(F, self, *, correction: int = 1, fweights=None, aweights=None):
    """The covariance matrix of variables (rows) over observations (columns).

    C_ij = sum_k w_k (x_ik - mean_i) conj(x_jk - mean_j) / norm, norm = sum w - correction.
    fweights: how often each observation counts (integers); aweights: its importance. Raises
    RuntimeError for more than two dimensions and for bools.
    """
    if self.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{self.ndim} dimensions"
        )
    if self.dtype is dtypes.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = F.reshape(self, (1, -1)) if self.ndim < 2 else self
    count = rows.shape[1]
    weights = None
    if fweights is not None:
        _check_weights("fweights", fweights, 1, "integral", count)
        weights = F.reshape(fweights, (-1,))
    if aweights is not None:
        _check_weights("aweights", aweights, 2, "floating point", count)
        line = F.reshape(aweights, (-1,))
        weights = line if weights is None else weights * line
    if weights is None:
        mean = F.sum(rows, 1) / count if count else F.sum(rows, 1) * math.nan
        norm: Any = max(count - correction, 0)
    else:
        total = F.sum(weights)
        mean = F.sum(rows * weights, 1) / total
        norm = total - correction
        if aweights is not None and correction:
            norm = total - correction * F.sum(weights * F.reshape(aweights, (-1,))) / total
        norm = F.clamp(norm, 0) if norm.dtype.category > 1 else norm
    centred = rows - F.unsqueeze(mean, 1)
    if anywhere(all_values(norm) <= 0) if isinstance(norm, Tensor) else norm <= 0:
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations."
        )
    weighted = centred if weights is None else centred * weights
    result = F.mm(centred, F.conj(F.t(weighted)))
    return F.squeeze_all(F.true_divide(result, norm))


@composite("corrcoef")
def _corrcoef(F, self):
    """The correlation matrix of variables (rows): C_ij / sqrt(C_ii C_jj), within [-1, 1]."""
    if self.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{self.ndim} dimensions"
        )
    matrix = F.cov(self)
    if matrix.ndim == 0:
        return matrix / matrix
    deviations = F.sqrt(F.real(F.diagonal(matrix)))
    result = matrix / F.unsqueeze(deviations, 1) / F.unsqueeze(deviations, 0)
    if result.dtype.is_complex:
        parts = F.clamp(F.view_as_real(result), -1, 1)
        return F.view_as_complex(parts)
    return F.clamp(result, -1, 1)
