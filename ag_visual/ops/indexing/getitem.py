"""`x[index]` and `x[index] = value`.

An index is taken apart as torch does it: ints, slices and None become views (Select, Slice,
Unsqueeze), and what tensors are left makes one Index or IndexPut node at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of, is_array, of_namespace
from ag_visual.arrays.kernels.bounds import check_index
from ag_visual.arrays.kernels.order import arranged, sorted_dims
from ag_visual.core.level import all_values, is_batchedtensor
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.memory_overlap import WARNED, share
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, ops, traced
from ag_visual.dispatch.vmap_indexing import indexed
from ag_visual.ops.tensor.copy_fill import number_for
from ag_visual.ops.tensor.from_data import array_from
from ag_visual.ops.view.slice import select, slice_op

_select = select.call
_slice = slice_op.call


# The op behind tensor indices -------------------------------------------------------------------


def _places(xp, self, indices: Sequence[Any]) -> tuple[Any, ...]:
    """The indices as the array library takes them, with what torch refuses refused."""
    found: list[Any] = []
    dim = 0
    for number, each in enumerate(indices):
        if each is None:
            found.append(slice(None))
            dim += 1
            continue
        kind = each.dtype.kind
        found.append(each)
        if kind == "b":
            if each.shape != self.shape[dim : dim + each.ndim]:
                sizes = [*self.shape[dim:], *[None] * each.ndim]
                at = next(i for i, n in enumerate(each.shape) if n != sizes[i])
                raise IndexError(
                    f"The shape of the mask {list(each.shape)} at index {at} does not match "
                    f"the shape of the indexed tensor {list(self.shape)} at index {dim + at}"
                )
            dim += each.ndim
        elif kind in "iu":
            if dim >= self.ndim:
                raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
            if xp is not numpy and each.size:  # NumPy checks this itself
                n = self.shape[dim]
                if int(each.min()) < -n:
                    check_index(xp, each, n, dim)
                check_index(xp, xp.where(each < 0, each + n, each), n, dim)
            dim += 1
        else:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, but index "
                f"{number} is {dtypes.of_array(each)}"
            )
    return tuple(found)


_AXIS = re.compile(r"for axis (\d+)")
_MISMATCH = re.compile(r"indexing arrays could not be broadcast together with shapes (.*)")


def _in_torchs_words(error: IndexError) -> IndexError:
    text = _AXIS.sub(r"for dimension \1", str(error))
    found = _MISMATCH.search(text)
    if found:
        shapes = ", ".join(
            "[" + shape.strip("()").rstrip(",").replace(",", ", ") + "]"
            for shape in found.group(1).split()
        )
        text = (
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        )
    return IndexError(text)


def _index(xp, self, indices):
    at = _places(xp, self, indices)
    if not any(is_array(each) for each in at):
        return self.copy()
    try:
        found = self[at]
    except IndexError as error:
        raise _in_torchs_words(error) from None
    if not found.ndim or found.flags.c_contiguous:
        # (Strides of dimensions of size 1 say where channels lie, which joins ask for.)
        return found.ravel().reshape(found.shape) if found.ndim > 3 else found
    if self.flags.c_contiguous:
        return xp.ascontiguousarray(found)
    order = sorted_dims(found.shape, _strides(self, at, found))
    result = arranged(xp, found.shape, order, found.dtype)
    result[...] = found
    return result


def _strides(self, at, found) -> list[int]:
    """Those of the dimensions that are left, and 0 for those that index tensors make.

    NumPy, by itself, lets the places that are named change last in memory.
    """
    named = [n for n, each in enumerate(at) if is_array(each)]
    together = named[-1] - named[0] == len(named) - 1
    left: list[int] = []
    dim = first = 0
    for number, each in enumerate(at):
        if number == named[0] and together:
            first = len(left)
        if not is_array(each):
            left.append(self.strides[dim])
        dim += each.ndim if is_array(each) and each.dtype.kind == "b" else 1
    left += self.strides[dim:]
    return [*left[:first], *[0] * (found.ndim - len(left)), *left[first:]]


@composite("index_backward", public=False)
def _index_backward(F, g, indices, shape: tuple[int, ...]):
    """The gradient of what was indexed: g added where it came from."""
    zeros = F.zeros_of(g, shape)
    if F.traced:
        return F.index_put(zeros, indices, g, True)
    at = _places(F.xp, zeros, indices)
    named = [each for each in at if type(each) is not slice and each.dtype.kind != "b"]
    _store(F.xp, zeros, at, g, bool(named))  # a mask names no place twice
    return zeros


def _index_samples(make):
    x = make((4, 3, 2))
    yield Sample((x, (numpy.array([0, 2, 0, -1]),)))
    yield Sample((x, (None, numpy.array([[0, 2], [1, 1]]))))
    yield Sample((x, (numpy.array([0, 3]), None, numpy.array([1, 0]))))
    yield Sample((x, (x > 0,)))
    yield Sample((x, (numpy.array([], dtype=numpy.int64),)))


def _index_errors(make):
    x = make((2, 3))
    yield ErrorSample(
        (x, (numpy.array([2]),)), IndexError, "index 2 is out of bounds for dimension 0"
    )
    yield ErrorSample((x, (numpy.array([1.0]),)), IndexError, "must be long, int, byte or bool")
    yield ErrorSample((x, (numpy.array([True]),)), IndexError, "The shape of the mask [1]")


structural(
    "index",
    _index,
    symbol="[]",
    doc="The elements that tensors of indices, or a mask, choose.",
    vjp={"self": lambda F, g, self_shape, indices: F.index_backward(g, indices, self_shape)},
    lists=("indices",),
    public=False,
    batch=indexed,
    samples=_index_samples,
    errors=_index_errors,
)
_read = ops["index"].call


def _put_into(xp, self, indices, values, accumulate: bool = False) -> None:
    at = _places(xp, self, indices)
    tensors = [each for each in at if type(each) is not slice]
    if values.size == 1 and not accumulate and len(tensors) == 1 and tensors[0].dtype.kind == "b":
        # As torch, which fills where the mask is true with one number.
        values = values.reshape(())
        if values.dtype != self.dtype:
            values = number_for(values.item(), self)
    if values.dtype != self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{dtypes.of_array(self).scalar_name} for the destination and "
            f"{dtypes.of_array(values).scalar_name} for the source."
        )
    _store(xp, self, at, values, accumulate)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the dimensions of size 1 that it begins with."""
    return shape[next((at for at, size in enumerate(shape) if size != 1), len(shape)) :]


