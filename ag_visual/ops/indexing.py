"""Reading and writing through indices: `x[...]`, gather, scatter, index_*, masked_*, take.

`x[index]` is taken apart as torch does it: ints, slices and None become views (Select, Slice,
Unsqueeze), and what tensors are left makes one Index or IndexPut node at the end.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from .. import dtypes
from ..arrays.backend import backend_of, is_array, of_namespace
from ..arrays.kernels import scatter as kernels
from ..arrays.kernels.bounds import check_index
from ..core.tensor import Tensor, from_array
from .creation import array_from
from .dims import broadcast, wrap
from .record import LINEAR, ErrorSample, Sample
from .shapes import select as select_op
from .table import composite, op, ops, traced
from .writing import number_for

_structural = functools.partial(op, holomorphic=False)
Samples = Iterator[Sample]
Errors = Iterator[ErrorSample]
_select = select_op.call
_slice = ops["slice"].call


# The op behind tensor indices -------------------------------------------------------------------


def _places(xp: Any, self: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
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
                raise IndexError(
                    f"The shape of the mask {list(each.shape)} at index {number} does not match "
                    f"the shape of the indexed tensor {list(self.shape)} at index {dim}"
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


def _index(xp: Any, self: Any, indices: Any) -> Any:
    at = _places(xp, self, indices)
    if not any(is_array(each) for each in at):
        return self.copy()
    try:
        return self[at]
    except IndexError as error:
        raise _in_torchs_words(error) from None


@composite("index_backward", public=False)
def _index_backward(F: Any, g: Any, indices: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of what was indexed: g added where it came from."""
    zeros = F.zeros_of(g, shape)
    if F.xp is None:
        return F.index_put(zeros, indices, g, True)
    at = _places(F.xp, zeros, indices)
    if all(type(each) is slice or each.dtype.kind == "b" for each in at):
        zeros[at] = g  # a mask names no place twice
    else:
        of_namespace(F.xp).add_at(zeros, at, g)
    return zeros


def _index_samples(make: Any) -> Samples:
    x = make((4, 3, 2))
    yield Sample((x, (numpy.array([0, 2, 0, -1]),)))
    yield Sample((x, (None, numpy.array([[0, 2], [1, 1]]))))
    yield Sample((x, (numpy.array([0, 3]), None, numpy.array([1, 0]))))
    yield Sample((x, (x > 0,)))
    yield Sample((x, (numpy.array([], dtype=numpy.int64),)))


def _index_errors(make: Any) -> Errors:
    x = make((2, 3))
    yield ErrorSample(
        (x, (numpy.array([2]),)), IndexError, "index 2 is out of bounds for dimension 0"
    )
    yield ErrorSample((x, (numpy.array([1.0]),)), IndexError, "must be long, int, byte or bool")
    yield ErrorSample((x, (numpy.array([True]),)), IndexError, "The shape of the mask [1]")


_structural(
    "index",
    _index,
    vjp={"self": lambda F, g, self_shape, indices: F.index_backward(g, indices, self_shape)},
    jvp=LINEAR,
    inputs=("self",),
    lists=("indices",),
    public=False,
    samples=_index_samples,
    errors=_index_errors,
)
_read = ops["index"].call


def _put_into(xp: Any, self: Any, indices: Any, values: Any, accumulate: bool = False) -> None:
    at = _places(xp, self, indices)
    if values.dtype != self.dtype:
        if values.ndim:
            raise RuntimeError(
                "Index put requires the source and destination dtypes match, got "
                f"{dtypes.of_array(self)} for the destination and {dtypes.of_array(values)} for "
                "the source."
            )
        values = values.astype(self.dtype)
    try:
        if accumulate:
            of_namespace(xp).add_at(self, at, values)
        else:
            self[at] = values
    except IndexError as error:
        raise _in_torchs_words(error) from None
    except ValueError:
        shape = self[at].shape
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None


