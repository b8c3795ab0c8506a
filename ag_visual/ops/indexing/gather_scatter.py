"""Reading and writing along a dimension: gather, scatter, index_*; at flat places: take, put."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of, of_namespace
from ag_visual.arrays.kernels import scatter as kernels
from ag_visual.arrays.kernels.bounds import check_index
from ag_visual.core.tensor import Tensor, from_array, method
from ag_visual.dispatch.arguments import outside
from ag_visual.dispatch.dims import broadcast, wrap
from ag_visual.dispatch.families import number_in
from ag_visual.dispatch.memory_overlap import WARNED
from ag_visual.dispatch.record import EACH, LINEAR, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op, ops, traced
from ag_visual.dispatch.vmap_indexing import places, slices
from ag_visual.ops.tensor.copy_fill import by_kind, number_for, zero_dim

_structural = functools.partial(op, holomorphic=False)
Samples = Iterator[Sample]
Errors = Iterator[ErrorSample]


# gather and scatter -----------------------------------------------------------------------------


def dim_and_index(name: str, self: Any, dim: Any, index: Any) -> int:
    if index.size and (index.dtype.kind != "i" or index.dtype.itemsize < 4):
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {dtypes.of_array(index)}"
        )
    return wrap(dim, self.ndim)


def _normal_gather(self: Any, dim: Any, index: Any, sparse_grad: bool = False) -> Any:
    return dim_and_index("gather", self, dim, index), sparse_grad


def _gather_samples(make: Any) -> Samples:
    yield Sample((make((3, 4)), 1, numpy.array([[0, 3, 0], [2, 2, 1]])))
    yield Sample((make((3, 4)), -2, numpy.array([[0, 2, 1, 0]])))
    yield Sample((make((3,)), 0, numpy.array([2, 2])))


def _gather_errors(make: Any) -> Errors:
    x = make((2, 3))
    yield ErrorSample((x, 0, numpy.array([[2]])), RuntimeError, "index 2 is out of bounds for dim")
    yield ErrorSample((x, 0, numpy.array([0])), RuntimeError, "must have the same number of dim")
    yield ErrorSample((x, 0, numpy.array([[0.0]])), RuntimeError, "Expected dtype int32/int64")


def _gather(xp: Any, self: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    return kernels.gather(xp, self, dim, index)


_structural(
    "gather",
    _gather,
    vjp={
        "self": lambda F, g, self_shape, dim, index: F.scatter_add(
            F.zeros_of(g, self_shape), dim, index, g
        )
    },
    jvp=LINEAR,
    inputs=("self", "index"),
    layout=ROWS,
    normalize=_normal_gather,
    keeps=("self", "sparse_grad"),
    samples=_gather_samples,
    errors=_gather_errors,
    doc="out[i, j] = self[index[i, j], j] for dim 0, and so on: the shape of `index`.",
)


def grown(F: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """g with zeros behind it in every dimension that falls short of `shape`."""
    for dim, n in enumerate(shape):
        if g.shape[dim] != n:
            wide = (*g.shape[:dim], n, *g.shape[dim + 1 :])
            g = F.slice_backward(g, tuple(wide), dim, 0, g.shape[dim], 1)
    return g


def _normal_scatter(self: Any, dim: Any, index: Any, src: Any) -> tuple[int]:
    if src.dtype != self.dtype:
        raise RuntimeError(
            "scatter(): Expected self.dtype to be equal to src.dtype, got "
            f"{dtypes.of_array(self)} and {dtypes.of_array(src)}"
        )
    return (dim_and_index("scatter", self, dim, index),)


def _scatter_samples(make: Any) -> Samples:
    index = numpy.array([[0, 3, 1], [2, 0, 1]])
    yield Sample((make((3, 4)), 1, index, make((2, 3))))
    yield Sample((make((3, 4)), 1, index, make((3, 5))), oracle=False)
    yield Sample((make((5,)), 0, numpy.array([4, 1]), make((2,))))


def _scatter_errors(make: Any) -> Errors:
    x = make((2, 3))
    yield ErrorSample(
        (x, 0, numpy.array([[2]]), make((1, 1))), RuntimeError, "index 2 is out of bounds"
    )


_structural(
    "scatter_src",
    kernels.scatter,
    vjp={
        "self": lambda F, g, dim, index: F.scatter_value(g, dim, index, 0),
        "src": lambda F, g, src_shape, dim, index: grown(F, F.gather(g, dim, index), src_shape),
    },
    jvp=LINEAR,
    inputs=("self", "index", "src"),
    normalize=_normal_scatter,
    inplace=True,
    apart=True,
    public=False,
    called="scatter",
    node="ScatterBackward0",
    samples=_scatter_samples,
    errors=_scatter_errors,
)


def _scatter_value(xp: Any, self: Any, dim: int, index: Any, value: Any) -> Any:
    return kernels.scatter(xp, self, dim, index, value)


def _normal_value(self: Any, dim: Any, index: Any, value: Any) -> tuple[Any, ...]:
    return dim_and_index("scatter", self, dim, index), number_for(value, self).item()


_structural(
    "scatter_value",
    _scatter_value,
    vjp={"self": lambda F, g, dim, index: F.scatter_value(g, dim, index, 0)},
    jvp=EACH,
    inputs=("self", "index"),
    normalize=_normal_value,
    inplace=True,
    apart=True,
    public=False,
    called="scatter",
    node="ScatterBackward1",
    samples=lambda make: iter([Sample((make((2, 3)), 1, numpy.array([[0], [2]]), 1.5))]),
)


_REDUCED = {"add": "sum", "multiply": "prod"}
"""What scatter(reduce=), which torch keeps for old programs, is in scatter_reduce."""


@composite("scatter", out=True)
def _scatter(
    F: Any,
    self: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    """`self` with src[i, j] (or one number) written at [index[i, j], j] for dim 0, and so on.

    reduce: "add" or "multiply" what stands there instead; `scatter_reduce` does the same and more.
    """
    given = value if src is None else src
    if reduce is not None:
        given = _reduced_source(F, self, index, given, reduce)
        return F.scatter_reduce(self, dim, index, given, _REDUCED[reduce])
    return getattr(F, by_kind(given, "scatter_src", "scatter_value"))(self, dim, index, given)


def _reduced_source(F: Any, self: Any, index: Any, given: Any, reduce: Any) -> Any:
    """What scatter(reduce=) adds or multiplies, as a tensor like the index."""
    if reduce not in _REDUCED:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(given, Tensor):
        number = number_for(given, self._array).item()
        return F.expand(F.zeros_of(self, ()) + number, tuple(index.shape))
    warnings.warn(
        "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in "
        "a future PyTorch release. Use torch.scatter_reduce instead for more reduction options.",
        UserWarning,
        stacklevel=outside(),
    )
    return given


@method("scatter_")
def _scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """`scatter`, written into this tensor."""
    given = value if src is None else src
    if reduce is not None:
        given = _reduced_source(traced, self, index, given, reduce)
        return self.scatter_reduce_(dim, index, given, _REDUCED[reduce])  # type: ignore[attr-defined,no-any-return]
    record = ops[by_kind(given, "scatter_src", "scatter_value")]
    return record.write(self, dim, index, given)  # type: ignore[no-any-return]


def _normal_scatter_add(self: Any, dim: Any, index: Any, src: Any) -> tuple[int]:
    if src.dtype != self.dtype:
        raise RuntimeError(
            "scatter(): Expected self.dtype to be equal to src.dtype, got "
            f"{dtypes.of_array(self)} and {dtypes.of_array(src)}"
        )
    return (dim_and_index("scatter_add", self, dim, index),)


def _scatter_add_samples(make: Any) -> Samples:
    index = numpy.array([[0, 0, 1], [2, 0, 2]])
    yield Sample((make((3, 4)), 1, index, make((2, 3))))
    yield Sample((make((3, 4)), 0, index, make((2, 4))), oracle=False)


_structural(
    "scatter_add",
    kernels.scatter_add,
    vjp={
        "self": lambda g: g,
        "src": lambda F, g, src_shape, dim, index: grown(F, F.gather(g, dim, index), src_shape),
    },
    jvp=LINEAR,
    inputs=("self", "index", "src"),
    normalize=_normal_scatter_add,
    inplace=True,
    apart=True,
    samples=_scatter_add_samples,
    errors=_scatter_errors,
    doc="`self` with src[i, j] added at [index[i, j], j] for dim 0, and so on.",
)


@composite("take_along_dim", out=True)
def _take_along_dim(F: Any, self: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` where the index broadcasts against `self`; without dim, on the flattened tensor."""
    if dim is None:
        return F.gather(F.reshape(self, (-1,)), 0, F.reshape(indices, (-1,)))
    if self.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = wrap(dim, self.ndim)
    shape, wanted = list(self.shape), list(indices.shape)
    sizes = broadcast((*shape[:dim], 1, *shape[dim + 1 :]), tuple(wanted))
    index = F.expand(F.where(indices < 0, indices + shape[dim], indices), sizes)
    source = F.expand(self, (*sizes[:dim], shape[dim], *sizes[dim + 1 :]))
    return F.gather(source, dim, index)