def _store(xp, self, at, values, accumulate: bool) -> None:
    """Write, or add, values at places; what does not fit is told in torch's words."""
    try:
        if accumulate:
            of_namespace(xp).add_at(self, at, values)
        elif values.size or values.ndim < 2:
            self[at] = values
        else:  # NumPy looks at no shape where there is nothing to store
            xp.broadcast_to(values.reshape(_without_ones(values.shape)), self[at].shape)
    except IndexError as error:
        raise _in_torchs_words(error) from None
    except (ValueError, TypeError):  # a TypeError where a mask meets values of two dimensions
        shape = self[at].shape
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None


def _put(xp, self, indices, values, accumulate: bool = False):
    result = xp.array(self, order="C", copy=True)
    _put_into(xp, result, indices, values, accumulate)
    return result


def _put_self(F, g, indices, accumulate: bool):
    return g if accumulate else F.index_put(g, indices, F.zeros_of(g, ()), False)


def _put_samples(make):
    x = make((4, 3))
    yield Sample((x, (numpy.array([0, 2]),), make((2, 3))))
    yield Sample((x, (numpy.array([0, 2, 0]),), make((3, 3)), True))
    yield Sample((x, (None, numpy.array([1])), make((4, 1))))
    yield Sample((x, (numpy.array([[True] * 3, [False] * 3] * 2),), make(())))


def _put_errors(make):
    x = make((4, 3))
    places = (numpy.array([0, 2]),)
    yield ErrorSample((x, places, make((5,))), RuntimeError, "value tensor of shape [5] cannot be")