def _put(xp: Any, self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    result = xp.array(self, order="C", copy=True)
    _put_into(xp, result, indices, values, accumulate)
    return result


def _put_self(F: Any, g: Any, indices: Any, accumulate: bool) -> Any:
    return g if accumulate else F.index_put(g, indices, F.zeros_of(g, ()), False)


def _put_samples(make: Any) -> Samples:
    x = make((4, 3))
    yield Sample((x, (numpy.array([0, 2]),), make((2, 3))))
    yield Sample((x, (numpy.array([0, 2, 0]),), make((3, 3)), True))
    yield Sample((x, (None, numpy.array([1])), make((4, 1))))
    yield Sample((x, (numpy.array([[True] * 3, [False] * 3] * 2),), make(())))


def _put_errors(make: Any) -> Errors:
    x = make((4, 3))
    places = (numpy.array([0, 2]),)
    yield ErrorSample((x, places, make((5,))), RuntimeError, "value tensor of shape [5] cannot be")


_structural(
    "index_put",
    _put,
    vjp={
        "self": _put_self,
        "values": lambda F, g, indices: F.index(g, indices),
    },
    jvp=LINEAR,
    inputs=("self", "values"),
    lists=("indices",),
    inplace=_put_into,
    samples=_put_samples,
    errors=_put_errors,
)
_write = ops["index_put"].write


# x[...] -----------------------------------------------------------------------------------------

_VALID = (
    "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
    "indices (got {})"
)


def _as_index(item: Any) -> Any:
    """A sequence or an array as an index tensor."""
    if isinstance(item, (list, tuple, range)) and not len(item):
        return from_array(numpy.empty((0,), numpy.int64))
    return from_array(array_from("index", item, None, copy=False))


def _mask(tensor: Tensor) -> Tensor:
    if tensor._array.dtype == numpy.uint8:
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
            "instead.",
            UserWarning,
            stacklevel=4,
        )
        return from_array(tensor._array != 0)  # type: ignore[no-any-return]
    return tensor


def _items(index: Any) -> list[Any]:
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
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
            "x[tuple(seq)] instead of x[seq].",
            UserWarning,
            stacklevel=4,
        )
        index = tuple(index)
    found: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        kind = type(item)
        if kind is int or item is None or item is ... or kind is slice or kind is bool:
            found.append(item)
        elif isinstance(item, Tensor):
            if item._array.ndim == 0 and item._array.dtype.kind in "biu":
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


def _consumed(item: Any) -> int:
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


def _parts(self: Tensor, index: Any) -> tuple[Tensor, list[Any] | None]:
    """The view that ints, slices and None make, and the tensor indices into it (None: none)."""
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
    for item in items:
        kind = type(item)
        if kind is int:
            size = result._array.shape[dim]
            if not -size <= item < size:
                raise IndexError(
                    f"index {item} is out of bounds for dimension {dim} with size {size}"
                )
            result = _select(result, dim, item)
        elif kind is slice:
            step, size = _step(item), result._array.shape[dim]
            if not (several and step == 1 and item.indices(size)[:2] == (0, size)):
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
                item = from_array(numpy.array([item]))
            # As many places as it consumes dimensions, so that `dim` counts both.
            tensors.extend([None] * (dim - _width(tensors)))
            tensors.append(item)
            dim += item._array.ndim if item._array.dtype.kind == "b" else 1
    if not tensors:
        return result, None
    backend = backend_of(result._array)
    moved = [
        t if t is None or type(t._array) is backend.array_type else t.to(result.device)
        for t in tensors
    ]
    return result, moved


def _width(tensors: Sequence[Any]) -> int:
    """How many dimensions these indices cover."""
    return sum(1 if t is None else _consumed(t) for t in tensors)


