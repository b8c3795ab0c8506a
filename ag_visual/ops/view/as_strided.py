"""as_strided: any geometry within a storage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ag_visual.arrays.backend import of_namespace
from ag_visual.core.level import Batched, Wrapper, is_batchedtensor, wrap
from ag_visual.core.view import distinct
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.geometry import TensorGeometry, geometry, has_strides, start_at_base
from ag_visual.dispatch.levels import call_below
from ag_visual.dispatch.memory import reach, row_major
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.view.slice import replacer


def _strides(tensor) -> tuple[int, ...]:
    array = tensor._array
    return tuple(s // array.itemsize for s in array.strides)


def _strided_slices(batch: Batch):
    """The slices lie one behind the other."""
    if batch.values.get("input_geometry") is not None:
        return _placed_slices(batch)
    size, stride = (batch.size, *batch["size"]), (math.prod(batch.shape("self")), *batch["stride"])
    whole = {n: batch.F.contiguous(batch.full(n)) for n in batch.tensors}
    return batch.run(**whole, size=size, stride=stride)


def _placed_slices(batch: Batch):
    """A view of slices that lie as input_geometry says; else each is laid so, and read there."""
    F, count, shape, input_geometry = (
        batch.F,
        batch.size,
        batch.shape("self"),
        batch["input_geometry"],
    )
    size, stride, offset = (
        batch["size"],
        batch["stride"],
        input_geometry.offset - batch["storage_offset"],
    )
    whole = batch.full("self")
    if F.traced and has_strides(whole._array, (0, *input_geometry.bytes(whole._array)), first=1):
        return _strided_below(F, whole, (count, *size), (_strides(whole)[0], *stride), -offset)
    length = _span(size, stride, shape, input_geometry.stride, offset)
    shape, own = (count, *shape), (length, *input_geometry.stride)
    slices = _once(F, whole, shape, own)
    return F.as_strided_backward(slices, (count, *size), shape, own, offset, (length, *stride))


def _strided_slices_back(batch: Batch):
    count, to = batch.size, batch["input_sizes"]
    size, stride, offset = batch["size"], batch["stride"], batch["storage_offset"]
    own = row_major(to) if batch["input_stride"] is None else batch["input_stride"]
    length = _span(to, own, size, stride, offset)
    return batch.run(
        input_sizes=(count, *to),
        size=(count, *size),
        stride=(length, *stride),
        input_stride=(length, *own),
    )


def _span(to, to_stride, size, stride, storage_offset: int) -> int:
    """How many elements of memory two geometries touch, the second so far behind the first."""
    before = max(0, -storage_offset)
    return max(before + reach(to, to_stride), before + storage_offset + reach(size, stride))


def _strided(
    xp, self, size, stride, storage_offset: int, input_geometry: TensorGeometry | None = None
):
    item = self.dtype.itemsize
    if input_geometry is None:
        line = xp.ascontiguousarray(self).reshape(-1)
    else:
        last = storage_offset + reach(size, stride)
        line, begin = input_geometry.line(xp, self, storage_offset, last)
        storage_offset -= begin
    return of_namespace(xp).as_strided(line[storage_offset:], size, tuple(s * item for s in stride))


def _positions(xp, size: Sequence[int], stride: Sequence[int], storage_offset: int):
    at = xp.full((1,) * len(size), storage_offset)
    for i, (n, s) in enumerate(zip(size, stride, strict=True)):
        at = at + (xp.arange(n) * s).reshape((n,) + (1,) * (len(size) - i - 1))
    return at


def _once(F, g, shape, stride):
    """`g`, where several elements of a geometry are one place each with its share of that."""
    if distinct(shape, stride):
        return g
    ones = F.zeros_of(g, shape) + 1
    return g / F.as_strided_backward(ones, shape, shape, stride, 0, stride)


def _strided_back(
    F, g, self_shape, size, stride, storage_offset: int, input_geometry: TensorGeometry | None
):
    if input_geometry is None:
        return F.as_strided_backward(g, self_shape, size, stride, storage_offset)
    to, offset = input_geometry.stride, storage_offset - input_geometry.offset
    found = F.as_strided_backward(g, self_shape, size, stride, offset, to)
    return _once(F, found, self_shape, to)


def strided_forward(
    F, t_self, self_shape, size, stride, storage_offset: int, input_geometry: TensorGeometry | None
):
    if input_geometry is None:
        # Of what lies in memory as the base does the view is one, too: who writes it writes both.
        return F.as_strided_from(F.contiguous(t_self), size, stride, storage_offset)
    if F.traced and input_geometry.fits(t_self):
        begin = storage_offset - input_geometry.offset
        if not is_batchedtensor(t_self) and input_geometry.memory() is not None:
            return F.as_strided(t_self, size, stride, storage_offset)
        _check_within(self_shape, input_geometry.stride, size, stride, begin, input_geometry.offset)
        return _strided_below(F, t_self, size, stride, begin)
    t_self = _once(F, t_self, self_shape, input_geometry.stride)
    offset = input_geometry.offset - storage_offset
    return F.as_strided_backward(t_self, size, self_shape, input_geometry.stride, offset, stride)


def _strided_samples(make):
    yield Sample((make((3, 4)), (2, 2), (1, 2), 1))
    yield Sample((make((6,)), (3, 3), (1, 1), 0))
    # A transposed matrix that begins at the fifth element of memory.
    input_geometry = TensorGeometry((1, 3), 4, lambda: None)
    yield Sample((make((2, 3)).T, (2, 2), (1, 2), 5, input_geometry), oracle=False)


op(
    "as_strided_from",
    _strided,
    vjp={"self": _strided_back},
    jvp={"self": strided_forward},
    holomorphic=False,
    view=True,
    public=False,
    public_name="as_strided",
    node="AsStridedBackward0",
    also_saves=("size", "stride", "storage_offset"),
    not_exposed=("input_geometry",),
    batch=_strided_slices,
    oracle=lambda torch, self, size, stride, offset, _: self.as_strided(size, stride, offset),
    samples=_strided_samples,
)


def _as_strided_backward(
    xp, self, input_sizes, size, stride, storage_offset: int, input_stride=None
):
    """Elements added up where one geometry puts them in memory, read where another one does.

    storage_offset: of the first geometry, counted from the start of the other. The result has the
    other geometry, but where that puts several elements in one place, or none comes from here.
    """
    if 0 in size:
        return xp.zeros(input_sizes, dtype=self.dtype)
    to = row_major(input_sizes) if input_stride is None else input_stride
    before = max(0, -storage_offset)
    line = xp.zeros((_span(input_sizes, to, size, stride, storage_offset),), dtype=self.dtype)
    at = _positions(xp, size, stride, storage_offset + before)
    backend = of_namespace(xp)
    backend.add_at(line, at.reshape(-1), xp.ascontiguousarray(self).reshape(-1))
    strides = tuple(s * self.dtype.itemsize for s in to)
    result = backend.as_strided(line[before:], input_sizes, strides)
    return result if distinct(input_sizes, to) else xp.ascontiguousarray(result)


def _backward_of_backward(F, g, input_sizes, size, stride, storage_offset: int, input_stride):
    to = row_major(input_sizes) if input_stride is None else input_stride
    return F.as_strided_backward(g, size, input_sizes, to, -storage_offset, stride)


structural(
    "as_strided_backward",
    _as_strided_backward,
    vjp={"self": _backward_of_backward},
    public=False,
    batch=_strided_slices_back,
    samples=lambda make: [
        Sample((make((3, 3)), (6,), (3, 3), (1, 1), 0)),
        Sample((make((2, 2)), (3, 2), (2, 2), (1, 2), -1, (1, 3))),
    ],
)


def _check_within(shape, own, size, stride, offset: int, begin: int) -> None:
    """Refuse a geometry that leaves the slice, `offset` elements behind its first one."""
    held, needed = reach(shape, own), reach(size, stride) + offset
    if offset < 0 or needed > held:
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset + begin}) can "
            "access memory outside of `tensor`. `result` can access some memory in range "
            f"[{offset}, {needed}], but `tensor` can only access some memory in range [0, {held}]. "
            "This is not supported inside of vmap: a slice ends where the next one may begin."
        )


def _of_slices(
    F: Any, self: Any, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None
) -> Any:
    """The same geometry in the memory of each slice, which it may not leave."""
    bottom = self
    while isinstance(bottom, Wrapper):
        bottom = bottom.value
    begin = bottom.storage_offset()
    offset = 0 if storage_offset is None else storage_offset - begin
    own = self.stride()
    _check_within(self._array.shape, own, size, stride, offset, begin)
    return _strided_below(F, self, size, stride, offset)


def _strided_below(F: Any, x: Any, size: Any, stride: Any, offset: int) -> Any:
    """A view, `offset` elements behind the first of x."""
    if type(x) is not Batched:
        if is_batchedtensor(x):
            return F.as_strided_from(
                x, size, stride, offset, TensorGeometry(x.stride(), 0, lambda: None)
            )
        return F.as_strided(x, size, stride, x.storage_offset() + offset)
    value = x.value
    stride = (_strides(value)[0], *stride)
    found = call_below(x.level, _strided_below, F, value, (x.level.size, *size), stride, offset)
    return wrap(Batched, x.level, found)


@composite("as_strided")
def _as_strided(F, self, size, stride, storage_offset: int | None = None):
    """A view with any size, stride and offset (in elements) into the memory of `self`.

    The offset counts from the start of the memory that `self` looks into. Raises RuntimeError for
    a geometry that leaves it.
    """
    if is_batchedtensor(self):
        return _of_slices(F, self, tuple(size), tuple(stride), storage_offset)
    args = geometry("as_strided", self, size, stride, storage_offset)
    result = F.as_strided_from(self, *args)
    if result._view is not None and result._view.parent is not None:
        start_at_base(self, result._view, args)
    return result


# One slice replaced -----------------------------------------------------------------------------


_on_strides = replacer("as_strided_from", order="C")


def _in_memory(self, src, size, stride, storage_offset):
    """A geometry within row-major memory of self's own, as the result has it."""
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    offset = storage_offset or 0
    if offset < 0 or min(stride, default=0) < 0 or reach(size, stride) + offset > self.size:
        raise RuntimeError(
            f"as_strided_scatter: sizes {list(size)}, strides {list(stride)} and storage offset "
            f"{offset} are out of bounds for storage of {self.size} elements"
        )
    return size, stride, offset