# Whole slices -----------------------------------------------------------------------------------


def vector(name: str, self: Any, dim: Any, index: Any) -> int:
    if index.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, got shape {list(index.shape)}"
        )
    if index.dtype.kind != "i" or index.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}(): Expected dtype int32 or int64 for index, got {dtypes.of_array(index)}"
        )
    return wrap(dim, self.ndim)


def _normal_index_select(self: Any, dim: Any, index: Any) -> tuple[int]:
    return (vector("index_select", self, dim, index),)


def _index_select_back(F: Any, g: Any, self_shape: Any, dim: int, index: Any) -> Any:
    return F.index_add(F.zeros_of(g, self_shape), dim, index, g)


def _index_select_samples(make: Any) -> Samples:
    yield Sample((make((3, 4)), 0, numpy.array([2, 0, 2])))
    yield Sample((make((3, 4)), -1, numpy.array([1])))


def _index_select_errors(make: Any) -> Errors:
    x = make((2, 3))
    yield ErrorSample((x, 0, numpy.array([2])), IndexError, "index out of range in self")
    yield ErrorSample((x, 0, numpy.array([[0]])), IndexError, "Index is supposed to be a vector")


_structural(
    "index_select",
    kernels.index_select,
    vjp={"self": _index_select_back},
    jvp=LINEAR,
    inputs=("self", "index"),
    normalize=_normal_index_select,
    batch=slices,
    samples=_index_select_samples,
    errors=_index_select_errors,
    doc="The slices of `dim` that the vector `index` names, in its order.",
)


