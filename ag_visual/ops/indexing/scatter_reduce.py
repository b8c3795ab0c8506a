"""scatter_reduce and index_reduce: sums, products, means and extrema at the places of an index.

Both share their derivative: an index_reduce is a scatter_reduce whose index is the same along the
other dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.kernels.scatter import index_reduce, scatter_reduce
from ag_visual.core.level import anywhere
from ag_visual.core.node import ending
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap_indexing import slices
from ag_visual.ops.indexing.gather_scatter import grown, scatter_dim
from ag_visual.ops.indexing.index_select import same_type, vector

_ZEROS = (
    "{}(): Double backward is unsupported for {} when >1 zeros in {} are scattered to the same "
    "position in self"
)


def _once(F, g, source, message: str):
    """g, whose own derivative is an error."""
    if not F.traced or not (g.requires_grad and source.requires_grad):
        return g
    result = g.detach()
    output = (g._array.shape, g._array.dtype)
    result._edge, result._rg = ending(message, (source.gradient_edge(),), (output,)).edge(), True
    return result


def _corner(F, src, shape):
    """The part of src that an index of this shape reads."""
    for dim, n in enumerate(shape):
        if src.shape[dim] != n:
            src = F.slice(src, dim, 0, n, 1)
    return src


def _as_numbers(F, mask, like):
    """1 where a mask is true, 0 elsewhere, in the dtype of `like`."""
    return F.zeros_of(like, tuple(mask.shape)) + mask


def _by_product(F, g, self, dim: int, index, src, include_self: bool, result) -> tuple[Any, Any]:
    """Gradients of a product: the result over the factor, and without it where that is zero."""
    kept = F.where(self == 0, 1.0, self)
    rest = F.scatter_reduce(kept, dim, index, src, "prod", include_self=include_self)
    g_self = g * rest / kept
    zero = src == 0
    zeros = F.scatter_add(F.zeros_of(src, tuple(self.shape)), dim, index, _as_numbers(F, zero, src))
    zeros = F.gather(zeros, dim, index)
    single = zero & (zeros == 1)
    others = F.where(single, 1.0, src)
    without = F.scatter_reduce(self, dim, index, others, "prod", include_self=include_self)
    g_src = F.where(
        single,
        F.gather(g * without, dim, index),
        F.gather(g * result, dim, index) / F.where(zero, 1.0, src),
    )
    return g_self, (g_src, anywhere(zeros > 1))


def _by_extreme(F, g, self, dim: int, index, src, result) -> tuple[Any, Any]:
    """Gradients of an extremum, shared evenly by the elements that equal it."""
    mine = _as_numbers(F, self == result, g)
    theirs = _as_numbers(F, src == F.gather(result, dim, index), g)
    share = g / F.scatter_add(mine, dim, index, theirs)
    return mine * share, theirs * F.gather(share, dim, index)


def _back(F, g, self, dim, index, src, reduce, include_self, result, names) -> tuple[Any, Any]:
    """The gradients of self and src."""
    wide = tuple(src.shape)
    if not self.shape:
        # A 0-d tensor is one place.
        g, self, index, src, result = (F.reshape(x, (1,)) for x in (g, self, index, src, result))
        found = _back(F, g, self, 0, index, src, reduce, include_self, result, names)
        return F.reshape(found[0], ()), F.reshape(found[1], wide)
    src = _corner(F, src, tuple(index.shape))
    if reduce == "sum":
        g_self, g_src = g, F.gather(g, dim, index)
    elif reduce == "mean":
        count = F.zeros_of(g, tuple(g.shape)) + (1.0 if include_self else 0.0)
        ones = F.zeros_of(g, tuple(index.shape)) + 1.0
        count = F.scatter_add(count, dim, index, ones)
        share = g / F.where(count == 0, 1.0, count)
        g_self, g_src = share, F.gather(share, dim, index)
    elif reduce == "prod":
        g_self, (g_src, several) = _by_product(F, g, self, dim, index, src, include_self, result)
        if several:
            g_src = _once(F, g_src, src, _ZEROS.format(names[0], names[1], names[1]))
    else:
        g_self, g_src = _by_extreme(F, g, self, dim, index, src, result)
    if not include_self:
        g_self = F.scatter_value(g_self, dim, index, 0)
    return g_self, grown(F, g_src, wide)


# scatter_reduce ---------------------------------------------------------------------------------


def _normal_scatter(self, dim, index, src, reduce, include_self) -> tuple[Any, ...]:
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    return scatter_dim("scatter", self, dim, index, src), reduce, bool(include_self)


def _scatter_back(
    F, g, self, dim: int, index, src, reduce: str, include_self: bool, result
) -> tuple[Any, Any]:
    names = ("scatter_reduce", "src")
    return _back(F, g, self, dim, index, src, reduce, include_self, result, names)


def _scatter_along(F, t_src, self, dim: int, index, src, reduce: str, include_self: bool, result):
    """Each element of src times its slope, added up where it goes."""
    ones = F.zeros_of(result, tuple(result.shape)) + 1
    slope = _scatter_back(F, ones, self, dim, index, src, reduce, include_self, result)[1]
    return F.scatter_add(F.zeros_of(result, tuple(result.shape)), dim, index, slope * t_src)


def _scatter_samples(make):
    index = numpy.array([[0, 0, 1], [2, 0, 0]])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            x, src = make((3, 4), low=0.3, high=2.0), make((2, 3), low=0.3, high=2.0)
            yield Sample((x, 1, index, src, reduce), {"include_self": include_self})
    x, src = make((4,), low=0.3, high=2.0), make((3,), low=0.3, high=2.0)
    src[0] = x[1] = 0.0
    yield Sample((x, 0, numpy.array([1, 0, 0]), src, "prod"))
    yield Sample((make((3, 4)), 0, index, make((3, 5)), "mean"), oracle=False)
    yield Sample((make(()), 0, numpy.array([0]), make((1,)), "sum"), oracle=False)


def _scatter_errors(make):
    x, index, src = make((2, 3)), numpy.array([[0]]), make((1, 1))
    yield ErrorSample((x, 0, index, src, "max"), RuntimeError, "reduce argument must be either")
    yield ErrorSample((x, 0, index + 5, src, "sum"), RuntimeError, "index 5 is out of bounds")


op(
    "scatter_reduce",
    scatter_reduce,
    vjp={("self", "src"): _scatter_back},
    jvp={"self": ELEMENTWISE, "src": _scatter_along},
    inputs=("self", "index", "src"),
    normalize=_normal_scatter,
    inplace=True,
    vmap_inplace="scatter_reduce_",
    holomorphic=False,
    real_only=True,
    samples=_scatter_samples,
    errors=_scatter_errors,
    doc="`self` with src[i, j] combined into [index[i, j], j] for dim 0, and so on. reduce: 'sum', "
    "'prod', 'mean', 'amax' or 'amin'; include_self: whether what stands there takes part.",
    out="check_overlap",
)


# index_reduce -----------------------------------------------------------------------------------


def _normal_index(self, dim, index, source, reduce, include_self) -> tuple[Any, ...]:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    same_type("index_reduce_", self, source)
    return vector("index_reduce_", self, dim, index), reduce, bool(include_self)


def _index_back(
    F, g, self, dim: int, index, source, reduce: str, include_self: bool, result
) -> tuple[Any, Any]:
    shape = tuple(source.shape)
    line = (-1,) + (1,) * (len(shape) - dim - 1)
    wide = F.expand(F.reshape(index, line), shape) if shape else index
    names = ("index_reduce", "source")
    return _back(F, g, self, dim, wide, source, reduce, include_self, result, names)


def _index_samples(make):
    index = numpy.array([0, 2, 0])
    for reduce in ("prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            x, source = make((2, 3), low=0.3, high=2.0), make((2, 3), low=0.3, high=2.0)
            yield Sample((x, 1, index, source, reduce), {"include_self": include_self})
    yield Sample((make((3, 2)), 0, index, make((3, 2)), "mean"))


def _index_errors(make):
    x, index, source = make((2, 3)), numpy.array([0, 1]), make((2, 3))
    yield ErrorSample((x, 0, index, source, "sum"), RuntimeError, "Expected reduce to be one of")
    yield ErrorSample((x, 0, index + 1, source, "prod"), IndexError, "index out of range in self")
    yield ErrorSample((x, 0, index[:1], source, "prod"), RuntimeError, "Number of indices (1)")


op(
    "index_reduce",
    index_reduce,
    vjp={("self", "source"): _index_back},
    inputs=("self", "index", "source"),
    normalize=_normal_index,
    inplace=True,
    holomorphic=False,
    real_only=True,
    batch=slices,
    samples=_index_samples,
    errors=_index_errors,
    doc="`self` with source[i] combined into slice index[i] of `dim`. reduce: 'prod', 'mean', "
    "'amax' or 'amin'; include_self: whether what stands there takes part.",
    out="check_overlap",
)