structural(
    "index_put",
    _put,
    vjp={"self": _put_self, "values": lambda F, g, indices: F.index(g, indices)},
    lists=("indices",),
    inplace=_put_into,
    vmap_inplace="index_put_",
    repeated=WARNED,
    no_overlap=True,
    batch=indexed,
    samples=_put_samples,
    errors=_put_errors,
    oracle="ops.aten.index_put",
    doc="`self` with `values` written (or added) at self[indices].",
    inplace_function=True,
    autocast="cuda widest",
)
_write = ops["index_put"].write


# x[...] -----------------------------------------------------------------------------------------

_VALID = (
    "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
    "indices (got {})"
)


def _as_index(item):
    """A sequence or an array as an index tensor."""
    if isinstance(item, (list, tuple, range)) and not len(item):
        return from_array(numpy.empty((0,), numpy.int64))
    return from_array(array_from("index", item, None, copy=False))


def _mask(tensor: Tensor) -> Tensor:
    if tensor._array.dtype == numpy.uint8:
        warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
            "instead."
        )
        return from_array(tensor._array != 0)  # type: ignore[no-any-return]
    return tensor


def _items(index) -> list[Any]:
    """The index taken apart: ints, slices, None, Ellipsis, bools and index tensors."""
    if (
        isinstance(index, list)
        and len(index) < 32
        and any(
            item is None
            or item is ...
            or isinstance(item, (Tensor, slice, list, tuple, numpy.ndarray))
            for item in index
        )
    ):
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
            "x[tuple(seq)] instead of x[seq]."
        )
        index = tuple(index)
    found: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        kind = type(item)
        if kind is int or item is None or item is ... or kind is slice or kind is bool:
            found.append(item)
        elif isinstance(item, Tensor):
            if is_batchedtensor(item):
                found.append(item)  # another place in each slice
            elif item._array.ndim == 0 and item._array.dtype.kind in "biu":
                value = item._array.item()
                found.append(bool(value) if item._array.dtype.kind == "b" else value)
            else:
                found.append(_mask(item))
        elif isinstance(item, (numpy.bool_, numpy.integer)):
            found.append(item.item())
        elif isinstance(item, (list, tuple, range, str)) or is_array(item):
            tensor = _as_index(item)
            found.append(tensor if tensor._array.ndim else tensor._array.item())
        elif hasattr(item, "__index__"):
            found.append(item.__index__())
        else:
            raise IndexError(_VALID.format(kind.__name__))
    return found


def _consumed(item) -> int:
    if item is None or item is ... or type(item) is bool:
        return 0
    if isinstance(item, Tensor) and item._array.dtype.kind == "b":
        return int(item._array.ndim)
    return 1


def _step(item: slice) -> int:
    step = 1 if item.step is None else item.step.__index__()
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError(f"step must be greater than zero, got {step}; use flip")
    return step


def _whole(item: slice, size: int) -> bool:
    """Does a slice say that it takes everything? (`-1:` of one element does not say so.)"""
    start, stop = item.start, item.stop
    return (start is None or start == 0) and (stop is None or stop >= size)


def _parts(self: Tensor, index, before: int = 0) -> tuple[Tensor, list[Any] | None]:
    """The view that ints, slices and None make, and the tensor indices into it (None: none).

    before: parts of the index that made views already.
    """
    items = _items(index)
    ndim = self._array.ndim
    used = sum(map(_consumed, items))
    if used > ndim:
        if ndim == 0:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    result, dim = self, 0
    tensors: list[Any] = []
    several = len(items) > 1
    for place, item in enumerate(items, before):
        kind = type(item)
        if kind is int:
            size = result._array.shape[dim]
            if not -size <= item < size:
                raise IndexError(
                    f"index {item} is out of bounds for dimension {place} with size {size}"
                )
            result = _select(result, dim, item)
        elif kind is slice:
            step, size = _step(item), result._array.shape[dim]
            if not (several and step == 1 and _whole(item, size)):
                result = _slice(result, dim, item.start, item.stop, step)
            dim += 1
        elif item is ...:
            dim += ndim - used
            used = ndim  # a second one stands for nothing
        elif item is None:
            result = traced.unsqueeze(result, dim)
            dim += 1
        else:
            if kind is bool:
                result = traced.unsqueeze(result, dim)
                item = from_array(numpy.zeros((int(item),), numpy.int64))  # as torch saves it
            # As many places as it consumes dimensions, so that `dim` counts both.
            tensors.extend([None] * (dim - _width(tensors)))
            tensors.append(item)
            dim += item._array.ndim if item._array.dtype.kind == "b" else 1
    if not tensors:
        return result, None
    kind = backend_of(all_values(result)).array_type
    moved = [
        t if t is None or type(all_values(t)) is kind else t.to(result.device) for t in tensors
    ]
    return result, moved


