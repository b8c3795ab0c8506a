"""Dual tensors of forward mode: a tensor with its tangent, at a level of forward mode.

The tangent lies in the slot `_dual` of the tensor, whose type stays what it was: an in-place op
makes a plain tensor, or a Parameter, dual. A level empties the slots of its duals when it closes.
"""

from __future__ import annotations

import weakref
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.core import modes, saved
from ag_visual.core.view import distinct, spread
from ag_visual.events import instrument
from ag_visual.events.live import whole
from ag_visual.events.node_record import sequence

Tensor = Any  # what prints tensors imports this file: it cannot import theirs


shown: dict[int, tuple[weakref.ref[Any], ForwardLevel, Tensor]] = {}
"""While somebody records: by the id of an array that a level of transforms has wrapped, the array
and the tangent of the wrapper. Nodes below such a level have saved the array alone."""


class ForwardLevel:
    """One level of forward mode, and the tensors that have a tangent at it.

    number: torch's id of the level, which its messages name. range: what observers know it by.
    since: the number of no node, below those of nodes made while it is open (0: nobody records).
    """

    __slots__ = ("_duals", "number", "open", "since", "range")

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.open = True
        self.range = 0
        self.since = 0 if instrument.sink is None else next(sequence)
        self._duals: list[weakref.ref[Tensor]] = []
        modes.count_duals(1, number == 0)

    def close(self) -> None:
        """Take the tangents of this level away."""
        if not self.open:
            return
        if self.since:
            if instrument.losing_tangents is not None:
                instrument.losing_tangents(self.since)
            for key in [key for key, entry in shown.items() if entry[1] is self]:
                shown.pop(key, None)
        self.open = False
        modes.count_duals(-1, self.number == 0)
        for ref in self._duals:
            tensor = ref()
            if tensor is not None and getattr(tensor, "_dual", (None,))[0] is self:
                del tensor._dual
        self._duals.clear()

    def give(self, tensor: Tensor, tangent: Tensor) -> None:
        """Make a tensor dual."""
        tensor._dual = (self, tangent)
        self._duals.append(weakref.ref(tensor))
        if self.since and hasattr(tensor, "level"):
            array = whole(tensor._array)
            shown[id(array)] = weakref.ref(array), self, tangent
        if len(self._duals) > 64 and not len(self._duals) & 1023:
            self._duals = [ref for ref in self._duals if ref() is not None]


def give_own_tangents(tensor: Tensor) -> None:
    """Let a view have tangents own_tangent from those of what it looks into."""
    if tensor._view is not None:
        tensor._view.own_tangent = weakref.ref(tensor)


def origin(tensor: Tensor) -> tuple[Tensor | None, list[Any]]:
    """The tensor whose tangent a view's is a view of, and the steps from it.

    None where it is gone.
    """
    view = tensor._view
    steps: list[Any] = []
    if view is None:
        return tensor, steps
    base = view.base
    while view is not None:
        if view.own_tangent is not None:
            base = view.own_tangent()
            break
        steps.append((view.op, view.args))
        view = view.parent
    return base, steps[::-1]


def dual_of(tensor: Tensor) -> tuple[ForwardLevel, Tensor] | None:
    """The level and the tangent of a tensor, None where it has none.

    A view of a base that has become dual since has that view of its tangent.
    """
    found = getattr(tensor, "_dual", None)
    if found is not None:
        return found if found[0].open else None
    if tensor._view is None:
        return None
    base, steps = origin(tensor)
    known = None if base is None else getattr(base, "_dual", None)
    if known is None or not known[0].open:
        return None
    level, tangent = known
    if tensor._array.dtype.kind not in "fcV" or not all(_follows(op) for op, _ in steps):
        return None
    tangent = modes.without_tangents(_replayed, tangent, steps)
    level.give(tensor, tangent)
    return level, tangent


def _follows(op: Any) -> bool:
    """Whether the step of a view is a linear one: not where bits are taken for other numbers."""
    return bool(getattr(op, "op", op).rules)


def _replayed(tangent: Tensor, steps: list[Any]) -> Tensor:
    for op, args in steps:
        tangent = op.replay(tangent, args)
    return tangent


# How a tangent lies in memory ---------------------------------------------------------------------


def same_layout(tensor: Tensor, tangent: Tensor) -> bool:
    """Whether a tangent lies in memory as its tensor does: all views of both are alike then."""
    a, b = tensor._array, tangent._array
    if tensor._memory is None and tangent._memory is None:
        return same_strides(a, b)
    if not a.size:
        return True
    return same_strides(a, b) and _placed(tensor) == _placed(tangent)


def same_strides(a: Any, b: Any) -> bool:
    """Whether two arrays of one shape have the same strides, counted in elements."""
    if a.strides == b.strides and a.itemsize == b.itemsize:
        return True
    m, n = a.itemsize, b.itemsize
    return all(
        size < 2 or s // m == t // n
        for size, s, t in zip(a.shape, a.strides, b.strides, strict=True)
    )


def _placed(tensor: Tensor) -> tuple[int, int]:
    """Where it begins in its memory, and the length of that, in elements."""
    return tensor.storage_offset(), _length(tensor)


def _length(tensor: Tensor) -> int:
    """How many elements its memory has, the gaps of a base that is not dense included."""
    memory = tensor._array if tensor._memory is None else tensor._memory
    if not memory.size:
        return 0
    steps = sum((n - 1) * s for n, s in zip(memory.shape, memory.strides, strict=True))
    return int((steps + memory.itemsize) // tensor._array.itemsize)


def blank_like(tensor: Tensor, dtype: Any) -> Tensor:
    """Zeros of a dtype that lie in memory as a tensor does."""
    array = tensor._array
    backend = backend_of(array)
    strides = tuple(stride // array.itemsize * dtype.itemsize for stride in array.strides)
    if tensor._memory is None and distinct(array.shape, strides, dtype.itemsize):
        plain: Tensor = saved.constant(spread(backend.xp, array.shape, dtype, strides))
        return plain
    whole = backend.xp.zeros((_length(tensor),), dtype)
    start = whole[tensor.storage_offset() :] if array.size else whole
    result: Tensor = saved.constant(backend.as_strided(start, array.shape, strides))
    result._memory = whole
    return result


def laid_as(tensor: Tensor, tangent: Tensor) -> Tensor:
    """A tangent that lies in memory as its tensor does: itself, or a copy."""
    if hasattr(tensor, "level"):  # of a transform: its memory is below
        return tangent if same_strides(tensor._array, tangent._array) else tangent.clone()
    if same_layout(tensor, tangent):
        return tangent
    result: Tensor = blank_like(tensor, tangent._array.dtype).copy_(tangent)
    return result
