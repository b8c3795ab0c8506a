"""Records a running program: what to record, the deque that the seam fills, its encoding.

The seam's sink is the deque's own append: no Python function runs per event. Everything else
happens when somebody drains: every 40 ms, at the end of a block, or when the deque grows too long.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
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

LIMIT: Final = 64 * 2**20
"""Bytes of encoded events that are kept."""

CHUNK_EVENTS: Final = 8192
TOO_LONG: Final = 100_000
"""Undrained events at which a backward first drains them itself."""


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
        self._listen()

    def stop(self) -> None:
        """Stop recording; what was recorded stays."""
        self.scope = "off"
        if self._listening:
            seam.sink = None

    @property
    def _listening(self) -> bool:
        return seam.sink == self._events.append

    def _listen(self) -> None:
        if not self._listening:
            self._since = next(nodes.sequence)
            seam.sink = self._events.append

    def began(self, task: Any, frame: FrameType | None) -> None:
        """A backward begins, in this thread, called from this frame."""
        if not self._listening:
            return
        if len(self._events) > TOO_LONG:
            self.drain()
        # Looking through the variables of all frames is what a small backward would feel most.
        if any(node.leaf and not self.labels.of(node.variable) for node in task.counts):
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
            self._events.extend(events_of(walk(roots, self._live)))

    def add_events(self, events: Iterable[seam.Event]) -> None:
        """Take events as if the seam had sent them."""
        self._events.extend(events)

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
            self.labels.forget_dead()

    def _drain_some(self) -> None:
        take = self._events.popleft
        kinds = columns.by_kind([take() for _ in range(min(len(self._events), CHUNK_EVENTS))])
        freed = self._follow(kinds)
        chunk = self.encoder.encode(
            kinds,
            label=self.labels,
            labels=self._name_leaves(kinds[seam.LEAF]),
            freed=freed,
            now=time.perf_counter_ns(),
        )
        if chunk.tables:
            self.store.add(chunk)
            if self.store.full:
                self.store.make_room(self.alive())

    def _follow(self, kinds: columns.Kinds) -> list[int]:
        """Hold new nodes weakly and tell those that came to life while nobody listened.

        Returns the numbers of nodes that died.
        """
        events = kinds[seam.NODE]
        seqs = [event[3] for event in events]
        nodes = [event[12]() for event in events]
        leaves = [(event[3], _accumulator(event[7](), event[3])) for event in kinds[seam.LEAF]]
        freed = [seq for seq, node in leaves if node is None]
        freed += [seq for seq, node in zip(seqs, nodes, strict=True) if node is None]
        self._hold([node for node in nodes if node is not None])
        self._hold([node for _, node in leaves if node is not None])
        wanted: set[int] = set()
        wanted.update(*(event[7][::2] for event in events))
        missing = wanted - self._live.keys() - set(seqs) - {seq for seq, _ in leaves} - {-1}
        if missing:
            roots = [
                below
                for node in nodes
                if node is not None
                for below, _ in node.next_functions
                if below is not None and below.seq in missing
            ]
            older = walk(roots, self._live)
            told = columns.by_kind(events_of(older))
            for kind, late in zip(kinds, told, strict=True):
                kind[:0] = late
            self._hold(older)
        while self._dead:
            seq = self._dead.popleft().seq
            if self._live.pop(seq, None) is not None:
                freed.append(seq)
        return freed

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


def _accumulator(tensor: Any, seq: int) -> Node | None:
    """The AccumulateGrad of that number, if the leaf still has it."""
    state = None if tensor is None else tensor._leaf
    ref = None if state is None else state.accumulator
    node: Node | None = None if ref is None else ref()
    return node if node is not None and node.seq == seq else None
