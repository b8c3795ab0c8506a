"""Identity of memory: the version counter that views share, and the log of who wrote.

A storage carries two counts: `version` (torch's meaning) and `writes` (all writes through any
tensor on the same memory, `.data` included). Both sit in one immutable `stamp`, replaced at each
write, so that "unchanged since it was saved" is one identity comparison.
"""

from __future__ import annotations

import itertools
import weakref
from types import CodeType
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of

Place = tuple[CodeType, int] | None
"""Where in the user's code: (code object, instruction offset). Resolved by `core.source`."""

ZERO = (0, 0)
FIRST_WRITES = 8
LAST_WRITES = 8
uids = itertools.count(1)


class Extent:
    """Which bytes an array covers: its address, shape, strides (in bytes) and bytes per element."""

    __slots__ = ("_interface",)

    def __init__(self, array: Any) -> None:
        self._interface = {
            "version": 3,
            "data": (backend_of(array).pointer(array), False),
            "shape": tuple(array.shape),
            "strides": tuple(array.strides),
            "typestr": f"|V{array.dtype.itemsize}",
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface

    def meets(self, other: Extent) -> bool:
        """Have two a byte in common? True also where that is too hard to say."""
        try:
            # NumPy compares addresses only: these may be another device's.
            mine, others = numpy.asarray(self), numpy.asarray(other)
            return numpy.shares_memory(mine, others, 100_000)  # type: ignore[arg-type]
        except numpy.exceptions.TooHardError:
            return True


class Write:
    """One write: the version and write count it led to, the op, and where it happened.

    extent: the bytes that may have been written; known where the memory has several counters.
    """

    __slots__ = ("extent", "op", "place", "version", "writes")

    def __init__(
        self, op: str, place: Place, version: int, writes: int, extent: Extent | None
    ) -> None:
        self.op = op
        self.extent = extent
        self.place = place
        self.version = version
        self.writes = writes


class Log:
    """What a storage needs only when somebody writes, looks or makes a `.data` alias."""

    __slots__ = ("family", "first", "last")

    def __init__(self) -> None:
        self.first: list[Write] = []
        self.last: list[Write] = []
        # Every storage on the same memory with a version counter of its own (`.data` aliases).
        self.family: list[weakref.ref[Storage]] | None = None

    def add(self, write: Write) -> None:
        if len(self.first) < FIRST_WRITES:
            self.first.append(write)
            return
        self.last.append(write)
        if len(self.last) > LAST_WRITES:
            del self.last[0]


class Storage:
    """One version counter over one piece of memory."""

    __slots__ = ("__weakref__", "log", "number", "stamp")

    stamp: tuple[int, int]
    log: Log | None
    number: int  # 0 until somebody asks for `uid`

    # No __init__, as a class without one makes its objects faster: `unwritten` fills one in.

    @property
    def version(self) -> int:
        return self.stamp[0]

    @property
    def writes(self) -> int:
        return self.stamp[1]

    def known(self) -> Log:
        if self.log is None:
            self.log = Log()
        return self.log

    @property
    def uid(self) -> int:
        """The number of this memory: the same for all storages on it."""
        if not self.number:
            self.number = next(uids)
        return self.number

    def alias(self) -> Storage:
        """A storage on the same memory with a version counter of its own, as `.data` has."""
        log = self.known()
        other = unwritten()
        other.stamp = (0, self.stamp[1])
        other.log = log
        other.number = self.uid
        alive = [r for r in log.family or () if r() is not None] or [weakref.ref(self)]
        alive.append(weakref.ref(other))
        log.family = alive
        return other

    def wrote(self, op: str, place: Place, array: Any) -> None:
        """Count one write to `array`, through a tensor of this storage."""
        version, writes = self.stamp
        version += 1
        writes += 1
        self.stamp = (version, writes)
        log = self.known()
        several = log.family is not None
        log.add(Write(op, place, version, writes, Extent(array) if several else None))
        if log.family is not None:
            for ref in log.family:
                other = ref()
                if other is not None and other is not self:
                    other.stamp = (other.stamp[0], writes)

    def set_version(self, version: int) -> None:
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        self.stamp = (version, self.stamp[1])

    def writes_since(self, writes: int) -> tuple[list[Write], int]:
        """The remembered writes after write number `writes`, and how many more there were."""
        if self.log is None:
            return [], self.stamp[1] - writes
        known = [w for w in (*self.log.first, *self.log.last) if w.writes > writes]
        return known, self.stamp[1] - writes - len(known)

    def touched_since(self, writes: int, array: Any) -> bool:
        """May a write after write number `writes` have changed an element of `array`?"""
        known, forgotten = self.writes_since(writes)
        if forgotten or any(write.extent is None for write in known):
            return True
        mine = Extent(array)
        return any(mine.meets(write.extent) for write in known if write.extent is not None)


def unwritten() -> Storage:
    """A storage of memory that nobody has written yet."""
    storage = Storage()
    storage.stamp = ZERO
    storage.log = None
    storage.number = 0
    return storage


FRESH = unwritten()
"""The storage of every tensor whose memory nobody has written, viewed or saved as an output yet.

It stands for "version 0, no log" and is never written: `Tensor._storage` puts one of the tensor's
own in its place when somebody needs more than its stamp. Most results of a program never do.
"""
