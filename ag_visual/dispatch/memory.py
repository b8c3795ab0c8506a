"""The memory that tensors look into, as vectors: for as_strided, set_, resize_ and out=; and how
results lie in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.op_node import ListItem
from ag_visual.dispatch.record import CHANNELS


def reach(size: Sequence[int], stride: Sequence[int]) -> int:
    """How many elements of memory a geometry touches, from its first one on."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def row_major(size: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of row-major memory."""
    strides, step = [], 1
    for n in reversed(size):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def memory_of(tensor: Tensor) -> Any:
    """An array over all the memory that a tensor looks into."""
    return tensor._array if tensor._memory is None else tensor._memory


def line_of(memory: Any, like: Any = None) -> Any:
    """All of the memory that an array spans as a vector, of the dtype of a part of it, `like`."""
    backend = backend_of(memory)
    item = memory.dtype.itemsize
    length = 1 + sum((n - 1) * s for n, s in zip(memory.shape, memory.strides, strict=True)) // item
    line = backend.as_strided(memory, (length if memory.size else 0,), (item,))
    if like is None or like.dtype == line.dtype:
        return line
    # Bytes before the first whole element and behind the last one belong to none.
    item = like.dtype.itemsize
    before = (backend.pointer(like) - backend.pointer(memory)) % item
    count = (line.nbytes - before) // item
    return line.view("u1")[before : before + count * item].view(like.dtype)


def offset_of(tensor: Tensor) -> int:
    """The storage offset, that of a view without elements included.

    NumPy lets an empty part of a dimension begin where the dimension does: what is before the part
    is told by the steps of the view.
    """
    offset = tensor.storage_offset()
    if tensor._array.size or tensor._view is None:
        return offset
    for step in tensor._view.chain():
        declared = step.op.op if isinstance(step.op, ListItem) else step.op
        part = getattr(declared, "part", None)
        if part is None:
            continue
        dim, before, count = part(getattr(step.op, "index", 0), *step.args)
        if before and not count:
            offset += before * step.seen.strides[dim] // tensor._array.itemsize
    return offset


def channels_last(array: Any) -> bool:
    """Whether torch takes strides of four or five dimensions for those of channels that come last.

    Where dimensions of size 1 leave that open, it goes by their strides alone, as here.
    """
    if not array.strides[1]:
        return False
    least = 0
    for dim in (1, *range(array.ndim - 1, 1, -1), 0):
        size, stride = array.shape[dim], array.strides[dim]
        if not size or stride < least or (dim == 0 and least == array.strides[1]):
            return False
        least = stride * size
    return True


def settled(layout: str, xp: Any, array: Any) -> Any:
    """A result in the layout that its op declares."""
    if array.flags.c_contiguous:
        return array
    if layout == CHANNELS and array.ndim in (4, 5):
        order = (0, *range(2, array.ndim), 1)
        if array.transpose(order).flags.c_contiguous:
            return array
    return xp.ascontiguousarray(array)
