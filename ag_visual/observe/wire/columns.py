"""Events to columns: interned strings and sites, chunks of tables, the encoder between them.

Runs off the hot path, on whole lists of events at once: columns are filled by `zip` and C-level
mapping, never row by row. An encoder is used under its recorder's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from types import CodeType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ag_visual.core import source
from ag_visual.events import threads
from ag_visual.events.log import BEGIN, BREAK, END, HELD, HOOK, MISSED, ODD, PAUSE, RANGE, Event
from ag_visual.events.node_record import NodeSchema
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.streams import Fields, NodeReader, Nodes, Records, integers, read_runs
from ag_visual.observe.wire.text import fit

Array = NDArray[Any]
Tables = dict[str, dict[str, Array]]

Kinds = list[list[Event]]
"""Events by kind, each in the order in which they came."""

DTYPES: Final = {
    name: np.dtype("<" + layout.letter) for name, layout in schema.COLUMN_TYPES.items()
}


def shape_text(shape: Iterable[int]) -> str:
    """A shape as people write it: 64×128, and nothing for a scalar; ? for no length."""
    return "×".join(["?" if length < 0 else str(length) for length in shape])


def _numel(shape: tuple[int, ...]) -> int:
    """Elements of a shape, 0 where one of its lengths is no number."""
    return prod(shape) if all(length >= 0 for length in shape) else 0


class Strings(dict[str, int]):
    """Text -> id, in order of appearance; id 0 is the empty string."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self[""]

    def __missing__(self, text: str) -> int:
        sent = fit(text)
        if len(sent) < len(text):  # a long name is not held for the length of a session
            return self[sent]
        self[text] = number = len(self.texts)
        self.texts.append(sent)
        return number


class _Shapes(dict[tuple[int, ...], tuple[int, float]]):
    """Shape -> (id of its text, number of elements)."""

    def __init__(self, strings: Strings) -> None:
        super().__init__()
        self.strings = strings

    def __missing__(self, shape: tuple[int, ...]) -> tuple[int, float]:
        self[shape] = found = self.strings[shape_text(shape)], float(_numel(shape))
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
        self._read: dict[source.Site, int] = {}  # places that were read off the source

    def __missing__(self, key: tuple[int, int]) -> int:
        code = self.codes.get(key[0])
        self[key] = number = schema.NONE if code is None else len(self.found)
        if code is not None:
            self.found.append(source.resolve(code, key[1]))
        return number

    def of(self, site: source.Site | None) -> int:
        """The id of a place that is known already."""
        if site is None or not site.line:
            return schema.NONE
        if site not in self._read:
            self._read[site] = len(self.found)
            self.found.append(site)
        return self._read[site]

    def ids(self, codes: Sequence[CodeType | None], offsets: Sequence[int]) -> list[int]:
        keys = list(map(id, codes))
        known = dict(zip(keys, codes, strict=True))
        self.codes.update({key: code for key, code in known.items() if code is not None})
        return list(map(self.__getitem__, zip(keys, offsets, strict=True)))


_OF_NODES: Final = {"edges": "src", "saved": "node", "scopes": "seq"}
"""Tables that tell more of nodes in `nodes`, with the column that says of which."""


