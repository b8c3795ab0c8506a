"""Several views at once: unbind, split and their relatives. Such views must not be written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.dims import sizes_of, wrap
from ag_visual.dispatch.families import view_op
from ag_visual.dispatch.record import UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, function
from ag_visual.dispatch.vmap import leading


def _whole(F, gs, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The gradients of all parts, zeros where none arrived."""
    known = next(g for g in gs if g is not None)
    return [
        F.zeros_of(known, shape) if g is None else g for g, shape in zip(gs, shapes, strict=True)
    ]


def _unbind(xp, self, dim: int = 0):
    return [self[(slice(None),) * dim + (i, ...)] for i in range(self.shape[dim])]


def _normal_unbind(self, dim=0) -> tuple[int]:
    if self.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return (wrap(dim, self.ndim),)


def _unbind_back(F, gs, self_shape, dim: int):
    part = self_shape[:dim] + self_shape[dim + 1 :]
    return F.stack(_whole(F, gs, [part] * self_shape[dim]), dim)


unbind = view_op(
    "unbind",
    _unbind,
    vjp={"self": _unbind_back},
    outputs="list",
    normalize=_normal_unbind,
    samples=lambda make: [Sample((make((2, 3)),)), Sample((make((2, 3)), -1))],
    errors=lambda make: [ErrorSample((make(()),), IndexError, "tensor has no dimensions")],
    doc="The slices of `dim`, as views without it.",
)


def _parts(xp, self, sizes: Sequence[int], dim: int):
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


def _split_back(F, gs, self_shape, sizes: Sequence[int], dim: int):
    if any(g is None for g in gs):
        shapes = [(*self_shape[:dim], n, *self_shape[dim + 1 :]) for n in sizes]
        gs = _whole(F, gs, shapes)
    if F.traced or len(self_shape) > 3 or not all(gs[0].dtype is g.dtype for g in gs):
        return F.cat(gs, dim)
    return F.xp.concatenate(gs, axis=dim)  # sizes and dtypes are known to fit


def _normal_split(self, split_size, dim=0) -> tuple[int, int]:
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


view_op(
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
    public_name="split",
    node="SplitBackward0",
    samples=lambda make: [Sample((make((5, 2)), 2)), Sample((make((2, 4)), 3, 1))],
    errors=lambda make: [
        ErrorSample((make((3,)), -1), RuntimeError, "split expects split_size be non-negative")
    ],
)


def _normal_sizes(self, split_sizes, dim=0) -> tuple[Any, int]:
    split_sizes = checked("split_with_sizes", "split_sizes", kind_named("Sizes"), split_sizes)
    if self.ndim == 0:
        raise RuntimeError("split_with_sizes expects at least a 1-dimensional tensor")
    dim = wrap(dim, self.ndim)
    sizes = sizes_of("split_with_sizes", (split_sizes,))
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


view_op(
    "split_with_sizes",
    lambda xp, self, split_sizes, dim=0: _parts(xp, self, split_sizes, dim),
    vjp={
        "self": lambda F, gs, self_shape, split_sizes, dim: _split_back(
            F, gs, self_shape, split_sizes, dim
        )
    },
    outputs="list",
    normalize=_normal_sizes,
    samples=lambda make: [Sample((make((5, 2)), (2, 0, 3))), Sample((make((2, 4)), (1, 3), -1))],
    doc="Parts of `dim` of given sizes, as views.",
    part=lambda index, sizes, dim: (dim, sum(sizes[:index]), sizes[index]),
)


@composite("split", profiled=UNSEEN)
def _split(F, self, split_size, dim: int = 0):
    """Parts of a dimension, as views: of one size (the last may be smaller) or of given sizes."""
    if not isinstance(split_size, (int, Tensor)):  # one of NumPy's ints is refused, as in torch
        sizes = checked("split_with_sizes", "split_sizes", kind_named("Sizes"), split_size)
        return F.split_with_sizes(self, sizes, dim)
    if type(split_size) is not int:
        split_size = checked("split", "split_size", kind_named("int"), split_size)
    return F.split_even(self, split_size, dim)


@function()
def split(tensor: Tensor, split_size_or_sections, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of a dimension, as views: of one size (the last may be smaller) or of given sizes."""
    return _split(tensor, split_size_or_sections, dim)  # type: ignore[no-any-return]


def chunk_size(self, chunks: int, dim: int) -> int:
    """The size of each of `chunks` parts of a dimension, but for the last."""
    if self.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size: int = self.shape[wrap(dim, self.ndim)]
    return (size + chunks - 1) // chunks


@composite("chunk")
def _chunk(F, self, chunks: int, dim: int = 0):
    """At most `chunks` parts of a dimension, of one size but for the last."""
    step = chunk_size(self, chunks, dim)
    if step == 0:
        return F.split_with_sizes(self, (0,) * chunks, dim)
    return F.split_even(self, step, dim)


def _only(name: str, given: tuple[Any, ...]):
    """The one of several arguments that was given: torch's overloads name it differently."""
    found = [each for each in given if each is not None]
    if len(found) != 1:
        raise TypeError(f"{name}() takes one of indices_or_sections, indices and sections")
    return found[0]


@composite("tensor_split")
def _tensor_split(
    F,
    self,
    indices_or_sections=None,
    dim: int = 0,
    *,
    indices=None,
    sections=None,
    tensor_indices_or_sections=None,
):
    """Parts of a dimension, as slices: a number of nearly equal ones, or cut at indices."""
    given = (indices_or_sections, indices, sections, tensor_indices_or_sections)
    cuts = _only("tensor_split", given)
    if self.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got 0 dims")
    dim = wrap(dim, self.ndim)
    size = self.shape[dim]
    if isinstance(cuts, Tensor):
        cuts = cuts.tolist()
    cuts = checked("tensor_split", "indices_or_sections", kind_named("SomeDims"), cuts)
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


def _split_along(name: str, axis: int, least: int, doc: str) -> None:
    @composite(name, doc=f"{doc}, as views: so many equal ones, or cut at indices.")
    def along(F, self, indices_or_sections=None, *, indices=None, sections=None):
        cuts = _only(name, (indices_or_sections, indices, sections))
        if self.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {self.ndim} dimensions!"
            )
        dim = 0 if self.ndim == 1 else axis
        size = self.shape[dim]
        if isinstance(cuts, int) and (cuts == 0 or size % cuts):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {size} is not divisible by the split_size {cuts}!"
            )
        return F.tensor_split(self, cuts, dim)


_split_along("hsplit", 1, 1, "Parts side by side (along dimension 1, of a vector 0)")
_split_along("vsplit", 0, 2, "Parts one below the other (along dimension 0)")
_split_along("dsplit", 2, 3, "Parts one behind the other (along dimension 2)")

view_op(
    "alias",
    lambda xp, self: self[...],
    doc="The same tensor once more, as a view of it.",
    vjp={"self": lambda g: g},
    public=False,
    batch=leading(),
    samples=lambda make: [Sample((make((2, 3)),))],
    symbol="self",
)
