"""Records a running program: what to record, the log that the seam fills, its encoding.

The log's lists are filled by their own methods: no Python function runs per event. Everything else
happens when somebody drains: every 40 ms while a page looks, else when somebody asks or much waits.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Literal

import numpy as np

from ag_visual.core import node as nodes
from ag_visual.core import seam
from ag_visual.core.node import AccumulateGrad, Node
from ag_visual.observe import columns
from ag_visual.observe.columns import Array, Chunk, Encoder
from ag_visual.observe.graph import tell, walk
from ag_visual.observe.names import Labels
from ag_visual.observe.store import Store
from ag_visual.observe.streams import Nodes, Stream

Scope = Literal["off", "block", "once", "every"]

LIMIT: Final = 64 * 2**20
"""Bytes of encoded events that are kept."""

CHUNK_ROWS: Final = 8192
"""Nodes and runs of one chunk, about half of them nodes."""

TOO_LONG: Final = 200_000
"""Undrained events (0.3 kB each) at which a backward first drains them itself."""


class _NodeRef(weakref.ref[Node]):
    """A weak reference that still knows its node's number when the node is gone."""

    __slots__ = ("seq",)
    seq: int


class Recorder:
    """One recording at a time. `start` and `stop` set and clear the seam's sink.

    Whoever owns it passes the beginnings and ends of backwards on to `began` and `ended`.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.scope: Scope = "off"
        self.every = 1
        self.store = Store(limit)
        self.encoder = Encoder(time.perf_counter_ns())
        self.labels = Labels()
        self.on_scope_end: Callable[[], None] | None = None
        self._log = seam.Log()
        self._dead: deque[_NodeRef] = deque()
        self._live: dict[int, _NodeRef] = {}
        self._unnamed: dict[int, tuple[weakref.ref[Any], list[int]]] = {}
        self._lock = threading.RLock()
        self._since = 0  # seq of the first node that a continuous recording has seen
        self._skipped = 0
        self.ignored: set[int] = set()  # threads that work for the observer

    # What to record --------------------------------------------------------------------------

    @property
    def on(self) -> bool:
        return self.scope != "off"

    def start(self, scope: Scope = "block", every: int = 1) -> None:
        """Record from now on: until `stop`, for one backward, or every n-th backward."""
        if scope not in ("block", "once", "every"):
            raise ValueError(f"scope should be 'block', 'once' or 'every', but is {scope!r}")
        if every < 1:
            raise ValueError(f"every should be 1 or more, but is {every}")
        self.scope = scope
        self.every = every if scope == "every" else 1
        self._skipped = 0
        self._listen()

    def stop(self) -> None:
        """Stop recording; what was recorded stays."""
        self.scope = "off"
        if self._listening:
            seam.sink = None

    @property
    def _listening(self) -> bool:
        return seam.sink is self._log

    def _listen(self) -> None:
        if not self._listening:
            self._since = next(nodes.sequence)
            seam.sink = self._log

    def began(self, task: Any, frame: FrameType | None) -> None:
        """A backward begins, in this thread, called from this frame."""
        if not self._listening:
            return
        if self._log.waiting > TOO_LONG:
            self.drain()
        # Looking through the variables of all frames is what a small backward would feel most.
        leaves = [node for node in task.counts if type(node) is AccumulateGrad]
        if not all(self.labels.of(node.variable) for node in leaves):
            self.labels.learn(frame)
        roots = [root for root in task.roots if root.seq < self._since]
        if roots:
            self.add_graph(roots)

    def ended(self, task: Any) -> None:
        """A backward ended: the scopes 'once' and 'every' may change what is recorded next."""
        if self.scope in ("off", "block") or task.parent is not None:
            return
        if self.scope == "once":
            self.stop()
            if self.on_scope_end is not None:
                self.on_scope_end()
        elif self._listening and self.every > 1:
            seam.sink = None
            self._skipped = 1
        elif not self._listening:
            self._skipped += 1
            if self._skipped >= self.every:
                self._listen()

    def add_graph(self, roots: Iterable[Node]) -> None:
        """Tell the graph below `roots` as far as it is not known yet."""
        with self._lock:
            self.drain()
            tell(walk(roots, self._live), self._log)

    # Encoding --------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Events that were not encoded yet."""
        return self._log.waiting + len(self._dead)

    def drain(self) -> None:
        """Encode all events that came so far into the store."""
        with self._lock:
            while self.waiting:
                self._drain_some()
            self.labels.forget_dead()

    def _drain_some(self) -> None:
        """Encode what came up to this moment."""
        # A node is told before it dies, and kept before it is told: looked at the other way round.
        freed = self._buried()
        now = time.perf_counter_ns()
        streams = _streams_until(now, self._log)
        events = _events_until(now, self._log)
        runs = _until(now, self._log.runs, seam.RUN, 4)
        if self.ignored:
            events = iter(self._of_others(list(events), streams, runs))
        kinds = columns.by_kind(events)
        refs = self._log.refs[:]
        del self._log.refs[: len(refs)]
        told = self.encoder.nodes(streams)
        late = self._follow(told, refs, kinds[seam.LEAF], freed)
        if late is not None:
            told = self.encoder.nodes(_streams_until(None, late) + streams)
            kinds[seam.LEAF][:0] = late.events
        chunk = self.encoder.encode(
            kinds,
            nodes=told,
            runs=runs,
            label=self.labels,
            labels=self._name_leaves(kinds[seam.LEAF]),
            freed=freed,
            now=time.perf_counter_ns(),
        )
        for part in chunk.parts(CHUNK_ROWS):
            self.store.add(part)
            if self.store.full:
                self.store.make_room(self.alive())

    def _of_others(
        self, events: list[seam.Event], streams: list[Stream], runs: list[Any]
    ) -> list[seam.Event]:
        """Leave out what ignored threads did: their events, nodes, and runs of their tasks."""
        for size, records in streams:
            width = _width(size)
            threads = records[_THREAD::width]
            starts = [i * width for i, t in enumerate(threads) if t not in self.ignored]
            records[:] = [field for i in starts for field in records[i : i + width]]
        tasks = {e[3] for e in events if e[0] == seam.BEGIN and e[2] in self.ignored}
        if tasks:
            starts = [i for i in range(0, len(runs), seam.RUN) if runs[i + 1] not in tasks]
            runs[:] = [field for i in starts for field in runs[i : i + seam.RUN]]
        return [event for event in events if event[2] not in self.ignored]

    def _buried(self) -> list[int]:
        """The numbers of nodes that died since the last call."""
        found = []
        while self._dead:
            seq = self._dead.popleft().seq
            if self._live.pop(seq, None) is not None:
                found.append(seq)
        return found

    def _follow(
        self,
        told: Nodes | None,
        refs: list[weakref.ref[Any]],
        leaves: list[seam.Event],
        freed: list[int],
    ) -> seam.Log | None:
        """Hold new nodes weakly; those that are dead already go to `freed`.

        Returns the nodes below them that came to life while nobody listened, if there are any.
        """
        nodes = [node for ref in refs if (node := ref()) is not None]
        self._hold(nodes)
        born = []
        for event in leaves:
            seq = event[3]
            born.append(seq)
            leaf = _accumulator(event[7](), seq)
            if leaf is None:
                freed.append(seq)
            else:
                self._hold((leaf,))
        if told is None:
            return None
        live = np.fromiter(self._live, np.int64, len(self._live))
        freed += told.seq[~np.isin(told.seq, live)].tolist()
        wanted = told.edges["dst"]
        wanted = wanted[~np.isin(wanted, told.seq)]
        missing = set(wanted.tolist()) - self._live.keys() - set(born) - {-1}
        if not missing:
            return None
        roots = [
            below
            for node in nodes
            for below, _ in node.next_functions
            if below is not None and below.seq in missing
        ]
        older = walk(roots, self._live)
        self._hold(older)
        log = seam.Log()
        tell(older, log)
        return log

    def _hold(self, nodes: Iterable[Node]) -> None:
        live, died = self._live, self._dead.append
        for node in nodes:
            seq = node.seq
            if seq not in live:
                live[seq] = ref = _NodeRef(node, died)
                ref.seq = seq

    def _name_leaves(self, events: list[seam.Event]) -> list[tuple[int, str]]:
        """Names found for leaves that were told without one."""
        found: list[tuple[int, str]] = []
        for event in events:
            if not self.labels(event[7]):
                self._unnamed.setdefault(id(event[7]), (event[7], []))[1].append(event[3])
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
        self.ignored.add(thread)
        try:
            yield
        finally:
            self.drain()
            self.ignored.discard(thread)

    # What is known ---------------------------------------------------------------------------

    def node(self, seq: int) -> Node | None:
        """The node of that number if it is alive."""
        ref = self._live.get(seq)
        return None if ref is None else ref()

    def alive(self) -> Array:
        """Numbers of all nodes that were alive at the last drain, sorted."""
        with self._lock:
            return np.sort(np.fromiter(self._live, np.uint32, len(self._live)))

    def chunks(self) -> list[Chunk]:
        """Everything that is kept, encoded."""
        with self._lock:
            self.drain()
            return list(self.store.all())

    def clear(self) -> None:
        """Forget what was recorded. Nodes that still live are told again when they are needed."""
        with self._lock:
            self._log.clear()
            self._dead = deque()
            self._live = {}
            self._unnamed = {}
            self.store.clear()
            zero, steps = self.encoder.zero, self.encoder.steps
            self.encoder = Encoder(zero)
            self.encoder.steps = steps
            self._since = next(nodes.sequence)


