"""Views and rearrangements: reshaping, selecting, splitting, flipping, repeating.

A view's rule may ask for F, g, self_shape and its arguments only: CopySlices and regenerated views
run it without a node. Structural ops commute with conjugation, hence `holomorphic=False`.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from math import prod
from operator import index as as_index
from typing import Any

from .. import dtypes
from ..arrays.backend import backend_of, of_namespace
from ..core import modes, seam, source, view
from ..core import saved as saved_fields
from ..core.tensor import Tensor, check_inplace, from_array, wrote
from . import edges
from .dims import broadcast, wrap, wrap_all
from .generic import flat
from .record import LINEAR, ErrorSample, Op, Sample
from .table import composite, function, op, ops

_structural = functools.partial(op, jvp=LINEAR, holomorphic=False)
_view = functools.partial(op, jvp=LINEAR, holomorphic=False, view=True)
Samples = Iterator[Sample]
Errors = Iterator[ErrorSample]


def _is_arrays(F: Any) -> bool:
    """Whether a composite runs on plain arrays."""
    return F.xp is not None


def _shape_arguments(name: str, sizes: Any) -> tuple[int, ...]:
    try:
        return tuple(as_index(n) for n in flat(sizes))
    except TypeError:
        bad = next((s for s in flat(sizes) if not hasattr(s, "__index__")), None)
        raise TypeError(
            f"{name}(): sizes and dimensions must be ints, got {type(bad).__name__}: {bad!r}"
        ) from None


# Zeros for rules --------------------------------------------------------------------------------


@composite("zeros_of", public=False)
def _zeros_of(F: Any, like: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of a shape, in the dtype and on the device of another."""
    if _is_arrays(F):
        return F.xp.zeros(shape, dtype=like.dtype)
    array = like._array
    return from_array(backend_of(array).xp.zeros(shape, dtype=array.dtype))


# One shape for another --------------------------------------------------------------------------


def resolve_shape(size: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A wanted shape for `size` elements, with its -1 filled in."""
    known = 1
    free = None
    for at, n in enumerate(shape):
        if n == -1:
            if free is not None:
                raise RuntimeError("only one dimension can be inferred")
            free = at
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {at} of shape {list(shape)}")
        else:
            known *= n
    if free is None:
        if known == size:
            return shape
    elif known == 0 and size == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    elif known and size % known == 0:
        return (*shape[:free], size // known, *shape[free + 1 :])
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")


def _viewed(xp: Any, self: Any, size: tuple[int, ...]) -> Any:
    """The reshaped array if that needs no copy, else None."""
    result = self.reshape(size)
    if self.flags.c_contiguous or result.size == 0:
        return result
    pointer = of_namespace(xp).pointer
    return result if pointer(result) == pointer(self) else None


def _view_size(xp: Any, self: Any, size: Any) -> Any:
    result = _viewed(xp, self, size)
    if result is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


def _normal_size(self: Any, size: Any) -> tuple[Any, ...]:
    if type(size) is tuple and prod(size) == self.size and min(size, default=0) >= 0:
        return (size,)
    return (resolve_shape(self.size, _shape_arguments("view", (size,))),)


def _view_samples(make: Any) -> Samples:
    yield Sample((make((2, 3, 4)), (6, 4)))
    yield Sample((make((2, 3, 4)), (2, -1)))
    yield Sample((make(()), (1, 1)))
    yield Sample((make((2, 0)), (0, 5)))


def _view_errors(make: Any) -> Errors:
    yield ErrorSample((make((2, 3)), (4, 2)), RuntimeError, "shape '[4, 2]' is invalid for input")
    yield ErrorSample((make((2, 3)), (-1, -1)), RuntimeError, "only one dimension can be inferred")


def _back_to_shape(F: Any, g: Any, self_shape: Any) -> Any:
    return F.reshape(g, self_shape)


view_size = _view(
    "view_size",
    _view_size,
    vjp={"self": _back_to_shape},
    normalize=_normal_size,
    public=False,
    called="view",
    node="ViewBackward0",
    strides=True,
    samples=_view_samples,
    errors=_view_errors,
)
_reshape_alias = _view(
    "reshape_alias",
    _view_size,
    vjp={"self": _back_to_shape},
    normalize=_normal_size,
    public=False,
    called="reshape",
    node="ReshapeAliasBackward0",
    strides=True,
    samples=lambda make: iter([Sample((make((2, 3)).T[:, None], (3, 2)))]),
)
# The second half of a reshape that had to copy: it looks at a copy that nobody else sees.
_unsafe_view = _structural(
    "unsafe_view",
    lambda xp, self, size: self.reshape(size),
    vjp={"self": _back_to_shape},
    public=False,
    called="reshape",
    node="UnsafeViewBackward0",
    reuses=True,
    samples=lambda make: iter([Sample((make((2, 3)), (3, 2)))]),
)


def _view_dtype(xp: Any, self: Any, dtype: Any) -> Any:
    old, new = self.dtype.itemsize, dtype.itemsize
    if old == new:
        return self.view(dtype)
    if self.ndim == 0:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {dtypes.of_array(self)} as {dtypes.of_numpy(dtype)} "
            "(different element sizes)"
        )
    if self.shape[-1] > 1 and self.strides[-1] != old:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {dtypes.of_array(self)} as "
            f"{dtypes.of_numpy(dtype)} (different element sizes), but got "
            f"{self.strides[-1] // old}"
        )
    if new > old and (self.shape[-1] * old) % new:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {new // old} to view {dtypes.of_array(self)} as "
            f"{dtypes.of_numpy(dtype)} (different element sizes), but got {self.shape[-1]}"
        )
    return self.view(dtype)


_view_dtype_op = op(
    "view_dtype",
    _view_dtype,
    inputs=("self",),
    view=True,
    public=False,
    called="view",
    strides=True,
    samples=lambda make: iter([Sample((make((2, 3)), dtypes.int32.np))]),
)


@composite("view")
def _view_any(F: Any, self: Any, *shape: Any, dtype: Any = None, size: Any = None) -> Any:
    """The same elements in another shape (or their bytes as another dtype), sharing memory.

    One size may be -1. Raises RuntimeError when the memory layout does not allow it; `reshape`
    copies then.
    """
    if size is not None:
        shape = (size,)
    elif dtype is not None:
        shape = (dtype,)
    elif not shape:
        raise TypeError("view() needs a shape or a dtype")
    first = shape[0]
    if isinstance(first, dtypes.dtype):
        return F.view_dtype(self, first.np)
    return F.view_size(self, first if len(shape) == 1 else shape)


# The public `view` takes one argument or several; the op wants one.
def _size_of(size: Any) -> Any:
    return size if isinstance(size, (tuple, list)) else (size,)


@composite("reshape")
def _reshape(F: Any, self: Any, *shape: Any) -> Any:
    """The same elements in another shape: a view where the layout allows it, else a copy."""
    if _is_arrays(F):
        return self.reshape(*shape)
    array = self._array
    size = resolve_shape(array.size, _shape_arguments("reshape", shape))
    if array.flags.c_contiguous:
        return F.view_size(self, size)
    if _viewed(backend_of(array).xp, array, size) is not None:
        return F.reshape_alias(self, size)
    return F.unsafe_view(F.clone(self, "C"), size)


@composite("view_as")
def _view_as(F: Any, self: Any, other: Any) -> Any:
    """`self.view(other.size())`."""
    return F.view_size(self, tuple(other.shape))


@composite("reshape_as")
def _reshape_as(F: Any, self: Any, other: Any) -> Any:
    """`self.reshape(other.size())`."""
    return F.reshape(self, tuple(other.shape))


@composite("flatten")
def _flatten(F: Any, self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from start_dim to end_dim (included) as one."""
    shape = tuple(self.shape)
    start, end = wrap(start_dim, len(shape)), wrap(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return F.reshape(self, (1,))
    if start == end:
        return self
    return F.reshape(self, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite("unflatten")
def _unflatten(F: Any, self: Any, dim: int, sizes: Any) -> Any:
    """One dimension as several, whose sizes multiply to its size (one may be -1)."""
    shape = tuple(self.shape)
    dim = wrap(dim, len(shape))
    sizes = _shape_arguments("unflatten", (sizes,))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        inner = resolve_shape(shape[dim], sizes)
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[dim]}) in the input tensor"
        ) from None
    return F.view_size(self, (*shape[:dim], *inner, *shape[dim + 1 :]))