def _getitem(self: Tensor, index: Any) -> Tensor:
    """`x[index]`: a view, or a copy where a tensor, list or bool takes part."""
    kind = type(index)
    shape = self._array.shape
    if shape:
        if kind is int:
            if -shape[0] <= index < shape[0]:
                return _select(self, 0, index)  # type: ignore[no-any-return]
        elif kind is slice and index.step is None:
            return _slice(self, 0, index.start, index.stop, 1)  # type: ignore[no-any-return]
    result, tensors = _parts(self, index)
    if tensors is not None:
        return _read(result, tensors)  # type: ignore[no-any-return]
    return traced.alias(result) if result is self else result


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    """`x[index] = value`: a tensor that broadcasts to `x[index]`, or a number."""
    if isinstance(value, Tensor):
        source = value
    else:
        source = from_array(numpy.asarray(number_for(value, self._array)))
    full = type(index) is slice and index == slice(None)
    target, tensors = (self, None) if full else _parts(self, index)
    if tensors is None:
        _copy_to(target, source)
        return
    if source._array.shape[:1] == (1,):
        source = _without_leading_ones(source)
    if type(source._array) is not type(target._array):
        source = source.to(target.device)  # type: ignore[attr-defined]
    _write(target, tensors, source)


def _copy_to(target: Tensor, source: Any) -> None:
    if source._array.shape == target._array.shape:
        target.copy_(source)  # type: ignore[attr-defined]
    elif source._array.ndim == 0:
        target.fill_(source)  # type: ignore[attr-defined]
    else:
        source = _without_leading_ones(source)
        target.copy_(traced.expand(source, target._array.shape))  # type: ignore[attr-defined]


def _without_leading_ones(tensor: Tensor) -> Tensor:
    shape = tensor._array.shape
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return traced.reshape(tensor, shape[first:])  # type: ignore[no-any-return]


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]


# gather and scatter -----------------------------------------------------------------------------


def _dim_and_index(name: str, self: Any, dim: Any, index: Any) -> int:
    if index.dtype.kind != "i" or index.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {dtypes.of_array(index)}"
        )
    return wrap(dim, self.ndim)


def _normal_gather(self: Any, dim: Any, index: Any, sparse_grad: bool = False) -> Any:
    return _dim_and_index("gather", self, dim, index), sparse_grad


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
    normalize=_normal_gather,
    keeps=("self", "sparse_grad"),
    samples=_gather_samples,
    errors=_gather_errors,
)


def _grown(F: Any, g: Any, shape: tuple[int, ...]) -> Any:
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
    return (_dim_and_index("scatter", self, dim, index),)


def _scatter_samples(make: Any) -> Samples:
    index = numpy.array([[0, 3, 1], [2, 0, 1]])
    yield Sample((make((3, 4)), 1, index, make((2, 3))))
    yield Sample((make((3, 4)), 1, index, make((3, 5))))
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
        "src": lambda F, g, src_shape, dim, index: _grown(F, F.gather(g, dim, index), src_shape),
    },
    jvp=LINEAR,
    inputs=("self", "index", "src"),
    normalize=_normal_scatter,
    inplace=True,
    public=False,
    called="scatter",
    node="ScatterBackward0",
    samples=_scatter_samples,
    errors=_scatter_errors,
)


def _scatter_value(xp: Any, self: Any, dim: int, index: Any, value: Any) -> Any:
    return kernels.scatter(xp, self, dim, index, value)


def _normal_value(self: Any, dim: Any, index: Any, value: Any) -> tuple[Any, ...]:
    return _dim_and_index("scatter", self, dim, index), number_for(value, self).item()


_structural(
    "scatter_value",
    _scatter_value,
    vjp={"self": lambda F, g, dim, index: F.scatter_value(g, dim, index, 0)},
    inputs=("self", "index"),
    normalize=_normal_value,
    inplace=True,
    public=False,
    called="scatter",
    node="ScatterBackward1",
    samples=lambda make: iter([Sample((make((2, 3)), 1, numpy.array([[0], [2]]), 1.5))]),
)


def _by_kind(value: Any, tensor_op: str, number_op: str) -> str:
    return tensor_op if isinstance(value, Tensor) or is_array(value) else number_op


