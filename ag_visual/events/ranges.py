"""Ranges of a program, such as the forward of a module or what a transform computes: nested, each
open and closed in one thread.

Events tell a range by its number; `about` is what its maker wants to find again in ranges inside.
"""

from __future__ import annotations

import itertools
import threading
from threading import get_ident
from types import CodeType
from typing import Any

from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.log import RANGE
from ag_visual.events.memory import CallSite

Level = tuple[str, int, int, CodeType | None, int]
"""Of the level of a transform: kind, depth, size (of a vmap), code and lasti of where it is."""


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


def enter(name: str, kind: str, about: Any, level: Level | None = None) -> int:
    """A range begins; its number, for `leave`."""
    ranges = _open.ranges
    parent = ranges[-1][0] if ranges else 0
    number = next(_numbers)
    ranges.append((number, about))
    sink = instrument.sink
    if sink is not None:
        sink.emit((RANGE, perf_counter_ns(), get_ident(), number, parent, name, kind, level))
    return number


def leave(number: int) -> None:
    """The range of that number ends, and with it those inside that never said so."""
    ranges = _open.ranges
    while ranges and ranges[-1][0] >= number:
        ranges.pop()
    _left(number)


def depth() -> int:
    """How many ranges this thread is in."""
    return len(_open.ranges)


def leave_to(depth: int) -> None:
    """All ranges end that began since this thread was in so many.

    An interrupt may come between the beginning of a range and its number, but not before this.
    """
    ranges = _open.ranges
    if len(ranges) > depth:
        number = ranges[depth][0]
        del ranges[depth:]
        _left(number)


def enter_level(kind: str, depth: int, size: int, call_site: CallSite) -> int:
    """A level of a transform begins: 'vmap, 64 lanes'; its number, for `leave`."""
    name = f"{kind}, {size} lane{'s' * (size != 1)}" if kind == "vmap" else kind
    if depth > 1:
        name = f"{name}, level {depth}"
    return enter(name, kind, None, (kind, depth, size, *(call_site or (None, 0))))


def _left(number: int) -> None:
    sink = instrument.sink
    if sink is not None:
        sink.emit((RANGE, perf_counter_ns(), get_ident(), number, -1, "", "", None))
