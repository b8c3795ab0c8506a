"""A profile while it runs, read piece by piece by who follows it (`instrument.profiled`).

A piece is made of rows as they were written, unsorted; what it costs grows with what is new.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy

from ag_visual.core import source
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import ROW, SpanLog, labels
from ag_visual.profiler.profile_file import inputs_text, lines

MOST: Final = 20_000
"""Rows of one piece, and those that stay when the profile has ended: the newest."""

NOT_YET: Final = 2**63 - 1
"""The end, in ns, of what has not ended."""

_numbers = itertools.count(1)


class Live:
    """What others see of one profile. It knows the rows, and does not keep the profile alive."""

    def __init__(
        self,
        log: SpanLog,
        details: Any,
        named: Callable[[int], str],
        skipped: Sequence[tuple[int, int]],
    ) -> None:
        self.number = next(_numbers)
        self.start = perf_counter_ns()
        self.end: int | None = None
        self.asked = False
        self._log, self._details, self._named = log, details, named
        self._skipped = skipped
        self._rows = log.rows
        self._first = len(self._rows) // ROW  # counted from the log's first row
        self._kept = self._first  # rows before this one are here no more
        self._threads: dict[int, int] = {}
        self._unended: list[Any] = []
        self._lock = threading.Lock()

    def ended(self, end: int) -> None:
        """Nothing comes any more; of what was not asked for, the newest stays."""
        with self._lock:
            self._unended = self._open_rows(end)
            rows, last = self._rows, len(self._rows) // ROW
            self._kept = max(self._first, last - MOST)
            self._rows = rows[self._kept * ROW : last * ROW] if self.asked else []
            self.end = end

    def _open_rows(self, now: int) -> list[Any]:
        rows = [each.row(now) for each in list(self._log.open.values())]
        return [row for row in rows if row[1] >= self.start]

    def piece(self, since: int) -> dict[str, Any]:
        """The ProfilePiece record from row `since` of this profile on, of which 0 is the first."""
        with self._lock:
            self.asked = True
            done, now = self.end is not None, self.end or perf_counter_ns()
            # After its end `_rows` begins at `_kept`, before it at the log's first row.
            base = self._kept if done else 0
            last = base + len(self._rows) // ROW
            wanted = self._first + max(0, since)
            first = min(last, max(wanted, self._kept, last - MOST))
            flat = self._rows[(first - base) * ROW : (last - base) * ROW]
            unended = self._unended if done else self._open_rows(now)
            pauses = list(self._log.pauses)
        raw = numpy.array(flat, numpy.int64).reshape(-1, ROW)
        raw = raw[(raw[:, 1] >= self.start) & (raw[:, 2] <= now)]
        for off, on in list(self._skipped):
            raw = raw[(raw[:, 1] < off) | (raw[:, 1] > on)]
        raw = numpy.concatenate([raw, numpy.array(unended, numpy.int64).reshape(-1, ROW)])
        threads = [self._thread(ident) for ident in raw[:, 3].tolist()]
        used = numpy.unique(raw[:, 0]).tolist()
        return {
            "number": self.number,
            "done": done,
            "next": last - self._first,
            "left_out": max(0, first - wanted),
            "now": now - self.start,
            "count": len(raw),
            "open": len(unended),
            "rows": _packed(raw, self.start, threads),
            "labels": {str(i): list(self._label(i)) for i in used},
            "facts": self._facts(numpy.unique(raw[:, 5]).tolist()),
            "threads": [self._named(ident) for ident in self._threads],
            "pauses": [
                [max(begun, self.start) - self.start, until - self.start, self._threads[ident]]
                for begun, until, ident in pauses
                if until > self.start and begun < now and ident in self._threads
            ],
        }

    def thread(self, ident: int) -> int | None:
        """The row of `threads` of a thread; None: nothing was seen of it."""
        return self._threads.get(ident)

    def _thread(self, ident: int) -> int:
        return self._threads.setdefault(ident, len(self._threads))

    def _label(self, number: int) -> tuple[str, int]:
        return labels[number] if number >= 0 else self._log.names[-1 - number]

    def _facts(self, numbers: list[int]) -> dict[str, Any]:
        """What is known of a call beside its times, by the number of its facts."""
        stacks, inputs = self._details.stacks, self._details.inputs
        sites = [source.resolve(*(each[0] if each else (None, 0))) for each in list(stacks)]
        texts = lines(sites)
        found = {}
        for number in numbers:
            facts = self._log.facts[number]
            site = sites[facts.stack] if facts.stack >= 0 else None
            cell = None if site is None else site.cell_id
            found[str(number)] = {
                "line": "" if site is None else texts[facts.stack],
                "cell": cell,
                "execution": site.execution_count if site is not None and cell else None,
                "at": site.line if site is not None and cell else 0,
                "source": site.source_line if site is not None and cell else "",
                "inputs": inputs_text(inputs[facts.inputs]) if facts.inputs >= 0 else "",
            }
        return found


def _packed(raw: Any, start: int, threads: list[int]) -> str:
    """Columns one after the other, in base64."""
    columns = [
        *((raw[:, at] - start).astype("<f8") for at in (1, 2)),
        raw[:, 4].astype("<f8"),
        raw[:, 0].astype("<i4"),
        numpy.array(threads, "<i4"),
        raw[:, 5].astype("<i4"),
    ]
    return base64.b64encode(b"".join(each.tobytes() for each in columns)).decode()