@composite("scatter")
def _scatter(F: Any, self: Any, dim: int, index: Any, src: Any = None, *, value: Any = None) -> Any:
    """`self` with src[i, j] (or one number) written at [index[i, j], j] for dim 0, and so on."""
    given = value if src is None else src
    return getattr(F, _by_kind(given, "scatter_src", "scatter_value"))(self, dim, index, given)


def _scatter_(
    self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None
) -> Tensor:
    """`scatter`, written into this tensor."""
    given = value if src is None else src
    record = ops[_by_kind(given, "scatter_src", "scatter_value")]
    return record.write(self, dim, index, given)  # type: ignore[no-any-return]


Tensor.scatter_ = _scatter_  # type: ignore[attr-defined]


def _normal_scatter_add(self: Any, dim: Any, index: Any, src: Any) -> tuple[int]:
    if src.dtype != self.dtype:
        raise RuntimeError(
            "scatter(): Expected self.dtype to be equal to src.dtype, got "
            f"{dtypes.of_array(self)} and {dtypes.of_array(src)}"
        )
    return (_dim_and_index("scatter_add", self, dim, index),)


def _scatter_add_samples(make: Any) -> Samples:
    index = numpy.array([[0, 0, 1], [2, 0, 2]])
    yield Sample((make((3, 4)), 1, index, make((2, 3))))
    yield Sample((make((3, 4)), 0, index, make((2, 4))))


_structural(
    "scatter_add",
    kernels.scatter_add,
    vjp={
        "self": lambda g: g,
        "src": lambda F, g, src_shape, dim, index: _grown(F, F.gather(g, dim, index), src_shape),
    },
    jvp=LINEAR,
    inputs=("self", "index", "src"),
    normalize=_normal_scatter_add,
    inplace=True,
    samples=_scatter_add_samples,
    errors=_scatter_errors,
)


@composite("take_along_dim")
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
    index = F.expand(indices, sizes)
    source = F.expand(self, (*sizes[:dim], shape[dim], *sizes[dim + 1 :]))
    return F.gather(source, dim, index)


# Whole slices -----------------------------------------------------------------------------------


def _vector(name: str, self: Any, dim: Any, index: Any) -> int:
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
    return (_vector("index_select", self, dim, index),)


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
    samples=_index_select_samples,
    errors=_index_select_errors,
)


def _source_back(F: Any, g: Any, source_shape: Any, dim: int, index: Any) -> Any:
    return F.reshape(F.index_select(g, dim, index), source_shape)


def _source_back_scaled(F: Any, g: Any, source_shape: Any, dim: int, index: Any, alpha: Any) -> Any:
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
    return _vector("index_add", self, dim, index), alpha


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
    keeps=("source",),
    samples=_index_add_samples,
    errors=_index_add_errors,
)


def _normal_index_copy(self: Any, dim: Any, index: Any, source: Any) -> tuple[int]:
    _same_type("index_copy_", self, source)
    return (_vector("index_copy", self, dim, index),)


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
    keeps=("source",),
    samples=_slices_samples,
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
    return _vector("index_fill_", self, dim, index), number_for(value, self)


def _normal_fill_tensor(self: Any, dim: Any, index: Any, value: Any) -> tuple[int]:
    _zero_dim("index_fill_", value)
    return (_vector("index_fill_", self, dim, index),)


def _zero_dim(name: str, value: Any) -> None:
    if value.ndim:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
            "dimension(s)."
        )


