"""Geometries within the memory that a tensor looks into: what as_strided, resize_ and an out= that
grows have in common.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

from ag_visual.arrays.backend import backend_of, of_namespace
from ag_visual.core import saved, view
from ag_visual.core.level import is_batchedtensor, not_batched
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.memory import line_of, memory_of, offset_of, reach, row_major


@dataclass(frozen=True, slots=True, eq=False)
class TensorGeometry:
    """How a tensor lies in its memory: strides and offset in elements.

    memory: a weak reference to the array over all of it. Where that is gone, or another array lies
    at the place (a step of a view that is played on a gradient), only the elements between the
    tensor's first and last one are within reach.
    """

    stride: tuple[int, ...]
    offset: int
    memory: Any

    @classmethod
    def of(cls, tensor: Any) -> TensorGeometry:
        return cls(tensor.stride(), tensor.storage_offset(), weakref.ref(memory_of(tensor)))

    def bytes(self, array: Any) -> tuple[int, ...]:
        """The strides that an array of this place has."""
        return tuple(s * array.dtype.itemsize for s in self.stride)

    def fits(self, tensor: Any) -> bool:
        """Has another tensor this place in as much memory? (What lies around it is alike then.)

        Of slices, which none may leave: has each its strides?
        """
        array, memory = tensor._array, self.memory()
        if not has_strides(array, self.bytes(array)):
            return False
        if is_batchedtensor(tensor) or memory is None:
            return True
        length = line_of(memory).nbytes // memory.itemsize
        alike = line_of(memory_of(tensor)).nbytes // array.itemsize == length
        return bool(tensor.storage_offset() == self.offset and alike)

    def line(self, xp: Any, array: Any, first: int, last: int) -> tuple[Any, int]:
        """A vector over memory that reaches from element `first` to `last`, and where it begins."""
        item = array.dtype.itemsize
        span = reach(array.shape, self.stride)
        strides = self.bytes(array)
        if self.offset <= first and last <= self.offset + span:
            if not has_strides(array, strides):
                array = _copy_into(view.spread(xp, array.shape, array.dtype, strides), array)
            return line_of(array), self.offset
        memory = self.memory()
        pointer = of_namespace(xp).pointer
        if memory is None or pointer(array) - pointer(memory) != self.offset * item:
            raise RuntimeError(
                f"as_strided: elements {first} to {last} of the memory are needed, where only "
                f"{self.offset} to {self.offset + span} are within reach"
            )
        return line_of(memory, array), 0


def has_strides(array: Any, strides: tuple[int, ...], first: int = 0) -> bool:
    """Has an array these strides, where they count? first: of the dimensions from this one on."""
    triples = list(zip(array.shape, array.strides, strides, strict=True))[first:]
    return all(n < 2 or a == b for n, a, b in triples)


def _copy_into(target: Any, source: Any) -> Any:
    target[...] = source
    return target


def geometry(
    name: str, self: Any, size: Any, stride: Any, storage_offset: int | None
) -> tuple[tuple[int, ...], tuple[int, ...], int, TensorGeometry | None]:
    """A geometry that stays within the memory of `self`, and where `self` lies in that."""
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"{name}: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    offset = self.storage_offset() if storage_offset is None else storage_offset
    array = self._array
    item, held = array.itemsize, line_of(memory_of(self)).nbytes
    elements = reach(size, stride)
    needed = (elements + offset) * item if elements else 0
    if offset < 0 or needed > held:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and "
            f"itemsize {item} requiring a storage size of {needed} are out of bounds for storage "
            f"of size {held}"
        )
    plain = self._memory is None or self._memory is array
    if plain and array.flags.c_contiguous and needed <= array.nbytes:
        return size, stride, offset, None
    return size, stride, offset, TensorGeometry.of(self)


def start_at_base(
    self: Any, seen: view.View, args: tuple[Any, ...], *, resized: bool = False
) -> None:
    """Let an as_strided view of a view start at the base, where that reaches as far.

    Where a step in between changes the dtype, it starts at what the last such step made, if it has
    elements that the steps behind that do not see: surely where it was resized.
    """
    first = seen
    while first.parent is not None and first.parent.seen.dtype == self._array.dtype:
        first = first.parent
    if first.parent is not None and not resized and _reaches(_in_memory(seen.seen, self), args):
        return
    origin = seen.base if first.parent is None else _in_memory(first.seen, self)
    if origin._array.dtype != self._array.dtype or memory_of(origin) is not memory_of(self):
        return
    if _reaches(origin, args):
        size, stride, offset, _ = args
        seen.parent, seen.seen = first.parent, origin._array
        seen.args = geometry("as_strided", origin, size, stride, offset)


def _reaches(origin: Any, args: tuple[Any, ...]) -> bool:
    """Is a geometry between a tensor's first and last element?"""
    size, stride, offset, _ = args
    begin = origin.storage_offset()
    end = begin + reach(origin.shape, origin.stride())
    return bool(begin <= offset and offset + reach(size, stride) <= end)


def _in_memory(array: Any, self: Any) -> Any:
    """A tensor of an array that lies in the memory which `self` looks into."""
    made = saved.constant(array)
    made._exchange(array, memory_of(self))
    return made


def resize(tensor: Tensor, shape: tuple[int, ...], offset: int | None = None) -> None:
    """Give a tensor another size, in its memory where that is large enough.

    Elements keep their places in memory, the first one at `offset`. A tensor that needs more memory
    than it has gets new one, with its elements copied; a view cannot. It looks from then on at
    what it has grown, or shrunk, to: so does its gradient.
    """
    if is_batchedtensor(tensor):
        raise not_batched("resize_")
    array = tensor._array
    # What a smaller size left over is still there.
    memory = memory_of(tensor)
    offset = offset_of(tensor) if offset is None else offset
    here = line_of(memory, array)[offset:]
    needed = math.prod(shape)
    if needed <= here.size:
        new, seen = here[:needed].reshape(shape), tensor._view
        if seen is not None:
            tensor._view = _resized(tensor, seen, shape, offset)
        tensor._exchange(new, memory)
        return
    if tensor._view is not None:
        raise RuntimeError(
            f"Trying to resize storage that is not resizable: {list(shape)} needs {needed} "
            f"elements, and the memory that this view looks into has {here.size}."
        )
    larger = backend_of(array).xp.empty((needed,), array.dtype)
    larger[: here.size] = here
    tensor._exchange(larger.reshape(shape))


def _resized(self: Tensor, seen: view.View, shape: tuple[int, ...], offset: int) -> view.View:
    """How a view looks into its base once it has another size, from the same offset on."""
    args = geometry("resize_", self, shape, row_major(shape), offset)
    step = seen.op.table.of("as_strided_from")
    found = view.View(seen.base, seen, step, args, seen.snapshot, seen.meta, self._array)
    found.own, found.made, found.own_tangent = seen.own, seen.made, seen.own_tangent
    start_at_base(self, found, args, resized=True)
    return found
