"""A span of a block: `with Span(name):`, which costs next to nothing while nobody profiles."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import USER


class Span:
    """A range of the user's or the library's: from `Span(name)` to `end()`."""

    __slots__ = ("_facts", "_label", "_log", "_start", "_thread", "seq")

    def __init__(self, name: str, kind: int = USER, args: tuple[Any, ...] = ()) -> None:
        self._log = log = instrument.spans
        if log is None:
            return
        self.seq = -1  # of the node that was made in it
        self._label = log.label(name, kind)
        self._facts = 0 if log.detail is None else log.detail(self._label, args, {})
        self._thread = get_ident()
        self._start = perf_counter_ns()
        log.open[id(self)] = self

    def row(self, end: int) -> tuple[int, int, int, int, int, int]:
        """Its row, where it ends at that time."""
        return self._label, self._start, end, self._thread, self.seq, self._facts

    def end(self) -> None:
        """It has ended; nothing happens where nobody profiled when it began."""
        log, self._log = self._log, None
        if log is not None:
            end = perf_counter_ns()
            log.put(self.row(end))
            log.open.pop(id(self), None)

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