_structural(
    "index_fill_number",
    _filled_slices,
    vjp={"self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0)},
    inputs=("self", "index"),
    normalize=_normal_fill_number,
    inplace=_fill_slices,
    public=False,
    called="index_fill",
    node="IndexFillBackward0",
    samples=lambda make: iter([Sample((make((3, 4)), 1, numpy.array([0, -1]), 1.5))]),
)
_structural(
    "index_fill_tensor",
    _filled_slices,
    vjp={
        "self": lambda F, g, dim, index: F.index_fill_number(g, dim, index, 0),
        "value": lambda F, g, dim, index: F.sum(F.index_select(g, dim, index)),
    },
    jvp=LINEAR,
    inputs=("self", "index", "value"),
    normalize=_normal_fill_tensor,
    inplace=_fill_slices,
    public=False,
    called="index_fill",
    node="IndexFillBackward1",
    samples=lambda make: iter([Sample((make((3, 4)), 1, numpy.array([0, 2]), make(())))]),
)


@composite("index_fill")
def _index_fill(F: Any, self: Any, dim: int, index: Any, value: Any) -> Any:
    """`self` with one value in the slices of `dim` that the vector `index` names."""
    kind = _by_kind(value, "index_fill_tensor", "index_fill_number")
    return getattr(F, kind)(self, dim, index, value)


def _index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`index_fill`, written into this tensor."""
    record = ops[_by_kind(value, "index_fill_tensor", "index_fill_number")]
    return record.write(self, dim, index, value)  # type: ignore[no-any-return]


Tensor.index_fill_ = _index_fill_  # type: ignore[attr-defined]


# Masks ------------------------------------------------------------------------------------------


def _check_mask(name: str, self: Any, mask: Any) -> None:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype {dtypes.of_array(mask)}"
        )
    broadcast(self.shape, mask.shape)


def _normal_masked(self: Any, mask: Any, value: Any) -> tuple[Any, ...]:
    _check_mask("masked_fill_", self, mask)
    return (number_for(value, self),)


def _normal_masked_tensor(self: Any, mask: Any, value: Any) -> tuple[()]:
    _check_mask("masked_fill_", self, mask)
    _zero_dim("masked_fill_", value)
    return ()


def _masked(xp: Any, self: Any, mask: Any, value: Any) -> Any:
    return xp.where(mask, xp.asarray(value, dtype=self.dtype), self)


def _mask_into(xp: Any, self: Any, mask: Any, value: Any) -> None:
    if mask.shape != self.shape:
        broadcast_shape = broadcast(self.shape, mask.shape)
        if broadcast_shape != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(broadcast_shape)}"
            )
        mask = xp.broadcast_to(mask, self.shape)
    self[mask] = value


def _mask_samples(value: Any) -> Any:
    def samples(make: Any) -> Samples:
        x = make((2, 3))
        for mask in (x > 0, numpy.array([True, False, True]), numpy.array(False)):
            yield Sample((x, mask, make(()) if value is None else value))

    return samples


def _mask_errors(make: Any) -> Errors:
    x = make((2, 3))
    yield ErrorSample((x, x, 1.0), RuntimeError, "masked_fill_ only supports boolean masks")
    yield ErrorSample((x, numpy.array([True, False]), 1.0), RuntimeError, "must match the size of")


_structural(
    "masked_fill_number",
    _masked,
    vjp={"self": lambda F, g, mask: F.masked_fill_number(g, mask, 0)},
    inputs=("self", "mask"),
    normalize=_normal_masked,
    inplace=_mask_into,
    public=False,
    called="masked_fill",
    node="MaskedFillBackward0",
    samples=_mask_samples(1.5),
    errors=_mask_errors,
)
_structural(
    "masked_fill_tensor",
    _masked,
    vjp={
        "self": lambda F, g, mask: F.masked_fill_number(g, mask, 0),
        "value": lambda F, g, mask: F.sum(F.where(mask, g, F.zeros_of(g, ()))),
    },
    jvp=LINEAR,
    inputs=("self", "mask", "value"),
    normalize=_normal_masked_tensor,
    inplace=_mask_into,
    public=False,
    called="masked_fill",
    node="MaskedFillBackward1",
    samples=_mask_samples(None),
)


@composite("masked_fill")
def _masked_fill(F: Any, self: Any, mask: Any, value: Any) -> Any:
    """`self` with one value (a number or a 0-d tensor) where the mask is true."""
    kind = _by_kind(value, "masked_fill_tensor", "masked_fill_number")
    return getattr(F, kind)(self, mask, value)


def _masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`masked_fill`, written into this tensor."""
    record = ops[_by_kind(value, "masked_fill_tensor", "masked_fill_number")]
    return record.write(self, mask, value)  # type: ignore[no-any-return]


Tensor.masked_fill_ = _masked_fill_  # type: ignore[attr-defined]


def _common_shape(*arrays: Any) -> tuple[int, ...]:
    return broadcast(*(a.shape for a in arrays))


def _masked_select(xp: Any, self: Any, mask: Any) -> Any:
    shape = _common_shape(self, mask)
    return xp.broadcast_to(self, shape)[xp.broadcast_to(mask, shape)]


def _normal_mask_only(self: Any, mask: Any) -> tuple[()]:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_select: expected BoolTensor for mask, got {dtypes.of_array(mask)}"
        )
    return ()


