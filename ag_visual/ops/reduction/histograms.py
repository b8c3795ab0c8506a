"""Histograms: histc, histogram, histogramdd. Not differentiable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as as_index
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.kernels.search import positions
from ag_visual.core.level import is_batchedtensor, not_batched
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import vmap
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, function, named_tuple, op
from ag_visual.ops.tensor.ranges import evenly

_OPTIONS: dict[str, Any] = {"holomorphic": False, "real_only": True}


def _label(array) -> str:
    return dtypes.of_array(array).scalar_name


def _floating(name: str, array) -> None:
    if array.dtype.kind not in "fV":
        raise not_implemented(name, dtypes.of_array(array))


def _check_bins(bins, dim: int = 0) -> int:
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}"
        )
    return as_index(bins)


def _span(xp, name: str, values, low: float, high: float) -> tuple[float, float]:
    """The range to count in: the given one, or that of the values; never empty."""
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
    return low, high


# One dimension ----------------------------------------------------------------------------------


def _histc(xp, self, bins: int = 100, min: float = 0, max: float = 0):
    values = self.reshape(-1).astype(xp.float64 if self.dtype == numpy.float64 else xp.float32)
    low, high = _span(xp, "torch.histc", values, float(min), float(max))
    if low == high:
        low, high = low - 1, high + 1
    inside = (values >= low) & (values <= high)
    scaled = (values[inside] - low) * bins / (high - low)
    at = xp.minimum(scaled.astype(xp.int64), bins - 1)
    if at.size == 0:
        return xp.zeros((bins,), self.dtype)
    return xp.bincount(at, minlength=bins).astype(self.dtype)


def _normal_histc(self, bins, min, max) -> tuple[Any, ...]:
    _floating("histogram_cpu", self)
    if max < min:
        raise RuntimeError(f"torch.histc: max must be larger than min, got [{min}, {max}]")
    return _check_bins(bins), min, max


op(
    "histc",
    _histc,
    normalize=_normal_histc,
    batch=vmap.slice_by_slice,
    samples=lambda make: [
        Sample((make((3, 4)), 4, -1.0, 1.5)),
        Sample((make((20,)), 5)),
        Sample((numpy.array([1.0, 1.0]), 3)),
        Sample((numpy.array([1.0, 2.0, 3.0]), 2, 1, 3)),
        Sample((make((0,)), 3)),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)), 0), RuntimeError, "bins must be > 0"),
        ErrorSample((make((2,)), 2, 3, 1), RuntimeError, "max must be larger than min"),
        ErrorSample((numpy.array([numpy.nan]), 2), RuntimeError, "is not finite"),
    ],
    doc="How many elements fall into each of `bins` equal parts of [min, max] (of the range of the "
    "values where both are 0), in the dtype of `self`.",
    **_OPTIONS,
)


def _linear_edges(xp, values, bins: int, span):
    """bins + 1 edges over a range, over that of the values, or over [0, 1] where there are none."""
    if span is not None:
        low, high = map(float, span)
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} "
                "for dimension 0"
            )
    else:
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return evenly(xp, low, high, bins + 1, values.dtype).astype(values.dtype, copy=False)


def _bins_of(xp, values, edges) -> tuple[Any, Any]:
    """The bin of each value, and whether it is in any; the last bin holds its upper edge."""
    at = positions(xp, edges, values, True, None) - 1
    at = xp.where(values == edges[-1], edges.size - 2, at)
    inside = (values >= edges[0]) & (values <= edges[-1])
    return at, inside


def _counted(xp, coordinates, edges, weight, density: bool):
    """The histogram of columns of coordinates over a grid of edges."""
    shape = tuple(e.size - 1 for e in edges)
    flat: Any = None
    known: Any = None
    for values, line, n in zip(coordinates, edges, shape, strict=True):
        at, inside = _bins_of(xp, values, line)
        flat = at if flat is None else flat * n + at
        known = inside if known is None else known & inside
    weights = None if weight is None else weight.reshape(-1)[known].astype(xp.float64)
    total = math.prod(shape)
    where = flat[known]
    if where.size:
        counts = xp.bincount(where, weights, total).astype(xp.float64)
    else:
        counts = xp.zeros((total,), xp.float64)
    counts = counts.reshape(shape)
    if density:
        counts = counts / counts.sum()
        for dim, line in enumerate(edges):
            widths = (line[1:] - line[:-1]).astype(xp.float64)
            counts = counts / widths.reshape([-1 if i == dim else 1 for i in range(len(shape))])
    return counts.astype(edges[0].dtype)


def _check_weight(self, weight, dims: int) -> None:
    if weight is None:
        return
    if weight.dtype != self.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got input({dtypes.of_array(self)}), and "
            f"weight({dtypes.of_array(weight)})"
        )
    if weight.shape != self.shape[: self.ndim - dims]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(self.shape)} and weight with shape {list(weight.shape)}"
        )


def _histogram(xp, self, bins: int, range=None, weight=None, density: bool = False):
    values = self.reshape(-1)
    edges = _linear_edges(xp, values, bins, range)
    return _counted(xp, [values], [edges], weight, density), edges


def _histogram_edges(xp, self, bins, weight=None, density: bool = False):
    counts = _counted(xp, [self.reshape(-1)], [bins], weight, density)
    return counts, bins.copy()


def _normal_histogram(self, bins, range, weight, density):
    _floating("histogramdd", self)
    _check_weight(self, weight, 0)
    if range is not None and len(range) != 2:
        raise RuntimeError(f"torch.histogramdd: range should have 2 elements, got {len(range)}")
    return _check_bins(bins), None if range is None else tuple(range), bool(density)


def _check_edges(self, bins, weight, density):
    _floating("histogramdd", self)
    _check_weight(self, weight, 0)
    _check_line(self, bins, 0)
    return (bool(density),)


def _check_line(self, bins, dim: int) -> None:
    if bins.ndim != 1:
        raise RuntimeError(
            "torch.histogramdd: bins tensor should have one dimension, but got "
            f"{bins.ndim} dimensions in the bins tensor for dimension {dim}"
        )
    if bins.dtype != self.dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
            f"input with dtype {dtypes.of_array(self)} and bins for dimension {dim} with dtype "
            f"{dtypes.of_array(bins)}"
        )


_RESULT = ("hist", "bin_edges")


def _theirs(torch, self, bins, *rest):
    named = dict(zip(("range", "weight", "density")[-len(rest) :], rest, strict=True))
    return torch.histogram(self, bins, **{k: v for k, v in named.items() if v is not None})


op(
    "histogram_bins",
    _histogram,
    aten="aten::histogram",
    inputs=("self", "weight"),
    outputs=_RESULT,
    normalize=_normal_histogram,
    public=False,
    public_name="histogram",
    namedtuple="histogram",
    oracle=_theirs,
    batch=vmap.slice_by_slice,
    samples=lambda make: [
        Sample((make((3, 4)), 4), {"range": (-1.0, 1.5)}),
        Sample((make((20,)), 5), {"weight": make((20,), low=0.1), "density": True}),
        Sample((numpy.array([1.0, 1.0]), 3)),
        Sample((make((0,)), 2)),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)), 0), RuntimeError, "bins must be > 0"),
        ErrorSample((make((2,)), 2), RuntimeError, "should not exceed max", {"range": (3.0, 1.0)}),
        ErrorSample(
            (make((2,)), 2), RuntimeError, "same shape as the input", {"weight": make((1,))}
        ),
    ],
    **_OPTIONS,
)
op(
    "histogram_edges",
    _histogram_edges,
    aten="aten::histogram",
    inputs=("self", "bins", "weight"),
    outputs=_RESULT,
    normalize=_check_edges,
    public=False,
    public_name="histogram",
    namedtuple="histogram",
    oracle=_theirs,
    batch=vmap.slice_by_slice,
    samples=lambda make: [
        Sample((make((3, 4)), numpy.array([-1.0, 0.2, 1.5]))),
        Sample((numpy.array([1.0, 2, 1]), numpy.array([0.0, 1, 2])), {"density": True}),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)), make((1, 2))), RuntimeError, "should have one dimension")
    ],
    **_OPTIONS,
)


@composite("histogram", out=True)
def _histogram_of(F, self, bins, *, range=None, weight=None, density: bool = False):
    """Counts (or sums of weights) in bins, and the edges of the bins, as a named tuple.

    bins: how many equal ones over `range` (that of the values), or a tensor of edges. A bin holds
    its lower edge, the last one both. density: divided by the total and by the bin's width.
    """
    if isinstance(bins, Tensor):
        return F.histogram_edges(self, bins, weight, density)
    return F.histogram_bins(self, bins, range, weight, density)


# Several dimensions -----------------------------------------------------------------------------


def _all_bins(bins, count: int) -> list[Any]:
    listed = list(bins) if isinstance(bins, Sequence) else [bins] * count
    if len(listed) != count:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    return listed


_Histogramdd = named_tuple("histogramdd", *_RESULT)


@function()
def histogramdd(
    input: Tensor,
    bins,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
):
    """Counts of points (the last dimension holds their coordinates) in a grid of bins.

    bins: how many in every dimension, or for each; or a tensor of edges for each. range: the lowest
    and highest edge of each dimension in turn. A named tuple: hist, bin_edges (a tuple of vectors).
    """
    edges_given = bins if isinstance(bins, (tuple, list)) else (bins,)
    if any(map(is_batchedtensor, (input, weight, *edges_given))):
        raise not_batched("histogramdd")
    array = input._array
    if array.ndim < 2:
        raise RuntimeError(
            "torch.histogramdd: input tensor should have at least 2 dimensions, but got "
            f"{array.ndim}"
        )
    _floating("histogramdd", array)
    xp = backend_of(array).xp
    columns = xp.moveaxis(array.reshape(-1, array.shape[-1]), 1, 0)
    mass = None if weight is None else weight._array
    _check_weight(array, mass, 1)
    if range is not None and len(range) != 2 * len(columns):
        raise RuntimeError(
            f"torch.histogramdd: for a {len(columns)}-dimensional histogram range should have "
            f"{2 * len(columns)} elements, but got {len(range)}"
        )
    edges = []
    for dim, each in enumerate(_all_bins(bins, len(columns))):
        if isinstance(each, Tensor):
            _check_line(array, each._array, dim)
            edges.append(each._array)
            continue
        span = None if range is None else range[2 * dim : 2 * dim + 2]
        edges.append(_linear_edges(xp, columns[dim], _check_bins(each, dim), span))
    counts = _counted(xp, list(columns), edges, mass, density)
    lines = tuple(from_array(line.copy()) for line in edges)
    return _Histogramdd(from_array(counts), lines)
