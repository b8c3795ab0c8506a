"""Slices along a dimension, by their indices: index_select, index_add, index_copy, index_fill."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels import scatter as kernels
from ag_visual.arrays.kernels.bounds import check_index
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import number_in, structural
from ag_visual.dispatch.memory_overlap import WARNED
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import composite, ops
from ag_visual.dispatch.vmap_indexing import slices
from ag_visual.ops.tensor.copy_fill import by_kind, number_for, zero_dim


def vector(name: str, self, dim, index) -> int:
    if index.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, got shape {list(index.shape)}"
        )
    if index.dtype.kind != "i" or index.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}(): Expected dtype int32 or int64 for index, got {dtypes.of_array(index)}"
        )
    return wrap(dim, self.ndim)


def _index_select_back(F, g, self_shape, dim: int, index):
    return F.index_add(F.zeros_of(g, self_shape), dim, index, g)


def _index_select_errors(make):
    x = make((2, 3))
    yield ErrorSample((x, 0, numpy.array([2])), IndexError, "index out of range in self")
    yield ErrorSample((x, 0, numpy.array([[0]])), IndexError, "Index is supposed to be a vector")


structural(
    "index_select",
    kernels.index_select,
    vjp={"self": _index_select_back},
    inputs=("self", "index"),
    normalize=lambda self, dim, index: (vector("index_select", self, dim, index),),
    batch=slices,
    samples=lambda make: [
        Sample((make((3, 4)), 0, numpy.array([2, 0, 2]))),
        Sample((make((3, 4)), -1, numpy.array([1]))),
    ],
    errors=_index_select_errors,
    doc="The slices of `dim` that the vector `index` names, in its order.",
    out="no_overlap",
)


def _source_back(F, g, source_shape, dim: int, index):
    return F.reshape(F.index_select(g, dim, index), source_shape)


# It names the source, as torch's node saves it where that requires grad.
def _source_back_scaled(F, g, source, source_shape, dim: int, index, alpha):
    found = _source_back(F, g, source_shape, dim, index)
    return found if alpha == 1 else found * alpha


def same_type(name: str, self, source) -> None:
    if self.dtype != source.dtype:
        raise RuntimeError(
            f"{name}(): self ({dtypes.of_array(self)}) and source ({dtypes.of_array(source)}) must "
            "have the same scalar type"
        )


def _normal_index_add(self, dim, index, source, alpha=1) -> tuple[Any, ...]:
    same_type("index_add_", self, source)
    return vector("index_add", self, dim, index), number_in(alpha, self.dtype)


def _index_add(xp, self, dim: int, index, source, *, alpha=1):
    return kernels.index_add(xp, self, dim, index, source, alpha)


def _slices_samples(make):
    yield Sample((make((3, 4)), 0, numpy.array([2, 0]), make((2, 4))))
    yield Sample((make((3, 4)), -1, numpy.array([1]), make((3, 1))))


def _index_add_errors(make):
    places = numpy.array([0, 1])
    yield ErrorSample(
        (make((2, 3)), 0, places, make((1, 3))), RuntimeError, "should be equal to source.size(dim)"
    )


structural(
    "index_add",
    _index_add,
    vjp={"self": lambda g: g, "source": _source_back_scaled},
    inputs=("self", "index", "source"),
    normalize=_normal_index_add,
    inplace=True,
    vmap_inplace="index_add_",
    no_overlap=True,
    batch=slices,
    samples=lambda make: [
        *_slices_samples(make),
        Sample((make((3, 2)), 0, numpy.array([1, 1]), make((2, 2))), {"alpha": 2.5}),
    ],
    errors=_index_add_errors,
    doc="`self` with alpha * source[i] added to slice index[i] of `dim`.",
    out="check_overlap",
)


def _normal_index_copy(self, dim, index, source) -> tuple[int]:
    same_type("index_copy_", self, source)
    return (vector("index_copy", self, dim, index),)


structural(
    "index_copy",
    kernels.index_copy,
    vjp={
        "self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0),
        "source": _source_back,
    },
    inputs=("self", "index", "source"),
    normalize=_normal_index_copy,
    inplace=True,
    no_overlap=True,
    also_saves=("source",),
    batch=slices,
    samples=_slices_samples,
    doc="`self` with source[i] written to slice index[i] of `dim`.",
    out="check_overlap",
    autocast="cpu widest",
)
for _name in ("index_add", "index_copy"):
    ops[_name].node_class._saved_source_dim = property(lambda self: len(self.h_source_shape))


def _fill_slices(xp, self, dim: int, index, value) -> None:
    index = index.reshape(-1)
    if self.ndim == 0:
        self[...] = value
        return
    n = self.shape[dim]
    wrapped = xp.where(index < 0, index + n, index)
    check_index(xp, wrapped, n, dim)
    self[(slice(None),) * dim + (wrapped,)] = value


def _filled_slices(xp, self, dim: int, index, value):
    result = xp.array(self, order="C", copy=True)
    _fill_slices(xp, result, dim, index, value)
    return result


def _normal_fill_number(self, dim, index, value) -> tuple[Any, ...]:
    return vector("index_fill_", self, dim, index), number_for(value, self)


def _normal_fill_tensor(self, dim, index, value) -> tuple[int]:
    zero_dim("index_fill_", value)
    return (vector("index_fill_", self, dim, index),)


_FILL: dict[str, Any] = {
    "inplace": _fill_slices,
    "vmap_inplace": "index_fill_",
    "repeated": WARNED,
    "no_overlap": True,
    "public": False,
    "public_name": "index_fill",
    "batch": slices,
}
structural(
    "index_fill_number",
    _filled_slices,
    vjp={"self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0)},
    jvp=ELEMENTWISE,
    inputs=("self", "index"),
    normalize=_normal_fill_number,
    node="IndexFillBackward0",
    samples=lambda make: [Sample((make((3, 4)), 1, numpy.array([0, -1]), 1.5))],
    **_FILL,
)


def _filled_value(F, g, dim: int, index):
    """The sum of g where it was filled; a slice that the index names twice counts once."""
    filled = F.index_fill_number(F.zeros_of(g, tuple(g.shape)), dim, index, 1) != 0
    return F.sum(F.where(filled, g, 0.0))


structural(
    "index_fill_tensor",
    _filled_slices,
    vjp={
        "self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0),
        "value": _filled_value,
    },
    inputs=("self", "index", "value"),
    may_alias=("value",),
    normalize=_normal_fill_tensor,
    node="IndexFillBackward1",
    samples=lambda make: [Sample((make((3, 4)), 1, numpy.array([0, 2]), make(())))],
    **_FILL,
)


@composite("index_fill")
def _index_fill(F, self, dim: int, index, value):
    """`self` with one value in the slices of `dim` that the vector `index` names."""
    kind = by_kind(value, "index_fill_tensor", "index_fill_number")
    return getattr(F, kind)(self, dim, index, value)


@method("index_fill_")
def _index_fill_(self: Tensor, dim: int, index: Tensor, value) -> Tensor:
    """`index_fill`, written into this tensor."""
    record = ops[by_kind(value, "index_fill_tensor", "index_fill_number")]
    return record.write(self, dim, index, value)  # type: ignore[no-any-return]