@composite("ravel")
def _ravel(F: Any, self: Any) -> Any:
    """All elements in one dimension."""
    return F.view_size(F.contiguous(self), (-1,))


# The order of dimensions ------------------------------------------------------------------------


def _transpose(xp: Any, self: Any, dim0: int, dim1: int) -> Any:
    return self.swapaxes(dim0, dim1) if self.ndim else self[...]


def _normal_pair(self: Any, dim0: Any, dim1: Any) -> tuple[int, int]:
    return wrap(dim0, self.ndim), wrap(dim1, self.ndim)


def _transpose_samples(make: Any) -> Samples:
    yield Sample((make((2, 3, 4)), 0, -1))
    yield Sample((make((2, 3)), 1, 0))
    yield Sample((make(()), 0, 0))


def _transpose_errors(make: Any) -> Errors:
    yield ErrorSample((make((2, 3)), 0, 2), IndexError, "Dimension out of range (expected to be")


transpose = _view(
    "transpose",
    _transpose,
    vjp={"self": lambda F, g, dim0, dim1: F.transpose(g, dim0, dim1)},
    normalize=_normal_pair,
    samples=_transpose_samples,
    errors=_transpose_errors,
)


@composite("swapaxes", aliases=("swapdims",))
def _swapaxes(F: Any, self: Any, dim0: int, dim1: int) -> Any:
    """Another name of `transpose`."""
    return F.transpose(self, dim0, dim1)


def _permute(xp: Any, self: Any, dims: Any) -> Any:
    return self.transpose(dims)


def _normal_dims(self: Any, dims: Any) -> tuple[Any, ...]:
    dims = _shape_arguments("permute", (dims,))
    if len(dims) != self.ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    found = tuple(wrap(d, self.ndim) for d in dims)
    if len(set(found)) != len(found):
        raise RuntimeError(f"permute(): duplicate dims are not allowed, got {list(dims)}.")
    return (found,)


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


def _permute_samples(make: Any) -> Samples:
    yield Sample((make((2, 3, 4)), (2, 0, 1)))
    yield Sample((make((2, 3)), (-1, 0)))
    yield Sample((make(()), ()))


permute = _view(
    "permute",
    _permute,
    vjp={"self": lambda F, g, dims: F.permute(g, _inverse(dims))},
    normalize=_normal_dims,
    varargs="dims",
    samples=_permute_samples,
)


def _t(xp: Any, self: Any) -> Any:
    return self.T


def _normal_t(self: Any) -> tuple[()]:
    if self.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D; use "
            "transpose(dim0, dim1) or permute"
        )
    return ()


def _t_samples(make: Any) -> Samples:
    yield Sample((make((2, 3)),))
    yield Sample((make((3,)),))


def _t_errors(make: Any) -> Errors:
    yield ErrorSample((make((2, 3, 4)),), RuntimeError, "t() expects a tensor with <= 2 dimensions")


t = _view(
    "t",
    _t,
    vjp={"self": lambda F, g: F.t(g)},
    normalize=_normal_t,
    samples=_t_samples,
    errors=_t_errors,
)


@composite("movedim", aliases=("moveaxis",))
def _movedim(F: Any, self: Any, source: Any, destination: Any) -> Any:
    """Dimensions moved to other places, the others in their order."""
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should "
            f"contain the same number of dims as destination ({list(targets)} dims)"
        )
    ndim = self.ndim
    found = []
    for name, dims in (("source", sources), ("destination", targets)):
        wrapped = [wrap(d, ndim) for d in dims]
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
        found.append(wrapped)
    if ndim == 0:
        return F.alias(self)
    order = [d for d in range(ndim) if d not in found[0]]
    for to, from_ in sorted(zip(found[1], found[0], strict=True)):
        order.insert(to, from_)
    return F.permute(self, tuple(order))


def _matrix(self: Tensor, name: str, only: bool) -> None:
    if self._array.ndim != 2 if only else self._array.ndim < 2:
        what = "matrices (2-D tensors)" if only else "matrices or batches of matrices"
        raise RuntimeError(
            f"tensor.{name} is only supported on {what}. Got {self._array.ndim}-D tensor."
        )


