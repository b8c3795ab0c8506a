"""A naive reference for views, in-place writes and hooks: dense Jacobians carried forward.

Every element of memory has a value and its derivatives by all elements of all leaves. A write
replaces rows, a view is an array of indices. What backward must refuse is known from a list of what
each operation saved. Nothing here is shared with the engine under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy

LEAVES = 4
SIZE = 6
WIDTH = LEAVES * SIZE


@dataclass(eq=False)
class Memory:
    """Values that several tensors may share, and how often they were written."""

    values: Any
    version: int = 0


@dataclass(eq=False)
class Step:
    """One recorded operation: what it saved, and the histories it continues."""

    parents: list[Step]
    saved: list[tuple[Memory, int]]

    def stale(self) -> bool:
        """Has anything that this step or one before it saved been written since?"""
        seen: set[int] = set()
        pending = [self]
        while pending:
            step = pending.pop()
            if id(step) in seen:
                continue
            seen.add(id(step))
            if any(memory.version != version for memory, version in step.saved):
                return True
            pending.extend(step.parents)
        return False


@dataclass(eq=False)
class Track:
    """What autograd knows of one base: derivatives, history, whether it requires grad."""

    jacobian: Any
    requires: bool = False
    leaf: bool = False
    history: Step | None = None

    def parents(self) -> list[Step]:
        return [] if self.history is None else [self.history]


@dataclass(eq=False)
class Reference:
    """A tensor: elements `index` of a memory, with the track of its base."""

    memory: Memory
    track: Track
    index: Any
    view: bool = False
    steps: list[Any] = field(default_factory=list)

    @property
    def values(self) -> Any:
        return self.memory.values[self.index]

    @property
    def jacobian(self) -> Any:
        return self.track.jacobian[self.index]


def fresh(values: Any, jacobian: Any = None, step: Step | None = None) -> Reference:
    """A new base with its own memory."""
    values = numpy.asarray(values, dtype=float)
    rows = numpy.zeros((values.size, WIDTH)) if jacobian is None else jacobian
    track = Track(rows.reshape(values.size, WIDTH), step is not None, history=step)
    index = numpy.arange(values.size).reshape(values.shape)
    return Reference(Memory(values.reshape(-1).copy()), track, index)


def leaf(values: Any, number: int) -> Reference:
    result = fresh(values)
    rows = numpy.arange(result.memory.values.size)
    result.track.jacobian[rows, number * SIZE + rows] = 1
    result.track.requires = result.track.leaf = True
    return result


UNARY = {
    "sin": (numpy.sin, lambda x, y: numpy.cos(x), "input"),
    "tanh": (numpy.tanh, lambda x, y: 1 - y * y, "result"),
    "neg": (numpy.negative, lambda x, y: -numpy.ones_like(x), ""),
    "square": (numpy.square, lambda x, y: 2 * x, "input"),
}


def unary(name: str, x: Reference) -> Reference:
    function, derivative, saves = UNARY[name]
    before = x.values
    after = function(before)
    rows = derivative(before, after)[..., None] * x.jacobian
    result = fresh(after, rows)
    if x.track.requires:
        saved = [(x.memory, x.memory.version)] if saves == "input" else []
        if saves == "result":
            saved = [(result.memory, 0)]
        result.track.requires = True
        result.track.history = Step(x.track.parents(), saved)
    return result


def _combined(name: str, x: Reference, y: Reference) -> tuple[Any, Any]:
    if name == "add":
        return x.values + y.values, x.jacobian + y.jacobian
    a, b = x.values, y.values
    return a * b, b[..., None] * x.jacobian + a[..., None] * y.jacobian


def binary(name: str, x: Reference, y: Reference) -> Reference:
    result = fresh(*_combined(name, x, y))
    if x.track.requires or y.track.requires:
        saved = []
        if name == "mul" and y.track.requires:
            saved.append((x.memory, x.memory.version))
        if name == "mul" and x.track.requires:
            saved.append((y.memory, y.memory.version))
        result.track.requires = True
        result.track.history = Step([*x.track.parents(), *y.track.parents()], saved)
    return result


def _write(x: Reference, values: Any, rows: Any, step: Step | None) -> None:
    x.memory.values[x.index] = values
    x.memory.version += 1
    if step is not None:
        x.track.jacobian = x.track.jacobian.copy()
        x.track.jacobian[x.index] = rows
        x.track.history = step
        x.track.requires = True


def unary_(name: str, x: Reference, record: bool) -> None:
    function, derivative, saves = UNARY[name]
    before = x.values
    after = function(before)
    rows = derivative(before, after)[..., None] * x.jacobian
    recorded = record and x.track.requires
    step = Step(x.track.parents(), []) if recorded else None
    _write(x, after, rows, step)
    if step is not None and saves == "result":
        step.saved.append((x.memory, x.memory.version))


def binary_(name: str, x: Reference, y: Reference, record: bool) -> None:
    values, rows = _combined(name, x, y)
    step = None
    if record and (x.track.requires or y.track.requires):
        saved = [(y.memory, y.memory.version)] if name == "mul" and x.track.requires else []
        step = Step([*x.track.parents(), *y.track.parents()], saved)
    _write(x, values, rows, step)


def overlap(x: Reference, y: Reference) -> bool:
    """Are both blocks of one memory without gaps that share elements in another order?"""
    if x.memory is not y.memory or numpy.array_equal(x.index, y.index):
        return False
    blocks = [numpy.sort(each.index, axis=None) for each in (x, y)]
    dense = all(block[-1] - block[0] == block.size - 1 for block in blocks)
    return dense and bool(numpy.intersect1d(*blocks).size)


def view(x: Reference, index: Any) -> Reference:
    return Reference(x.memory, x.track, index, view=True)


def detached(x: Reference) -> Reference:
    """The same memory and version, outside of the graph."""
    size = x.memory.values.size
    return Reference(x.memory, Track(numpy.zeros((size, WIDTH))), x.index)
