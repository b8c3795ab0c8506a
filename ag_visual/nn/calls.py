"""Tells an observer which module's forward runs, so that nodes can be grouped by module.

Asked by `Module.__call__` alone, and only while somebody records.
"""

from __future__ import annotations

import itertools
import threading
from time import perf_counter_ns
from typing import Any, NamedTuple

from ag_visual.events import instrument
from ag_visual.events.log import RANGE


class _Call(NamedTuple):
    number: int
    path: str  # of the module, below the outermost one
    paths: dict[int, str]  # id of each module below the outermost one -> its path


class _Calls(threading.local):
    """The calls that this thread is in, the outermost first."""

    def __init__(self) -> None:
        self.open: list[_Call] = []


_calls = _Calls()
_numbers = itertools.count(1)


def enter(module: Any) -> int:
    """A module's forward begins; the call's number, for `leave`."""
    around = _calls.open[-1] if _calls.open else None
    path = None if around is None else around.paths.get(id(module))
    if around is None or path is None:
        name = type(module).__name__
        call = _Call(next(_numbers), "", {id(m): p for p, m in module.named_modules()})
    else:
        name = path.removeprefix(f"{around.path}.") if around.path else path
        call = _Call(next(_numbers), path, around.paths)
    _calls.open.append(call)
    parent = 0 if around is None else around.number
    _tell(call.number, parent, name or type(module).__name__, type(module).__name__)
    return call.number


def leave(number: int) -> None:
    """The call of that number ends, and with it those inside that never said so."""
    open_ = _calls.open
    while open_ and open_[-1].number >= number:
        open_.pop()
    _tell(number, -1, "", "")


def _tell(number: int, parent: int, name: str, kind: str) -> None:
    sink = instrument.sink
    if sink is not None:
        thread = threading.get_ident()
        sink.emit((RANGE, perf_counter_ns(), thread, number, parent, name, kind))
