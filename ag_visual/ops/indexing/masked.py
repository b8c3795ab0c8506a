"""Reading and writing where a mask is true: masked_fill, masked_select, masked_scatter."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.dtype_errors import in_macros
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.memory_overlap import WARNED
from ag_visual.dispatch.overflow import check_overflow
from ag_visual.dispatch.record import ELEMENTWISE, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, ops
from ag_visual.dispatch.vmap import Batch, elementwise
from ag_visual.ops.tensor.copy_fill import by_kind, number_for, zero_dim


def _check_mask(self, mask) -> None:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{in_macros(dtypes.of_array(mask))}"
        )
    broadcast(self.shape, mask.shape)


def _normal_masked(self, mask, value) -> tuple[Any, ...]:
    _check_mask(self, mask)
    return (number_for(value, self),)


def _normal_masked_tensor(self, mask, value) -> tuple[()]:
    _check_mask(self, mask)
    zero_dim("masked_fill_", value)
    if value.dtype.kind == "c" and self.dtype.kind != "c":
        check_overflow(value.item(), dtypes.of_array(self))
    return ()


def _real(value, self):
    """A value without its imaginary part where that has no place, and is zero."""
    kind = getattr(value, "dtype", self.dtype).kind
    return value.real if kind == "c" and self.dtype.kind not in "cb" else value


def _masked(xp, self, mask, value):
    return xp.where(mask, xp.asarray(_real(value, self), dtype=self.dtype), self)


def _fill_slices(batch: Batch):
    if "value" not in batch:
        return elementwise(batch)
    rank = max(batch.rank("self"), batch.rank("mask"))
    given = (batch.padded(n, rank) for n in ("mask", "value", "self"))
    return batch.F.where(*given)


def _mask_into(xp, self, mask, value) -> None:
    if mask.shape != self.shape:
        broadcast_shape = broadcast(self.shape, mask.shape)
        if broadcast_shape != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(broadcast_shape)}"
            )
        mask = xp.broadcast_to(mask, self.shape)
    self[mask] = _real(value, self)


def _mask_samples(value):
    def samples(make):
        x = make((2, 3))
        for mask in (x > 0, numpy.array([True, False, True]), numpy.array(False)):
            yield Sample((x, mask, make(()) if value is None else value))

    return samples


def _mask_errors(make):
    x = make((2, 3))
    yield ErrorSample((x, x, 1.0), RuntimeError, "masked_fill_ only supports boolean masks")
    yield ErrorSample((x, numpy.array([True, False]), 1.0), RuntimeError, "must match the size of")


_FILL: dict[str, Any] = {
    "layout": ROWS,
    "inplace": _mask_into,
    "vmap_inplace": "inplace arithmetic",
    "repeated": WARNED,
    "public": False,
    "public_name": "masked_fill",
}
structural(
    "masked_fill_number",
    _masked,
    vjp={"self": lambda F, g, mask: F.masked_fill_number(g, mask, 0)},
    jvp=ELEMENTWISE,
    inputs=("self", "mask"),
    normalize=_normal_masked,
    node="MaskedFillBackward0",
    batch=elementwise,
    samples=_mask_samples(1.5),
    errors=_mask_errors,
    **_FILL,
)
structural(
    "masked_fill_tensor",
    _masked,
    vjp={
        "self": lambda F, g, mask: F.masked_fill_number(g, mask, 0),
        "value": lambda F, g, mask: F.sum(F.where(mask, g, F.zeros_of(g, ()))),
    },
    inputs=("self", "mask", "value"),
    may_alias=("value",),
    normalize=_normal_masked_tensor,
    node="MaskedFillBackward1",
    batch=_fill_slices,
    samples=_mask_samples(None),
    **_FILL,
)


@composite("masked_fill")
def _masked_fill(F, self, mask, value):
    """`self` with one value (a number or a 0-d tensor) where the mask is true."""
    kind = by_kind(value, "masked_fill_tensor", "masked_fill_number")
    return getattr(F, kind)(self, mask, value)


@method("masked_fill_")
def _masked_fill_(self: Tensor, mask: Tensor, value) -> Tensor:
    """`masked_fill`, written into this tensor."""
    record = ops[by_kind(value, "masked_fill_tensor", "masked_fill_number")]
    return record.write(self, mask, value)  # type: ignore[no-any-return]


def _scattered_slices(batch: Batch):
    """The k-th true place of each slice's mask gets the k-th element of its source."""
    F, size = batch.F, batch.size
    shape = broadcast(batch.shape("self"), batch.shape("mask"))
    x, mask = (F.expand(batch.padded(n, len(shape)), (size, *shape)) for n in ("self", "mask"))
    source = F.reshape(batch.full("source"), (size, -1))
    flat = F.reshape(mask, (size, -1))
    order = F.clamp_min(F.cumsum(F.cast(flat, numpy.dtype(numpy.int64)), 1) - 1, 0)
    order = F.clamp_max(order, source.shape[1] - 1)
    found = F.reshape(F.gather(source, 1, order), (size, *shape))
    return F.where(mask, found, x)


