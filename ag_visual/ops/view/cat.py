"""Joining tensors: cat, stack and what follows from them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.arrays.backend import backend_of
from ag_visual.core.level import all_values
from ag_visual.core.source import warn
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.arguments import tensors_of
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.interpreted import flat
from ag_visual.dispatch.memory import channels_last
from ag_visual.dispatch.record import CHANNELS, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite
from ag_visual.dispatch.vmap import Batch, joined


def _common(arrays: Sequence[Any]):
    """The dtype that torch promotes a list of tensors to."""
    first = arrays[0].dtype
    if all(a.dtype is first for a in arrays):
        return first
    kinds = [(dtypes.of_array(a), 2 if a.ndim else 1) for a in arrays]
    return promotion.result_type(*kinds).np


def _old_empty(shape: tuple[int, ...]) -> bool:
    """torch joins a tensor of shape [0] with anything."""
    return shape == (0,)


def _cat(xp, tensors, dim: int = 0):
    kept = [a for a in tensors if not _old_empty(a.shape)] or list(tensors[:1])
    kind = _common(tensors)
    arrays = [a.astype(kind, copy=False) for a in kept]
    if arrays[0].ndim in (4, 5) and all(channels_last(a) for a in kept):
        rows = [xp.moveaxis(a, 1, -1) for a in arrays]
        at = (0, arrays[0].ndim - 1)[dim] if dim < 2 else dim - 1
        return xp.moveaxis(xp.concatenate(rows, axis=at), -1, 1)
    result = xp.concatenate(arrays, axis=dim)
    return result if result.flags.c_contiguous else xp.ascontiguousarray(result)


def _normal_cat(tensors, dim=0) -> tuple[int]:
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    kept = [(i, a.shape) for i, a in enumerate(tensors) if not _old_empty(a.shape)]
    for i, shape in kept:
        if not shape:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {i}) cannot be concatenated\nUse stack."
            )
    if not kept:  # as torch: along any dimension, of which there is one
        return (0,)
    first = kept[0][1]
    dim = wrap(dim, len(first))
    for _, shape in kept:
        if len(shape) != len(first):
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
            )
    for i, shape in kept:
        for at, (n, m) in enumerate(zip(first, shape, strict=True)):
            if at != dim and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but "
                    f"got size {m} for tensor number {i} in the list.\nShapes: "
                    f"{', '.join(str(list(s)) for _, s in kept)}"
                )
    return (dim,)


def _cat_back(F, g, tensors_shape, dim: int) -> list[Any]:
    found, start = [], 0
    for shape in tensors_shape:
        if _old_empty(shape):
            found.append(F.zeros_of(g, shape))
            continue
        found.append(F.slice(g, dim, start, start + shape[dim], 1))
        start += shape[dim]
    return found


cat = structural(
    "cat",
    _cat,
    vjp={"tensors": _cat_back},
    lists=("tensors",),
    layout=CHANNELS,
    normalize=_normal_cat,
    also_saves=("dim",),
    method=False,
    batch=joined,
    samples=lambda make: [
        Sample(([make((2, 3)), make((1, 3))],)),
        Sample(([make((2, 3)), make((2, 1)), make((2, 2))], -1)),
        Sample(([make((0,)), make((2, 2))],)),
    ],
    errors=lambda make: [
        ErrorSample(([],), ValueError, "expected a non-empty list of Tensors"),
        ErrorSample(([make((2, 3)), make((2, 4))],), RuntimeError, "Sizes of tensors must match"),
        ErrorSample(([make(()), make(())],), RuntimeError, "cannot be concatenated"),
    ],
    doc="Tensors one behind the other along `dim`; all other sizes are equal.",
    out="casts no_overlap",
    autocast="cpu widest",
)


@composite("concat", method=False, aliases=("concatenate",), out="casts no_overlap")
def _concat(F, tensors, dim: int = 0):
    """Another name of `cat`."""
    return F.cat(tensors, dim)


def _stack(xp, tensors, dim: int = 0):
    kind = _common(tensors)
    return xp.stack([a.astype(kind, copy=False) for a in tensors], axis=dim)


def _normal_stack(tensors, dim=0) -> tuple[int]:
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].shape
    dim = wrap(dim, len(first) + 1)
    for i, a in enumerate(tensors):
        if a.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(a.shape)} at entry {i}"
            )
    return (dim,)


def _stack_back(F, g, dim: int):
    if not F.traced:
        return F.unbind(g, dim)
    # One by one, as torch: a hook may write what was selected, but no view of several at once.
    return [F.select(g, dim, i) for i in range(g.shape[dim])]


stack = structural(
    "stack",
    _stack,
    vjp={"tensors": _stack_back},
    lists=("tensors",),
    layout=ROWS,
    normalize=_normal_stack,
    also_saves=("dim",),
    method=False,
    batch=joined,
    samples=lambda make: [
        Sample(([make((2, 3)), make((2, 3))],)),
        Sample(([make((2,)), make((2,)), make((2,))], -1)),
        Sample(([make(()), make(())],)),
    ],
    errors=lambda make: [
        ErrorSample(([],), RuntimeError, "stack expects a non-empty TensorList"),
        ErrorSample(([make((2,)), make((3,))],), RuntimeError, "to be equal size, but got [2]"),
    ],
    doc="Tensors of one shape along a new dimension.",
    out="casts no_overlap",
    autocast="cpu widest",
)


def _some(name: str, tensors) -> tuple[Any, ...]:
    found = tensors_of(name, tensors)
    if not found:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return found


@composite("hstack", method=False, out="casts no_overlap")
def _hstack(F, tensors):
    """Side by side: along the first dimension of vectors, the second of all others."""
    grown = F.atleast_1d(_some("hstack", tensors))
    return F.cat(grown, 0 if grown[0].ndim == 1 else 1)


@composite("vstack", method=False, aliases=("row_stack",), out="casts no_overlap")
def _vstack(F, tensors):
    """One below the other, as rows."""
    return F.cat(F.atleast_2d(_some("vstack", tensors)), 0)


@composite("dstack", method=False, out="casts no_overlap")
def _dstack(F, tensors):
    """One behind the other, along the third dimension."""
    return F.cat(F.atleast_3d(_some("dstack", tensors)), 2)


@composite("column_stack", method=False, out="casts no_overlap")
def _column_stack(F, tensors):
    """Vectors as columns beside matrices."""
    given = _some("column_stack", tensors)
    return F.cat([F.reshape(a, (-1, 1)) if a.ndim < 2 else a for a in given], 1)


def _matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) > 2:
        raise RuntimeError(
            f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Got {len(shape)}"
        )
    return ((1, 1), (1, *shape), shape)[len(shape)]  # type: ignore[return-value]


def _block_diag(xp, tensors):
    shapes = [_matrix_shape(a.shape) for a in tensors]
    result = xp.zeros(
        (sum(s[0] for s in shapes), sum(s[1] for s in shapes)), dtype=_common(tensors)
    )
    row = column = 0
    for a, (rows, columns) in zip(tensors, shapes, strict=True):
        result[row : row + rows, column : column + columns] = a
        row, column = row + rows, column + columns
    return result


def _block_slices(batch: Batch):
    """Each matrix between zeros on its left and right, one below the other."""
    F = batch.F
    items = [
        F.reshape(x, (batch.size, *_matrix_shape(x.shape[1:]))) for x in batch.items("tensors")
    ]
    total, before, rows = sum(x.shape[2] for x in items), 0, []
    for x in items:
        rows.append(F.constant_pad_nd(x, (before, total - before - x.shape[2]), 0.0))
        before += x.shape[2]
    return F.cat(rows, 1)


def _block_diag_back(F, g, tensors_shape) -> list[Any]:
    found = []
    row = column = 0
    for shape in tensors_shape:
        rows, columns = _matrix_shape(shape)
        part = F.slice(F.slice(g, 0, row, row + rows, 1), 1, column, column + columns, 1)
        found.append(F.reshape(part, shape))
        row, column = row + rows, column + columns
    return found


structural(
    "block_diag_of",
    _block_diag,
    vjp={"tensors": _block_diag_back},
    lists=("tensors",),
    public=False,
    public_name="block_diag",
    node="BlockDiagBackward0",
    batch=_block_slices,
    samples=lambda make: [Sample(([make((2, 3)), make((2,)), make(())],))],
    oracle=lambda torch, tensors: torch.block_diag(*tensors),
)


@composite("block_diag", method=False)
def _block_diag_any(F, *tensors):
    """A matrix with the given ones along its diagonal and zeros elsewhere."""
    return F.block_diag_of(list(flat(tensors)))


@composite("meshgrid", method=False)
def _meshgrid(F, *tensors, indexing: str | None = None):
    """Coordinates: each vector expanded along the dimensions of the others ('ij' or 'xy')."""
    given = list(tensors_of("meshgrid", flat(tensors)))
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument."
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: ' + str(indexing)
        )
    for each in given:
        if each.ndim > 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got shape "
                f"{list(each.shape)}"
            )
    count = len(given)
    # Along which dimension each vector runs: 'xy' exchanges the first two.
    dims = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else range(count)
    sizes = [1] * count
    for dim, each in zip(dims, given, strict=True):
        sizes[dim] = each.shape[0] if each.ndim else 1
    return tuple(
        F.expand(F.reshape(each, (1,) * dim + (-1,) + (1,) * (count - dim - 1)), tuple(sizes))
        for dim, each in zip(dims, given, strict=True)
    )


def _vectors(tensors) -> None:
    for each in tensors:
        if each.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(each.shape)}")


@composite("cartesian_prod", method=False)
def _cartesian_prod(F, *tensors):
    """All ways to take one element of each vector, one row each; the last one changes first."""
    tensors = flat(tensors)
    _vectors(tensors)
    if len(tensors) == 1:
        return tensors[0]
    grids = F.meshgrid(*tensors, indexing="ij")
    return F.stack([F.reshape(each, (-1,)) for each in grids], 1)


@composite("combinations", method=False)
def _combinations(F, self, r: int = 2, with_replacement: bool = False):
    """All choices of r elements of a vector in their order, one row each."""
    _vectors((self,))
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return F.zeros_of(self, (0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = numpy.array(list(choose(range(self.shape[0]), r)), numpy.int64).reshape(-1, r)
    index = from_array(backend_of(all_values(self)).from_numpy(rows))
    return F.stack([F.index_select(self, 0, column) for column in index.unbind(1)], 1)
