"""A finished profile as columns: the one format that tables, exports and figures read.

Its fields are described in docs/notes/profiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ag_visual.events.spans import EVALUATE, NODE, OP, ROW, STEP, USER, SpanLog, Stack, labels
from ag_visual.profiler.inputs import Inputs
from ag_visual.profiler.names import NEVER_RECORDED

SPAN = numpy.dtype(
    [
        *[("start", "<i8"), ("end", "<i8"), ("own", "<i8")],
        *[("name", "<i4"), ("kind", "u1"), ("scope", "u1"), ("thread", "<i4")],
        *[("parent", "<i4"), ("depth", "<i4"), ("last", "<i4")],
        *[("seq", "<i8"), ("forward", "<i4"), ("inputs", "<i4"), ("stack", "<i4")],
        *[("flops", "<i8"), ("bytes", "<i8"), ("own_bytes", "<i8")],
    ]
)
MEMORY = numpy.dtype(
    [
        *[("time", "<i8"), ("thread", "<i4"), ("storage", "<i8"), ("address", "<u8")],
        *[("bytes", "<i8"), ("total", "<i8"), ("category", "u1"), ("span", "<i4")],
    ]
)
DEVICE = numpy.dtype(
    [("start", "<i8"), ("end", "<i8"), ("span", "<i4"), ("stream", "<i8"), ("own", "<i8")]
)
_SCOPES = {EVALUATE: 1, USER: 7, STEP: 7}
"""torch's RecordScope of each kind; others are functions."""


@dataclass(slots=True)
class Columns:
    """All that one profile has collected. Times in ns of `perf_counter_ns`, sizes in bytes."""

    spans: Any
    memory: Any
    names: list[str]
    threads: list[tuple[int, str]]
    inputs: Sequence[Inputs] = ()
    stacks: Sequence[Stack] = ()
    start: int = 0
    end: int = 0
    wall: int = 0
    overhead: int = 0
    pauses: Sequence[tuple[int, int, int]] = ()
    """Stops by who watches, which count nowhere: since, until, row of `threads`."""

    device: Any = None
    """Of each op on a GPU (DEVICE): its times there in ns, row of `spans`, stream, and `own` ns."""

    @property
    def on_device(self) -> Any:
        """ns on a GPU of what ran in each span."""
        alone = numpy.zeros(len(self.spans), numpy.int64)
        if self.device is not None:
            alone[self.device["span"]] = self.device["own"]
        running = numpy.concatenate([[0], numpy.cumsum(alone)])
        return running[self.spans["last"]] - running[: len(alone)]

    @property
    def length(self) -> Any:
        """ns that each span took, without those in which its thread was stopped."""
        spans = self.spans
        return spans["end"] - spans["start"] - self.paused

    @property
    def paused(self) -> Any:
        """ns of each span in which its thread was stopped."""
        spans = self.spans
        found = numpy.zeros(len(spans), numpy.int64)
        for thread in {thread for _, _, thread in self.pauses}:
            rows = numpy.flatnonzero(spans["thread"] == thread)
            at = [self.stopped_before(thread, spans[edge][rows]) for edge in ("start", "end")]
            found[rows] = at[1] - at[0]
        return found

    def stopped_before(self, thread: int, times: Any) -> Any:
        """ns in which a thread was stopped before each of these times."""
        # None overlaps another.
        pauses = sorted(pause for pause in self.pauses if pause[2] == thread)
        if not pauses:
            return numpy.zeros_like(times)
        since, until, _ = numpy.array(pauses, numpy.int64).T
        before = numpy.concatenate([[0], numpy.cumsum(until - since)])
        begun = numpy.searchsorted(since, times, side="right")
        remaining = until[numpy.maximum(begun, 1) - 1] - times
        return before[begun] - numpy.where(begun > 0, numpy.maximum(remaining, 0), 0)

    @property
    def sequence(self) -> Any:
        """torch's sequence number of each span: of a node its own; of an op that of the first node
        made since it began, whoever made it; -1 where nothing is recorded.
        """
        spans = self.spans
        found = spans["seq"].copy()
        ops = numpy.flatnonzero((spans["kind"] == OP) & ~self.within_backward)
        makers = ops[spans["seq"][ops] >= 0]
        if len(makers):
            _, first = numpy.unique(spans["seq"][makers[::-1]], return_index=True)
            makers = makers[::-1][first]
            starts = spans["start"][makers]
            order = numpy.argsort(starts, kind="stable")
            numbers = numpy.append(spans["seq"][makers][order], spans["seq"][makers].max() + 1)
            found[ops] = numbers[numpy.searchsorted(starts[order], spans["start"][ops])]
        never = [at for at, name in enumerate(self.names) if name in NEVER_RECORDED]
        found[numpy.isin(spans["name"], never)] = -1
        return found

    @property
    def within_backward(self) -> Any:
        """Of each span: is it inside of what evaluates a node?"""
        spans = self.spans
        change = numpy.zeros(len(spans) + 1, numpy.int64)
        rows = numpy.flatnonzero(spans["kind"] == EVALUATE)
        numpy.add.at(change, rows + 1, 1)
        numpy.add.at(change, spans["last"][rows], -1)
        return numpy.cumsum(change)[:-1] > 0


