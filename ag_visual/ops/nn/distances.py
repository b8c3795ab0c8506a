"""Distances between rows (cdist, pdist), and slices scaled down to a norm (renorm)."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.kernels import distances as kernels
from ag_visual.core.tensor import from_array
from ag_visual.dispatch import dtype_errors, vmap
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.record import ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op

# Distances of rows ------------------------------------------------------------------------------


def _norm(xp, difference, p: float):
    """The p-norms over the last dimension."""
    if difference.shape[-1] == 0:
        return xp.zeros(difference.shape[:-1], difference.dtype)
    size = xp.abs(difference)
    if p == 0:
        return xp.minimum(xp.ceil(size), 1).sum(axis=-1)  # NaN, which differs from itself, stays
    if p == 1:
        return size.sum(axis=-1)
    if p == 2:
        return xp.sqrt((size * size).sum(axis=-1))
    if p == math.inf:
        return size.max(axis=-1)
    return (size**p).sum(axis=-1) ** (1 / p)


def _slope(F, difference, distance, p: float):
    """The derivative of a p-norm, p > 0, by each component of the difference; 0 at distance 0."""
    sign = F.sgn(difference)
    if p == 1:
        return sign
    if p == math.inf:
        return sign * F.where(F.abs(difference) == distance, 1.0, 0.0)
    near = distance == 0
    safe = F.where(near, 1.0, distance)
    if p == 2:
        return F.where(near, 0.0, difference / safe)
    size = F.abs(difference)
    power = F.where(size == 0, 0.0, F.where(size == 0, 1.0, size) ** (p - 1))
    return F.where(near, 0.0, sign * power * safe ** (1 - p))


def _cdist_back(F, g, x1, x2, p: float, result, needs):
    if p == 0:
        flat = [zeros(F, x) if need else None for x, need in zip((x1, x2), needs, strict=True)]
        return tuple(flat)
    if p == 2 and not F.traced and kernels.served(F.xp, x1, x2):
        found = kernels.gradients(g, x1, x2, result, needs)
        if found is not None:
            return found
    difference = F.unsqueeze(x1, -2) - F.unsqueeze(x2, -3)
    each = F.unsqueeze(g, -1) * _slope(F, difference, F.unsqueeze(result, -1), p)
    return (
        F.sum(each, -2) if needs[0] else None,
        -F.sum(each, -3) if needs[1] else None,
    )


def _check_rows(x1, x2, p) -> tuple[float]:
    for label, array in (("X1", x1), ("X2", x2)):
        if array.dtype.kind not in "fV":
            name = dtypes.of_array(array).scalar_name
            raise RuntimeError(f"cdist only supports floating-point dtypes, {label} got: {name}")
        if array.ndim < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {label} got: {array.ndim}D"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if x1.dtype != x2.dtype:
        raise RuntimeError(dtype_errors.pair(*(dtypes.of_array(x) for x in (x1, x2))))
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    return (float(p),)


def _cdist_samples(make):
    for p in (2.0, 1.0, 3.5, 1.5, math.inf):
        yield Sample((make((3, 4)), make((2, 4)), p))
    yield Sample((make((2, 3, 2)), make((1, 4, 2)), 2.0))
    yield Sample((make((2, 0)), make((3, 0)), 2.0))
    x = make((3, 2))
    yield Sample((x, x.copy(), 2.0), smooth=False)


def _cdist(xp, x1, x2, p=2.0):
    if p == 2 and kernels.served(xp, x1, x2):
        return kernels.distances(x1, x2)
    return _norm(xp, x1[..., :, None, :] - x2[..., None, :, :], p)


op(
    "cdist_values",
    _cdist,
    vjp={("x1", "x2"): _cdist_back},
    aten="_cdist_forward",
    layout=ROWS,
    normalize=_check_rows,
    public=False,
    public_name="cdist",
    node="CdistBackward0",
    holomorphic=False,
    real_only=True,
    batch=vmap.leading(x1=2, x2=2),
    samples=_cdist_samples,
    errors=lambda make: [
        ErrorSample((make((3,)), make((2, 3))), RuntimeError, "at least 2D tensors, X1 got"),
        ErrorSample((make((2, 3)), make((2, 4))), RuntimeError, "same number of columns"),
        ErrorSample((make((2, 3)), make((2, 3)), -1), RuntimeError, "non-negative p values"),
    ],
)
_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@composite("cdist", method=False, autocast="float32")
def _cdist_of(F, x1, x2, p: float = 2.0, compute_mode: str = _MODES[0]):
    """The p-norm distance of each row of x1 from each row of x2.

    Shapes: (..., P, M) and (..., R, M) give (..., P, R). compute_mode makes no difference:
    distances that are small beside the rows always come from differences, so that they are exact.
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return F.cdist_values(x1, x2, p)


def _pairs(n: int) -> tuple[Any, Any]:
    """The rows and columns of an n x n matrix above its diagonal."""
    return numpy.triu_indices(n, 1)


def _pdist(xp, self, p: float = 2.0):
    first, second = (of_namespace(xp).from_numpy(at) for at in _pairs(self.shape[0]))
    return _norm(xp, self[first] - self[second], p)


def _on_face(F, like, array):
    """A host array as what the namespace computes with."""
    if not F.traced:
        return of_namespace(F.xp).from_numpy(array)
    return from_array(array).to(like.device)


