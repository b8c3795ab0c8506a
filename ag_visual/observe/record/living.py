"""Which of the nodes that were told live, and where they are.

A node of built code holds its record, and so that it lives is told by how many hold that: such a
node costs a recording no object of its own. It is sought, among all objects that the garbage
collector knows, when somebody asks for it; other nodes are held weakly from the beginning.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import numpy as np

from ag_visual.events.live import LiveNode
from ag_visual.events.node_record import Told, seqs_of
from ag_visual.observe.wire.streams import Array, integers

ALONE: Final = max(map(sys.getrefcount, [bytes(9)]))
"""How many references are counted of a record that only a list holds."""

LOOKED_AT: Final = 1 << 15
"""Living nodes that are looked at each time (1.5 ms) whether they still do."""

_GENERATIONS: Final = 0, 1, None
"""Where nodes are sought: most are young. None: among all objects."""


class _NodeRef(weakref.ref[LiveNode]):
    """A weak reference that still knows its node's number when the node is gone."""

    __slots__ = ("seq",)
    seq: int


class Living(Collection[int]):
    """The nodes that were alive as somebody last looked, by their numbers."""

    def __init__(self) -> None:
        self._refs: dict[int, _NodeRef] = {}
        self._dead: deque[_NodeRef] = deque()
        self._records: dict[int, bytes] = {}  # of those that nobody has asked for
        self._at = 0  # where among them `buried` goes on

    def __contains__(self, seq: object) -> bool:
        return seq in self._refs or seq in self._records

    def __iter__(self) -> Iterator[int]:
        return itertools.chain(self._refs, self._records)

    def __len__(self) -> int:
        return len(self._refs) + len(self._records)

    @property
    def died(self) -> int:
        """How many of those that are held weakly are known to have died since `buried`."""
        return len(self._dead)

    def hold(self, nodes: Iterable[LiveNode]) -> None:
        """Hold these nodes weakly."""
        refs, died = self._refs, self._dead.append
        for node in nodes:
            seq = node.seq
            if seq not in refs:
                refs[seq] = ref = _NodeRef(node, died)
                ref.seq = seq

    def told(self, records: list[bytes]) -> None:
        """Know which nodes hold these records, all of one layout, which nobody else has."""
        counts = list(map(sys.getrefcount, records))
        if max(counts, default=ALONE) > ALONE:
            held = [records[i] for i, count in enumerate(counts) if count > ALONE]
            self._records.update(zip(seqs_of(held), held, strict=True))

    def buried(self) -> list[int]:
        """The numbers of nodes that died since the last call; of very many not all at once."""
        found = []
        while self._dead:
            seq = self._dead.popleft().seq
            if self._refs.pop(seq, None) is not None:
                found.append(seq)
        records = self._records
        if records:
            start = self._at if self._at < len(records) else 0
            some = list(itertools.islice(records.values(), start, start + LOOKED_AT))
            self._at = start + len(some)
            counts = list(map(sys.getrefcount, some))
            if min(counts) <= ALONE + 1:  # `records`, and this list
                seqs = itertools.islice(records, start, None)
                gone = [seq for seq, count in zip(seqs, counts, strict=False) if count <= ALONE + 1]
                for seq in gone:
                    del records[seq]
                self._at -= len(gone)
                found += gone
        return found

    def node(self, seq: int) -> LiveNode | None:
        """The node of that number if it is alive."""
        if seq in self._records:
            self._seek([seq])
        ref = self._refs.get(seq)
        return None if ref is None else ref()

    def nodes(self, seqs: Iterable[int]) -> list[LiveNode]:
        """Those of these numbers that are alive."""
        wanted = list(seqs)
        self._seek(wanted)
        refs = [ref for ref in map(self._refs.get, wanted) if ref is not None]
        return [node for node in (ref() for ref in refs) if node is not None]

    def numbers(self) -> Array:
        """The number of each, sorted."""
        return np.unique(np.fromiter(iter(self), np.uint32, len(self)))

    def without(self, seqs: Array) -> Array:
        """Those of these numbers that are not among them."""
        if not len(self):
            return seqs
        if len(self) < len(seqs):
            return seqs[~np.isin(seqs, np.fromiter(iter(self), np.int64, len(self)))]
        refs, records = self._refs, self._records
        return integers([seq for seq in seqs.tolist() if seq not in refs and seq not in records])

    def _seek(self, wanted: Iterable[int]) -> None:
        """Hold those of these nodes weakly that only their records tell of, and all that are met
        beside them.
        """
        records = self._records
        missing = {seq for seq in wanted if seq in records}
        kinds = set(map(id, _kinds())) if missing else set()
        for generation in _GENERATIONS if missing else ():
            objects = gc.get_objects(generation)
            # Hundreds of thousands: no step of Python's for each, and nothing that they define.
            ours = map(kinds.__contains__, map(id, map(type, objects)))
            found = [node for node in itertools.compress(objects, ours) if _is_of(node, records)]
            del objects
            self.hold(found)
            for node in found:
                records.pop(node.seq, None)
                missing.discard(node.seq)
            if not missing:
                return


def _kinds() -> list[type]:
    """All classes of nodes that there are."""
    found: list[type] = [Told]
    for kind in found:  # it grows
        found += kind.__subclasses__()
    return found


def _is_of(node: Any, records: dict[int, bytes]) -> bool:
    """Whether a node holds the record of its number among these."""
    try:
        record = records.get(node.seq)
        return record is not None and node._record is record
    except AttributeError:  # it is being made, or no log was told of it
        return False
