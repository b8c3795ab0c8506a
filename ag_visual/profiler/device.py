"""Times on a GPU: an event of its stream before and after each op, read when the profile has ended.

Nothing waits for the GPU while the program runs. What an op launches stands between its events, and
so does what the stream did meanwhile for others: kernels alone are what Nsight shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.cuda.streams import Event, current_stream
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import SpanLog
from ag_visual.profiler.columns import DEVICE, Columns, own


class DeviceTimes:
    """The events of all ops since somebody began to profile a GPU."""

    def __init__(self) -> None:
        self._zero = Event(enable_timing=True)
        self._zero.record()
        self._zero.synchronize()
        self._at = perf_counter_ns()
        self._number = itertools.count()
        self._pairs: dict[int, tuple[Event, Event, int]] = {}

    def begin(self) -> int:
        """An op begins in this thread; the number to end it with."""
        number = next(self._number)
        stream = current_stream()
        pair = Event(enable_timing=True), Event(enable_timing=True), stream.cuda_stream
        self._pairs[number] = pair
        pair[0].record()
        return number

    def into(self, log: SpanLog, put: Callable[[Any], None]) -> None:
        """Whoever writes the row of an op ends it."""
        facts, pairs = log.facts, self._pairs

        def ended(row: Any) -> None:
            pair = pairs.get(facts[row[5]].device)
            if pair is not None:
                pair[1].record()
            put(row)

        log.put = ended

    def fill(self, columns: Columns, numbers: Any) -> None:
        """Give columns the times of their ops. numbers: of each span that of its pair, -1: none."""
        rows = numpy.flatnonzero(numbers >= 0).tolist()
        found = numpy.zeros(len(rows), DEVICE)
        for at, row in enumerate(rows):
            begun, ended, stream = self._pairs[int(numbers[row])]
            ended.synchronize()
            start = self._at + round(self._zero.elapsed_time(begun) * 1e6)
            length = max(0, round(begun.elapsed_time(ended) * 1e6))
            found[at] = start, start + length, row, stream, 0
        whole = numpy.zeros(len(columns.spans), numpy.int64)
        whole[found["span"]] = found["end"] - found["start"]
        alone = own(_timed_around(columns, whole > 0), whole)
        found["own"] = numpy.maximum(alone[found["span"]], 0)
        columns.device = found


def _timed_around(columns: Columns, timed: Any) -> Any:
    """Of each span, the nearest one around it that has a time of its own; -1: none."""
    parents = columns.spans["parent"].astype(numpy.int64)
    found = parents.copy()
    while True:
        without = (found >= 0) & ~timed[found]
        if not without.any():
            return found
        found[without] = parents[found[without]]
