"""What a program did while somebody records: lists of numbers, strings, shapes, weak references.

Never a tensor, a node or an array. Why these are not tuples: docs/notes/events.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol
from weakref import ref

from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.memory import CallSite
from ag_visual.events.node_record import FORMAT, NodeSchema, NodeStreams, node_record, row

BEGIN, END, HOOK, RANGE, BREAK, PAUSE, ODD, HELD, MISSED = range(9)

Event = tuple[Any, ...]
# What is rare, as a tuple. The kind first; t in perf_counter_ns.
#   BEGIN t, thread, task, code, lasti, seqs of the roots, nodes to run, retain
#   END   t, thread, task, name of the error or ''
#   HOOK  t, thread, seq, task, kind, hook's name, output, handle's id (-1: none), code and lasti of
#         where it was added, effect, factor, error; before and after: |g|^2, min, max, NaNs, infs
#   BREAK   t, thread, seq, input's name, how it left the graph, code and lasti of where, seq of the
#         node that made what it was taken from (-1: unknown), that was a leaf
#   PAUSE t, thread, task, since: a backward that was stopped goes on
#   ODD   t, thread, task, seq, name of what it saved, flags (1: its own output, 2: no gradient goes
#         there), elements, and how many of them are NaN, infinite, zero, negative, beyond (-1, 1)
#   HELD  t, thread, task, seq of a leaf that has a gradient, updates since it had none, such leaves
#   MISSED t, thread, task, backwards before it that were not recorded
#   RANGE t, thread, range, range around it (0: none, -1: this range ends), name, kind (of a module:
#         its class), of the level of a transform: kind, depth, size, code, lasti (else None)

RUN: Final = 3
"""Fields of one run of a node: its `run_record`, then |g|^2 and None, or the gradient's bytes and
its dtype (nan possible, -1: no gradient). dtypes are the array library's."""

RUN_NUMBERS: Final = 6
run_record: Final = struct.Struct(f"{RUN_NUMBERS}{FORMAT}").pack
"""run_record(seq, task, order, t0, t1, bytes that follow): the numbers of a run as bytes."""

LEAF: Final = 7
"""Fields of a leaf: t, thread, its AccumulateGrad's seq, shape, dtype, storage, weak reference."""

WRITE: Final = 8
"""Fields of a write in place: t, thread, storage, version, writes, op, code, lasti."""

SMALL: Final = 1024
"""Bytes up to which a gradient is copied in less time than its norm takes; others are in `run`
as |g|^2."""

TINY: Final = 1e-30
"""|g|^2 below which float32 has lost some of it: its squares end long before its numbers."""

SMALLEST: Final = 5e-324
"""|g|^2 of what is not zero, but has squares that no float64 has."""


Saved = tuple[list[tuple[str, bool]], list[Any], list[int]]
"""What a node saved: the name of each tensor and whether it is the node's own output; shape and
dtype of each, one after the other; storage and version of each."""


class HookField(NamedTuple):
    """One hook of a node. number: of the output that it is on; key: of its handle."""

    kind: str  # tensor, retain_grad, pre, post_accumulate, post, multi_grad or module
    name: str
    number: int
    key: int | None
    call_site: CallSite


class HookCall(Protocol):
    """One call of a hook, as a reader follows it: made before the call, as the hook may write."""

    def ended(self, result: Any, grads: Sequence[Any]) -> None:
        """The hook returned `result`, and `grads` is what goes on."""

    def failed(self, error: BaseException) -> None:
        """The hook, or the check of what it returned, raised."""

    def kept(self) -> None:
        """It was retain_grad, which changes nothing."""


AroundHook = Callable[["EventLog", int, int, HookField, Sequence[Any]], HookCall]
"""around_hook(log, seq, task's id, hook, what goes in: tensors or None), before the call."""


class LateNode(Protocol):
    """A node that makes its record when somebody takes what is in the log."""

    def emit_creation(self, log: EventLog) -> None:
        """Emit into this log what its creation would have emitted."""