def _pdist_back(F, g, self, p: float, result):
    if p == 0:
        return zeros(F, self)
    first, second = (_on_face(F, self, at) for at in _pairs(self.shape[0]))
    difference = F.index_select(self, 0, first) - F.index_select(self, 0, second)
    each = F.unsqueeze(g, -1) * _slope(F, difference, F.unsqueeze(result, -1), p)
    total = F.zeros_of(each, tuple(self.shape))
    return F.index_add(F.index_add(total, 0, first, each), 0, second, -each)


def _check_pdist(self, p) -> tuple[float]:
    if self.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.ndim}D")
    if self.dtype.kind not in "fV":
        raise RuntimeError(
            f"pdist only supports floating-point dtypes, got {dtypes.of_array(self)}"
        )
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    return (float(p),)


op(
    "pdist",
    _pdist,
    aten="_pdist_forward",
    vjp={"self": _pdist_back},
    normalize=_check_pdist,
    method=False,
    holomorphic=False,
    real_only=True,
    batch=vmap.slice_by_slice,
    samples=lambda make: (
        [Sample((make((4, 3)), p)) for p in (2.0, 1.0, 3.0, math.inf)]
        + [Sample((make((1, 3)), 2.0))]
    ),
    errors=lambda make: [
        ErrorSample((make((3,)),), RuntimeError, "pdist only supports 2D tensors"),
        ErrorSample((make((3, 2)), -1.0), RuntimeError, "non-negative p values"),
    ],
    doc="The p-norm distance of each pair of rows: element (i, j), i < j, of `cdist(x, x)`, row by "
    "row.",
    spaces="torch nn.functional",
    autocast="cuda float32",
)


# Bounded norms ----------------------------------------------------------------------------------

_TINY = 1e-7  # what torch adds to a norm that it divides by


def _others(self, dim: int) -> tuple[int, ...]:
    return tuple(i for i in range(self.ndim) if i != dim)


def _renorm(xp, self, p: float, dim: int, maxnorm: float):
    wide = self if self.dtype.itemsize > 2 else self.astype(xp.float32)
    norm = _norm(xp, xp.moveaxis(wide, dim, 0).reshape(self.shape[dim], -1), p)
    scale = xp.where(norm > maxnorm, maxnorm / (norm + _TINY), 1.0)
    shape = [-1 if i == dim else 1 for i in range(self.ndim)]
    return (wide * scale.reshape(shape)).astype(self.dtype)


def _outward(F, self, p: float, others: tuple[int, ...]) -> tuple[Any, Any]:
    """The norm of each slice and its gradient."""
    size = F.abs(self)
    if p == math.inf:
        norm = F.amax(size, others, True)
        largest = F.where(size == norm, 1.0, 0.0)
        return norm, F.sgn(self) * (largest / F.sum(largest, others, True))
    norm = F.vector_norm(self, p, others, True)
    safe = F.where(norm == 0, 1.0, norm)
    return norm, F.sgn(self) * (size / safe) ** (p - 1)


def _renorm_along(F, t_self, self, p: float, dim: int, maxnorm: float):
    others = _others(self, dim)
    norm, outward = _outward(F, self, p, others)
    inverse = 1 / (norm + _TINY)
    along = F.sum(F.real(F.conj(outward) * t_self), others, True)
    scaled = (t_self - self * inverse * along) * (maxnorm * inverse)
    return F.where(norm > maxnorm, scaled, t_self)


def _renorm_back(F, g, self, p: float, dim: int, maxnorm: float):
    """g scaled as the slices are, less the part that changes their norm."""
    others = _others(self, dim)
    norm, outward = _outward(F, self, p, others)
    inverse = 1 / (norm + _TINY)
    along = F.sum(F.real(F.conj(g) * self), others, True)
    scaled = (g - along * inverse * outward) * (maxnorm * inverse)
    return F.where(norm > maxnorm, scaled, g)


def _normal_renorm(self, p, dim, maxnorm) -> tuple[float, int, float]:
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    if self.dtype.kind not in "fcV":
        raise RuntimeError(
            "renorm: Expected a floating point or complex tensor as input. Got "
            f"{dtypes.of_array(self)}"
        )
    return float(p), wrap(dim, self.ndim), float(maxnorm)


def _renorm_batch(batch: vmap.Batch):
    """The slices of all of the batch side by side."""
    F, dim = batch.F, batch["dim"]
    x = F.movedim(batch["self"], dim + 1, 1)
    lines = batch.run(self=F.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:], 1)), dim=0)
    return F.movedim(F.reshape(lines, tuple(x.shape)), 1, dim + 1)


op(
    "renorm",
    _renorm,
    vjp={"self": _renorm_back},
    jvp={"self": _renorm_along},
    layout=ROWS,
    normalize=_normal_renorm,
    inplace=True,
    holomorphic=False,
    batch=_renorm_batch,
    samples=lambda make: (
        [Sample((make((3, 4)), p, 0, 1.0)) for p in (2.0, 1.0, 3.0, math.inf)]
        + [Sample((make((2, 3, 2)), 2, -1, 2.0)), Sample((make((2, 3)), 2, 0, 99.0))]
    ),
    errors=lambda make: [
        ErrorSample((make((2, 3)), 0, 0, 1), RuntimeError, "non-positive-norm not supported"),
        ErrorSample((make((3,)), 2, 0, 1), RuntimeError, "needs at least 2 dimensions"),
        ErrorSample((make((2, 3)), 2, 0, -1), RuntimeError, "expected maxnorm to be >= 0"),
    ],
    doc="Each slice of `dim` whose p-norm exceeds maxnorm, scaled down to it: "
    "x maxnorm / (norm + 1e-7).",
    out="check_overlap",
    autocast="cuda float32",
)