def _masked_select_back(F: Any, g: Any, self_shape: Any, mask: Any) -> Any:
    shape = broadcast(tuple(self_shape), tuple(mask.shape))
    return F.masked_scatter(F.zeros_of(g, shape), mask, g)


def _only_mask_samples(make: Any) -> Samples:
    x = make((2, 3))
    yield Sample((x, x > 0))
    yield Sample((x, numpy.array([True, False, True])))
    yield Sample((make((3,)), x > 0))


_structural(
    "masked_select",
    _masked_select,
    vjp={"self": _masked_select_back},
    jvp=LINEAR,
    inputs=("self", "mask"),
    normalize=_normal_mask_only,
    keeps=("self",),
    samples=_only_mask_samples,
)


def _scatter_masked(xp: Any, self: Any, mask: Any, source: Any) -> Any:
    shape = _common_shape(self, mask)
    result = xp.broadcast_to(self, shape).copy()
    _scatter_masked_into(xp, result, mask, source)
    return result


def _scatter_masked_into(xp: Any, self: Any, mask: Any, source: Any) -> None:
    mask = xp.broadcast_to(mask, self.shape)
    count = int(mask.sum())
    if count > source.size:
        raise RuntimeError(
            f"Number of elements of source < number of ones in mask: {source.size} < {count}"
        )
    self[mask] = source.reshape(-1)[:count]


def _normal_masked_scatter(self: Any, mask: Any, source: Any) -> tuple[()]:
    if self.dtype != source.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{dtypes.of_array(self)} and {dtypes.of_array(source)}"
        )
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{dtypes.of_array(mask)}"
        )
    return ()


def _masked_scatter_samples(make: Any) -> Samples:
    x = make((2, 3))
    yield Sample((x, x > 0, make((7,))))
    yield Sample((x, numpy.array([True, False, True]), make((2, 2))))


_structural(
    "masked_scatter",
    _scatter_masked,
    vjp={
        "self": lambda F, g, mask: F.masked_fill_number(g, mask, 0),
        "source": lambda F, g, mask, source_shape: F.masked_scatter_backward(g, mask, source_shape),
    },
    jvp=LINEAR,
    inputs=("self", "mask", "source"),
    normalize=_normal_masked_scatter,
    inplace=_scatter_masked_into,
    samples=_masked_scatter_samples,
)


def _masked_scatter_backward(xp: Any, self: Any, mask: Any, sizes: Any) -> Any:
    found = self[xp.broadcast_to(mask, self.shape)]
    result = xp.zeros((math.prod(sizes),), dtype=self.dtype)
    result[: found.size] = found
    return result.reshape(sizes)


_structural(
    "masked_scatter_backward",
    _masked_scatter_backward,
    vjp={
        "self": lambda F, g, mask, self_shape: F.masked_scatter(F.zeros_of(g, self_shape), mask, g)
    },
    jvp=LINEAR,
    inputs=("self", "mask"),
    public=False,
    node="MaskedScatterBackwardBackward0",
    samples=lambda make: iter([Sample((make((3,)), numpy.array([True, False, True]), (4,)))]),
)


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
    normalize=_normal_take,
    keeps=("self",),
    samples=lambda make: iter([Sample((make((2, 3)), numpy.array([[0, 5], [-1, 0]])))]),
    errors=lambda make: iter(
        [ErrorSample((make((2,)), numpy.array([2])), IndexError, "tried to access index 2 on a")]
    ),
)


