"""Extrema and order: max, min, sort, topk, median, with the ties and indices torch gives.

Values chosen by index along a dimension send their gradient to that place; values of a whole
reduction share it among equals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays.kernels.runs import mode as mode_kernel
from ag_visual.arrays.kernels.search import leading, order, ranked
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import LEFT_OUT, SomeDims, checked, kind_named
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import flattened, over_all
from ag_visual.ops.reduction.along_dim import (
    Dims,
    axes,
    dims_errors,
    dims_samples,
    one_dim,
    several_dims,
    spread,
)

# Extrema ------------------------------------------------------------------------------------------


def _need_elements(name: str) -> Callable[..., None]:
    def check(self, dims: Dims | None = None) -> None:
        if self.size:
            return
        if dims is None or dims == ():
            raise (IndexError if name.startswith("arg") else RuntimeError)(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                "the reduction dim with the 'dim' argument."
            )
        for dim in dims or range(self.ndim):
            if self.shape[dim] == 0:
                raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")

    return check


def _evenly(F, g, self, result):
    """g, shared by the elements that equal the result."""
    mask = F.contiguous((self == result) | ((self != self) & (result != result)))
    # Chosen, not multiplied: zero times an infinite gradient is NaN.
    return F.where(mask, g / F.sum(mask), 0.0)


def _shared(F, g, self, result, dim: Dims, keepdim: bool):
    """g, shared within each reduced part by the elements that equal its result.

    None equals NaN: where a part's result is that, so are all its gradients.
    """
    shape = tuple(self.shape)
    mask = self == spread(result, shape, dim, keepdim)
    count = F.sum(mask, dim, True)
    nothing = F.zeros_of(g, tuple(count.shape)) / count
    return F.where(mask, spread(g, shape, dim, keepdim) / count, nothing)


def _selected(F, g, self_shape, dim: int, indices, keepdim: bool = True):
    """g where the indices chose, zero elsewhere."""
    if not self_shape:
        return g
    if not keepdim:
        g, indices = F.unsqueeze(g, dim), F.unsqueeze(indices, dim)
    return F.scatter_src(F.zeros_of(g, self_shape), dim, indices, g)


def _numbers(make, shape: tuple[int, ...]):
    """Distinct values in some order, far enough from ties for finite differences."""
    order = make((math.prod(shape),)).argsort()
    return (order * 0.37 - 1.1).reshape(shape)


def _distinct_samples(cases):
    return lambda make: [Sample((_numbers(make, shape), *args)) for shape, *args in cases]


_DIM_CASES = (
    ((3, 4), 0, False),
    ((3, 4), -1, True),
    ((2, 3, 4), 1, False),
    ((5,), 0, False),
    ((), 0, False),
)


def _selected_along(F, t_self, self_shape, dim: int, indices):
    """The tangents of the elements that were selected."""
    if not self_shape:
        return t_self
    if indices.ndim == len(self_shape):
        return F.gather(t_self, dim, indices)
    return F.squeeze(F.gather(t_self, dim, F.unsqueeze(indices, dim)), dim)


def _extremum(name: str, arg: str) -> None:
    """max or min: of everything, along a dimension with indices, of two tensors; amax or amin."""
    check, check_a, check_arg = map(_need_elements, (name, f"a{name}", arg))
    title = name.capitalize()
    most = "largest" if name == "max" else "smallest"

    def whole(xp, self):
        check(self)
        return getattr(self, name)()

    def over(xp, self, dim: SomeDims | None = (), keepdim: bool = False):
        check_a(self, dim)
        return getattr(self, name)(axis=axes(dim), keepdims=keepdim)

    def along(xp, self, dim, keepdim=False):
        if self.ndim == 0:
            return self.copy(), xp.zeros((), xp.int64)
        check(self, (dim,))
        indices = xp.expand_dims(getattr(self, arg)(axis=dim).astype(xp.int64, copy=False), dim)
        values = xp.take_along_axis(self, indices, axis=dim)
        if keepdim:
            return values, indices
        return values.squeeze(dim), indices.squeeze(dim)

    def where(xp, self, dim: int | None = None, keepdim: bool = False):
        check_arg(self, None if dim is None else (dim,) if self.ndim else ())
        if dim is None or self.ndim == 0:
            found = xp.asarray(getattr(self.reshape(-1), arg)()).astype(xp.int64)
            return found.reshape((1,) * self.ndim if keepdim else ())
        found = getattr(self, arg)(axis=dim).astype(xp.int64, copy=False)
        return xp.expand_dims(found, dim) if keepdim else found

    op(
        f"{name}_all",
        whole,
        vjp={"self": _evenly},
        jvp=ELEMENTWISE,
        batch=over_all(f"a{name}"),
        public=False,
        node=f"{title}Backward1",
        public_name=name,
        samples=_distinct_samples([((3, 4),), ((),), ((5,),)]),
        errors=lambda make: [ErrorSample((make((0,)),), RuntimeError, "reduction dim")],
        real_only=True,
    )
    op(
        f"a{name}",
        over,
        vjp={"self": _shared},
        jvp=ELEMENTWISE,
        normalize=several_dims,
        samples=_distinct_samples([*_DIM_CASES, ((2, 3, 4), (0, 2), True), ((2, 3, 4), (), False)]),
        errors=dims_errors,
        real_only=True,
        doc=f"The {most} element over `dim` (an int or several; all); ties share the gradient.",
    )
    op(
        f"{name}_dim",
        along,
        vjp={"self": _selected},
        jvp={"self": _selected_along},
        outputs=("values", "indices"),
        differentiable=(0,),
        normalize=one_dim,
        public=False,
        node=f"{title}Backward0",
        public_name=name,
        namedtuple=name,
        also_saves=("dim", "keepdim"),
        samples=_distinct_samples(_DIM_CASES),
        errors=lambda make: [
            ErrorSample((make((2, 3)), 2, False), IndexError, "Dimension out of range"),
            ErrorSample((make((2, 0)), 1, False), IndexError, "to have non-zero size"),
        ],
        real_only=True,
    )
    op(
        arg,
        where,
        normalize=lambda self, dim, keepdim: (
            None if dim is None else wrap(dim, self.ndim),
            bool(keepdim),
        ),
        samples=_distinct_samples([((3, 4),), ((3, 4), 1), ((3, 4), 0, True), ((), 0)]),
        doc=f"The place of the {most} element: of all in row-major order, or along `dim`.",
    )

    # Not None: torch refuses that as a dim.
    def body(F, self, dim=..., keepdim: bool = False, *, other=None):
        other = dim if isinstance(dim, Tensor) else other
        if other is not None:
            return getattr(F, f"{name}imum")(self, other)
        if dim is ...:
            return getattr(F, f"{name}_all")(self)
        dim = checked(name, "dim", kind_named("int"), dim)
        return getattr(F, f"{name}_dim")(self, dim, keepdim)

    body.__doc__ = (
        f"The {name}imum of all elements (equal ones share the gradient); along `dim` with its "
        f"index, whose element gets it all; or elementwise of two tensors.\n\n"
        f"Along `dim` the result is a named tuple."
    )
    composite(name, out="casts check_overlap single")(body)


_extremum("max", "argmax")
_extremum("min", "argmin")


def _aminmax_rule(F, gs, self, min, max, dim: Dims, keepdim: bool):
    pairs = zip(gs, (min, max), strict=True)
    parts = [_shared(F, g, self, found, dim, keepdim) for g, found in pairs if g is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _aminmax_along(F, t_self, self, min, max, dim: Dims, keepdim: bool):
    def along(found):
        mask = self == spread(found, tuple(self.shape), dim, keepdim)
        return F.sum(F.where(mask, t_self, 0.0), dim, keepdim) / F.sum(mask, dim, keepdim)

    return along(min), along(max)


op(
    "aminmax_dims",
    lambda xp, self, dim=(), keepdim=False: tuple(
        f(axis=axes(dim), keepdims=keepdim) for f in (self.min, self.max)
    ),
    vjp={"self": _aminmax_rule},
    jvp={"self": _aminmax_along},
    outputs=("min", "max"),
    normalize=several_dims,
    public=False,
    node="AminmaxBackward0",
    public_name="aminmax",
    namedtuple="aminmax",
    oracle=lambda torch, self, dim, keepdim: torch.aminmax(
        self, dim=None if dim == () else dim, keepdim=keepdim
    ),
    samples=_distinct_samples([*_DIM_CASES, ((3, 4), (), False), ((), (), False)]),
    errors=dims_errors,
    real_only=True,
)


@composite("aminmax", out="check_overlap")
def _aminmax_of(F, self, *, dim: int | None = None, keepdim: bool = False):
    """The smallest and the largest elements, of all or along `dim`; ties share the gradient."""
    if dim is None and 0 in self.shape:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if dim is not None and self.ndim and not self.shape[wrap(dim, self.ndim)]:
        at = wrap(dim, self.ndim)
        raise IndexError(f"aminmax: Expected reduction dim {at} to have non-zero size.")
    return F.aminmax_dims(self, () if dim is None else dim, keepdim)


def _logical(name: str, doc: str) -> None:
    def kernel(xp, self, dim: SomeDims | None = None, keepdim: bool = False):
        found = getattr(self, name)(axis=axes(dim), keepdims=keepdim)
        return found.astype(self.dtype) if self.dtype.char == "B" else found

    op(name, kernel, normalize=several_dims, samples=dims_samples, doc=doc)


_logical(
    "any", doc="Whether any element is nonzero, of all or over `dim`: a bool, of uint8 a uint8."
)
_logical(
    "all", doc="Whether every element is nonzero, of all or over `dim`: a bool, of uint8 a uint8."
)

# Order --------------------------------------------------------------------------------------------


def _sort(xp, self, dim=-1, descending=False):
    if self.ndim == 0:
        return self.copy(), xp.zeros((), xp.int64)
    indices = order(xp, self, dim, descending).astype(xp.int64, copy=False)
    return xp.take_along_axis(self, indices, axis=dim), indices


def _topk(xp, self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    if not 0 <= k <= (self.shape[dim] if self.ndim else 1):
        raise RuntimeError(
            f"selected index k out of range: topk of {k} along a dimension of size "
            f"{self.shape[dim] if self.ndim else 1}"
        )
    if self.ndim == 0:
        return self.copy(), xp.zeros((), xp.int64)
    indices = xp.array(leading(xp, self, k, dim, bool(largest)), xp.int64, order="C")
    return xp.take_along_axis(self, indices, axis=dim), indices


def _normal_topk(self, k: int, dim, largest, sorted) -> tuple[Any, ...]:
    return k, wrap(dim, self.ndim), bool(largest), bool(sorted)


def _kthvalue(xp, self, k: int, dim: int = -1, keepdim: bool = False):
    size = self.shape[dim] if self.ndim else 1
    if not size:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    return _ranked(xp, self, k - 1, dim, keepdim)


def _ranked(xp, self, rank: int, dim: int, keepdim: bool):
    if self.ndim == 0:
        return self.copy(), xp.zeros((), xp.int64)
    indices = ranked(xp, self, rank, dim).astype(xp.int64)
    values = xp.take_along_axis(self, indices, axis=dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _median(xp, self, dim, keepdim=False):
    """The lower one of two middles; NaN where there is one."""
    if self.ndim and self.shape[dim] == 0:
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    middle, indices = _ranked(xp, self, (self.shape[dim] - 1) // 2 if self.ndim else 0, dim, True)
    if self.ndim and self.dtype.kind in "fV" and bool(xp.isnan(self).any()):
        first = xp.expand_dims(xp.isnan(self).argmax(axis=dim), dim)
        bad = xp.isnan(self).any(axis=dim, keepdims=True)
        indices = xp.where(bad, first, indices).astype(xp.int64)
        middle = xp.take_along_axis(self, indices, axis=dim)
    if keepdim or self.ndim == 0:
        return middle, indices
    return middle.squeeze(dim), indices.squeeze(dim)


def _nanmedian(xp, self, dim, keepdim=False):
    """The lower of the two middle elements that are not NaN; NaN where there is no other."""
    if self.ndim == 0:
        return self.copy(), xp.zeros((), xp.int64)
    if self.shape[dim] == 0:
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    count = (self == self).sum(axis=dim, keepdims=True)
    places = order(xp, self, dim, False).astype(xp.int64, copy=False)
    indices = xp.take_along_axis(places, xp.maximum(count - 1, 0) // 2, axis=dim)
    values = xp.take_along_axis(self, indices, axis=dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _mode(xp, self, dim: int = -1, keepdim: bool = False):
    if self.ndim == 0:
        return self.copy(), xp.zeros((), xp.int64)
    if self.shape[dim] == 0:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    if self.size == 0:
        shape = (*self.shape[:dim], 1, *self.shape[dim + 1 :])
        values, indices = xp.empty(shape, self.dtype), xp.empty(shape, xp.int64)
    else:
        values, indices = mode_kernel(xp, self, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _along(name: str, kernel, *cases, **options) -> None:
    """An op that selects values and their indices along a dimension."""
    op(
        name,
        kernel,
        vjp={"self": options.pop("rule", _selected)},
        jvp={"self": _selected_along},
        outputs=("values", "indices"),
        differentiable=(0,),
        namedtuple=options.get("public_name", name),
        samples=options.pop("given", None) or _distinct_samples(cases),
        **options,
    )


def _selected_kept(F, g, self_shape, dim: int, indices):
    return _selected(F, g, self_shape, dim, indices)


_along(
    "sort_dim",
    _sort,
    ((3, 4), -1),
    ((3, 4), 0, True),
    ((), 0),
    node="SortBackward0",
    rule=_selected_kept,
    normalize=lambda self, dim, descending: (wrap(dim, self.ndim), bool(descending)),
    public=False,
    public_name="sort",
    real_only=True,
)
_along(
    "topk",
    _topk,
    ((3, 5), 2),
    ((3, 5), 2, 0, False),
    rule=_selected_kept,
    normalize=_normal_topk,
    errors=lambda make: [ErrorSample((make((3,)), 4), RuntimeError, "k out of range")],
    real_only=True,
    doc="The k largest (or smallest) elements along `dim` in order, and their indices.",
    out="check_overlap",
)
_along(
    "kthvalue",
    _kthvalue,
    ((3, 5), 2),
    ((3, 5), 2, 0, True),
    normalize=lambda self, k, dim, keepdim: (k, wrap(dim, self.ndim), bool(keepdim)),
    real_only=True,
    doc="The k-th smallest element along `dim`, and its index.",
    out="no_overlap",
)
_along(
    "median_dim",
    _median,
    *_DIM_CASES,
    node="MedianBackward1",
    normalize=one_dim,
    public=False,
    public_name="median",
    real_only=True,
)


def _of_all(name: str, along: Callable[..., Any]) -> None:
    """The median of all elements, from that along a dimension."""

    def kernel(xp, self):
        if self.size == 0:
            return xp.full((), math.nan, self.dtype)
        return along(xp, self.reshape(-1), 0)[0]

    op(
        f"{name}_all",
        kernel,
        vjp={"self": _evenly},
        jvp=ELEMENTWISE,
        batch=flattened(f"{name}_dim", False, output=0),
        public=False,
        node=f"{name.capitalize()}Backward0",
        public_name=name,
        samples=_distinct_samples([((3, 4),), ((5,),), ((),)]),
        real_only=True,
    )


_of_all("median", _median)


def _with_nans(make):
    yield from _distinct_samples(_DIM_CASES)(make)
    x = _numbers(make, (3, 5))
    x[0, 1:3] = x[1] = math.nan
    yield Sample((x, 1, False), smooth=False)


_along(
    "nanmedian_dim",
    _nanmedian,
    node="NanmedianBackward1",
    normalize=one_dim,
    public=False,
    public_name="nanmedian",
    real_only=True,
    given=_with_nans,
)
_of_all("nanmedian", _nanmedian)
_along(
    "mode",
    _mode,
    normalize=one_dim,
    real_only=True,
    given=lambda make: [
        Sample((numpy.array([[1.0, 2, 2, 3], [4, 1, 4, 1]]), 1, False), smooth=False),
        Sample((numpy.array([3.0, 1, 3, 1, 1, 3]), 0, True), smooth=False),
        *_distinct_samples([((3, 4), 0, True), ((), 0, False)])(make),
    ],
    errors=lambda make: [ErrorSample((make((2, 0)),), IndexError, "to have non-zero size")],
    doc="The most frequent value along `dim` (the smallest of several) and its last index.",
    out="check_overlap",
)


@composite("median", out=True)
def _median_of(F, self, dim: int = LEFT_OUT, keepdim: bool = False):
    """The lower median of all elements, or along `dim` with its indices."""
    return F.median_all(self) if dim is None else F.median_dim(self, dim, keepdim)


@composite("nanmedian")
def _nanmedian_of(F, self, dim: int = LEFT_OUT, keepdim: bool = False):
    """The lower median of all elements that are not NaN, or along `dim` with its indices."""
    return F.nanmedian_all(self) if dim is None else F.nanmedian_dim(self, dim, keepdim)


@composite("sort", out="check_overlap")
def _sort_of(F, self, dim: int = -1, descending: bool = False, *, stable: bool = True):
    """Values in order along `dim`, and their indices.

    Always stable here.
    """
    return F.sort_dim(self, dim, descending)


@composite("argsort", out=True)
def _argsort(F, self, dim: int = -1, descending: bool = False, *, stable: bool = True):
    """The indices that put `dim` in order."""
    return F.sort_dim(self, dim, descending)[1]


@composite("msort", out="check_overlap")
def _msort(F, self):
    """Values in order along the first dimension."""
    return F.sort_dim(self, 0, False)[0]
