"""Reshaping and broadcasting: the same elements in another shape, as views.

A view's rule may ask for F, g, self_shape and its arguments only: CopySlices and regenerated views
run it without a node. Structural ops commute with conjugation, hence `holomorphic=False`.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_for, backend_of, of_namespace
from ag_visual.arrays.kernels.order import empty_as
from ag_visual.core.level import all_values
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import validate_grad
from ag_visual.dispatch.arguments import Sizes, loose, wrong_type
from ag_visual.dispatch.dims import broadcast, sizes_of, wrap
from ag_visual.dispatch.families import structural, view_op
from ag_visual.dispatch.interpreted import flat
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.stated import Same
from ag_visual.dispatch.table import composite, function, op
from ag_visual.dispatch.vmap import Batch, in_rows

# Zeros for rules --------------------------------------------------------------------------------


@composite("zeros_of", public=False, symbol="0")
def _zeros_of(F, like, shape: tuple[int, ...] | None = None):
    """Zeros of a shape (None: like another, in its order), in the other's dtype, on its device."""
    array = like._array if F.traced else like
    if hasattr(array, "unsupported"):
        xp = backend_for(like.device).xp  # of the slices of a batch
    else:
        xp = backend_of(array).xp if F.traced else F.xp
    if shape is not None or hasattr(array, "unsupported") or array.flags.c_contiguous:
        found = xp.zeros(array.shape if shape is None else shape, dtype=array.dtype)
    else:
        found = empty_as(xp, array)
        found[...] = 0
    return from_array(found) if F.traced else found


def _reshape_slices(batch: Batch):
    """Where the memory of a slice allows it, that of all slices does."""
    return batch.run(size=(batch.size, *batch["size"]))


_REBATCHED = Same(
    size=lambda size, slices: (slices, *size),
    when=lambda whole: whole.flags.c_contiguous,
    otherwise=_reshape_slices,
)

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
    asked = f"a multiple of {known}" if free is not None else f"{known}"
    raise RuntimeError(
        f"shape '{list(shape)}' is invalid for input of size {size}: it asks for {asked} elements"
        + ("" if free is not None else "; one size may be -1")
    )


# Whether NumPy says that a copy is needed instead of making one.
_TELLS = numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"


def _viewed(xp, self, size: tuple[int, ...]):
    """The reshaped array if that needs no copy, else None."""
    if _TELLS and type(self) is numpy.ndarray and self.size:
        try:
            return self.reshape(size, copy=False)
        except ValueError:
            return None
    result = self.reshape(size)
    if self.flags.c_contiguous or result.size == 0:
        return result
    pointer = of_namespace(xp).pointer
    return result if pointer(result) == pointer(self) else None


def _view_size(xp, self, size):
    if self.flags.c_contiguous:
        return self.reshape(size)
    result = _viewed(xp, self, size)
    if result is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


def _normal_size(self, size) -> tuple[Any, ...]:
    if type(size) is tuple and prod(size) == self.size and min(size, default=0) >= 0:
        return (size,)
    return (resolve_shape(self.size, sizes_of("view", (size,))),)


def back_to_shape(F, g, self_shape):
    if F.traced and g._array.flags.c_contiguous:  # as `reshape`, which looks for a -1 first
        return F.view_size(g, self_shape)
    return F.reshape(g, self_shape)


view_size = view_op(
    "view_size",
    _view_size,
    vjp={"self": back_to_shape},
    batch=_REBATCHED,
    normalize=_normal_size,
    public=False,
    public_name="view",
    node="ViewBackward0",
    layout_dependent=True,
    samples=lambda make: [
        Sample((make((2, 3, 4)), (6, 4))),
        Sample((make((2, 3, 4)), (2, -1))),
        Sample((make(()), (1, 1))),
        Sample((make((2, 0)), (0, 5))),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), (4, 2)), RuntimeError, "shape '[4, 2]' is invalid for input"),
        ErrorSample((make((2, 3)), (-1, -1)), RuntimeError, "only one dimension can be inferred"),
    ],
)
view_op(
    "reshape_alias",
    _view_size,
    vjp={"self": back_to_shape},
    batch=_REBATCHED,
    normalize=_normal_size,
    public=False,
    public_name="reshape",
    layout_dependent=True,
    samples=lambda make: [Sample((make((2, 3)).T[:, None], (3, 2)))],
    oracle=False,
)
# The second half of a reshape that had to copy: it looks at a copy that nobody else sees.
structural(
    "unsafe_view",
    lambda xp, self, size: self.reshape(size),
    vjp={"self": back_to_shape},
    public=False,
    public_name="reshape",
    profiled="_unsafe_view",
    may_donate=True,
    samples=lambda make: [Sample((make((2, 3)), (3, 2)))],
    oracle="_unsafe_view",
)


def _view_dtype(xp, self, dtype):
    old, new = self.dtype.itemsize, dtype.itemsize
    if old == new:
        return self.view(dtype)
    if self.ndim == 0:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {dtypes.of_array(self)} as {dtypes.of_numpy(dtype)} "
            "(different element sizes)"
        )
    if self.size and self.shape[-1] > 1 and self.strides[-1] != old:
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


op(
    "view_dtype",
    _view_dtype,
    view=True,
    public=False,
    public_name="view",
    layout_dependent=True,
    batch=in_rows,
    samples=lambda make: [Sample((make((2, 3)), dtypes.int32.np))],
)