def finished(
    log: SpanLog,
    rows: Sequence[Any],
    start: int,
    end: int,
    named: Callable[[int], str],
    skipped: Sequence[tuple[int, int]] = (),
    device: Callable[[Columns, Any], None] | None = None,
) -> Columns:
    """The columns of the rows of a log that began at `start` or later and ended by `end`.

    named: the name of a thread by its identifier. skipped: what began in these times is left out.
    device: gives columns the times on a GPU, of the numbers that spans have there.
    """
    raw = numpy.array(rows, numpy.int64).reshape(-1, ROW)
    raw = raw[(raw[:, 1] >= start) & (raw[:, 2] <= end)]
    for since, until in skipped:
        raw = raw[(raw[:, 1] < since) | (raw[:, 1] > until)]
    number = numpy.arange(len(raw))
    order = numpy.lexsort((-number, -raw[:, 2], raw[:, 1], raw[:, 3]))
    raw, number = raw[order], number[order]
    spans = numpy.zeros(len(raw), SPAN)
    spans["start"], spans["end"], spans["seq"] = raw[:, 1], raw[:, 2], raw[:, 4]
    spans["inputs"] = spans["stack"] = spans["forward"] = -1
    names = _names(log, raw[:, 0], spans)
    idents, spans["thread"] = numpy.unique(raw[:, 3], return_inverse=True)
    launched = numpy.full(len(raw), -1)
    if len(log.facts) > 1 and len(raw):
        facts = numpy.array(log.facts, numpy.int32)
        spans["inputs"], spans["stack"], launched = facts[raw[:, 5]].T
    _nest(spans, number)
    threads = [(ident, named(ident)) for ident in idents.tolist()]
    columns = Columns(spans, numpy.zeros(0, MEMORY), names, threads, start=start, end=end)
    row = {ident: at for at, (ident, _) in enumerate(threads)}
    columns.pauses = [
        (max(since, start), min(until, end), row[ident])
        for since, until, ident in log.pauses
        if until > start and since < end and ident in row
    ]
    spans["own"] = own(spans["parent"], columns.length)
    _link(spans, number)
    if device is not None:
        device(columns, launched)
    return columns


def _names(log: SpanLog, numbers: Any, spans: Any) -> list[str]:
    """Give spans their names and kinds; the names."""
    used, back = numpy.unique(numbers, return_inverse=True)
    known = [labels[i] if i >= 0 else log.names[-1 - i] for i in used.tolist()]
    names = list(dict.fromkeys(each.name for each in known))
    place = {name: i for i, name in enumerate(names)}
    if known:
        spans["name"] = numpy.array([place[each.name] for each in known])[back]
        kinds = numpy.array([each.kind for each in known], numpy.uint8)[back]
        spans["kind"] = kinds
        scopes = numpy.zeros(256, numpy.uint8)
        scopes[list(_SCOPES)] = list(_SCOPES.values())
        spans["scope"] = scopes[kinds]
    return names


def _nest(spans: Any, number: Any) -> None:
    """Which span is around which: one that ended later, and began earlier, in the same thread.

    number: the order in which they ended.
    """
    count = len(spans)
    parents, depths, lasts = [-1] * count, [0] * count, [count] * count
    around: list[int] = []
    ends, threads = number.tolist(), spans["thread"].tolist()
    for i, end in enumerate(ends):
        while around and (ends[around[-1]] < end or threads[around[-1]] != threads[i]):
            lasts[around.pop()] = i
        if around:
            parents[i] = around[-1]
        depths[i] = len(around)
        around.append(i)
    spans["parent"], spans["depth"], spans["last"] = parents, depths, lasts


def own(parent: Any, values: Any) -> Any:
    """Of each row its value, without those of the rows directly inside of it."""
    inside = numpy.zeros(len(values), numpy.int64)
    inner = parent >= 0
    numpy.add.at(inside, parent[inner], values[inner])
    return values - inside


def _link(spans: Any, number: Any) -> None:
    """Which op made the node that runs: of several that gave its result, the first that ended."""
    ops = numpy.flatnonzero((spans["kind"] == OP) & (spans["seq"] >= 0))
    runs = numpy.flatnonzero((spans["kind"] == EVALUATE) | (spans["kind"] == NODE))
    if not len(ops) or not len(runs):
        return
    ops = ops[numpy.argsort(number[ops], kind="stable")]
    seqs, first = numpy.unique(spans["seq"][ops], return_index=True)
    place = numpy.searchsorted(seqs, spans["seq"][runs])
    place[place == len(seqs)] = 0
    same = seqs[place] == spans["seq"][runs]
    spans["forward"][runs[same]] = ops[first[place[same]]]
