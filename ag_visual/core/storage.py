"""Identity of memory: the version counter that views share.

A storage carries two counts: `version` (torch's meaning) and `writes` (all writes through any
tensor on the same memory, `.data` included). Both sit in one immutable `snapshot`, replaced at each
write, so that "unchanged since it was saved" is one identity comparison.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ag_visual.events.memory import CallSite, Extent, Write, WriteLog

ZERO = (0, 0)
uids = itertools.count(1)


class Storage:
    """One version counter over one piece of memory."""

    __slots__ = ("__weakref__", "log", "number", "snapshot")

    snapshot: tuple[int, int]
    log: WriteLog | None
    number: int  # 0 until somebody asks for `uid`

    # No __init__, as a class without one makes its objects faster: `unwritten` fills one in.

    @property
    def version(self) -> int:
        return self.snapshot[0]

    @property
    def writes(self) -> int:
        return self.snapshot[1]

    def known(self) -> WriteLog:
        if self.log is None:
            self.log = WriteLog()
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
        other.snapshot = (0, self.snapshot[1])
        other.log = log
        other.number = self.uid
        alive = [r for r in log.family or () if r() is not None] or [weakref.ref(self)]
        alive.append(weakref.ref(other))
        log.family = alive
        return other

    def wrote(self, op: str, call_site: CallSite, array: Any) -> None:
        """Count one write to `array`, through a tensor of this storage."""
        version, writes = self.snapshot
        version += 1
        writes += 1
        self.snapshot = (version, writes)
        log = self.log
        if log is None:
            log = self.known()
        several = log.family
        log.add((op, call_site, version, writes, None if several is None else Extent(array)))
        if several is not None:
            for ref in several:
                other = ref()
                if other is not None and other is not self:
                    other.snapshot = (other.snapshot[0], writes)

    def set_version(self, version: int) -> None:
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        self.snapshot = (version, self.snapshot[1])

    def writes_since(self, writes: int) -> tuple[list[Write], int]:
        """The remembered writes after write number `writes`, and how many more there were."""
        if self.log is None:
            return [], self.snapshot[1] - writes
        known = self.log.since(writes)
        return known, self.snapshot[1] - writes - len(known)

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
    storage.snapshot = ZERO
    storage.log = None
    storage.number = 0
    return storage


FRESH = unwritten()
"""The storage of every tensor whose memory nobody has written, viewed or saved as an output yet.

It stands for "version 0, no log" and is never written: `Tensor._storage` puts one of the tensor's
own in its place when somebody needs more than its snapshot. Most results of a program never do.
"""