def _width(tensors: Sequence[Any]) -> int:
    """How many dimensions these indices cover."""
    return sum(1 if t is None else _consumed(t) for t in tensors)


def _plain(self: Tensor, index: tuple[Any, ...]) -> tuple[Tensor, Any]:
    """The view that ints and slices without a step make, and the index into it of the others."""
    result, dim = self, 0
    for at, item in enumerate(index):
        size = result._array.shape[dim]
        if type(item) is int:
            if not -size <= item < size:
                return self, index
            result = _select(result, dim, item)
        elif type(item) is slice and item.step is None:
            if not _whole(item, size):
                result = _slice(result, dim, item.start, item.stop, 1)
            dim += 1
        else:
            return result, (*[slice(None)] * dim, *index[at:])
    return result, ()


def _getitem(self: Tensor, index) -> Tensor:
    """`x[index]`: a view, or a copy where a tensor, list or bool takes part."""
    kind = type(index)
    shape = self._array.shape
    base, before = self, 0
    if shape:
        if kind is int:
            if -shape[0] <= index < shape[0]:
                return _select(self, 0, index)  # type: ignore[no-any-return]
        elif kind is slice and index.step is None:
            return _slice(self, 0, index.start, index.stop, 1)  # type: ignore[no-any-return]
        elif kind is tuple and len(index) <= len(shape):
            count = len(index)
            base, index = _plain(self, index)
            if not index and base is not self:
                return base
            before = count - len(index)
    result, tensors = _parts(base, index, before)
    if tensors is not None:
        return _read(result, tensors)  # type: ignore[no-any-return]
    return traced.alias(result) if result is self else result


def _setitem(self: Tensor, index, value) -> None:
    """`x[index] = value`: a tensor that broadcasts to `x[index]`, or a number."""
    if isinstance(value, Tensor):
        source = value
    else:
        source = from_array(numpy.asarray(number_for(value, self._array)))
    only = index[0] if type(index) is tuple and len(index) == 1 else index
    if only is False:
        return  # as torch, which looks at nothing more
    if only is True:
        target, tensors = traced.unsqueeze(self, 0), None
    elif type(only) is slice and only.step in (None, 1) and _takes_all(self, only):
        target, tensors = self, None
    else:
        target, tensors = _parts(self, index)
    if tensors is None:
        _copy_to(target, source)
        return
    if source._array.ndim == 0 and share(target, source) and _masks(index):
        source = source.clone()  # as torch, which fills where the mask is true with one number
    if source._array.shape[:1] == (1,):
        source = _without_leading_ones(source)
    if type(all_values(source)) is not type(all_values(target)):
        source = source.to(target.device)  # type: ignore[attr-defined]
    _write(target, tensors, source)


def _takes_all(self: Tensor, index: slice) -> bool:
    shape = self._array.shape
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    return _whole(index, shape[0])


def _masks(index) -> bool:
    """Is a bool tensor the one tensor of an index?"""
    parts = [p for p in (index if type(index) is tuple else (index,)) if isinstance(p, Tensor)]
    return len(parts) == 1 and parts[0]._array.dtype == numpy.bool_


def _copy_to(target: Tensor, source) -> None:
    if source._array.shape == target._array.shape:
        target.copy_(source)  # type: ignore[attr-defined]
    elif source._array.ndim == 0:
        target.fill_(source)  # type: ignore[attr-defined]
    else:
        source = _without_leading_ones(source)
        if source._array.shape != target._array.shape:
            source = traced.expand(source, target._array.shape)
        target.copy_(source)  # type: ignore[attr-defined]


def _without_leading_ones(tensor: Tensor) -> Tensor:
    shape = tensor._array.shape
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return traced.view_size(tensor, shape[first:])  # type: ignore[no-any-return]


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]