def _gathered_slices(batch: Batch):
    F, size = batch.F, batch.size
    shape = batch.shape("self")
    mask = F.expand(batch.padded("mask", len(shape)), (size, *shape))
    flat = F.reshape(mask, (size, -1))
    count = math.prod(batch["sizes"])
    order = F.cumsum(F.cast(flat, numpy.dtype(numpy.int64)), 1) - 1
    # What is not wanted goes to one place behind the others.
    order = F.where(flat, order, count)
    g = F.reshape(batch.full("self"), (size, -1))
    found = F.scatter_add(F.zeros_of(g, (size, count + 1)), 1, order, g)
    return F.reshape(F.slice(found, 1, 0, count, 1), (size, *batch["sizes"]))


def _common_shape(*arrays) -> tuple[int, ...]:
    return broadcast(*(a.shape for a in arrays))


def _masked_select(xp, self, mask):
    shape = _common_shape(self, mask)
    return xp.broadcast_to(self, shape)[xp.broadcast_to(mask, shape)]


def _normal_mask_only(self, mask) -> tuple[()]:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_select: expected BoolTensor for mask, got {dtypes.of_array(mask)}"
        )
    return ()


def _masked_select_back(F, g, self_shape, mask):
    shape = broadcast(tuple(self_shape), tuple(mask.shape))
    return F.masked_scatter(F.zeros_of(g, shape), mask, g)


def _selected_slices(batch: Batch):
    """Under one mask for all slices each gives as many elements."""
    if "mask" in batch:
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
            "support this because for each batch this would return a differently shaped Tensor. "
            "Use torch.where, or multiply with the mask."
        )
    F, size = batch.F, batch.size
    shape = broadcast(batch.shape("self"), tuple(batch["mask"].shape))
    mask = F.expand(batch["mask"], shape)
    x = F.expand(batch.padded("self", len(shape)), (size, *shape))
    count = F.masked_select(mask, mask).shape[0]
    return F.reshape(F.masked_select(x, F.expand(mask, (size, *shape))), (size, count))


def _only_mask_samples(make):
    x = make((2, 3))
    yield Sample((x, x > 0))
    yield Sample((x, numpy.array([True, False, True])))
    yield Sample((make((3,)), x > 0))


structural(
    "masked_select",
    _masked_select,
    vjp={"self": _masked_select_back},
    inputs=("self", "mask"),
    normalize=_normal_mask_only,
    also_saves=("self",),
    batch=_selected_slices,
    samples=_only_mask_samples,
    doc="The elements where the mask is true, as a vector.",
    out="no_overlap",
)


def _scatter_masked(xp, self, mask, source):
    shape = _common_shape(self, mask)
    result = xp.broadcast_to(self, shape).copy()
    _scatter_masked_into(xp, result, mask, source)
    return result


def _scatter_masked_into(xp, self, mask, source) -> None:
    mask = xp.broadcast_to(mask, self.shape)
    count = int(mask.sum())
    if count > source.size:
        raise RuntimeError(
            f"Number of elements of source < number of ones in mask: {source.size} < {count}"
        )
    values = source.reshape(-1)[:count]
    self[mask] = values.copy() if xp.may_share_memory(self, values) else values


def _normal_masked_scatter(self, mask, source) -> tuple[()]:
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


def _masked_scatter_samples(make):
    x = make((2, 3))
    yield Sample((x, x > 0, make((7,))))
    yield Sample((x, numpy.array([True, False, True]), make((2, 2))))


structural(
    "masked_scatter",
    _scatter_masked,
    vjp={
        "self": lambda F, g, mask: F.masked_fill_number(g, mask, 0),
        "source": lambda F, g, mask, source_shape: F.masked_scatter_backward(g, mask, source_shape),
    },
    inputs=("self", "mask", "source"),
    may_alias=("source",),
    normalize=_normal_masked_scatter,
    inplace=_scatter_masked_into,
    batch=_scattered_slices,
    samples=_masked_scatter_samples,
    doc="`self` with elements of `source`, in order, where the mask is true.",
)


def _masked_scatter_backward(xp, self, mask, sizes):
    found = self[xp.broadcast_to(mask, self.shape)]
    result = xp.zeros((math.prod(sizes),), dtype=self.dtype)
    result[: found.size] = found
    return result.reshape(sizes)


structural(
    "masked_scatter_backward",
    _masked_scatter_backward,
    vjp={
        "self": lambda F, g, mask, self_shape: F.masked_scatter(F.zeros_of(g, self_shape), mask, g)
    },
    inputs=("self", "mask"),
    public=False,
    batch=_gathered_slices,
    samples=lambda make: [Sample((make((3,)), numpy.array([True, False, True]), (4,)))],
)