def _big_t(self: Tensor) -> Tensor:
    """The transposed matrix (for other numbers of dimensions, in reversed order)."""
    ndim = self._array.ndim
    if ndim not in (1, 2):
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor.",
            UserWarning,
            stacklevel=2,
        )
    return permute.call(self, tuple(range(ndim - 1, -1, -1)))


def _m_t(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    _matrix(self, "mT", False)
    return transpose.call(self, -2, -1)


def _big_h(self: Tensor) -> Tensor:
    """The conjugate transposed of a matrix."""
    _matrix(self, "H", True)
    return transpose.call(self, -2, -1).conj()


def _m_h(self: Tensor) -> Tensor:
    """The last two dimensions exchanged and conjugated."""
    _matrix(self, "mH", False)
    return transpose.call(self, -2, -1).conj()


for _name, _getter in (("T", _big_t), ("mT", _m_t), ("H", _big_h), ("mH", _m_h)):
    setattr(Tensor, _name, property(_getter))


@composite("adjoint")
def _adjoint(F: Any, self: Any) -> Any:
    """The last two dimensions exchanged and conjugated."""
    return F.conj(F.transpose(self, -2, -1))


# Dimensions of size one -------------------------------------------------------------------------


def _squeeze_all(xp: Any, self: Any) -> Any:
    return self.reshape(tuple(n for n in self.shape if n != 1))


def _squeeze_dim(xp: Any, self: Any, dim: int) -> Any:
    if self.ndim == 0 or self.shape[dim] != 1:
        return self[...]
    return self[(slice(None),) * dim + (0, ...)]


def _squeeze_dims(xp: Any, self: Any, dim: Any) -> Any:
    return self[
        (*tuple(0 if i in dim and n == 1 else slice(None) for i, n in enumerate(self.shape)), ...)
    ]


def _normal_dim(self: Any, dim: Any) -> tuple[int]:
    return (wrap(dim, self.ndim),)


def _normal_several(self: Any, dim: Any) -> tuple[Any, ...]:
    return (wrap_all(dim, self.ndim),)


def _squeeze_samples(*arguments: Any) -> Any:
    def samples(make: Any) -> Samples:
        for shape in ((1, 3, 1, 2), (1, 1), (2, 1)):
            yield Sample((make(shape), *arguments))

    return samples


_SQUEEZES = (
    ("squeeze_all", _squeeze_all, None, "SqueezeBackward0", _squeeze_samples()),
    ("squeeze_dim", _squeeze_dim, _normal_dim, "SqueezeBackward1", _squeeze_samples(-2)),
    ("squeeze_dims", _squeeze_dims, _normal_several, "SqueezeBackward2", _squeeze_samples((0, -1))),
)
for _name, _kernel, _normal, _node, _samples in _SQUEEZES:
    _view(
        _name,
        _kernel,
        vjp={"self": _back_to_shape},
        normalize=_normal,
        public=False,
        called="squeeze",
        node=_node,
        keeps=() if _normal is None else ("dim",),
        samples=_samples,
    )


@composite("squeeze")
def _squeeze(F: Any, self: Any, dim: Any = None) -> Any:
    """Without the dimensions of size one (all, or those named)."""
    if dim is None:
        return F.squeeze_all(self)
    if isinstance(dim, (tuple, list)):
        return F.squeeze_dims(self, tuple(dim))
    return F.squeeze_dim(self, dim)


def _unsqueeze(xp: Any, self: Any, dim: int) -> Any:
    return self[(slice(None),) * dim + (None,)]


def _normal_new(self: Any, dim: Any) -> tuple[int]:
    return (wrap(dim, self.ndim + 1),)


def _unsqueeze_samples(make: Any) -> Samples:
    for dim in (0, 1, -1):
        yield Sample((make((2, 3)), dim))
    yield Sample((make(()), 0))


def _unsqueeze_errors(make: Any) -> Errors:
    yield ErrorSample(
        (make((2, 3)), 3), IndexError, "expected to be in range of [-3, 2], but got 3"
    )


unsqueeze = _view(
    "unsqueeze",
    _unsqueeze,
    vjp={"self": lambda F, g, dim: F.squeeze_dim(g, dim)},
    normalize=_normal_new,
    samples=_unsqueeze_samples,
    errors=_unsqueeze_errors,
)


# Broadcasting -----------------------------------------------------------------------------------


def _expand(xp: Any, self: Any, size: Any) -> Any:
    # Not broadcast_to: that is read-only, and an expansion that repeats nothing may be written.
    extra = len(size) - self.ndim
    strides = (0,) * extra + tuple(
        stride if n == size[extra + i] else 0
        for i, (n, stride) in enumerate(zip(self.shape, self.strides, strict=True))
    )
    return of_namespace(xp).as_strided(self, size, strides)


def _normal_expand(self: Any, size: Any) -> tuple[Any, ...]:
    size = _shape_arguments("expand", (size,))
    shape = self.shape
    extra = len(size) - len(shape)
    if extra < 0:
        raise RuntimeError(
            f"expand(torch.{dtypes.legacy_name(dtypes.of_array(self))}{{{list(shape)}}}, "
            f"size={list(size)}): the number of sizes provided ({len(size)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(shape)})"
        )
    found = []
    for at, wanted in enumerate(size):
        if at < extra:
            if wanted < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({wanted}) isn't allowed in a leading, "
                    f"non-existing dimension {at}"
                )
            found.append(wanted)
            continue
        n = shape[at - extra]
        if wanted == -1:
            wanted = n
        if n not in (1, wanted) or wanted < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({n}) at "
                f"non-singleton dimension {at}.  Target sizes: {list(size)}.  Tensor sizes: "
                f"{list(shape)}"
            )
        found.append(wanted)
    return (tuple(found),)


def _expand_samples(make: Any) -> Samples:
    yield Sample((make((3, 1)), (2, 3, 4)))
    yield Sample((make((3, 1)), (-1, 4)))
    yield Sample((make(()), (2, 2)))
    yield Sample((make((1,)), (0,)))


def _expand_errors(make: Any) -> Errors:
    yield ErrorSample((make((2, 3)), (2, 4)), RuntimeError, "must match the existing size (3) at")


expand = _view(
    "expand",
    _expand,
    vjp={"self": lambda F, g, self_shape: F.sum_to_size(g, self_shape)},
    normalize=_normal_expand,
    varargs="size",
    samples=_expand_samples,
    errors=_expand_errors,
)


