"""Events to columns: interned strings and sites, chunks of tables, the encoder between them.

Runs off the hot path, on whole lists of events at once: columns are filled by `zip` and C-level
mapping, never row by row. An encoder is used under its recorder's lock.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import prod
from types import CodeType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ag_visual.core import seam, source
from ag_visual.observe import schema

Array = NDArray[Any]
Tables = dict[str, dict[str, Array]]

Kinds = list[list[seam.Event]]
"""Events by kind, each in the order in which they came."""

DTYPES: Final = {
    name: np.dtype("<" + layout.letter) for name, layout in schema.COLUMN_TYPES.items()
}


def shape_text(shape: Iterable[int]) -> str:
    """A shape as people write it: 64×128, and nothing for a scalar."""
    return "×".join(map(str, shape))


class Strings(dict[str, int]):
    """Text -> id, in order of appearance; id 0 is the empty string."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self[""]

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self.texts)
        self.texts.append(text)
        return number


class _Shapes(dict[tuple[int, ...], tuple[int, float]]):
    """Shape -> (id of its text, number of elements)."""

    def __init__(self, strings: Strings) -> None:
        super().__init__()
        self.strings = strings

    def __missing__(self, shape: tuple[int, ...]) -> tuple[int, float]:
        self[shape] = found = self.strings[shape_text(shape)], float(prod(shape))
        return found


class _ById(dict[int, int]):
    """id of an object that lives as long as the program (a class, a dtype) -> id of its name."""

    def __init__(self, strings: Strings) -> None:
        super().__init__()
        self.strings = strings
        self._kept: list[Any] = []

    def ids(self, objects: Sequence[Any]) -> list[int]:
        keys = list(map(id, objects))
        try:
            return list(map(self.__getitem__, keys))
        except KeyError:
            for key, thing in dict(zip(keys, objects, strict=True)).items():
                if key not in self:
                    self[key] = self.strings[getattr(thing, "__name__", None) or thing.name]
                    self._kept.append(thing)  # its id must not be used again
            return list(map(self.__getitem__, keys))


class Sites(dict[tuple[int, int], int]):
    """(id of a code object, offset) -> id of the place, resolved once, when it is encoded.

    Code objects are kept: their ids must not be used again, and they hold no user data alive.
    """

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[int, CodeType] = {}
        self.found: list[source.Site] = []

    def __missing__(self, key: tuple[int, int]) -> int:
        code = self.codes.get(key[0])
        self[key] = number = schema.NONE if code is None else len(self.found)
        if code is not None:
            self.found.append(source.resolve(code, key[1]))
        return number

    def ids(self, codes: Sequence[CodeType | None], offsets: Sequence[int]) -> list[int]:
        keys = list(map(id, codes))
        self.codes.update(
            (key, code) for key, code in zip(keys, codes, strict=True) if code is not None
        )
        return list(map(self.__getitem__, zip(keys, offsets, strict=True)))


class Chunk:
    """Rows of some tables, in the order in which they happened."""

    __slots__ = ("nbytes", "tables")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.nbytes = sum(a.nbytes for columns in tables.values() for a in columns.values())

    def rows(self, table: str) -> int:
        columns = self.tables.get(table)
        return 0 if not columns else len(next(iter(columns.values())))

    @staticmethod
    def joined(chunks: Sequence[Chunk]) -> Chunk:
        """One chunk with the rows of all."""
        if len(chunks) == 1:
            return chunks[0]
        tables: Tables = {}
        for table, columns in schema.TABLES.items():
            parts = [chunk.tables[table] for chunk in chunks if table in chunk.tables]
            if parts:
                tables[table] = {c: np.concatenate([p[c] for p in parts]) for c in columns}
        return Chunk(tables)