def _put_flat_into(xp: Any, self: Any, index: Any, source: Any, accumulate: bool = False) -> None:
    at = xp.where(index < 0, index + self.size, index).reshape(-1)
    if at.size and not (0 <= int(at.min()) and int(at.max()) < self.size):
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
    keeps=("source",),
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
)


@composite("nonzero")
def _nonzero(F: Any, self: Any, *, as_tuple: bool = False) -> Any:
    """The places of the elements that are not zero: one row each, or one vector per dimension."""
    array = self if F.xp is not None else self._array
    xp = backend_of(array).xp
    if as_tuple:
        found = tuple(xp.nonzero(array.reshape(1) if array.ndim == 0 else array))
        return found if F.xp is not None else tuple(map(from_array, found))
    rows = (
        xp.stack(xp.nonzero(array), axis=-1) if array.ndim else xp.zeros((int(array != 0), 0), int)
    )
    return rows if F.xp is not None else from_array(rows)


@composite("argwhere")
def _argwhere(F: Any, self: Any) -> Any:
    """The places of the elements that are not zero, one row each."""
    return F.nonzero(self)


# One slice replaced -----------------------------------------------------------------------------


def _replacer(reader: str) -> Any:
    """A kernel: a copy of self with `src` at the place that the view op reads."""
    read = ops[reader]

    def write(xp: Any, self: Any, src: Any, *args: Any) -> Any:
        result = xp.array(self, order="C", copy=True)
        place = read.view_array(xp, result, args)
        if place.shape != src.shape:
            raise RuntimeError(
                "expected src to have a size equal to the slice of self. src size = "
                f"{list(src.shape)}, slice size = {list(place.shape)}"
            )
        place[...] = src
        return result

    return write


_selected, _sliced, _on_diagonal = map(_replacer, ("select", "slice", "diagonal"))

_structural(
    "select_scatter",
    lambda xp, self, src, dim, index: _selected(xp, self, src, dim, index),
    vjp={
        "self": lambda F, g, src_shape, dim, index: F.select_scatter(
            g, F.zeros_of(g, src_shape), dim, index
        ),
        "src": lambda F, g, dim, index: F.select(g, dim, index),
    },
    jvp=LINEAR,
    inputs=("self", "src"),
    normalize=lambda self, src, dim, index: ops["select"].normalize(self, dim, index),
    samples=lambda make: iter([Sample((make((2, 3)), make((2,)), 1, -1))]),
)
_structural(
    "slice_scatter",
    lambda xp, self, src, dim=0, start=None, end=None, step=1: _sliced(
        xp, self, src, dim, start, end, step
    ),
    vjp={
        "self": lambda F, g, src_shape, dim, start, end, step: F.slice_scatter(
            g, F.zeros_of(g, src_shape), dim, start, end, step
        ),
        "src": lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step),
    },
    jvp=LINEAR,
    inputs=("self", "src"),
    normalize=lambda self, src, *args: ops["slice"].normalize(self, *args),
    samples=lambda make: iter([Sample((make((2, 5)), make((2, 2)), 1, 0, 4, 2))]),
)
_structural(
    "diagonal_scatter",
    lambda xp, self, src, offset=0, dim1=0, dim2=1: _on_diagonal(xp, self, src, offset, dim1, dim2),
    vjp={
        "self": lambda F, g, src_shape, offset, dim1, dim2: F.diagonal_scatter(
            g, F.zeros_of(g, src_shape), offset, dim1, dim2
        ),
        "src": lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2),
    },
    jvp=LINEAR,
    inputs=("self", "src"),
    normalize=lambda self, src, *args: ops["diagonal"].normalize(self, *args),
    samples=lambda make: iter([Sample((make((3, 3)), make((3,))))]),
)