@composite("view", spaces="", view=True)
def _view_any(F, self, *shape, dtype=None, size=None):
    """The same elements in another shape (or their bytes as another dtype), sharing memory.

    One size may be -1. Raises RuntimeError when the memory layout does not allow it; `reshape`
    copies then.
    """
    if size is not None:
        shape = (size,)
    elif dtype is not None:
        if shape or not isinstance(dtype, dtypes.dtype):
            raise wrong_type("view", "dtype", "torch.dtype alone", (*shape, dtype))
        shape = (dtype,)
    first = shape[0] if shape else None
    if isinstance(first, dtypes.dtype):
        result = F.view_dtype(self, first.np)
        if isinstance(result, Tensor):
            # Bytes have no derivative: the same memory and version, but nobody's view.
            result._view, result._rg = None, False
        return result
    return F.view_size(self, loose("view", "size", shape))


@composite("reshape", varargs="shape", shape_only=True, view=True)
def _reshape(F, self, shape: Sizes):
    """The same elements in another shape: a view where the layout allows it, else a copy."""
    if not F.traced:
        return self.reshape(shape)
    array = self._array
    size = resolve_shape(array.size, shape)
    if array.flags.c_contiguous:
        return F.view_size(self, size)
    memory = all_values(self)
    batches = memory.shape[: memory.ndim - array.ndim]
    if _viewed(backend_of(memory).xp, memory, (*batches, *size)) is not None:
        return F.reshape_alias(self, size)
    return F.unsafe_view(F.clone(self, "C"), size)


@composite("view_as", spaces="", view=True)
def _view_as(F, self, other):
    """`self.view(other.size())`."""
    return F.view_size(self, tuple(other.shape))


@composite("reshape_as", spaces="")
def _reshape_as(F, self, other):
    """`self.reshape(other.size())`."""
    return F.reshape(self, tuple(other.shape))


@composite("flatten", view=True)
def _flatten(F, self, start_dim: int = 0, end_dim: int = -1):
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


@composite("unflatten", view=True)
def _unflatten(F, self, dim: int, sizes: Sizes):
    """One dimension as several, whose sizes multiply to its size (one may be -1)."""
    shape = tuple(self.shape)
    if not shape and dim in (0, -1):
        raise RuntimeError(
            "unflatten got an unexpected error:\n"
            f"Dimension specified as {dim} but tensor has no dimensions"
        )
    dim = wrap(dim, len(shape))
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
def _ravel(F, self):
    """All elements in one dimension."""
    return F.view_size(F.contiguous(self), (-1,))


# Broadcasting -----------------------------------------------------------------------------------


def _expand(xp, self, size: Sizes):
    return validate_grad.expand(xp, self, size)


def _normal_expand(self, size) -> tuple[Any, ...]:
    if not self.shape and type(size) is tuple and min(size, default=0) >= 0:
        return (size,)
    size = sizes_of("expand", (size,))
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


expand = view_op(
    "expand",
    _expand,
    vjp={"self": lambda F, g, self_shape: F.sum_to_size(g, self_shape)},
    batch=Same(size=lambda size, slices: (slices, *size), pads=lambda size, rank: len(size) - rank),
    normalize=_normal_expand,
    varargs="size",
    ignored_kwargs=("implicit",),
    samples=lambda make: [
        Sample((make((3, 1)), (2, 3, 4))),
        Sample((make((3, 1)), (-1, 4))),
        Sample((make(()), (2, 2))),
        Sample((make((1,)), (0,))),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), (2, 4)), RuntimeError, "must match the existing size (3) at")
    ],
    doc="Dimensions of size 1 repeated to a size, as a view; -1 keeps one, new ones come first.",
    spaces="",
)


@composite("expand_as", spaces="", view=True)
def _expand_as(F, self, other):
    """`self.expand(other.size())`."""
    return F.expand(self, tuple(other.shape))


@composite("broadcast_to", varargs="size", shape_only=True)
def _broadcast_to(F, self, size: Sizes):
    """Another name of `expand`."""
    return F.expand(self, size)


@composite("broadcast_tensors", method=False)
def _broadcast_tensors(F, *tensors):
    """All tensors, expanded to their common shape."""
    tensors = flat(tensors)
    shape = broadcast(*(tuple(each.shape) for each in tensors))
    return tuple(each if tuple(each.shape) == shape else F.expand(each, shape) for each in tensors)


@function()
def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes broadcast to."""
    from ag_visual.sizes import Size

    return Size(broadcast(*((s,) if isinstance(s, int) else tuple(s) for s in shapes)))


@composite("sum_to_size", varargs="size", spaces="")
def _sum_to_size(F, self, size: Sizes):
    """Summed over the dimensions that expanding a tensor of this size would add or stretch."""
    if not F.traced:
        return validate_grad.sum_to(F.xp, self, size)
    shape, wanted = self._array.shape, size
    if not wanted:
        return F.sum(self)
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


# At least so many dimensions --------------------------------------------------------------------


def _at_least(name: str, grow, doc: str) -> None:
    @composite(name, method=False, doc=doc)
    def at_least(F, *tensors):
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            return tuple(grow(F, each) for each in tensors[0])
        found = tuple(grow(F, each) for each in tensors)
        return found[0] if len(found) == 1 else found


def _one(F, self):
    return F.reshape(self, (1,)) if self.ndim == 0 else self


def _two(F, self):
    if self.ndim == 0:
        return F.reshape(self, (1, 1))
    return F.unsqueeze(self, 0) if self.ndim == 1 else self


def _three(F, self):
    if self.ndim == 0:
        return F.reshape(self, (1, 1, 1))
    if self.ndim == 1:
        return F.unsqueeze(F.unsqueeze(self, 0), -1)
    return F.unsqueeze(self, -1) if self.ndim == 2 else self


for _name, _grow, _doc in (
    ("atleast_1d", _one, "Tensors with at least one dimension."),
    ("atleast_2d", _two, "Tensors with at least two dimensions; new ones come first."),
    ("atleast_3d", _three, "Tensors with at least three; the third of a matrix comes last."),
):
    _at_least(_name, _grow, _doc)
