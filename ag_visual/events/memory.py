"""The memory of storages: which bytes were written when, by which op and at which line.

core.storage keeps the version counters and writes this log; errors and saved tensors read it.
"""

from __future__ import annotations

import weakref
from collections import deque
from types import CodeType
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of

CallSite = tuple[CodeType, int] | None
"""Where in the user's code: (code object, instruction offset). Resolved by `core.source`."""

FIRST_WRITES = 8
LAST_WRITES = 8


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

    __slots__ = ("extent", "op", "call_site", "version", "writes")

    def __init__(
        self, op: str, call_site: CallSite, version: int, writes: int, extent: Extent | None
    ) -> None:
        self.op = op
        self.extent = extent
        self.call_site = call_site
        self.version = version
        self.writes = writes


class WriteLog:
    """The first and the last writes of one memory, so that any number of them keeps memory flat."""

    __slots__ = ("family", "first", "last")

    def __init__(self) -> None:
        # The arguments of each Write: every step of an optimizer adds some, few are ever read.
        self.first: list[tuple[Any, ...]] = []
        self.last: deque[tuple[Any, ...]] = deque(maxlen=LAST_WRITES)
        # Every core.storage.Storage on this memory with a version counter of its own (`.data`).
        self.family: list[weakref.ref[Any]] | None = None

    def add(self, write: tuple[Any, ...]) -> None:
        """Remember a write, given as the arguments of `Write`."""
        first = self.first
        (first if len(first) < FIRST_WRITES else self.last).append(write)

    def since(self, writes: int) -> list[Write]:
        """What is remembered of the writes after this number of them."""
        found = [Write(*each) for each in (*self.first, *self.last)]
        return [write for write in found if write.writes > writes]