class LateRuns(Protocol):
    """A backward that makes the records of its runs when somebody takes what is in the log."""

    @property
    def pending(self) -> int:
        """How many runs it has no record of yet."""

    def emit_runs(self, log: EventLog) -> bool:
        """Record into this log the runs that have ended; whether others are to come."""


class EventLog:
    """Where events go, as lists that an observer copies the front of and then deletes.

    What waits in it is hardly seen by the garbage collector: bytes in place of tuples, fields of
    runs, leaves and writes one after the other. A node that built code made holds its record
    (`Told`), which is told after that; of others there is a weak reference (`keep`) before their
    record is. A reader may take those out early that are dead.
    """

    __slots__ = (
        "__weakref__",
        "_schemas",
        "around_hook",
        "cache",
        "emit",
        "events",
        "keep",
        "late",
        "late_runs",
        "leaf",
        "leaves",
        "nodes",
        "refs",
        "run",
        "runs",
        "write",
        "writes",
    )

    def __init__(self, around_hook: AroundHook | None = None) -> None:
        """around_hook: emits a HOOK event once a hook has run; without it none is emitted."""
        self.around_hook = around_hook
        self.events: deque[Event] = deque()
        self.emit = self.events.append
        self.nodes = NodeStreams()
        # lasti + spread of the schema -> what was last recorded there.
        self.cache = self.nodes.cache
        self.refs: list[ref[Any]] = []
        self.keep = self.refs.append
        # Nodes without a record yet: they live until somebody takes what is in the log.
        self.late: list[LateNode] = []
        self.late_runs: list[LateRuns] = []
        self.runs: list[Any] = []
        self.run = self.runs.extend
        self.leaves: list[Any] = []
        self.leaf = self.leaves.extend
        self.writes: list[Any] = []
        self.write = self.writes.extend
        self._schemas: dict[Any, NodeSchema] = {}

    def schema(
        self, node_class: type, outputs: int, saved: tuple[tuple[str, bool], ...]
    ) -> NodeSchema:
        """The schema of a node that no op has declared."""
        key = node_class, outputs, saved
        found = self._schemas.get(key)
        if found is None:
            found = self._schemas.setdefault(key, NodeSchema(*key))
        return found

    def node(
        self,
        node: Any,
        node_class: type,
        code: CodeType | None,
        lasti: int,
        outputs: Sequence[tuple[tuple[int, ...], Any]],
        edges: Sequence[tuple[int, int]],
        saved: Saved,
        *,
        made: int = 0,
        thread: int = 0,
    ) -> None:
        """A node was made. outputs: (shape, dtype); edges: (seq below or -1, which output).

        made, thread: when and in which thread, where that is not now and here.
        """
        names, kinds, numbers = saved
        schema = self.schema(node_class, len(outputs), tuple(names))
        record = node_record(len(edges), len(names))
        facts = row(outputs[0], [number for _, number in edges], kinds)
        last = self.cache.get(lasti + schema.spread)
        if last is None or last[1] is not code or last[0] != facts:
            last = self.nodes[record].key(schema, code, lasti, facts)
        _, _, key, put = last
        self.keep(ref(node))
        first = key, made or perf_counter_ns(), thread or get_ident(), node.seq
        put(record.pack(*row(first, [seq for seq, _ in edges], numbers)))

    def emit_late(self) -> None:
        """Make the records that were put off, to which other threads go on adding.

        Runs first: the nodes of all of them are in `late` by then.
        """
        for task in self.late_runs[:]:
            if not task.emit_runs(self):
                self.late_runs.remove(task)
        waiting = self.late[:]
        for node in waiting:
            node.emit_creation(self)
        del self.late[: len(waiting)]

    @property
    def nodes_waiting(self) -> int:
        """How many nodes are in it."""
        emitted = sum([len(stream.records) for stream in list(self.nodes.values())])
        return emitted + len(self.leaves) // LEAF + len(self.late)

    @property
    def waiting(self) -> int:
        """How many records are in it."""
        emitted = len(self.runs) // RUN + len(self.writes) // WRITE
        pending = sum([task.pending for task in self.late_runs])
        return len(self.events) + self.nodes_waiting + emitted + pending