def _source_back(F: Any, g: Any, source_shape: Any, dim: int, index: Any) -> Any:
    return F.reshape(F.index_select(g, dim, index), source_shape)


# It names the source, as torch's node saves it where that requires grad.
def _source_back_scaled(
    F: Any, g: Any, source: Any, source_shape: Any, dim: int, index: Any, alpha: Any
) -> Any:
    found = _source_back(F, g, source_shape, dim, index)
    return found if alpha == 1 else found * alpha


def _same_type(name: str, self: Any, source: Any) -> None:
    if self.dtype != source.dtype:
        raise RuntimeError(
            f"{name}(): self ({dtypes.of_array(self)}) and source ({dtypes.of_array(source)}) must "
            "have the same scalar type"
        )


def _normal_index_add(
    self: Any, dim: Any, index: Any, source: Any, alpha: Any = 1
) -> tuple[Any, ...]:
    _same_type("index_add_", self, source)
    return vector("index_add", self, dim, index), number_in(alpha, self.dtype)


def _index_add(xp: Any, self: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    return kernels.index_add(xp, self, dim, index, source, alpha)


def _slices_samples(make: Any) -> Samples:
    yield Sample((make((3, 4)), 0, numpy.array([2, 0]), make((2, 4))))
    yield Sample((make((3, 4)), -1, numpy.array([1]), make((3, 1))))


def _index_add_samples(make: Any) -> Samples:
    yield from _slices_samples(make)
    yield Sample((make((3, 2)), 0, numpy.array([1, 1]), make((2, 2))), {"alpha": 2.5})


def _index_add_errors(make: Any) -> Errors:
    places = numpy.array([0, 1])
    yield ErrorSample(
        (make((2, 3)), 0, places, make((1, 3))), RuntimeError, "should be equal to source.size(dim)"
    )


_structural(
    "index_add",
    _index_add,
    vjp={"self": lambda g: g, "source": _source_back_scaled},
    jvp=LINEAR,
    inputs=("self", "index", "source"),
    normalize=_normal_index_add,
    inplace=True,
    apart=True,
    batch=slices,
    samples=_index_add_samples,
    errors=_index_add_errors,
    doc="`self` with alpha * source[i] added to slice index[i] of `dim`.",
)


def _normal_index_copy(self: Any, dim: Any, index: Any, source: Any) -> tuple[int]:
    _same_type("index_copy_", self, source)
    return (vector("index_copy", self, dim, index),)


_structural(
    "index_copy",
    kernels.index_copy,
    vjp={
        "self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0),
        "source": _source_back,
    },
    jvp=LINEAR,
    inputs=("self", "index", "source"),
    normalize=_normal_index_copy,
    inplace=True,
    apart=True,
    keeps=("source",),
    batch=slices,
    samples=_slices_samples,
    doc="`self` with source[i] written to slice index[i] of `dim`.",
)
for _name in ("index_add", "index_copy"):
    ops[_name].node_class._saved_source_dim = property(lambda self: len(self.h_source_shape))


def _fill_slices(xp: Any, self: Any, dim: int, index: Any, value: Any) -> None:
    index = index.reshape(-1)
    if self.ndim == 0:
        self[...] = value
        return
    n = self.shape[dim]
    wrapped = xp.where(index < 0, index + n, index)
    check_index(xp, wrapped, n, dim)
    self[(slice(None),) * dim + (wrapped,)] = value


def _filled_slices(xp: Any, self: Any, dim: int, index: Any, value: Any) -> Any:
    result = xp.array(self, order="C", copy=True)
    _fill_slices(xp, result, dim, index, value)
    return result


def _normal_fill_number(self: Any, dim: Any, index: Any, value: Any) -> tuple[Any, ...]:
    return vector("index_fill_", self, dim, index), number_for(value, self)


def _normal_fill_tensor(self: Any, dim: Any, index: Any, value: Any) -> tuple[int]:
    zero_dim("index_fill_", value)
    return (vector("index_fill_", self, dim, index),)


_structural(
    "index_fill_number",
    _filled_slices,
    vjp={"self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0)},
    jvp=EACH,
    inputs=("self", "index"),
    normalize=_normal_fill_number,
    inplace=_fill_slices,
    repeated=WARNED,
    apart=True,
    public=False,
    called="index_fill",
    node="IndexFillBackward0",
    batch=slices,
    samples=lambda make: iter([Sample((make((3, 4)), 1, numpy.array([0, -1]), 1.5))]),
)


def _filled_value(F: Any, g: Any, dim: int, index: Any) -> Any:
    """The sum of g where it was filled; a slice that the index names twice counts once."""
    filled = F.index_fill_number(F.zeros_of(g, tuple(g.shape)), dim, index, 1) != 0
    return F.sum(F.where(filled, g, 0.0))


_structural(
    "index_fill_tensor",
    _filled_slices,
    vjp={
        "self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0),
        "value": _filled_value,
    },
    jvp=LINEAR,
    inputs=("self", "index", "value"),
    free=("value",),
    normalize=_normal_fill_tensor,
    inplace=_fill_slices,
    repeated=WARNED,
    apart=True,
    public=False,
    called="index_fill",
    node="IndexFillBackward1",
    batch=slices,
    samples=lambda make: iter([Sample((make((3, 4)), 1, numpy.array([0, 2]), make(())))]),
)


@composite("index_fill")
def _index_fill(F: Any, self: Any, dim: int, index: Any, value: Any) -> Any:
    """`self` with one value in the slices of `dim` that the vector `index` names."""
    kind = by_kind(value, "index_fill_tensor", "index_fill_number")
    return getattr(F, kind)(self, dim, index, value)


@method("index_fill_")
def _index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`index_fill`, written into this tensor."""
    record = ops[by_kind(value, "index_fill_tensor", "index_fill_number")]
    return record.write(self, dim, index, value)  # type: ignore[no-any-return]


# Flat positions ---------------------------------------------------------------------------------


def _take(xp: Any, self: Any, index: Any) -> Any:
    n = self.size
    wrapped = xp.where(index < 0, index + n, index)
    if index.size and not (int(wrapped.min()) >= 0 and int(wrapped.max()) < n):
        raise IndexError(
            f"out of range: tried to access index {_outside(xp, index, n)} on a tensor of {n} "
            "elements."
        )
    return xp.ascontiguousarray(self).reshape(-1)[wrapped]


def _outside(xp: Any, index: Any, n: int) -> int:
    return int(index[(index < -n) | (index >= n)][0])


def _take_back(F: Any, g: Any, self_shape: Any, index: Any) -> Any:
    flat = F.zeros_of(g, (math.prod(self_shape),))
    put = F.index_put(flat, (F.reshape(index, (-1,)),), F.reshape(g, (-1,)), True)
    return F.reshape(put, self_shape)


def _normal_take(self: Any, index: Any) -> tuple[()]:
    if index.dtype != numpy.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {dtypes.of_array(index)}"
        )
    return ()


_structural(
    "take",
    _take,
    vjp={"self": _take_back},
    jvp=LINEAR,
    inputs=("self", "index"),
    layout=ROWS,
    normalize=_normal_take,
    keeps=("self",),
    batch=places,
    samples=lambda make: iter([Sample((make((2, 3)), numpy.array([[0, 5], [-1, 0]])))]),
    errors=lambda make: iter(
        [ErrorSample((make((2,)), numpy.array([2])), IndexError, "tried to access index 2 on a")]
    ),
    doc="The elements at row-major positions, in the shape of `index`.",
)


def _put_flat_into(xp: Any, self: Any, index: Any, source: Any, accumulate: bool = False) -> None:
    at = xp.where(index < 0, index + self.size, index).reshape(-1)
    if at.size and not (int(at.min()) >= 0 and int(at.max()) < self.size):
        raise IndexError(
            f"out of range: tried to access index {_outside(xp, index, self.size)} on a tensor of "
            f"{self.size} elements."
        )
    line = xp.ascontiguousarray(self).reshape(-1)
    if accumulate:
        of_namespace(xp).add_at(line, at, source.reshape(-1))
    else:
        line[at] = source.reshape(-1)
    self[...] = line.reshape(self.shape)


def _put_flat(xp: Any, self: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    result = xp.array(self, order="C", copy=True)
    _put_flat_into(xp, result, index, source, accumulate)
    return result


def _normal_put_flat(self: Any, index: Any, source: Any, accumulate: bool = False) -> tuple[bool]:
    _same_type("put_", self, source)
    if index.dtype != numpy.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {dtypes.of_array(index)}"
        )
    if index.size != source.size:
        raise RuntimeError(
            "put_(): Expected source and index to have the same number of elements, but got source "
            f"with {source.size} elements and index with {index.size}"
        )
    return (accumulate,)


def _put_flat_self(F: Any, g: Any, index: Any, accumulate: bool) -> Any:
    return g if accumulate else F.put(g, index, F.zeros_of(g, tuple(index.shape)), False)


_structural(
    "put",
    _put_flat,
    vjp={
        "self": _put_flat_self,
        "source": lambda F, g, index, source_shape: F.reshape(F.take(g, index), source_shape),
    },
    jvp=LINEAR,
    inputs=("self", "index", "source"),
    normalize=_normal_put_flat,
    inplace=_put_flat_into,
    apart=True,
    keeps=("source",),
    batch=places,
    samples=lambda make: iter(
        [
            Sample((make((2, 3)), numpy.array([[0, -1]]), make((2,)))),
            Sample((make((2, 3)), numpy.array([5, 1, 5]), make((3,)), True)),
        ]
    ),
    errors=lambda make: iter(
        [
            ErrorSample(
                (make((2,)), numpy.array([2]), make((1,))), IndexError, "tried to access index 2"
            )
        ]
    ),
    doc="`self` with `source` written (or added) at row-major positions.",
)


@composite("nonzero", out=True)
def _nonzero(F: Any, self: Any, *, as_tuple: bool = False) -> Any:
    """The places of the elements that are not zero: one row each, or one vector per dimension."""
    array = self if F.xp is not None else self._array
    xp = backend_of(array).xp
    if as_tuple:
        found = tuple(xp.stack(xp.nonzero(array.reshape(1) if array.ndim == 0 else array)))
        return found if F.xp is not None else tuple(map(from_array, found))
    # In memory one dimension's places lie behind the other's, as in torch.
    rows = xp.stack(xp.nonzero(array)).T if array.ndim else xp.zeros((int(array != 0), 0), int)
    return rows if F.xp is not None else from_array(rows)


@composite("argwhere")
def _argwhere(F: Any, self: Any) -> Any:
    """The places of the elements that are not zero, one row each."""
    return F.nonzero(self)
