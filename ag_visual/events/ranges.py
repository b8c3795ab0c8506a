"""Ranges of a program, such as the forward of a module: open and closed in one thread, nested.

Events tell a range by its number; `about` is what its maker wants to find again in ranges inside.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.log import RANGE


class _Open(threading.local):
    """Number and `about` of the ranges that this thread is in, the outermost first."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, Any]] = []


_open = _Open()
_numbers = itertools.count(1)


def around() -> Any:
    """What the maker of the innermost range that this thread is in said of it."""
    ranges = _open.ranges
    return ranges[-1][1] if ranges else None


def enter(name: str, kind: str, about: Any) -> int:
    """A range begins; its number, for `leave`."""
    ranges = _open.ranges
    parent = ranges[-1][0] if ranges else 0
    number = next(_numbers)
    ranges.append((number, about))
    _emit(number, parent, name, kind)
    return number


def leave(number: int) -> None:
    """The range of that number ends, and with it those inside that never said so."""
    ranges = _open.ranges
    while ranges and ranges[-1][0] >= number:
        ranges.pop()
    _emit(number, -1, "", "")


def _emit(number: int, parent: int, name: str, kind: str) -> None:
    sink = instrument.sink
    if sink is not None:
        sink.emit((RANGE, perf_counter_ns(), threading.get_ident(), number, parent, name, kind))