@composite("expand_as")
def _expand_as(F: Any, self: Any, other: Any) -> Any:
    """`self.expand(other.size())`."""
    return F.expand(self, tuple(other.shape))


@composite("broadcast_to")
def _broadcast_to(F: Any, self: Any, *size: Any) -> Any:
    """Another name of `expand`."""
    return F.expand(self, flat(size))


@composite("broadcast_tensors", method=False)
def _broadcast_tensors(F: Any, *tensors: Any) -> Any:
    """All tensors, expanded to their common shape."""
    tensors = flat(tensors)
    shape = broadcast(*(tuple(each.shape) for each in tensors))
    return tuple(each if tuple(each.shape) == shape else F.expand(each, shape) for each in tensors)


@function()
def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that tensors of these shapes broadcast to."""
    from ..sizes import Size

    return Size(broadcast(*((s,) if isinstance(s, int) else tuple(s) for s in shapes)))


@composite("sum_to_size")
def _sum_to_size(F: Any, self: Any, *size: Any) -> Any:
    """Summed over the dimensions that expanding a tensor of this size would add or stretch."""
    wanted = flat(size)
    if _is_arrays(F):
        return edges.sum_to(F.xp, self, wanted)
    shape = self._array.shape
    wanted = _shape_arguments("sum_to_size", (wanted,))
    extra = len(shape) - len(wanted)
    if extra < 0 or any(w not in (1, n) for w, n in zip(wanted, shape[extra:], strict=True)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    dims = tuple(range(extra)) + tuple(
        i for i in range(extra, len(shape)) if wanted[i - extra] == 1 and shape[i] != 1
    )
    if not dims:
        return self
    result = F.sum(self, dims, keepdim=True)
    return F.view_size(result, wanted) if extra else result


# Selecting --------------------------------------------------------------------------------------


def _select(xp: Any, self: Any, dim: int, index: int) -> Any:
    return self[(slice(None),) * dim + (index, ...)]


def _normal_select(self: Any, dim: Any, index: Any) -> tuple[int, int]:
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, self.ndim)
    size = self.shape[dim]
    index = as_index(index)
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at "
            f"dimension {dim}"
        )
    return dim, index + size if index < 0 else index


def _select_samples(make: Any) -> Samples:
    yield Sample((make((2, 3, 4)), 0, 1))
    yield Sample((make((2, 3, 4)), -1, -2))
    yield Sample((make((3,)), 0, 0))


def _select_errors(make: Any) -> Errors:
    yield ErrorSample((make((2, 3)), 0, 2), IndexError, "index 2 out of range for tensor of size")
    yield ErrorSample((make(()), 0, 0), IndexError, "cannot be applied to a 0-dim tensor")


select = _view(
    "select",
    _select,
    vjp={"self": lambda F, g, self_shape, dim, index: F.select_backward(g, self_shape, dim, index)},
    normalize=_normal_select,
    samples=_select_samples,
    errors=_select_errors,
)


def _select_backward(xp: Any, self: Any, input_sizes: Any, dim: int, index: int) -> Any:
    result = xp.zeros(input_sizes, dtype=self.dtype)
    result[(slice(None),) * dim + (index,)] = self
    return result


_structural(
    "select_backward",
    _select_backward,
    vjp={"self": lambda F, g, dim, index: F.select(g, dim, index)},
    public=False,
    node="SelectBackwardBackward0",
    samples=lambda make: iter([Sample((make((2, 4)), (2, 3, 4), 1, 2))]),
)


def _slice(xp: Any, self: Any, dim: int, start: int, end: int, step: int) -> Any:
    return self[(slice(None),) * dim + (slice(start, end, step),)]


def _normal_slice(
    self: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1
) -> tuple[int, ...]:
    if self.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, self.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    size = self.shape[dim]
    start, end, step = slice(start, end, step).indices(size)
    return dim, start, max(start, end), step


def _slice_samples(make: Any) -> Samples:
    yield Sample((make((4, 3)), 0, 1, 3, 1))
    yield Sample((make((4, 5)), 1, -4, None, 2))
    yield Sample((make((4, 5)), 1, 3, 2, 1))


_view(
    "slice",
    _slice,
    vjp={
        "self": lambda F, g, self_shape, dim, start, end, step: F.slice_backward(
            g, self_shape, dim, start, end, step
        )
    },
    normalize=_normal_slice,
    public=False,
    samples=_slice_samples,
)


def _slice_backward(
    xp: Any, self: Any, input_sizes: Any, dim: int, start: int, end: int, step: int
) -> Any:
    result = xp.zeros(input_sizes, dtype=self.dtype)
    result[(slice(None),) * dim + (slice(start, end, step),)] = self
    return result


_structural(
    "slice_backward",
    _slice_backward,
    vjp={"self": lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step)},
    public=False,
    node="SliceBackwardBackward0",
    samples=lambda make: iter([Sample((make((2, 2)), (2, 5), 1, 1, 4, 2))]),
)


@composite("narrow")
def _narrow(F: Any, self: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements of a dimension from `start` on."""
    if self.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, self.ndim)
    size = self.shape[dim]
    start = as_index(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return F.slice(self, dim, start, start + length, 1)


def _diagonal(xp: Any, self: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    # Not xp.diagonal: that is read-only.
    first, second = max(-offset, 0), max(offset, 0)
    rows, columns = self.shape[dim1], self.shape[dim2]
    count = max(0, min(rows - first, columns - second))
    rest = [i for i in range(self.ndim) if i not in (dim1, dim2)]
    at: list[Any] = [slice(None)] * self.ndim
    at[dim1] = slice(min(first, rows), None)
    at[dim2] = slice(min(second, columns), None)
    shape = (*(self.shape[i] for i in rest), count)
    strides = (*(self.strides[i] for i in rest), self.strides[dim1] + self.strides[dim2])
    return of_namespace(xp).as_strided(self[tuple(at)], shape, strides)


def _normal_diagonal(
    self: Any, offset: int = 0, dim1: Any = 0, dim2: Any = 1
) -> tuple[int, int, int]:
    first, second = wrap(dim1, self.ndim), wrap(dim2, self.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return offset, first, second


def _diagonal_samples(make: Any) -> Samples:
    yield Sample((make((3, 4)),))
    yield Sample((make((2, 3, 4)), 1, -1, 0))
    yield Sample((make((3, 4)), -2))
    yield Sample((make((3, 4)), 7))


def _diagonal_errors(make: Any) -> Errors:
    yield ErrorSample((make((3, 3)), 0, 1, 1), RuntimeError, "diagonal dimensions cannot be")


_view(
    "diagonal",
    _diagonal,
    vjp={
        "self": lambda F, g, self_shape, offset, dim1, dim2: F.diagonal_backward(
            g, self_shape, offset, dim1, dim2
        )
    },
    normalize=_normal_diagonal,
    samples=_diagonal_samples,
    errors=_diagonal_errors,
)


def _diagonal_backward(
    xp: Any, self: Any, input_sizes: Any, offset: int, dim1: int, dim2: int
) -> Any:
    result = xp.zeros(input_sizes, dtype=self.dtype)
    _diagonal(xp, result, offset, dim1, dim2)[...] = self
    return result


_structural(
    "diagonal_backward",
    _diagonal_backward,
    vjp={"self": lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2)},
    public=False,
    node="DiagonalBackwardBackward0",
    samples=lambda make: iter([Sample((make((3,)), (3, 4), 1, 0, 1))]),
)
_structural(
    "diagonal_copy",
    lambda xp, self, offset=0, dim1=0, dim2=1: _diagonal(xp, self, offset, dim1, dim2).copy(),
    vjp={
        "self": lambda F, g, self_shape, offset, dim1, dim2: F.diagonal_backward(
            g, self_shape, offset, dim1, dim2
        )
    },
    normalize=_normal_diagonal,
    method=False,
    node="DiagonalBackward0_copy",
    samples=_diagonal_samples,
)


def _diag_embed(xp: Any, self: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    size = self.shape[-1] + abs(offset)
    rest = iter(self.shape[:-1])
    shape = tuple(size if i in (dim1, dim2) else next(rest) for i in range(self.ndim + 1))
    return _diagonal_backward(xp, self, shape, offset, dim1, dim2)


def _normal_embed(
    self: Any, offset: int = 0, dim1: Any = -2, dim2: Any = -1
) -> tuple[int, int, int]:
    first, second = wrap(dim1, self.ndim + 1), wrap(dim2, self.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return offset, first, second


_structural(
    "diag_embed",
    _diag_embed,
    vjp={"self": lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2)},
    normalize=_normal_embed,
    samples=lambda make: iter(
        [Sample((make((3,)),)), Sample((make((2, 3)), 1)), Sample((make((2, 3)), -1, 0, 2))]
    ),
)


@composite("diag")
def _diag(F: Any, self: Any, diagonal: int = 0) -> Any:
    """A matrix with this diagonal, or the diagonal of a matrix (a copy)."""
    if self.ndim == 1:
        return F.diag_embed(self, diagonal)
    if self.ndim == 2:
        return F.diagonal_copy(self, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")


def _windows(xp: Any, self: Any, dimension: int, size: int, step: int) -> Any:
    if self.ndim == 0:
        return self.reshape(1)[:size]
    count = (self.shape[dimension] - size) // step + 1
    stride = self.strides[dimension]
    shape = (*self.shape[:dimension], count, *self.shape[dimension + 1 :], size)
    strides = (
        *self.strides[:dimension],
        stride * step,
        *self.strides[dimension + 1 :],
        stride,
    )
    return of_namespace(xp).as_strided(self, shape, strides)


def _normal_windows(self: Any, dimension: Any, size: int, step: int) -> tuple[int, int, int]:
    dim = wrap(dimension, self.ndim)
    longest = self.shape[dim] if self.ndim else 1
    if size > longest:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {longest} but size is {size}"
        )
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return dim, size, step


_view(
    "unfold",
    _windows,
    vjp={
        "self": lambda F, g, self_shape, dimension, size, step: F.unfold_backward(
            g, self_shape, dimension, size, step
        )
    },
    normalize=_normal_windows,
    samples=lambda make: iter(
        [
            Sample((make((5, 2)), 0, 3, 1)),
            Sample((make((2, 7)), 1, 2, 3)),
            Sample((make(()), 0, 1, 1)),
        ]
    ),
)


def _unfold_backward(xp: Any, self: Any, input_sizes: Any, dim: int, size: int, step: int) -> Any:
    result = xp.zeros(input_sizes, dtype=self.dtype)
    if not input_sizes:
        return result + self.reshape(-1).sum()
    count = self.shape[dim]
    for j in range(size):
        at = (slice(None),) * dim + (slice(j, j + step * (count - 1) + 1, step),)
        result[at] += self[..., j]
    return result


_structural(
    "unfold_backward",
    _unfold_backward,
    vjp={"self": lambda F, g, dim, size, step: F.unfold(g, dim, size, step)},
    public=False,
    node="UnfoldBackwardBackward0",
    samples=lambda make: iter([Sample((make((3, 2, 3)), (5, 2), 0, 3, 1))]),
)


# Arbitrary strides ------------------------------------------------------------------------------


def _strided(xp: Any, self: Any, size: Any, stride: Any, storage_offset: int) -> Any:
    item = self.dtype.itemsize
    line = xp.ascontiguousarray(self).reshape(-1)[storage_offset:]
    return of_namespace(xp).as_strided(line, size, tuple(s * item for s in stride))


def _reach(size: Sequence[int], stride: Sequence[int]) -> int:
    """How many elements of memory a geometry touches, from its first one on."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _positions(xp: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int) -> Any:
    at = xp.full((1,) * len(size), storage_offset)
    for i, (n, s) in enumerate(zip(size, stride, strict=True)):
        at = at + (xp.arange(n) * s).reshape((n,) + (1,) * (len(size) - i - 1))
    return at


def _strided_back(
    F: Any, g: Any, self_shape: Any, size: Any, stride: Any, storage_offset: int
) -> Any:
    return F.as_strided_backward(g, self_shape, size, stride, storage_offset)


_view(
    "as_strided_from",
    _strided,
    vjp={"self": _strided_back},
    public=False,
    called="as_strided",
    node="AsStridedBackward0",
    keeps=("size", "stride", "storage_offset"),
    samples=lambda make: iter(
        [Sample((make((3, 4)), (2, 2), (1, 2), 1)), Sample((make((6,)), (3, 3), (1, 1), 0))]
    ),
)


def _as_strided_backward(
    xp: Any, self: Any, input_sizes: Any, size: Any, stride: Any, storage_offset: int
) -> Any:
    line = xp.zeros((math.prod(input_sizes),), dtype=self.dtype)
    at = _positions(xp, size, stride, storage_offset)
    of_namespace(xp).add_at(line, at.reshape(-1), xp.ascontiguousarray(self).reshape(-1))
    return line.reshape(input_sizes)


_structural(
    "as_strided_backward",
    _as_strided_backward,
    vjp={
        "self": lambda F, g, size, stride, storage_offset: F.as_strided_from(
            F.clone(g, "C"), size, stride, storage_offset
        )
    },
    public=False,
    samples=lambda make: iter([Sample((make((3, 3)), (6,), (3, 3), (1, 1), 0))]),
)


@composite("as_strided")
def _as_strided(
    F: Any, self: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """A view with any size, stride and offset (in elements) into the memory of `self`.

    The offset counts from the start of the memory that `self` looks into, which must be
    row-major. Raises RuntimeError for a geometry that leaves it.
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    offset = self.storage_offset() if storage_offset is None else storage_offset
    root = self if self._base is None else self._base
    if not root._array.flags.c_contiguous:
        raise RuntimeError(
            f"as_strided: the memory of this tensor (size {list(root.shape)}, stride "
            f"{list(root.stride())}) is not row-major; call .contiguous() first"
        )
    item, held = root._array.itemsize, root._array.nbytes
    needed = (_reach(size, stride) + offset) * item if _reach(size, stride) else 0
    if offset < 0 or needed > held:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and "
            f"itemsize {item} requiring a storage size of {needed} are out of bounds for storage "
            f"of size {held}"
        )
    return F.as_strided_from(root, size, stride, offset)


# Several views at once --------------------------------------------------------------------------


def _whole(F: Any, gs: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The gradients of all parts, zeros where none arrived."""
    known = next(g for g in gs if g is not None)
    return [
        F.zeros_of(known, shape) if g is None else g for g, shape in zip(gs, shapes, strict=True)
    ]


def _unbind(xp: Any, self: Any, dim: int = 0) -> Any:
    return [self[(slice(None),) * dim + (i, ...)] for i in range(self.shape[dim])]


def _normal_unbind(self: Any, dim: Any = 0) -> tuple[int]:
    if self.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return (wrap(dim, self.ndim),)


def _unbind_back(F: Any, gs: Any, self_shape: Any, dim: int) -> Any:
    part = self_shape[:dim] + self_shape[dim + 1 :]
    return F.stack(_whole(F, gs, [part] * self_shape[dim]), dim)


def _unbind_errors(make: Any) -> Errors:
    yield ErrorSample((make(()),), IndexError, "tensor has no dimensions")


unbind = _view(
    "unbind",
    _unbind,
    vjp={"self": _unbind_back},
    outputs="list",
    normalize=_normal_unbind,
    samples=lambda make: iter([Sample((make((2, 3)),)), Sample((make((2, 3)), -1))]),
    errors=_unbind_errors,
)


def _parts(xp: Any, self: Any, sizes: Sequence[int], dim: int) -> Any:
    found, start = [], 0
    for n in sizes:
        found.append(self[(slice(None),) * dim + (slice(start, start + n),)])
        start += n
    return found


def _even(size: int, step: int) -> list[int]:
    if step == 0:
        return [0]
    count = max((size + step - 1) // step, 1)
    return [step] * (count - 1) + [size - step * (count - 1)]


def _split_back(F: Any, gs: Any, self_shape: Any, sizes: Sequence[int], dim: int) -> Any:
    shapes = [(*self_shape[:dim], n, *self_shape[dim + 1 :]) for n in sizes]
    return F.cat(_whole(F, gs, shapes), dim)


def _normal_split(self: Any, split_size: Any, dim: Any = 0) -> tuple[int, int]:
    if self.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap(dim, self.ndim)
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    if split_size == 0 and self.shape[dim] != 0:
        raise RuntimeError(
            "split_size can only be 0 if dimension size is 0, but got dimension size of "
            f"{self.shape[dim]}"
        )
    return split_size, dim


def _split_errors(make: Any) -> Errors:
    yield ErrorSample((make((3,)), -1), RuntimeError, "split expects split_size be non-negative")


_view(
    "split_even",
    lambda xp, self, split_size, dim=0: _parts(xp, self, _even(self.shape[dim], split_size), dim),
    vjp={
        "self": lambda F, gs, self_shape, split_size, dim: _split_back(
            F, gs, self_shape, _even(self_shape[dim], split_size), dim
        )
    },
    outputs="list",
    normalize=_normal_split,
    public=False,
    called="split",
    node="SplitBackward0",
    samples=lambda make: iter([Sample((make((5, 2)), 2)), Sample((make((2, 4)), 3, 1))]),
    errors=_split_errors,
)


def _normal_sizes(self: Any, split_sizes: Any, dim: Any = 0) -> tuple[Any, int]:
    if self.ndim == 0:
        raise RuntimeError("split_with_sizes expects at least a 1-dimensional tensor")
    dim = wrap(dim, self.ndim)
    sizes = _shape_arguments("split_with_sizes", (split_sizes,))
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(sizes)}"
        )
    if sum(sizes) != self.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {self.shape[dim]} (input "
            f"tensor's size at dimension {dim}), but got split_sizes={list(sizes)}"
        )
    return sizes, dim


_view(
    "split_with_sizes",
    lambda xp, self, split_sizes, dim=0: _parts(xp, self, split_sizes, dim),
    vjp={
        "self": lambda F, gs, self_shape, split_sizes, dim: _split_back(
            F, gs, self_shape, split_sizes, dim
        )
    },
    outputs="list",
    normalize=_normal_sizes,
    samples=lambda make: iter(
        [Sample((make((5, 2)), (2, 0, 3))), Sample((make((2, 4)), (1, 3), -1))]
    ),
)


@composite("split")
def _split(F: Any, self: Any, split_size: Any, dim: int = 0) -> Any:
    """Parts of a dimension, as views: of one size (the last may be smaller) or of given sizes."""
    if isinstance(split_size, (tuple, list)):
        return F.split_with_sizes(self, tuple(split_size), dim)
    return F.split_even(self, split_size, dim)


@composite("chunk")
def _chunk(F: Any, self: Any, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` parts of a dimension, of one size but for the last."""
    if self.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = self.shape[wrap(dim, self.ndim)]
    step = (size + chunks - 1) // chunks
    if step == 0:
        return F.split_with_sizes(self, (0,) * chunks, dim)
    return F.split_even(self, step, dim)


@composite("tensor_split")
def _tensor_split(F: Any, self: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Parts of a dimension, as slices: a number of nearly equal ones, or cut at indices."""
    if self.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got 0 dims")
    dim = wrap(dim, self.ndim)
    size = self.shape[dim]
    cuts = indices_or_sections
    if isinstance(cuts, Tensor):
        cuts = cuts.tolist()
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        small, more = divmod(size, cuts)
        ends = [0]
        for i in range(cuts):
            ends.append(ends[-1] + small + (i < more))
    else:
        ends = [0, *cuts, size]
    return tuple(F.slice(self, dim, a, b, 1) for a, b in itertools.pairwise(ends))


def _split_along(name: str, axis: int, least: int) -> None:
    @composite(name)
    def along(F: Any, self: Any, indices_or_sections: Any) -> Any:
        if self.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension"
                f"{'s' if least > 1 else ''}, but got a tensor with {self.ndim} dimensions!"
            )
        dim = 0 if self.ndim == 1 else axis
        size = self.shape[dim]
        if isinstance(indices_or_sections, int) and size % indices_or_sections:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {size} is not divisible by the split_size {indices_or_sections}!"
            )
        return F.tensor_split(self, indices_or_sections, dim)


_split_along("hsplit", 1, 1)
_split_along("vsplit", 0, 2)
_split_along("dsplit", 2, 3)

_view(
    "alias",
    lambda xp, self: self[...],
    vjp={"self": lambda g: g},
    public=False,
    samples=lambda make: iter([Sample((make((2, 3)),))]),
)


# At least so many dimensions --------------------------------------------------------------------


def _at_least(name: str, grow: Any) -> None:
    @composite(name, method=False)
    def at_least(F: Any, *tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            return tuple(grow(F, each) for each in tensors[0])
        found = tuple(grow(F, each) for each in tensors)
        return found[0] if len(found) == 1 else found


def _one(F: Any, self: Any) -> Any:
    return F.reshape(self, (1,)) if self.ndim == 0 else self


def _two(F: Any, self: Any) -> Any:
    if self.ndim == 0:
        return F.reshape(self, (1, 1))
    return F.unsqueeze(self, 0) if self.ndim == 1 else self


def _three(F: Any, self: Any) -> Any:
    if self.ndim == 0:
        return F.reshape(self, (1, 1, 1))
    if self.ndim == 1:
        return F.unsqueeze(F.unsqueeze(self, 0), -1)
    return F.unsqueeze(self, -1) if self.ndim == 2 else self


for _name, _grow in (("atleast_1d", _one), ("atleast_2d", _two), ("atleast_3d", _three)):
    _at_least(_name, _grow)


# Copies -----------------------------------------------------------------------------------------


def _clone(xp: Any, self: Any, order: str = "K") -> Any:
    return xp.array(self, order=order, copy=True)


_structural(
    "clone_in",
    _clone,
    vjp={"self": lambda g: g},
    public=False,
    called="clone",
    node="CloneBackward0",
    samples=lambda make: iter([Sample((make((2, 3)),))]),
)


@composite("clone")
def _clone_any(F: Any, self: Any, order: str = "K", *, memory_format: Any = None) -> Any:
    """A copy, in the graph: gradients flow back to `self`."""
    if memory_format is not None and str(memory_format) == "torch.contiguous_format":
        order = "C"
    return F.clone_in(self, order)


@composite("contiguous")
def _contiguous(F: Any, self: Any, memory_format: Any = None) -> Any:
    """`self` if its memory is row-major, else a copy that is."""
    array = self if _is_arrays(F) else self._array
    return self if array.flags.c_contiguous else F.clone_in(self, "C")


def _flip(xp: Any, self: Any, dims: Any) -> Any:
    # A copy: negative strides are no geometry of a tensor.
    at: list[Any] = [slice(None)] * self.ndim
    for d in dims:
        if self.ndim:
            at[d] = slice(None, None, -1)
    return self[tuple(at)].copy()


def _normal_flip(self: Any, dims: Any) -> tuple[Any, ...]:
    return (wrap_all(dims, self.ndim),)


_structural(
    "flip",
    _flip,
    vjp={"self": lambda F, g, dims: F.flip(g, dims)},
    normalize=_normal_flip,
    varargs="dims",
    samples=lambda make: iter(
        [Sample((make((2, 3)), (0,))), Sample((make((2, 3)), (0, -1))), Sample((make((2,)), ()))]
    ),
)


def _flip_side(name: str, dim: int, least: int) -> None:
    @composite(name)
    def side(F: Any, self: Any) -> Any:
        if self.ndim < least:
            raise RuntimeError(f"Input must be >= {least}-d.")
        return F.flip(self, (dim,))


_flip_side("fliplr", 1, 2)
_flip_side("flipud", 0, 1)


def _roll(xp: Any, self: Any, shifts: Any, dims: Any) -> Any:
    if dims:
        return xp.roll(self, shifts, axis=dims)
    return xp.roll(self, shifts[0])


def _normal_roll(self: Any, shifts: Any, dims: Any = ()) -> tuple[Any, Any]:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims) and not (len(shifts) == 1 and not dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    return shifts, tuple(wrap(d, self.ndim) for d in dims)


def _roll_errors(make: Any) -> Errors:
    yield ErrorSample((make((3,)), (1, 2)), RuntimeError, "shifts and dimensions must align")


_structural(
    "roll",
    lambda xp, self, shifts, dims=(): _roll(xp, self, shifts, dims),
    vjp={"self": lambda F, g, shifts, dims: F.roll(g, tuple(-s for s in shifts), dims)},
    normalize=_normal_roll,
    samples=lambda make: iter([Sample((make((2, 3)), 1)), Sample((make((4, 3)), (1, -2), (0, 1)))]),
    errors=_roll_errors,
)


def _rot90(xp: Any, self: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    return xp.rot90(self, k, dims).copy()


def _normal_rot(self: Any, k: int = 1, dims: Any = (0, 1)) -> tuple[int, Any]:
    found = tuple(wrap(d, self.ndim) for d in dims)
    if len(found) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(found)}")
    if found[0] == found[1]:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return k, found


_structural(
    "rot90",
    _rot90,
    vjp={"self": lambda F, g, k, dims: F.rot90(g, -k, dims)},
    normalize=_normal_rot,
    samples=lambda make: iter([Sample((make((2, 3)),)), Sample((make((2, 3, 2)), 3, (0, 2)))]),
)


def _triangle(name: str) -> Op:
    def kernel(xp: Any, self: Any, diagonal: int = 0) -> Any:
        return getattr(xp, name)(self, diagonal)

    def normal(self: Any, diagonal: int = 0) -> tuple[int]:
        if self.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return (diagonal,)

    def errors(make: Any) -> Errors:
        yield ErrorSample((make((3,)),), RuntimeError, "must have at least 2 dimensions")

    return _structural(
        name,
        kernel,
        vjp={"self": lambda F, g, diagonal: getattr(F, name)(g, diagonal)},
        normalize=normal,
        inplace=True,
        samples=lambda make: iter([Sample((make((3, 4)),)), Sample((make((2, 3, 3)), -1))]),
        errors=errors,
    )


tril, triu = _triangle("tril"), _triangle("triu")


def _repeat(xp: Any, self: Any, repeats: Any) -> Any:
    return xp.tile(self, repeats)


def _normal_repeat(self: Any, repeats: Any) -> tuple[Any, ...]:
    repeats = _shape_arguments("repeat", (repeats,))
    if len(repeats) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor: got {list(repeats)} for size {list(self.shape)}"
        )
    if any(n < 0 for n in repeats):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension: repeat counts are {list(repeats)}"
        )
    return (repeats,)


def _repeat_back(F: Any, g: Any, self_shape: Any, repeats: Any) -> Any:
    if 0 in repeats:
        return F.zeros_of(g, self_shape)
    extra = len(repeats) - len(self_shape)
    shape: list[int] = []
    dims: list[int] = []
    for i, n in enumerate(repeats):
        dims.append(len(shape))
        shape.append(n)
        if i >= extra:
            shape.append(self_shape[i - extra])
    if not dims:
        return g
    return F.sum(F.reshape(g, tuple(shape)), tuple(dims))


_structural(
    "repeat",
    _repeat,
    vjp={"self": _repeat_back},
    normalize=_normal_repeat,
    varargs="repeats",
    samples=lambda make: iter(
        [Sample((make((2, 3)), (2, 1))), Sample((make((2,)), (3, 2))), Sample((make((2,)), (0,)))]
    ),
)


@composite("tile")
def _tile(F: Any, self: Any, *dims: Any) -> Any:
    """Repeated along dimensions; missing counts are 1."""
    counts = _shape_arguments("tile", dims)
    return F.repeat(self, (1,) * (self.ndim - len(counts)) + counts)


@composite("repeat_interleave")
def _repeat_interleave(
    F: Any, self: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element (slice) repeated in place: a number of times, or as a tensor says."""
    if dim is None:
        self, dim = F.flatten(self), 0
    dim = wrap(dim, self.ndim)
    shape = tuple(self.shape)
    if isinstance(repeats, Tensor):
        counts = repeats._array.reshape(-1)
        if counts.size not in (1, shape[dim]):
            raise RuntimeError(
                "repeats must be 0-dim or 1-dim tensor with as many elements as dimension "
                f"{dim} has ({shape[dim]}), got {counts.size}"
            )
        xp = backend_of(counts).xp
        places = xp.repeat(xp.arange(shape[dim]), xp.broadcast_to(counts, (shape[dim],)).tolist())
        return F.index_select(self, dim, from_array(places))
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    wide = (*shape[: dim + 1], repeats, *shape[dim + 1 :])
    copied = F.clone(F.expand(F.unsqueeze(self, dim + 1), wide), "C")
    return F.view_size(copied, (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))


# In place: the tensor itself gets another geometry ----------------------------------------------


def _in_place(twin: str, name: str, node_name: str, arguments: Any) -> None:
    """`twin`: rebind a tensor's geometry by the view op `name`; memory is not written."""
    record = ops[name]
    node_class = type(node_name, (record.node_class,), {"__slots__": ()})

    def call(self: Tensor, *args: Any) -> Tensor:
        tracked = modes.grad_enabled() and self.requires_grad
        if tracked:
            check_inplace(self, twin)
        args = arguments(*args)
        if record.normalize is not None:
            args = tuple(record.normalize(self._array, *args))
        array = record.view_array(backend_of(self._array).xp, self._array, args)
        node = None
        if tracked:
            node = node_class((self.gradient_edge(),), ((array.shape, array.dtype),))
            for field in record.values:
                setattr(node, f"a_{field}", args[record.arguments.index(field)])
            for fact in record.shapes:
                setattr(node, f"h_{fact}", self._array.shape)
        seen = self._view
        wrote(self, twin)
        if seen is not None:
            self._view = view.View(seen.base, seen, record, args, self._storage.stamp, seen.meta)
            self._view.made = source.here()
        else:
            self.__dict__[view.TURNED] = self._storage.stamp[0]
        self._array = array
        if node is not None:
            old = self._edge
            self._edge = (node, 0)
            view.move_retain_grad(self, old)
            if seam.sink is not None:
                saved_fields.report_node(node)
        return self

    call.__name__ = call.__qualname__ = twin
    call.__doc__ = f"`{twin[:-1]}` of this very tensor: its geometry changes, its memory does not."
    setattr(Tensor, twin, call)


def _as_given(*args: Any) -> Any:
    return args


_in_place("t_", "t", "TBackward1", _as_given)
_in_place("transpose_", "transpose", "TransposeBackward1", _as_given)
_in_place("swapaxes_", "transpose", "TransposeBackward1", _as_given)
_in_place("swapdims_", "transpose", "TransposeBackward1", _as_given)
_in_place("unsqueeze_", "unsqueeze", "UnsqueezeBackward1", _as_given)
_in_place("_squeeze_all_", "squeeze_all", "SqueezeBackward3", _as_given)
_in_place("_squeeze_dim_", "squeeze_dim", "SqueezeBackward4", _as_given)
_in_place("_squeeze_dims_", "squeeze_dims", "SqueezeBackward5", _as_given)


def _squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """`squeeze` of this very tensor: its geometry changes, its memory does not."""
    if dim is None:
        return self._squeeze_all_()
    if isinstance(dim, (tuple, list)):
        return self._squeeze_dims_(tuple(dim))
    return self._squeeze_dim_(dim)


Tensor.squeeze_ = _squeeze_  # type: ignore[attr-defined]
