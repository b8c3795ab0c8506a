"""A naive reference for views, in-place writes and hooks: dense Jacobians carried forward.

Every element of memory has a value and its derivatives by all elements of all leaves. A write
replaces rows, a view is an array of indices. What backward must refuse is known from a list of what
each operation saved, what a write must refuse from how each view was made. Nothing here is shared
with the engine under test.
"""

from __future__ import annotations

from dataclasses import dataclass
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


DEFAULT, NO_GRAD, INFERENCE, SEVERAL, FUNCTION = "", "no_grad", "inference", "several", "function"
"""How a view was made: anything but the first forbids recorded writes."""


@dataclass(eq=False)
class Reference:
    """A tensor: elements `index` of a memory, with the track of its base.

    A view also knows how it was made, at which version its history was last right, whether it has
    a history of its own, and whether gradients flow on to its base.
    """

    memory: Memory
    track: Track
    index: Any
    view: bool = False
    made: str = DEFAULT
    right: int = 0
    node: bool = False
    flows: bool = True

    @property
    def values(self) -> Any:
        return self.memory.values[self.index]

    @property
    def jacobian(self) -> Any:
        rows = self.track.jacobian[self.index]
        return rows if self.flows else 0 * rows

    def parents(self) -> list[Step]:
        return self.track.parents() if self.flows else []

    def behind(self) -> bool:
        """Must the history be regenerated, because the memory of this view was written since?"""
        return (
            self.view and self.right != self.memory.version and (self.node or self.track.requires)
        )

    def broken(self) -> bool:
        """Is its history behind, and must not be regenerated?"""
        return self.made != DEFAULT and self.behind()

    def read(self) -> None:
        """Somebody asks for its history."""
        if self.behind():
            self.right, self.node, self.flows = self.memory.version, True, True

    def rootless(self) -> bool:
        """Does it require grad, as its base does, but is no part of the graph?"""
        return self.view and not self.node and self.track.requires

    def wants(self) -> bool:
        """Is there an edge for its gradient, so that what a rule asks for is saved?"""
        return self.track.requires and not self.rootless()


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
        if not x.wants():
            saved = []
        result.track.requires = True
        result.track.history = Step(x.parents(), saved)
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
        if name == "mul" and y.wants():
            saved.append((x.memory, x.memory.version))
        if name == "mul" and x.wants():
            saved.append((y.memory, y.memory.version))
        result.track.requires = True
        result.track.history = Step([*x.parents(), *y.parents()], saved)
    return result


def _write(x: Reference, values: Any, rows: Any, step: Step | None) -> None:
    x.memory.values[x.index] = values
    x.memory.version += 1
    if step is not None:
        x.track.jacobian = x.track.jacobian.copy()
        x.track.jacobian[x.index] = rows
        x.track.history = step
        x.track.requires = True
        x.right, x.node, x.flows = x.memory.version, True, True


def unary_(name: str, x: Reference, record: bool) -> None:
    function, derivative, saves = UNARY[name]
    before = x.values
    after = function(before)
    rows = derivative(before, after)[..., None] * x.jacobian
    recorded = record and x.track.requires
    step = Step(x.parents(), []) if recorded else None
    _write(x, after, rows, step)
    if step is not None and saves == "result":
        step.saved.append((x.memory, x.memory.version))


def binary_(name: str, x: Reference, y: Reference, record: bool) -> None:
    values, rows = _combined(name, x, y)
    step = None
    if record and (x.track.requires or y.track.requires):
        saved = [(y.memory, y.memory.version)] if name == "mul" and x.wants() else []
        step = Step([*x.parents(), *y.parents()], saved)
    _write(x, values, rows, step)


def overlap(x: Reference, y: Reference) -> bool:
    """Are both blocks of one memory without gaps that share elements in another order?"""
    if x.memory is not y.memory or numpy.array_equal(x.index, y.index):
        return False
    blocks = [numpy.sort(each.index, axis=None) for each in (x, y)]
    dense = all(block[-1] - block[0] == block.size - 1 for block in blocks)
    return dense and bool(numpy.intersect1d(*blocks).size)


def view(x: Reference, index: Any, made: str = DEFAULT) -> Reference:
    """A view of a view was made as that one, too, unless this way is remarkable itself."""
    recorded = made not in (NO_GRAD, INFERENCE)
    if x.made == INFERENCE:
        made = INFERENCE
    return Reference(
        x.memory,
        x.track,
        index,
        view=True,
        made=made or x.made,
        right=x.memory.version,
        node=recorded and x.track.requires,
        flows=recorded and x.flows and not x.rootless(),
    )


def returned(x: Reference, index: Any, made: str) -> Reference:
    """A view that a custom Function returned: its history is the call, whatever x was."""
    flows = x.flows and not x.rootless()
    version = x.memory.version
    return Reference(x.memory, x.track, index, True, made, version, made == FUNCTION, flows)


def refusal(x: Reference, others: list[Reference], record: bool) -> str:
    """What a write of x is refused with, as a pattern; empty where it is allowed."""
    operands = [x, *others]
    if record and any(each.track.requires for each in operands):
        if x.made != DEFAULT:
            return "is being modified inplace"
        if x.track.leaf:
            return "a (view of a )?leaf Variable that requires grad is being used"
        if any(each.broken() for each in operands):
            return "its base or another view of its base has been modified inplace"
    if any(overlap(x, each) for each in others):
        return "refer to a single memory location"
    return ""


def detached(x: Reference) -> Reference:
    """The same memory and version, outside of the graph."""
    size = x.memory.values.size
    return Reference(x.memory, Track(numpy.zeros((size, WIDTH))), x.index)
