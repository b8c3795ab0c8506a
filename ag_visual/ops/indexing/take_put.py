"""Elements by their place in the flat tensor: take, put; and those not zero: nonzero, argwhere."""

from __future__ import annotations

import math

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of, of_namespace
from ag_visual.core.level import is_batchedtensor
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.record import ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite
from ag_visual.dispatch.vmap import dynamic_shape
from ag_visual.dispatch.vmap_indexing import places
from ag_visual.ops.indexing.index_select import same_type


def _take(xp, self, index):
    n = self.size
    wrapped = xp.where(index < 0, index + n, index)
    if index.size and not (int(wrapped.min()) >= 0 and int(wrapped.max()) < n):
        raise IndexError(
            f"out of range: tried to access index {_outside(xp, index, n)} on a tensor of {n} "
            "elements."
        )
    return xp.ascontiguousarray(self).reshape(-1)[wrapped]


def _outside(xp, index, n: int) -> int:
    return int(index[(index < -n) | (index >= n)][0])


def _take_back(F, g, self_shape, index):
    flat = F.zeros_of(g, (math.prod(self_shape),))
    put = F.index_put(flat, (F.reshape(index, (-1,)),), F.reshape(g, (-1,)), True)
    return F.reshape(put, self_shape)


def _normal_take(self, index) -> tuple[()]:
    if index.dtype != numpy.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {dtypes.of_array(index)}"
        )
    return ()


structural(
    "take",
    _take,
    vjp={"self": _take_back},
    inputs=("self", "index"),
    layout=ROWS,
    normalize=_normal_take,
    also_saves=("self",),
    batch=places,
    samples=lambda make: [Sample((make((2, 3)), numpy.array([[0, 5], [-1, 0]])))],
    errors=lambda make: [
        ErrorSample((make((2,)), numpy.array([2])), IndexError, "tried to access index 2 on a")
    ],
    doc="The elements at row-major positions, in the shape of `index`.",
    out="no_overlap",
)


def _put_flat_into(xp, self, index, source, accumulate: bool = False) -> None:
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


def _put_flat(xp, self, index, source, accumulate: bool = False):
    result = xp.array(self, order="C", copy=True)
    _put_flat_into(xp, result, index, source, accumulate)
    return result


def _normal_put_flat(self, index, source, accumulate: bool = False) -> tuple[bool]:
    same_type("put_", self, source)
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


structural(
    "put",
    _put_flat,
    vjp={
        "self": lambda F, g, index, accumulate: (
            g if accumulate else F.put(g, index, F.zeros_of(g, tuple(index.shape)), False)
        ),
        "source": lambda F, g, index, source_shape: F.reshape(F.take(g, index), source_shape),
    },
    inputs=("self", "index", "source"),
    normalize=_normal_put_flat,
    inplace=_put_flat_into,
    no_overlap=True,
    also_saves=("source",),
    batch=places,
    samples=lambda make: [
        Sample((make((2, 3)), numpy.array([[0, -1]]), make((2,)))),
        Sample((make((2, 3)), numpy.array([5, 1, 5]), make((3,)), True)),
    ],
    errors=lambda make: [
        ErrorSample(
            (make((2,)), numpy.array([2]), make((1,))), IndexError, "tried to access index 2"
        )
    ],
    doc="`self` with `source` written (or added) at row-major positions.",
)


@composite("nonzero", out=True)
def _nonzero(F, self, *, as_tuple: bool = False):
    """The places of the elements that are not zero: one row each, or one vector per dimension."""
    if is_batchedtensor(self):
        raise dynamic_shape("nonzero")
    array = self._array if F.traced else self
    xp = backend_of(array).xp
    if as_tuple:
        found = tuple(xp.stack(xp.nonzero(array.reshape(1) if array.ndim == 0 else array)))
        return tuple(map(from_array, found)) if F.traced else found
    # In memory one dimension's places lie behind the other's, as in torch.
    rows = xp.stack(xp.nonzero(array)).T if array.ndim else xp.zeros((int(array != 0), 0), int)
    return from_array(rows) if F.traced else rows


@composite("argwhere")
def _argwhere(F, self):
    """The places of the elements that are not zero, one row each."""
    return F.nonzero(self)
