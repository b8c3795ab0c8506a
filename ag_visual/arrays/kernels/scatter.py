"""gather, scatter and relatives: reading and writing through index arrays along a dimension.

Layer 1. Indices are checked (see bounds.py), never wrapped, except by `index_put`, which takes the
indices that NumPy's indexing takes. Inputs are never written; results are fresh arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array, of_namespace
from ag_visual.arrays.kernels.bounds import check_index

_OUTSIDE = "index out of range in self"


def _positions(xp: Any, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    """Flat row-major positions in an array of `shape`, where `index` replaces coordinate `dim`."""
    flat = None
    stride = math.prod(shape)
    for axis, n in enumerate(shape):
        stride //= max(n, 1)
        if axis == dim:
            part = index * stride if stride != 1 else index
        else:
            if index.shape[axis] == 1:
                continue
            line = xp.arange(0, index.shape[axis] * stride, stride)
            part = line.reshape((-1,) + (1,) * (len(shape) - axis - 1))
        flat = part if flat is None else flat + part
    return flat


def _one_dim(array: Array) -> Array:
    return array if array.ndim else array.reshape(1)


def _checked(
    xp: Any, self: Array, dim: int, index: Array, src: Array | None = None
) -> tuple[Array, int, Array]:
    """`self` and `index` with at least one dimension each, and `dim` counted from the front.

    RuntimeError unless `index` fits into `self` apart from `dim`, into `src` and its values into
    `self`'s dimension.
    """
    self, index = _one_dim(self), _one_dim(index)
    dim %= self.ndim
    like_self = index.ndim == self.ndim
    if not like_self or (src is not None and _one_dim(src).ndim != self.ndim):
        other = "input" if src is None else "src" if like_self else "self"
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {other} tensor\n"
            f"Shapes: index {list(index.shape)}, input {list(self.shape)}"
            + ("" if src is None else f", src {list(src.shape)}")
        )
    sizes = enumerate(zip(index.shape, self.shape, strict=True))
    wrong = next((at for at, (i, n) in sizes if i > n and at != dim), None)
    if src is None:
        if wrong is not None:
            raise RuntimeError(
                f"Size does not match at dimension {wrong} expected index "
                f"{list(index.shape)} to be no larger than self {list(self.shape)} apart from "
                f"dimension {dim}"
            )
    elif wrong is not None or any(
        i > n for i, n in zip(index.shape, _one_dim(src).shape, strict=True)
    ):
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(self.shape)} "
            f"apart from dimension {dim} and to be no larger size than src {list(src.shape)}"
        )
    check_index(xp, index, self.shape[dim], dim, RuntimeError)
    return self, dim, index


def _compiled(
    xp: Any, name: str, self: Array, dim: int, index: Array, values: Array | None = None
) -> Array | None:
    """What the compiled kernel gives, where the index is as large as `self` but for the dimension.

    values: what is added to `self`; without, a fresh array is filled. None: NumPy is to compute.
    """
    ends = self.shape[:dim], self.shape[dim + 1 :]
    if not fast.wanted(xp, index.size) or ends != (index.shape[:dim], index.shape[dim + 1 :]):
        return None
    run = fast.kernel(name, self, values)
    if run is None or index.dtype != xp.int64:
        return None
    if values is None:
        values = xp.empty(index.shape, self.dtype)
    blocks = math.prod(ends[0]), -1, math.prod(ends[1])
    places = numpy.require(index, requirements="CW")
    run(*(each.reshape(blocks) for each in (self, places, values)))
    return values


def gather(xp: Any, self: Array, dim: int, index: Array) -> Array:
    """out[i, j, ...] = self[index[i, j, ...], j, ...] for dim 0; the shape of `index`."""
    if index.size == 0:
        return xp.empty(index.shape, self.dtype)
    shape = index.shape
    self, dim, index = _checked(xp, self, dim, index)
    done = _compiled(xp, "gather", self, dim, index)
    if done is not None:
        return done.reshape(shape)
    flat = xp.ascontiguousarray(self).reshape(-1)
    return flat[_positions(xp, self.shape, dim, index)].reshape(shape)


def _target(xp: Any, self: Array) -> Array:
    return xp.array(self, order="C")


def _sources(index: Array, src: Array) -> Array:
    """The corner of `src` that `index` covers, as torch reads it."""
    src = _one_dim(src)
    if src.shape == index.shape:
        return src
    return src[tuple(slice(0, n) for n in index.shape)]


def scatter_add(xp: Any, self: Array, dim: int, index: Array, src: Array) -> Array:
    """`self` with src[i, j, ...] added at [index[i, j, ...], j, ...]; every duplicate counts."""
    result = _target(xp, self)
    if index.size == 0:
        return result
    view, dim, index = _checked(xp, result, dim, index, src)
    if _compiled(xp, "scatter_add", view, dim, index, _sources(index, src)) is not None:
        return result
    positions = _positions(xp, view.shape, dim, index).reshape(-1)
    values = _sources(index, src).reshape(-1)
    of_namespace(xp).add_at(view.reshape(-1), positions, values)
    return result


def scatter_reduce(
    xp: Any,
    self: Array,
    dim: int,
    index: Array,
    src: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """`self` with src[i, j, ...] combined into [index[i, j, ...], j, ...].

    reduce: 'sum', 'prod', 'mean', 'amax' or 'amin' (integer means are rounded down);
    include_self: whether what stands there takes part. Places that no index names stay.
    """
    result = _target(xp, self)
    if index.size == 0:
        return result
    view, dim, index = _checked(xp, result, dim, index, src)
    at = _positions(xp, view.shape, dim, index).reshape(-1)
    values = _sources(index, src).reshape(-1)
    line = view.reshape(-1)
    if not include_self:
        line[at] = _neutral(xp, reduce, line.dtype)
    backend = of_namespace(xp)
    if reduce == "prod":
        backend.multiply_at(line, at, values)
    elif reduce == "amax":
        backend.maximum_at(line, at, values)
    elif reduce == "amin":
        backend.minimum_at(line, at, values)
    else:
        backend.add_at(line, at, values)
    if reduce == "mean":
        count = xp.bincount(at, minlength=line.size) + (1 if include_self else 0)
        count = xp.maximum(count, 1)
        if line.dtype.kind in "iu":
            line[...] = line // count.astype(line.dtype)
        else:
            line[...] = line / count.astype(line.real.dtype)
    return result


def _neutral(xp: Any, reduce: str, dtype: Any) -> Any:
    if reduce == "prod":
        return 1
    if reduce in ("sum", "mean"):
        return 0
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        limits = xp.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    return -xp.inf if reduce == "amax" else xp.inf


def scatter(xp: Any, self: Array, dim: int, index: Array, src: Array | complex) -> Array:
    """`self` with src (an array or one number) written there; of duplicates some one wins."""
    result = _target(xp, self)
    if index.size == 0:
        return result
    number = isinstance(src, (bool, int, float, complex))
    view, dim, index = _checked(xp, result, dim, index, None if number else src)
    positions = _positions(xp, view.shape, dim, index).reshape(-1)
    values = src if number else _sources(index, src).reshape(-1)
    view.reshape(-1)[positions] = values
    return result


def index_select(xp: Any, self: Array, dim: int, index: Array) -> Array:
    """The slices of `self` along `dim` that the 1-d `index` names, in its order."""
    if self.ndim == 0:
        check_index(xp, index, 1, 0)
        return self.reshape(1)[index.reshape(-1)].reshape(())
    dim %= self.ndim
    index = index.reshape(-1)
    check_index(xp, index, self.shape[dim], dim, text=_OUTSIDE)
    return xp.take(self, index, axis=dim)


def _slices(
    xp: Any, self: Array, dim: int, index: Array, source: Array, name: str
) -> tuple[Array, int, Array, Array]:
    """The arguments of index_add and index_copy with at least one dimension each, checked."""
    self, index, source = _one_dim(self), _one_dim(index), _one_dim(source)
    dim %= self.ndim
    if index.ndim != 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim} with size: "
            f"{list(index.shape)}"
        )
    if source.ndim != self.ndim or any(
        n != m for at, (n, m) in enumerate(zip(self.shape, source.shape, strict=True)) if at != dim
    ):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(self.shape)} source.shape = {list(source.shape)}"
        )
    if index.shape[0] != source.shape[dim]:
        raise RuntimeError(
            f"{name}(): Number of indices ({index.shape[0]}) should be equal to "
            f"source.size(dim): ({source.shape[dim]}), for dim: {dim}"
        )
    error, prefix = (IndexError, f"{name}()") if name == "index_copy_" else (RuntimeError, "")
    check_index(xp, index, self.shape[dim], dim, error, prefix)
    return self, dim, index, source


def index_add(
    xp: Any, self: Array, dim: int, index: Array, source: Array, alpha: complex = 1
) -> Array:
    """`self` with alpha * source[i] added to slice index[i] along `dim`; every duplicate counts."""
    result = _target(xp, self)
    view, dim, index, source = _slices(xp, result, dim, index, source, "index_add_")
    if source.size == 0:
        return result
    if alpha != 1:
        source = source * alpha
    backend = of_namespace(xp)
    if dim == 0:
        backend.add_at(view, index, source)
        return result
    # Bring the dimension to the front, add whole rows there, and bring it back.
    front = xp.ascontiguousarray(xp.moveaxis(view, dim, 0))
    backend.add_at(front, index, xp.moveaxis(source, dim, 0))
    view[...] = xp.moveaxis(front, 0, dim)
    return result


def index_reduce(
    xp: Any,
    self: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """`self` with source[i] combined into slice index[i] along `dim`, as scatter_reduce does."""
    check_index(xp, index, self.shape[dim] if self.ndim else 1, dim, text=_OUTSIDE)
    view, dim, index, source = _slices(xp, self, dim, index, source, "index_reduce_")
    line = (-1,) + (1,) * (view.ndim - dim - 1)
    wide = xp.broadcast_to(index.reshape(line), source.shape)
    result = scatter_reduce(xp, view, dim, wide, source, reduce, include_self=include_self)
    return result.reshape(self.shape)


def index_copy(xp: Any, self: Array, dim: int, index: Array, source: Array) -> Array:
    """`self` with source[i] written to slice index[i] along `dim`; of duplicates some one wins."""
    result = _target(xp, self)
    view, dim, index, source = _slices(xp, result, dim, index, source, "index_copy_")
    view[(slice(None),) * dim + (index,)] = source
    return result


def index_put(
    xp: Any, self: Array, indices: tuple[Any, ...], values: Array, accumulate: bool = False
) -> Array:
    """`self` with `values` written, or added, at self[indices]; added duplicates all count."""
    result = _target(xp, self)
    if accumulate:
        of_namespace(xp).add_at(result, indices, values)
    else:
        result[indices] = values
    return result


def embedding(xp: Any, weight: Array, index: Array) -> Array:
    """weight[index]: a row of the table for each index."""
    check_index(xp, index, weight.shape[0], 0, text=_OUTSIDE)
    return xp.take(weight, index, axis=0)


def embedding_backward(
    xp: Any,
    g: Array,
    index: Array,
    num_weights: int,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> Array:
    """The gradient of the table: g summed per row, without `padding_idx`.

    With `scale_grad_by_freq` each row is divided by how often the index names it.
    """
    width = g.shape[-1]
    grad = xp.zeros((num_weights, width), g.dtype)
    flat = index.reshape(-1)
    if flat.size == 0:
        return grad
    rows = g.reshape(flat.size, width)
    if padding_idx >= 0:
        counted = flat != padding_idx
        flat, rows = flat[counted], rows[counted]
    if scale_grad_by_freq and flat.size:
        often = xp.bincount(flat, minlength=num_weights)[flat]
        rows = rows / often.astype(rows.dtype).reshape(-1, 1)
    of_namespace(xp).add_at(grad, flat, rows)
    return grad