class _Steps:
    """Which recorded backward the stream is in: a step ends with its outermost backward."""

    def __init__(self) -> None:
        self.now = 1
        self._depth: dict[int, int] = {}

    def numbers(self, kinds: Kinds) -> tuple[list[int], list[int]]:
        """(times at which steps end, their numbers), then the number of the step that goes on."""
        marks = [(e[1], 1, e[2]) for e in kinds[seam.BEGIN]]
        marks += [(e[1], -1, e[2]) for e in kinds[seam.END]]
        ends: list[int] = []
        numbers: list[int] = []
        for t, change, thread in sorted(marks):
            depth = self._depth.pop(thread, 0 if change > 0 else 1) + change
            if depth > 0:
                self._depth[thread] = depth
            elif change < 0:
                ends.append(t)
                numbers.append(self.now)
                self.now += 1
        return ends, [*numbers, self.now]


def by_kind(events: Iterable[seam.Event]) -> Kinds:
    """Events sorted by their kind."""
    kinds: Kinds = [[] for _ in range(8)]
    for event in events:
        kinds[event[0]].append(event)
    return kinds


class Encoder:
    """Turns event tuples into chunks; keeps what ids mean for as long as its epoch lasts."""

    def __init__(self, zero: int) -> None:
        self.zero = zero  # perf_counter_ns when the session began
        self.strings = Strings()
        self.sites = Sites()
        self.threads: dict[int, int] = {}
        self.steps = _Steps()
        self._shapes = _Shapes(self.strings)
        self._names = _ById(self.strings)
        self._open: dict[int, list[int]] = {}  # calls of modules under way, by thread

    def thread(self, ident: int) -> int:
        """The small number of a thread."""
        return self.threads.setdefault(ident, len(self.threads))

    def milliseconds(self, t: int) -> float:
        return (t - self.zero) / 1e6

    def encode(
        self,
        kinds: Kinds,
        *,
        label: Callable[[weakref.ref[Any]], str] = lambda ref: "",
        labels: Sequence[tuple[int, str]] = (),
        freed: Sequence[int] = (),
        now: int = 0,
    ) -> Chunk:
        """Columns of all events. `label` names a leaf from the weak reference of its event;
        labels: (seq, name) found for leaves that were told before; freed: seqs that died by `now`.
        """
        tables: dict[str, dict[str, Any]] = {}
        steps = self.steps.numbers(kinds)
        if kinds[seam.NODE]:
            self._nodes(kinds[seam.NODE], steps, tables)
        if kinds[seam.LEAF]:
            tables["leaves"] = self._leaves(kinds[seam.LEAF], label)
        if kinds[seam.EXEC]:
            tables["runs"] = self._runs(kinds[seam.EXEC])
        if kinds[seam.BEGIN] or kinds[seam.END]:
            tables["tasks"] = self._tasks(kinds[seam.BEGIN], kinds[seam.END])
        if kinds[seam.WRITE]:
            tables["writes"] = self._writes(kinds[seam.WRITE])
        if kinds[seam.HOOK]:
            tables["hooks"] = self._hooks(kinds[seam.HOOK])
        if labels:
            seqs, texts = zip(*labels, strict=True)
            tables["labels"] = {"seq": seqs, "label": self._ids(texts)}
        if kinds[seam.CALL] or self._open:
            self._calls(kinds[seam.CALL], kinds[seam.NODE], tables)
        if freed:
            tables["freed"] = {"seq": freed, "t": np.full(len(freed), self.milliseconds(now))}
        return Chunk(
            {
                table: {
                    column: _array(values[column], about.type)
                    for column, about in schema.TABLES[table].items()
                }
                for table, values in tables.items()
            }
        )

    def _ids(self, texts: Iterable[str]) -> list[int]:
        return list(map(self.strings.__getitem__, texts))

    def _times(self, times: Sequence[int]) -> Array:
        return (np.array(times, np.int64) - self.zero) / 1e6

    def _shape_ids(
        self, shapes: Iterable[tuple[int, ...]]
    ) -> tuple[Sequence[int], Sequence[float]]:
        ids, sizes = zip(*map(self._shapes.__getitem__, shapes), strict=True)
        return ids, sizes

    def _threads(self, idents: Sequence[int]) -> list[int]:
        for ident in set(idents):
            self.thread(ident)
        return list(map(self.threads.__getitem__, idents))

    def _nodes(
        self,
        events: Sequence[seam.Event],
        steps: tuple[list[int], list[int]],
        tables: dict[str, dict[str, Any]],
    ) -> None:
        columns = tuple(zip(*events, strict=True))
        _, times, threads, seqs, classes, codes, offsets = columns[:7]
        edges, shapes, dtypes, outputs, saved = columns[7:12]
        count = len(events)
        seq = _array(seqs, "u32")
        shape_ids, sizes = self._shape_ids(shapes)
        when = np.array(times, np.int64)
        ends, numbers = steps
        tables["nodes"] = {
            "seq": seq,
            "name": self._names.ids(classes),
            "site": self.sites.ids(codes, offsets),
            "thread": self._threads(threads),
            "t": (when - self.zero) / 1e6,
            "shape": shape_ids,
            "dtype": self._names.ids(dtypes),
            "outputs": outputs,
            "numel": sizes,
            "step": np.array(numbers)[np.searchsorted(ends, when)],
        }
        counts = np.fromiter(map(len, edges), np.int64, count) // 2
        total = int(counts.sum())
        if total:
            flat = np.fromiter(chain.from_iterable(edges), np.int64, 2 * total)
            first = np.cumsum(counts) - counts
            tables["edges"] = {
                "src": np.repeat(seq, counts),
                "dst": flat[0::2],
                "src_index": np.arange(total) - np.repeat(first, counts),
                "dst_index": flat[1::2],
            }
        facts = list(chain.from_iterable(saved))
        if facts:
            names, storages, versions = facts[0::6], facts[1::6], facts[2::6]
            shape_ids, sizes = self._shape_ids(facts[3::6])
            kinds = facts[4::6]
            counts = np.fromiter(map(len, saved), np.int64, count) // 6
            tables["saved"] = {
                "node": np.repeat(seq, counts),
                "name": self._ids(names),
                "storage": storages,
                "version": versions,
                "bytes": np.array(sizes) * [dtype.itemsize for dtype in kinds],
                "shape": shape_ids,
                "dtype": self._names.ids(kinds),
                "flags": facts[5::6],
            }

    def _leaves(
        self, events: Sequence[seam.Event], label: Callable[[weakref.ref[Any]], str]
    ) -> dict[str, Any]:
        _, times, _, seqs, shapes, dtypes, storages, refs = zip(*events, strict=True)
        return {
            "seq": seqs,
            "label": self._ids(map(label, refs)),
            "shape": self._shape_ids(shapes)[0],
            "dtype": self._names.ids(dtypes),
            "storage": storages,
            "t": self._times(times),
            "site": [schema.NONE] * len(events),
        }

    def _runs(self, events: Sequence[seam.Event]) -> dict[str, Any]:
        _, t0, t1, _, seqs, tasks, orders, squares, nonfinite = zip(*events, strict=True)
        return {
            "seq": seqs,
            "task": tasks,
            "order": orders,
            "t0": self._times(t0),
            "t1": self._times(t1),
            "norm": _norms(squares),
            "flags": nonfinite,
        }

    def _tasks(self, begins: Sequence[seam.Event], ends: Sequence[seam.Event]) -> dict[str, Any]:
        rows = [
            (
                task,
                t,
                self.sites.ids([code], [offset])[0],
                total,
                int(retain),
                0,
                self.thread(thread),
                roots[0] if roots else schema.NONE,
            )
            for _, t, thread, task, code, offset, roots, total, retain in begins
        ]
        rows += [
            (task, t, schema.NONE, 0, 0, 2 if error else 1, self.thread(thread), schema.NONE)
            for _, t, thread, task, error in ends
        ]
        rows.sort(key=lambda row: row[1])
        names = ("task", "t", "site", "total", "retain", "ended", "thread", "root")
        found: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
        found["t"] = self._times(found["t"])
        return found

    def _writes(self, events: Sequence[seam.Event]) -> dict[str, Any]:
        columns = tuple(zip(*events, strict=True))
        _, times, _, storages, versions, writes, ops, codes, offsets = columns[:9]
        return {
            "storage": storages,
            "version": versions,
            "writes": writes,
            "op": self._ids(ops),
            "site": self.sites.ids(codes, offsets),
            "t": self._times(times),
        }

    def _calls(
        self,
        events: Sequence[seam.Event],
        nodes: Sequence[seam.Event],
        tables: dict[str, dict[str, Any]],
    ) -> None:
        times: dict[int, list[int]] = {thread: [-1] for thread in self._open}
        innermost = {thread: [calls[-1]] for thread, calls in self._open.items()}
        for _, t, thread, call, parent, _, _ in events:
            calls = self._open.setdefault(thread, [])
            if parent >= 0:
                calls.append(call)
            else:
                while calls and calls[-1] >= call:
                    calls.pop()
            times.setdefault(thread, [-1]).append(t)
            innermost.setdefault(thread, [0]).append(calls[-1] if calls else 0)
        self._open = {thread: calls for thread, calls in self._open.items() if calls}
        begun = [event for event in events if event[4] >= 0]
        if begun:
            _, when, _, numbers, parents, names, kinds = zip(*begun, strict=True)
            tables["calls"] = {
                "call": numbers,
                "parent": [parent or schema.NONE for parent in parents],
                "name": self._ids(names),
                "kind": self._ids(kinds),
                "t": self._times(when),
            }
        seqs: list[Array] = []
        found: list[Array] = []
        for thread in times:
            made = [(event[1], event[3]) for event in nodes if event[2] == thread]
            if made:
                moments, numbers_ = np.array(made, np.int64).T
                place = np.searchsorted(np.array(times[thread]), moments, "right") - 1
                call = np.array(innermost[thread])[place]
                seqs.append(numbers_[call > 0])
                found.append(call[call > 0])
        if seqs and sum(map(len, seqs)):
            tables["scopes"] = {"seq": np.concatenate(seqs), "call": np.concatenate(found)}

    def _hooks(self, events: Sequence[seam.Event]) -> dict[str, Any]:
        columns = tuple(zip(*events, strict=True))
        _, times, _, seqs, tasks, kinds, names, numbers, keys, codes, offsets = columns[:11]
        effects, factors, errors = columns[11:14]
        before, after = columns[14:19], columns[19:24]
        return {
            "seq": seqs,
            "task": tasks,
            "kind": self._ids(kinds),
            "name": self._ids(names),
            "number": numbers,
            "hook": keys,
            "site": self.sites.ids(codes, offsets),
            "effect": self._ids(effects),
            "factor": factors,
            "error": self._ids(errors),
            "before": _norms(before[0]),
            "before_min": before[1],
            "before_max": before[2],
            "before_nan": before[3],
            "before_inf": before[4],
            "after": _norms(after[0]),
            "after_min": after[1],
            "after_max": after[2],
            "after_nan": after[3],
            "after_inf": after[4],
            "t": self._times(times),
        }


def _array(values: Any, kind: schema.ColumnType) -> Array:
    """A column as it is stored; -1 in a u32 column becomes NONE."""
    dtype = DTYPES[kind]
    array = np.asarray(values, np.float64 if kind == "f64" else np.int64)
    return np.ascontiguousarray(array.astype(dtype, copy=False))


def _norms(squares: Sequence[float]) -> Array:
    """2-norms from sums of squares; -1 stays what it means: there was no gradient."""
    values = np.array(squares, np.float64)
    return np.where(values < 0, -1.0, np.sqrt(np.abs(values)))
