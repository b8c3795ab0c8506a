"""Records a running program: what to record, the deque that the seam fills, its encoding.

The seam's sink is the deque's own append: no Python function runs per event. Everything else
happens when somebody drains: every 40 ms, at the end of a block, or when the deque grows too long.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import numpy as np

from ag_visual.core import node as nodes
from ag_visual.core import seam
from ag_visual.core.node import Node
from ag_visual.observe import columns
from ag_visual.observe.columns import Array, Chunk, Encoder
from ag_visual.observe.graph import events_of, walk
from ag_visual.observe.names import Labels
from ag_visual.observe.store import Store

Scope = Literal["off", "block", "once", "every"]

LIMIT: Final = 256 * 2**20
"""Bytes of encoded events that are kept."""

CHUNK_EVENTS: Final = 8192
TOO_LONG: Final = 100_000
"""Undrained events at which a backward first drains them itself."""


class _NodeRef(weakref.ref[Node]):
    """A weak reference that still knows its node's number when the node is gone."""

    __slots__ = ("seq",)
    seq: int


class Recorder:
    """One recording at a time. `start` and `stop` set and clear the seam's sink."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.scope: Scope = "off"
        self.every = 1
        self.store = Store(limit)
        self.encoder = Encoder(time.perf_counter_ns())
        self.labels = Labels()
        self.on_scope_end: Callable[[], None] | None = None
        self._events: deque[seam.Event] = deque()
        self._dead: deque[_NodeRef] = deque()
        self._live: dict[int, _NodeRef] = {}
        self._unnamed: dict[int, tuple[weakref.ref[Any], list[int]]] = {}
        self._lock = threading.RLock()
        self._since = 0  # seq of the first node that a continuous recording has seen
        self._skipped = 0

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
        seam.begin, seam.end = self._begin, self._end
        self._listen()

    def stop(self) -> None:
        """Stop recording; what was recorded stays."""
        self.scope = "off"
        if self._listening:
            seam.sink = None
        if seam.begin == self._begin:
            seam.begin = None
        if seam.end == self._end:
            seam.end = None

    @property
    def _listening(self) -> bool:
        return seam.sink == self._events.append

    def _listen(self) -> None:
        if not self._listening:
            self._since = next(nodes.sequence)
            seam.sink = self._events.append

    def _begin(self, task: Any) -> None:
        """A backward begins, in this thread."""
        if not self._listening:
            return
        if len(self._events) > TOO_LONG:
            self.drain()
        self.labels.learn(sys._getframe(1))
        roots = [root for root in task.roots if root.seq < self._since]
        if roots:
            self.add_graph(roots)

    def _end(self, task: Any) -> None:
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
            self._events.extend(events_of(walk(roots, self._live)))

    # Encoding --------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Events that were not encoded yet."""
        return len(self._events) + len(self._dead)

    def drain(self) -> None:
        """Encode all events that came so far into the store."""
        with self._lock:
            while self._events or self._dead:
                self._drain_some()

    def _drain_some(self) -> None:
        take = self._events.popleft
        events = [take() for _ in range(min(len(self._events), CHUNK_EVENTS))]
        self._follow(events)
        self._name_leaves(events)
        while self._dead:
            ref = self._dead.popleft()
            if self._live.pop(ref.seq, None) is not None:
                events.append((columns.FREED, ref.seq, time.perf_counter_ns()))
        chunk = self.encoder.encode(events, self.labels)
        if chunk.tables:
            self.store.add(chunk)
            if self.store.full:
                self.store.make_room(self.alive())

    def _follow(self, events: list[seam.Event]) -> None:
        """Hold new nodes weakly, and tell nodes that came to life while nobody listened."""
        told: list[tuple[int, Node | None]] = []
        wanted: set[int] = set()
        for event in events:
            if event[0] == seam.NODE:
                told.append((event[3], event[13]()))
                wanted.update(event[7])
            elif event[0] == seam.LEAF:
                told.append((event[3], _accumulator(event[7](), event[3])))
        self._hold(told)
        missing = wanted - self._live.keys() - {seq for seq, _ in told}
        missing.discard(-1)
        if missing:
            roots = [
                below
                for _, node in told
                if node is not None
                for below, _ in node.next_functions
                if below is not None and below.seq in missing
            ]
            older = walk(roots, self._live)
            events[:0] = events_of(older)
            self._hold([(node.seq, node) for node in older])

    def _hold(self, told: Iterable[tuple[int, Node | None]]) -> None:
        live, dead = self._live, self._dead
        for seq, node in told:
            if seq in live:
                continue
            if node is None:
                ref = _gone(seq)
                live[seq] = ref
                dead.append(ref)
            else:
                live[seq] = ref = _NodeRef(node, dead.append)
                ref.seq = seq

    def _name_leaves(self, events: list[seam.Event]) -> None:
        for event in events:
            if event[0] == seam.LEAF and not self.labels(event[7]):
                self._unnamed.setdefault(id(event[7]), (event[7], []))[1].append(event[3])
        for key, (ref, seqs) in list(self._unnamed.items()):
            name = self.labels(ref)
            if name:
                events += [(columns.LABEL, seq, name) for seq in seqs]
            if name or ref() is None:
                del self._unnamed[key]
        self.labels.forget_dead()

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
            self._events.clear()
            self._dead = deque()
            self._live = {}
            self._unnamed = {}
            self.store.clear()
            zero, steps = self.encoder.zero, self.encoder.steps
            self.encoder = Encoder(zero)
            self.encoder.steps = steps
            self._since = next(nodes.sequence)


class _Gone:
    """What a reference to a node that died unseen refers to."""

    __slots__ = ("__weakref__",)


def _gone(seq: int) -> _NodeRef:
    ref = _NodeRef(_Gone())  # type: ignore[arg-type]
    ref.seq = seq
    return ref


def _accumulator(tensor: Any, seq: int) -> Node | None:
    """The AccumulateGrad of that number, if the leaf still has it."""
    state = None if tensor is None else tensor._leaf
    ref = None if state is None else state.accumulator
    node: Node | None = None if ref is None else ref()
    return node if node is not None and node.seq == seq else None