def _scattered(np, self, src, size, stride, offset):
    line = self.reshape(-1).copy()
    for at in np.ndindex(*size):
        line[(offset or 0) + sum(i * s for i, s in zip(at, stride, strict=True))] = src[at]
    return line.reshape(self.shape)


structural(
    "as_strided_scatter",
    lambda xp, self, src, size, stride, storage_offset=None: _on_strides(
        xp, self, src, size, stride, storage_offset
    ),
    vjp={
        "self": lambda F, g, src_shape, size, stride, storage_offset: F.as_strided_scatter(
            g, F.zeros_of(g, src_shape), size, stride, storage_offset
        ),
        "src": lambda F, g, size, stride, storage_offset: F.as_strided_from(
            F.clone(g, "C"), size, stride, storage_offset
        ),
    },
    batch=_strided_slices,
    normalize=_in_memory,
    samples=lambda make: [
        Sample((make((3, 4)), make((2, 2)), (2, 2), (1, 2), 1)),
        Sample((make((6,)), make((3,)), (3,), (2,))),
    ],
    errors=lambda make: [
        ErrorSample(
            (make((3,)), make((4,)), (4,), (1,)), RuntimeError, "out of bounds for storage"
        ),
        ErrorSample(
            (make((3,)), make((4,)), (2,), (1,)), RuntimeError, "expected src to have a size"
        ),
    ],
    oracle=False,  # torch's gradient of self is right where it should be zero, and zero elsewhere
    reference=_scattered,
    doc="A row-major copy of `self` with `src` at the elements that "
    "`as_strided(size, stride, storage_offset)` sees.",
)