class Chunk:
    """Rows of some tables, in the order in which they happened."""

    __slots__ = ("nbytes", "tables")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.nbytes = sum(a.nbytes for columns in tables.values() for a in columns.values())

    def rows(self, table: str) -> int:
        columns = self.tables.get(table)
        return 0 if not columns else len(next(iter(columns.values())))

    def parts(self, rows: int) -> list[Chunk]:
        """The chunk in order of time, in parts of so many nodes and runs. Empty: no part."""
        parts = -(-(self.rows("nodes") + self.rows("runs")) // rows)
        if parts <= 1:
            return [self] if self.tables else []
        each = {table: self._moments(table) for table in self.tables if table not in _OF_NODES}
        times = np.concatenate([each[table] for table in ("nodes", "runs") if table in each])
        cuts = np.partition(times, np.arange(1, parts) * len(times) // parts)
        cuts = cuts[np.arange(1, parts) * len(times) // parts]
        found: list[Tables] = [{} for _ in range(parts)]
        for table, columns in self.tables.items():
            if table in _OF_NODES:
                # With their nodes, which come in order of time and of their numbers.
                moments = columns[_OF_NODES[table]]
                nodes = self.tables["nodes"]["seq"]
                places = np.searchsorted(each["nodes"], cuts)
                borders = np.append(nodes, nodes[-1] + 1)[places]
            else:
                moments, borders = each[table], cuts
            if bool((moments[1:] < moments[:-1]).any()):
                order = np.argsort(moments, kind="stable")
                moments = moments[order]
                columns = {name: values[order] for name, values in columns.items()}
            bounds = [0, *np.searchsorted(moments, borders).tolist(), len(moments)]
            for part, start, end in zip(found, bounds[:-1], bounds[1:], strict=True):
                if start < end:
                    part[table] = {name: values[start:end] for name, values in columns.items()}
        return [Chunk(tables) for tables in found if tables]

    def _moments(self, table: str) -> Array:
        """When each row of a table was emitted."""
        columns = self.tables[table]
        if table in ("freed", "labels"):
            return np.full(self.rows(table), np.inf)
        if table != "nodes":
            return columns["t1" if table == "runs" else "t"]
        # An old node that is recorded late has still to come before those above it.
        return np.minimum.accumulate(columns["t"][::-1])[::-1]

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
        begins, ended = kinds[BEGIN], kinds[END]
        ends: list[int] = [e[1] for e in ended]
        if not self._depth and self._in_turns(begins, ended):
            first = self.now
            self.now += len(ends)
            return ends, list(range(first, self.now + 1))
        marks = [(e[1], 1, e[2]) for e in begins]
        marks += [(e[1], -1, e[2]) for e in ended]
        ends = []
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

    @staticmethod
    def _in_turns(begins: Sequence[Event], ends: Sequence[Event]) -> bool:
        """Whether each backward ended before the next began, as in most programs."""
        if [e[3] for e in begins] != [e[3] for e in ends]:
            return False
        times = [0] * (2 * len(ends))
        times[::2], times[1::2] = [e[1] for e in begins], [e[1] for e in ends]
        return times == sorted(times)


def by_kind(events: Iterable[Event]) -> Kinds:
    """Events sorted by their kind."""
    kinds: Kinds = [[] for _ in range(9)]
    for event in events:
        kinds[event[0]].append(event)
    return kinds


class Encoder:
    """Turns what a log holds into chunks; keeps what ids mean for as long as its epoch lasts."""

    def __init__(self, zero: int) -> None:
        self.zero = zero  # perf_counter_ns when the session began
        self.strings = Strings()
        self.sites = Sites()
        self.steps = _Steps()
        self._shapes = _Shapes(self.strings)
        self._names = _ById(self.strings)
        self._nodes = NodeReader(self._node, self._tensor)
        self._open: dict[int, list[int]] = {}  # calls of modules under way, by thread

    def milliseconds(self, t: int) -> float:
        return (t - self.zero) / 1e6

    def nodes(self, taken: Sequence[Records]) -> Nodes | None:
        """The nodes of one log, for `encode`."""
        return self._nodes.read(taken)

    def encode(
        self,
        kinds: Kinds,
        *,
        nodes: Nodes | None = None,
        runs: Fields = (),
        leaves: Fields = (),
        names: Sequence[str] = (),
        writes: Fields = (),
        labels: Sequence[tuple[int, str]] = (),
        freed: Sequence[int] | Array = (),
        facts: Sequence[Any] = (),
        missing: Sequence[Any] = (),
        now: int = 0,
    ) -> Chunk:
        """Columns of all events, nodes, and fields of runs, leaves and writes (see events.log).

        names: of each leaf; labels: (seq, name) found for leaves recorded before; freed: seqs
        that died by `now`; facts and missing: of parameters (see observe.record.parameters).
        """
        tables: dict[str, dict[str, Any]] = {}
        steps = self.steps.numbers(kinds)
        if nodes is not None:
            tables |= self._made(nodes, steps)
        if names:
            tables["leaves"] = self._leaves(leaves, names)
        if any(runs):
            tables["runs"] = self._runs(runs)
        if kinds[BEGIN] or kinds[END]:
            tables["tasks"] = self._tasks(kinds[BEGIN], kinds[END])
        if any(writes):
            tables["writes"] = self._writes(writes)
        if kinds[HOOK]:
            tables["hooks"] = self._hooks(kinds[HOOK])
        if kinds[BREAK]:
            tables["breaks"] = self._breaks(kinds[BREAK])
        if kinds[PAUSE]:
            tables["pauses"] = self._pauses(kinds[PAUSE])
        if facts:
            tables["parameters"] = self._parameters(facts)
        if missing:
            tables["absent"] = self._absent(missing)
        if kinds[ODD]:
            tables["odd"] = self._odd(kinds[ODD])
        if kinds[HELD]:
            tables["held"] = self._held(kinds[HELD])
        if kinds[MISSED]:
            _, times, _, tasks, passes = zip(*kinds[MISSED], strict=True)
            tables["missed"] = {"task": tasks, "passes": passes, "t": self._times(times)}
        if labels:
            seqs, texts = zip(*labels, strict=True)
            tables["labels"] = {"seq": seqs, "label": self._ids(texts)}
        if kinds[RANGE] or self._open:
            self._calls(kinds[RANGE], nodes, tables)
        if len(freed):
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
        return (integers(times) - self.zero) / 1e6

    def _node(
        self,
        schema_: NodeSchema,
        code: CodeType | None,
        lasti: int,
        shape: tuple[int, ...],
        dtype: Any,
    ) -> list[int]:
        name, kind = self._names.ids((schema_.node_class, dtype))
        text, numel = self._shapes[shape]
        (site,) = self.sites.ids((code,), (lasti,))
        return [name, site, text, kind, schema_.outputs, int(numel)]

    def _tensor(self, name: str, own: bool, shape: tuple[int, ...], dtype: Any) -> list[int]:
        text, numel = self._shapes[shape]
        (kind,) = self._names.ids((dtype,))
        return [self.strings[name], int(numel) * dtype.itemsize, text, kind, own]

    def _made(
        self, nodes: Nodes, steps: tuple[list[int], list[int]]
    ) -> dict[str, dict[str, Array]]:
        ends, numbers = steps
        t = (nodes.t - self.zero) / 1e6
        step = np.array(numbers)[np.searchsorted(ends, nodes.t)]
        thread = np.full(len(t), threads.numbers[int(nodes.thread[0])])
        for ident in np.unique(nodes.thread).tolist() if np.ptp(nodes.thread) else ():
            thread[nodes.thread == ident] = threads.numbers[ident]
        more = {"seq": nodes.seq, "t": t, "thread": thread, "step": step}
        found = {"nodes": {**nodes.columns, **more}}
        if len(nodes.edges["src"]):
            found["edges"] = nodes.edges
        if len(nodes.saved["node"]):
            found["saved"] = nodes.saved
        return found

    def _leaves(self, leaves: Fields, names: Sequence[str]) -> dict[str, Any]:
        times, _, seqs, shapes, dtypes, storages, _ = leaves
        return {
            "seq": seqs,
            "label": self._ids(names),
            "shape": [text for text, _ in map(self._shapes.__getitem__, shapes)],
            "dtype": self._names.ids(dtypes),
            "storage": storages,
            "t": self._times(times),
            "site": np.full(len(seqs), schema.NONE),
        }

    def _runs(self, runs: Fields) -> dict[str, Any]:
        found = read_runs(runs)
        squares = found.pop("squares")
        for time in ("t0", "t1"):
            found[time] = (found[time] - self.zero) / 1e6
        finite = squares < np.inf
        return {**found, "norm": _norms(squares), "flags": ~finite}

    def _tasks(self, begins: Sequence[Event], ends: Sequence[Event]) -> dict[str, Any]:
        # Without a tuple for each row: so many at once call for the garbage collector.
        none, count = schema.NONE, len(ends)
        sites = self.sites.ids([e[4] for e in begins], [e[5] for e in begins])
        roots = [e[6][0] if e[6] else none for e in begins]
        found: dict[str, Any] = {
            "t": self._times([e[1] for e in begins] + [e[1] for e in ends]),
            "task": [e[3] for e in begins] + [e[3] for e in ends],
            "site": sites + [none] * count,
            "total": [e[7] for e in begins] + [0] * count,
            "retain": [e[8] for e in begins] + [False] * count,
            "ended": [0] * len(begins) + [2 if e[4] else 1 for e in ends],
            "thread": [threads.numbers[e[2]] for e in (*begins, *ends)],
            "root": roots + [none] * count,
        }
        order = np.argsort(found["t"], kind="stable")
        times = found.pop("t")[order]
        return {"t": times} | {name: integers(each)[order] for name, each in found.items()}

    def _writes(self, writes: Fields) -> dict[str, Any]:
        times, _, storages, versions, counts, ops, codes, offsets = writes
        return {
            "storage": storages,
            "version": versions,
            "writes": counts,
            "op": self._ids(ops),
            "site": self.sites.ids(codes, offsets),
            "t": self._times(times),
        }

    def _calls(
        self, events: Sequence[Event], nodes: Nodes | None, tables: dict[str, dict[str, Any]]
    ) -> None:
        # On a copy: an interrupt must not leave half of the events in it.
        under_way = {thread: list(calls) for thread, calls in self._open.items()}
        times: dict[int, list[int]] = {thread: [-1] for thread in under_way}
        innermost = {thread: [calls[-1]] for thread, calls in under_way.items()}
        for _, t, thread, call, parent, *_ in events:
            calls = under_way.setdefault(thread, [])
            if parent >= 0:
                calls.append(call)
            else:
                while calls and calls[-1] >= call:
                    calls.pop()
            times.setdefault(thread, [-1]).append(t)
            innermost.setdefault(thread, [0]).append(calls[-1] if calls else 0)
        self._open = {thread: calls for thread, calls in under_way.items() if calls}
        begun = [event for event in events if event[4] >= 0]
        if begun:
            _, when, _, numbers, parents, names, kinds, _ = zip(*begun, strict=True)
            tables["calls"] = {
                "call": numbers,
                "parent": [parent or schema.NONE for parent in parents],
                "name": self._ids(names),
                "kind": self._ids(kinds),
                "t": self._times(when),
            }
        self._levels([event for event in begun if event[7] is not None], tables)
        seqs: list[Array] = []
        found: list[Array] = []
        for thread in times if nodes is not None else ():
            assert nodes is not None
            made = nodes.thread == thread
            if made.any():
                place = np.searchsorted(np.array(times[thread]), nodes.t[made], "right") - 1
                call = np.array(innermost[thread])[place]
                seqs.append(nodes.seq[made][call > 0])
                found.append(call[call > 0])
        if seqs and sum(map(len, seqs)):
            tables["scopes"] = {"seq": np.concatenate(seqs), "call": np.concatenate(found)}

    def _levels(self, begun: Sequence[Event], tables: dict[str, dict[str, Any]]) -> None:
        if begun:
            kinds, depths, sizes, codes, offsets = zip(*(e[7] for e in begun), strict=True)
            tables["levels"] = {
                "call": [e[3] for e in begun],
                "kind": self._ids(kinds),
                "depth": depths,
                "size": sizes,
                "site": self.sites.ids(codes, offsets),
                "t": self._times([e[1] for e in begun]),
            }

    def _pauses(self, events: Sequence[Event]) -> dict[str, Any]:
        _, times, idents, tasks, since = zip(*events, strict=True)
        return {
            "task": tasks,
            "since": self._times(since),
            "thread": [threads.numbers[ident] for ident in idents],
            "t": self._times(times),
        }

    def _odd(self, events: Sequence[Event]) -> dict[str, Any]:
        _, times, _, tasks, seqs, names, flags, *counts = zip(*events, strict=True)
        numbers = ("elements", "nan", "inf", "zero", "negative", "beyond")
        return {
            "seq": seqs,
            "task": tasks,
            "name": self._ids(names),
            "flags": flags,
            **dict(zip(numbers, counts, strict=True)),
            "t": self._times(times),
        }

    def _held(self, events: Sequence[Event]) -> dict[str, Any]:
        _, times, _, tasks, seqs, updates, leaves = zip(*events, strict=True)
        return {
            "task": tasks,
            "seq": seqs,
            "updates": updates,
            "leaves": leaves,
            "t": self._times(times),
        }

    def _breaks(self, events: Sequence[Event]) -> dict[str, Any]:
        _, times, _, seqs, names, kinds, codes, offsets, makers, leaves = zip(*events, strict=True)
        return {
            "seq": seqs,
            "name": self._ids(names),
            "kind": self._ids(kinds),
            "site": self.sites.ids(codes, offsets),
            "maker": makers,
            "flags": leaves,
            "t": self._times(times),
        }

    def _parameters(self, facts: Sequence[Any]) -> dict[str, Any]:
        numbers, modules, orders, names, shapes, dtypes, storages, trained, times = zip(
            *facts, strict=True
        )
        return {
            "parameter": numbers,
            "module": modules,
            "order": orders,
            "name": self._ids(names),
            "shape": [self._shapes[shape][0] for shape in shapes],
            "dtype": self._ids(dtypes),
            "storage": storages,
            "flags": trained,
            "t": self._times(times),
        }

    def _absent(self, missing: Sequence[Any]) -> dict[str, Any]:
        numbers, tasks, whys, times = zip(*missing, strict=True)
        return {
            "parameter": numbers,
            "task": tasks,
            "kind": self._ids(why.kind for why in whys),
            "text": self._ids(why.text for why in whys),
            "repair": self._ids(why.repair for why in whys),
            "site": [self.sites.of(why.site) for why in whys],
            "t": self._times(times),
        }

    def _hooks(self, events: Sequence[Event]) -> dict[str, Any]:
        columns = tuple(zip(*events, strict=True))
        _, times, _, seqs, tasks, kinds, names, numbers, keys, codes, offsets = columns[:11]
        effects, factors, errors = columns[11:14]
        stats: dict[str, Any] = {}
        for when, parts in (("before", columns[14:19]), ("after", columns[19:24])):
            stats[when] = _norms(parts[0])
            names_ = (f"{when}_{what}" for what in ("min", "max", "nan", "inf"))
            stats |= zip(names_, parts[1:], strict=True)
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
            **stats,
            "t": self._times(times),
        }


def _array(values: Any, kind: schema.ColumnType) -> Array:
    """A column as it is stored; -1 in a u32 column becomes NONE."""
    dtype = DTYPES[kind]
    if kind == "f64":
        array = np.asarray(values, np.float64)
    else:
        array = values if isinstance(values, np.ndarray) else integers(values)
    return np.ascontiguousarray(array.astype(dtype, copy=False))


def _norms(squares: Sequence[float] | Array) -> Array:
    """2-norms from sums of squares; what is negative stays what it means."""
    values = np.array(squares, np.float64)
    return np.where(values < 0, values, np.sqrt(np.abs(values)))
