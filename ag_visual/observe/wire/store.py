"""What is kept of a recording: chunks in a ring bounded by bytes, and how to thin them out.

Thinning drops what belongs to nodes that are gone and keeps what is still alive, so that a graph
that can still be asked about is never drawn in pieces. What was dropped is counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ag_visual.observe.wire.columns import Array, Chunk, Tables

_DENSE = 16
"""Numbers for each one that is asked about up to which a table of them is made."""


@dataclass(slots=True)
class Dropped:
    """Rows left out, by table, and how many whole backward passes went with them."""

    rows: Counter[str] = field(default_factory=Counter)
    steps: int = 0

    def add(self, other: Dropped) -> None:
        self.rows.update(other.rows)
        self.steps += other.steps


def thin(chunk: Chunk, alive: Array) -> tuple[Chunk, Dropped]:
    """Keep the rows of nodes in `alive` (sorted seqs): their last run, what they saved."""
    tables = chunk.tables
    masks: dict[str, NDArray[np.bool_]] = {}
    for table, column in (("nodes", "seq"), ("leaves", "seq"), ("edges", "src"), ("saved", "node")):
        if table in tables:
            masks[table] = among(tables[table][column], alive)
    for table in ("runs", "hooks", "breaks", "labels", "scopes", "odd"):
        if table in tables:
            masks[table] = among(tables[table]["seq"], alive)
    if "runs" in tables:
        masks["runs"] &= _last_of(tables["runs"]["seq"])
    if "writes" in tables:
        masks["writes"] = _last_of(tables["writes"]["storage"])
    if "calls" in tables:
        used = tables["scopes"]["call"][masks["scopes"]] if "scopes" in tables else np.zeros(0)
        masks["calls"] = _with_parents(tables["calls"]["call"], tables["calls"]["parent"], used)
    if "levels" in tables:  # told with their calls
        calls = tables["calls"]["call"][masks["calls"]] if "calls" in tables else np.zeros(0)
        masks["levels"] = np.isin(tables["levels"]["call"], calls)
    for table in ("parameters", "absent"):  # told once, for all passes that come
        if table in tables:
            masks[table] = _last_of(tables[table]["parameter"])
    if "freed" in tables:
        # A page may know these nodes from an earlier batch: only rows whose node goes too can go.
        here = [tables[t]["seq"] for t in ("nodes", "leaves") if t in tables]
        known = np.concatenate(here) if here else np.zeros(0, np.uint32)
        masks["freed"] = ~np.isin(tables["freed"]["seq"], known)
    dropped = Dropped()
    if "tasks" in tables:
        tasks = tables["tasks"]
        kept = tables["runs"]["task"][masks["runs"]] if "runs" in tables else np.zeros(0)
        masks["tasks"] = np.isin(tasks["task"], kept)
        dropped.steps = int(np.count_nonzero((tasks["ended"] != 0) & ~masks["tasks"]))
    for table in ("pauses", "held", "missed"):
        if table in tables:
            kept = tables["runs"]["task"][masks["runs"]] if "runs" in tables else np.zeros(0)
            masks[table] = np.isin(tables[table]["task"], kept)
    thinned: Tables = {}
    for table, columns in tables.items():
        mask = masks[table]
        left = int(np.count_nonzero(mask))
        if left < len(mask):
            dropped.rows[table] += len(mask) - left
        if left:
            thinned[table] = {name: array[mask] for name, array in columns.items()}
    return Chunk(thinned), dropped


def among(seqs: Array, alive: Array) -> NDArray[np.bool_]:
    """Which of `seqs` are in `alive`, which is sorted."""
    if not len(alive):
        return np.zeros(len(seqs), np.bool_)
    first, last = int(alive[0]), int(alive[-1])
    if last - first < _DENSE * (len(alive) + len(seqs)):  # as numbers of nodes are
        known = np.zeros(last - first + 2, np.bool_)
        known[alive - first] = True
        # The last one stands for all that are not between them; a small number does not wrap.
        at = np.minimum(seqs.astype(np.int64) - first, last - first + 1)
        return known[np.where(at < 0, last - first + 1, at)]
    places = np.minimum(np.searchsorted(alive, seqs), len(alive) - 1)
    return np.asarray(alive[places] == seqs)


def _last_of(keys: Array) -> NDArray[np.bool_]:
    """True at the last row of each key."""
    _, first = np.unique(keys[::-1], return_index=True)
    mask = np.zeros(len(keys), np.bool_)
    mask[len(keys) - 1 - first] = True
    return mask


def _with_parents(calls: Array, parents: Array, used: Array) -> NDArray[np.bool_]:
    """True at the calls in `used` and at those around them; a call begins before those in it."""
    wanted = set(used.tolist())
    mask = np.zeros(len(calls), np.bool_)
    for i in range(len(calls) - 1, -1, -1):
        if int(calls[i]) in wanted:
            mask[i] = True
            wanted.add(int(parents[i]))
    return mask


class Store:
    """Chunks with serial numbers. When they outgrow `limit`, the oldest half is thinned to one."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self.dropped = Dropped()
        self.first = 0  # serial number of the first chunk
        self.thinned = 0  # serial numbers below this were thinned: read again from the start
        self._chunks: deque[Chunk] = deque()

    @property
    def last(self) -> int:
        """The serial number after the last chunk."""
        return self.first + len(self._chunks)

    def add(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self.nbytes += chunk.nbytes

    def since(self, serial: int) -> Iterable[Chunk]:
        """The chunks from this serial number on, oldest first."""
        start = max(serial - self.first, 0)
        return (self._chunks[i] for i in range(start, len(self._chunks)))

    def all(self) -> Sequence[Chunk]:
        return tuple(self._chunks)

    @property
    def full(self) -> bool:
        return self.nbytes > self.limit and len(self._chunks) > 1

    def make_room(self, alive: Array) -> None:
        """Thin the oldest chunks until at most half of the limit is older than the newest half."""
        taken: list[Chunk] = []
        size = 0
        while len(self._chunks) > 1 and self.nbytes - size > self.limit // 2:
            chunk = self._chunks.popleft()
            taken.append(chunk)
            size += chunk.nbytes
        kept, dropped = thin(Chunk.joined(taken), alive)
        self.dropped.add(dropped)
        self.nbytes += kept.nbytes - size
        self.first += len(taken) - 1
        self.thinned = self.first + 1
        self._chunks.appendleft(kept)
        if self.nbytes > self.limit and len(self._chunks) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """What is alive alone outgrows the limit: then rows of living nodes go too, counted."""
        while self.nbytes > self.limit and len(self._chunks) > 1:
            chunk = self._chunks.popleft()
            self.nbytes -= chunk.nbytes
            self.first += 1
            self.dropped.rows.update({table: chunk.rows(table) for table in chunk.tables})
            if "tasks" in chunk.tables:
                self.dropped.steps += int(np.count_nonzero(chunk.tables["tasks"]["ended"]))
        self.thinned = self.first + 1

    def clear(self) -> None:
        self.first = self.thinned = self.last
        self._chunks.clear()
        self.nbytes = 0
        self.dropped = Dropped()
