"""Records a running program: what to record, the log that the event sink fills, its encoding.

The log's lists are filled by their own methods: no Python function runs per event. Everything else
happens when somebody drains: every 40 ms while a page looks, else when somebody asks or much waits.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final, Literal

import numpy as np

from ag_visual.core import modes
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import LiveBackward, LiveNode, engines
from ag_visual.events.log import (
    BEGIN,
    BREAK,
    HELD,
    LEAF,
    MISSED,
    ODD,
    RUN,
    WRITE,
    Event,
    EventLog,
)
from ag_visual.events.node_record import sequence, thread_of, time_of
from ag_visual.observe.diagnose.odd_values import OddValues
from ag_visual.observe.record.allowance import Allowance
from ag_visual.observe.record.graph import emit_creations, walk
from ag_visual.observe.record.held_gradients import HeldGradients
from ag_visual.observe.record.hook_effect import HookEffect
from ag_visual.observe.record.last_unwatched import LastUnwatched
from ag_visual.observe.record.leaf_names import Labels
from ag_visual.observe.record.living import Living
from ag_visual.observe.record.parameters import Parameters
from ag_visual.observe.record.tangents import Tangents
from ag_visual.observe.wire import columns
from ag_visual.observe.wire.columns import Array, Chunk, Encoder
from ag_visual.observe.wire.store import Store, among
from ag_visual.observe.wire.streams import Fields, Nodes, Records, integers, run_rows

Scope = Literal["off", "newest", "block", "once", "every"]

LIMIT: Final = 64 * 2**20
"""Bytes of encoded events that are kept."""

CHUNK_ROWS: Final = 8192
"""Nodes and runs of one chunk, about half of them nodes."""

NEWEST_NODES: Final = 20_000
"""Nodes of the largest backward that is watched without being asked for."""

TOO_LONG: Final = 100_000
"""Undrained nodes (about 0.5 kB each with their runs) at which a backward first drains them."""


CROWD: Final = 256
"""References to nodes that wait in the log whatever became of them."""


_is_leaf: Final = operator.attrgetter("leaf")


@dataclass(slots=True)
class _Taken:
    """What was taken out of a log."""

    nodes: list[Records]
    events: list[Event]
    runs: list[list[Any]]
    leaves: list[list[Any]]
    writes: list[list[Any]]
    refs: list[weakref.ref[Any]]

    def add(self, later: _Taken) -> None:
        self.nodes += later.nodes
        self.events += later.events
        for name in ("runs", "leaves", "writes"):
            for field, rest in zip(getattr(self, name), getattr(later, name), strict=True):
                field += rest
        self.refs += later.refs


class Recorder:
    """One recording at a time. `start` and `stop` set and clear the event sink.

    Whoever owns it passes the beginnings and ends of backwards on to `began` and `ended`.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.scope: Scope = "off"
        self.rest: Literal["off", "newest"] = "off"  # the scope while nobody records
        self.allowance = Allowance(share=0.01)  # of the scope 'newest'
        self.looks = Allowance()  # of looking at backwards that it does not record
        self.reads = Allowance(grows=True)  # of reading what a recorded one has saved
        self.unwatched = 0  # nodes of the last backward that was too large for it
        self._open: set[int] = set()  # the backwards that it watches now
        self._called_in: CodeType | None = None  # the code that called the last backward
        self.every = 1
        self.store = Store(limit)
        self.encoder = Encoder(perf_counter_ns())
        self.labels = Labels()
        self.parameters = Parameters()
        self.tangents = Tangents()
        self.held = HeldGradients()
        self.odd = OddValues()
        self.missed = 0  # backwards since the last one that was recorded
        self.last_unwatched = LastUnwatched()
        self.on_scope_end: Callable[[], None] | None = None
        self._log = EventLog(HookEffect)
        self._crowded = CROWD  # references in the log from which on dead ones are sought
        self._living = Living()
        self._unnamed: dict[int, tuple[weakref.ref[Any], list[int]]] = {}
        self._lock = threading.RLock()
        self._since = 0  # seq of the first node that a continuous recording has seen
        self._skipped = 0
        self.ignored: set[int] = set()  # threads that work for the observer
        self._ignored_tasks: set[int] = set()  # their backwards

    # What to record --------------------------------------------------------------------------

    @property
    def on(self) -> bool:
        """Whether somebody asked for what is recorded."""
        return self.scope not in ("off", "newest")

    def watch_newest(self, wanted: bool) -> None:
        """While nobody records, record backwards as they come, as far as the allowance goes.

        Their graphs are read off the nodes as they begin, so that a forward costs nothing.
        """
        self.rest = "newest" if wanted else "off"
        if not self.on:
            self.stop()

    def start(self, scope: Scope = "block", every: int = 1) -> None:
        """Record from now on: until `stop`, for one backward, or every n-th backward."""
        if scope not in ("block", "once", "every"):
            raise ValueError(f"scope should be 'block', 'once' or 'every', but is {scope!r}")
        if every < 1:
            raise ValueError(f"every should be 1 or more, but is {every}")
        self.scope = scope
        self.every = every if scope == "every" else 1
        self.reads = Allowance(grows=True)
        self._skipped = 0
        self.odd, self.held = OddValues(), HeldGradients()
        self.missed = 0
        self._listen()

    def stop(self) -> None:
        """Stop recording; what was recorded stays."""
        self.scope = self.rest
        self.last_unwatched.let_go()
        if self.listening:
            instrument.sink = None
        self._open.clear()

    @property
    def listening(self) -> bool:
        """Whether what happens now is recorded."""
        return instrument.sink is self._log

    def _listen(self) -> None:
        self.last_unwatched.let_go()
        if not self.listening:
            self._since = next(sequence)
            instrument.sink = self._log

    def began(self, task: LiveBackward, frame: FrameType | None) -> None:
        """A backward begins, in this thread, called from this frame."""
        if self.scope == "newest":
            self._watch(task, frame)
        elif self.listening:
            if not self._is_usual(task):
                self._emit_values(task, self._begin(task, frame))
        else:
            self.held.forget()
            self.missed += self.on

    def _watch(self, task: LiveBackward, frame: FrameType | None) -> None:
        """Record this backward, if it may be: that is over with its end."""
        now = perf_counter_ns()
        if not self.listening:
            nodes = len(task.counts)
            if task.parent is not None:
                return
            self.last_unwatched.let_go()
            if nodes > NEWEST_NODES:
                self.unwatched = nodes
                self.held.forget()
                self.missed += 1
                return
            if not self.allowance.any_left(now) and not self._remarkable(task, now):
                self.missed += 1
                # While pages look: only then may its graph live on for them.
                self.last_unwatched.began(task, now, hold=self.allowance.grows)
                return
        self._open.add(task.id)
        self._listen()
        sinks = self._begin(task, frame)
        # What follows takes several times as long; who encodes and sends it adds what that took.
        begun = perf_counter_ns()
        self._emit_values(task, sinks)
        self.allowance.spend(10 * (begun - now) + perf_counter_ns() - begun)

    def _remarkable(self, task: LiveBackward, now: int) -> bool:
        """Whether a reader will ask for this backward: the first loss that is not finite, or
        gradients that nobody zeroes.
        """
        looks = self.looks
        if not looks.any_left(now):
            self.held.forget()
            return False
        self.held.of(filter(_is_leaf, task.counts))
        found = self.held.tells or self.odd.new_in(task)
        looks.spend(perf_counter_ns() - now)
        return found

    def _is_usual(self, task: LiveBackward) -> bool:
        """Whether a backward begins as the one before did, and has nothing to tell beside itself:
        what `_begin` and `_emit_values` would find. A small backward would feel more than this.
        """
        log, since, site = self._log, self._since, task.call_site
        if site is None or site[0] is not self._called_in or self.missed or not self.held.none:
            return False
        if modes.duals or engines or len(log.refs) + len(log.late) > self._crowded:
            return False
        for edge in task.root_edges:
            if edge[0].seq < since:
                return False
        keys = []
        for node in filter(_is_leaf, task.counts):
            if node.seq < since or node.leaf_status() is not None:
                return False
            keys.append(id(weakref.ref(node.variable)))
        return keys == self.labels.known[0] and self.odd.none_in(task)

    def _begin(self, task: LiveBackward, frame: FrameType | None) -> list[LiveNode]:
        """Tell what a backward begins with that nobody has told yet; the leaves it may reach."""
        log = self._log
        if len(log.refs) + len(log.late) > self._crowded:
            self._make_room(log)
        since, live, ref = self._since, self._living, weakref.ref
        older = [edge[0] for edge in task.root_edges if edge[0].seq < since]
        sinks, keys = [], []
        for node in filter(_is_leaf, task.counts):
            sinks.append(node)
            keys.append(id(ref(node.variable)))
            # Of a leaf, an older graph may hold the node that this one ends in.
            if node.seq < since and node.seq not in live:
                older.append(node)
        # What a small backward would feel most: looking through the variables of all frames.
        code = None if task.call_site is None else task.call_site[0]
        alike = keys == self.labels.known[0] and code is self._called_in
        leaves = [] if alike else [node.variable for node in sinks]
        if not alike and not self.labels.know(leaves):
            self.labels.learn(frame, leaves)
        if older:
            self.add_graph(older)
        if not alike:
            self._called_in = code
            unseen = self.scope == "newest"
            self.parameters.took(
                task, frame, leaves, catch_up=self._emit_breaks, node=self.node, unseen=unseen
            )
        if modes.duals or (engines and any(engine.duals for engine in engines)):
            self.tangents.keep(task.counts)
        return sinks

    def _make_room(self, log: EventLog) -> None:
        """Leave out references to nodes that are gone: the garbage collector walks over all that
        live for long, and who takes what is in the log asks for those alone that are alive.
        """
        if log.nodes_waiting > TOO_LONG:
            self.drain()
            return
        with self._lock:
            refs = log.refs
            end = len(refs)
            alive = [ref for ref in refs[:end] if ref() is not None]
            refs[:end] = alive
            self._crowded = 2 * (len(alive) + len(log.late)) + CROWD

    def _emit_values(self, task: LiveBackward, sinks: list[LiveNode]) -> None:
        """Tell what is odd in what the graph saved, and gradients that were there before."""
        emit, now = self._log.emit, perf_counter_ns()
        if self.reads.any_left(now):
            for seq, *counts in self.odd.of(task):
                emit((ODD, now, task.thread, task.id, seq, *counts))
            self.reads.spend(perf_counter_ns() - now)
        if self.missed:
            emit((MISSED, now, task.thread, task.id, self.missed))
            self.missed = 0
        held = self.held.of(sinks)
        if held is not None:
            emit((HELD, now, task.thread, task.id, *held))
        if self.held.idle is not None:
            seq, leaves = self.held.idle
            emit((HELD, now, task.thread, task.id, seq, 0, leaves))

    def _emit_breaks(self) -> None:
        """Have all told that has left a graph up to now."""
        if instrument.behind is not None or any(e[0] == BREAK for e in self._log.events.copy()):
            self.drain()

    def losing_tangents(self, since: int) -> None:
        """A level of forward mode that opened before node `since` ends, in this thread."""
        if not self.listening or self.tangents.full or threading.get_ident() in self.ignored:
            return
        with self._lock:
            self.drain()
            nodes = self._living.nodes([seq for seq in self._living if seq > since])
        self.tangents.keep(nodes)

    def ended(self, task: LiveBackward) -> None:
        """A backward ended: the scopes 'once' and 'every' may change what is recorded next."""
        if self.scope == "newest":
            self.last_unwatched.ended(task)
            self._open.discard(task.id)
            if not self._open and self.listening:
                instrument.sink = None
            return
        if self.scope in ("off", "block") or task.parent is not None:
            return
        if self.scope == "once":
            self.stop()
            if self.on_scope_end is not None:
                self.on_scope_end()
        elif self.listening and self.every > 1:
            instrument.sink = None
            self._skipped = 1
        elif not self.listening:
            self._skipped += 1
            if self._skipped >= self.every:
                self._listen()

    def cell_ended(self) -> None:
        """A cell of a notebook ended: its last backward is told now if nobody watched it."""
        roots = self.last_unwatched.roots()
        if roots and not self.listening:
            self.add_graph(roots)
            self.last_unwatched.emit(self._log, self.missed - 1)
            self.missed = 0
        self.last_unwatched.let_go()

    def add_graph(self, roots: Iterable[LiveNode]) -> None:
        """Tell the graph below `roots` as far as it is not known yet."""
        with self._lock:
            self.drain()
            emit_creations(walk(roots, self._living), self._log)

    # Encoding --------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Events that were not encoded yet."""
        return self._log.waiting + self._living.died

    def drain(self) -> None:
        """Encode all events that came so far into the store.

        What comes meanwhile waits for the next call: a program that runs on would never let this
        one end, and pages would see nothing before it did.
        """
        behind = instrument.behind
        if behind is not None and self.listening:
            behind()
        with self._lock:
            if self.waiting:
                self._drain_some()
            self.labels.forget_dead()

    def _drain_some(self) -> None:
        """Encode what came up to this moment."""
        # A node is emitted before it dies, and kept before that: looked at the other way round.
        buried = self._living.buried()
        taken = self._take()
        self._know(taken)
        nodes = self.encoder.nodes(taken.nodes)
        while older := self._follow(nodes, taken):
            emit_creations(older, self._log)
            more = self._take()
            self._know(more)
            taken.add(more)
            nodes = self.encoder.nodes(taken.nodes)
        kinds = columns.by_kind(taken.events)
        names = self.labels.texts(taken.leaves[-1])
        self.parameters.note_breaks(kinds[BREAK])
        facts, missing = self.parameters.take()
        chunk = self.encoder.encode(
            kinds,
            facts=facts,
            missing=missing,
            nodes=nodes,
            runs=taken.runs,
            leaves=taken.leaves,
            names=names,
            writes=taken.writes,
            labels=self._name_leaves(taken.leaves, names),
            freed=self._gone(nodes, taken, buried),
            now=perf_counter_ns(),
        )
        for part in chunk.parts(CHUNK_ROWS):
            self.store.add(part)
            if self.store.full:
                self.store.make_room(self.alive())

    def _of_others(self, taken: _Taken) -> _Taken:
        """Leave out what ignored threads did: their events, nodes, and runs of their tasks."""
        ignored = self.ignored
        nodes = [
            (stream, [record for record in records if thread_of(record) not in ignored])
            for stream, records in taken.nodes
        ]
        # A drain may come inside of a backward, or between its beginning and this moment.
        tasks = self._ignored_tasks
        for event in (*taken.events, *self._log.events.copy()):
            if event[0] == BEGIN and event[2] in ignored:
                tasks.add(event[3])
        return _Taken(
            nodes,
            [event for event in taken.events if event[2] not in ignored],
            _without(tasks, taken.runs, run_rows(taken.runs[0])[:, 1].tolist()),
            _without(ignored, taken.leaves, taken.leaves[1]),
            _without(ignored, taken.writes, taken.writes[1]),
            taken.refs,
        )

    def _take(self) -> _Taken:
        """All events up to now. Those of a thread are in the order in which they happened."""
        log = self._log
        now = perf_counter_ns()  # a backward that has ended by now has told its runs
        log.emit_late()
        nodes = []
        for stream in list(log.nodes.values()):
            records = stream.records
            end = len(records)
            while end and time_of(records[end - 1]) > now:
                end -= 1
            nodes.append((stream, records[:end]))
            del records[:end]
        events = []
        while log.events and log.events[0][1] <= now:
            events.append(log.events.popleft())
        runs = _emptied(log.runs, RUN)
        leaves = _emptied(log.leaves, LEAF)
        writes = _emptied(log.writes, WRITE)
        (refs,) = _emptied(log.refs, 1)
        self._crowded = CROWD
        taken = _Taken(nodes, events, runs, leaves, writes, refs)
        return self._of_others(taken) if self.ignored else taken

    def _know(self, taken: _Taken) -> None:
        """Know which of these nodes live. Nobody else may have their records."""
        self._living.hold(filter(None, map(operator.call, taken.refs)))
        for _, records in taken.nodes:
            self._living.told(records)

    def _follow(self, new: Nodes | None, taken: _Taken) -> list[LiveNode]:
        """The nodes below new ones that came to life while nobody listened."""
        if new is None:
            return []
        living = self._living
        wanted = new.edges["dst"]
        wanted = wanted[wanted >= 0]
        wanted = wanted[~among(wanted, new.seq)]
        missing = set(wanted.tolist()).difference(taken.leaves[2])
        missing = {seq for seq in missing if seq not in living}
        if not missing:
            return []
        roots = [
            below
            for node in living.nodes(seq for seq in new.seq.tolist() if seq in living)
            for below, _ in node.next_functions
            if below is not None and below.seq in missing
        ]
        return walk(roots, living)

    def _gone(self, new: Nodes | None, taken: _Taken, buried: list[int]) -> Array:
        """The numbers of nodes that died: `buried`, and those of the new ones that none holds."""
        born = integers(taken.leaves[2])
        if new is not None:
            born = np.concatenate([new.seq, born])
        gone = self._living.without(born)
        if not buried:
            return gone
        before = integers(buried)
        return np.concatenate([before, gone[~np.isin(gone, before)]])

    def _name_leaves(self, leaves: Fields, names: list[str]) -> list[tuple[int, str]]:
        """Names found for leaves that were recorded without one."""
        if not all(names):
            for seq, ref, name in zip(leaves[2], leaves[-1], names, strict=True):
                if not name:
                    self._unnamed.setdefault(id(ref), (ref, []))[1].append(seq)
        found: list[tuple[int, str]] = []
        for key, (ref, seqs) in list(self._unnamed.items()):
            name = self.labels(ref)
            found += [(seq, name) for seq in seqs if name]
            if name or ref() is None:
                del self._unnamed[key]
        return found

    @contextmanager
    def ignoring(self, thread: int) -> Iterator[None]:
        """Leave out what this thread does: it works for the observer, not for the program."""
        self.drain()
        try:
            self.ignored.add(thread)
            yield
        finally:
            try:
                self.drain()
            finally:  # whatever an interrupt ended
                self.ignored.discard(thread)
                if not self.ignored:
                    self._ignored_tasks.clear()

    # What is known ---------------------------------------------------------------------------

    def node(self, seq: int) -> LiveNode | None:
        """The node of that number if it is alive."""
        with self._lock:
            return self._living.node(seq)

    def alive(self) -> Array:
        """Numbers of all nodes that were alive at the last drain, sorted."""
        with self._lock:
            return self._living.numbers()

    def chunks(self) -> list[Chunk]:
        """Everything that is kept, encoded."""
        with self._lock:
            self.drain()
            return list(self.store.all())

    def clear(self) -> None:
        """Forget what was recorded. Nodes that still live are recorded again when needed."""
        with self._lock:
            listening = self.listening
            self._log = EventLog(HookEffect)
            if listening:
                instrument.sink = self._log
            self._living = Living()
            self._unnamed = {}
            self.last_unwatched.let_go()
            self.missed = 0
            self.tangents = Tangents()
            self.parameters = Parameters()
            self._called_in = None
            self.store.clear()
            zero, steps = self.encoder.zero, self.encoder.steps
            self.encoder = Encoder(zero)
            self.encoder.steps = steps
            self._since = next(sequence)


def _emptied(records: list[Any], width: int) -> list[list[Any]]:
    """What was in the list, which goes on being filled: a list for each field of its records."""
    end = len(records)
    taken = [records[i:end:width] for i in range(width)]
    del records[:end]
    return taken


def _without(unwanted: set[int], fields: list[list[Any]], of: list[int]) -> list[list[Any]]:
    """The records that are of none of these threads, or tasks. of: whose each record is."""
    kept = [i for i, key in enumerate(of) if key not in unwanted]
    return [[field[i] for i in kept] for field in fields]