def _accumulator(tensor: Any, seq: int) -> Node | None:
    """The AccumulateGrad of that number, if the leaf still has it."""
    state = None if tensor is None else tensor._leaf
    ref = None if state is None else state.accumulator
    node: Node | None = None if ref is None else ref()
    return node if node is not None and node.seq == seq else None


def _until(now: int, records: list[Any], width: int, time: int) -> list[Any]:
    """Take the records of this width, whose moment is in their field `time`, up to `now`."""
    end = len(records)
    while end and records[end - width + time] > now:
        end -= width
    taken = records[:end]
    del records[:end]
    return taken


_THREAD: Final = 5
"""Where the record of a node keeps its thread (see core.seam)."""


def _width(size: int) -> int:
    """Fields of a record in the stream of that number."""
    return 8 + 2 * (size >> 16) + 4 * (size & 0xFFFF)


def _streams_until(now: int | None, log: seam.Log) -> list[Stream]:
    found = []
    for size, records in log.streams():
        edges, saved = size >> 16, size & 0xFFFF
        width, time = _width(size), 6 + edges + 2 * saved
        if records:
            found.append((size, records if now is None else _until(now, records, width, time)))
    return found


def _events_until(now: int, log: seam.Log) -> Iterator[seam.Event]:
    events = log.events
    while events and events[0][1] <= now:
        yield events.popleft()
