"""The record of a node: its layout, said once for all that write or read it.

A record is 64-bit numbers: those of every node, one for each edge, two for each saved tensor. What
nodes of one line have in common is a row of facts laid out the same way, kept once as a `Key`.
Built wrappers write the layout out as text (dispatch.codegen), core.saved fills it with values,
observe.wire.streams and the recorder read it.
"""

from __future__ import annotations

import functools
import itertools
import struct
import threading
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

KEY, TIME, THREAD, SEQ = range(4)
"""The numbers of every record, before one for each edge (seq of the node it leads to, -1: none) and
two for each saved tensor (storage, version)."""

SHAPE, DTYPE = range(2)
"""The facts of every key, before one for each edge (which output it leads to) and two for each
saved tensor (shape, dtype; None where it was not saved)."""

sequence = itertools.count(1)
"""The numbers of nodes, of whichever engine."""

FORMAT: Final = "n" if struct.calcsize("n") == 8 else "q"
"""struct's letter for the numbers of a record, 64 bits in the machine's order. Where a C long is as
wide, packing it takes half the time of `q`, and a quarter of that of `<q`."""

_number = struct.Struct(FORMAT).unpack_from


class Told:
    """What holds the record that built code has told a log of it, by which its life is known."""

    __slots__ = ("_record",)
    _record: bytes


def row(first: Iterable[T], edges: Iterable[T], saved: Iterable[T]) -> tuple[T, ...]:
    """Numbers or facts in their order: values, or the texts that name them in built code."""
    return *first, *edges, *saved


def time_of(record: bytes) -> int:
    """When the node was made, in perf_counter_ns."""
    return int(_number(record, 8 * TIME)[0])


def thread_of(record: bytes) -> int:
    """The identifier of the thread that made the node."""
    return int(_number(record, 8 * THREAD)[0])


def seqs_of(records: list[bytes]) -> tuple[int, ...]:
    """The numbers of the nodes of some records, all of one layout."""
    every = len(records[0]) // 8
    return struct.unpack(f"{every * len(records)}{FORMAT}", b"".join(records))[SEQ::every]


class Parts(NamedTuple):
    """Where edges, and the first and the second of each saved tensor, stand in a row."""

    edges: slice
    first: slice
    second: slice

    @classmethod
    def after(cls, head: int, edges: int) -> Parts:
        saved = head + edges
        return cls(slice(head, saved), slice(saved, None, 2), slice(saved + 1, None, 2))


class NodeRecord:
    """Records of nodes with so many edges and saved tensors. `node_record` gives the one of each.

    pack: makes the bytes of a record of its numbers.
    """

    __slots__ = ("facts", "numbers", "pack")

    def __init__(self, edges: int, saved: int) -> None:
        self.numbers = Parts.after(SEQ + 1, edges)
        self.facts = Parts.after(DTYPE + 1, edges)
        self.pack: Callable[..., bytes] = struct.Struct(
            f"{SEQ + 1 + edges + 2 * saved}{FORMAT}"
        ).pack


node_record = functools.cache(NodeRecord)


class NodeSchema:
    """What records of nodes have in common: class, outputs, (name, is own) of what may be saved.

    spread: a number that keeps places of different schemas apart in `EventLog.cache`.
    """

    __slots__ = ("node_class", "outputs", "saved", "spread")
    _made = itertools.count(1)

    def __init__(
        self, node_class: type, outputs: int, saved: tuple[tuple[str, bool], ...] = ()
    ) -> None:
        self.node_class = node_class
        self.outputs = outputs
        self.saved = saved
        self.spread = next(NodeSchema._made) << 32


Facts = tuple[Any, ...]
Key = tuple[NodeSchema, CodeType | None, int, Facts]
Cached = tuple[Facts, CodeType | None, int, Callable[[bytes], None]]
"""Facts and code of the last node at a place, the number of its key, and where its records go."""


class NodeStream:
    """Nodes of one layout. What many have in common is a key that is kept once, and its number."""

    __slots__ = ("_cache", "_known", "_lock", "keys", "put", "record", "records")

    def __init__(self, record: NodeRecord, cache: dict[int, Cached]) -> None:
        self.record = record
        self.records: list[bytes] = []
        self.put = self.records.append
        # Their code objects live as long as they: the id of one must not be used again.
        self.keys: list[Key] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._cache = cache
        self._lock = threading.Lock()

    def key(self, schema: NodeSchema, code: CodeType | None, lasti: int, facts: Facts) -> Cached:
        """The key of a node, which is the last at its place from now on."""
        # Code objects that are alike are equal; those of two cells are two places all the same.
        known = schema, id(code), lasti, facts
        found = self._known.get(known)
        if found is None:
            with self._lock:
                found = self._known.get(known)
                if found is None:
                    found = len(self.keys)
                    self.keys.append((schema, code, lasti, facts))
                    self._known[known] = found
        last = self._cache[lasti + schema.spread] = facts, code, found, self.put
        return last


class NodeStreams(dict[NodeRecord, NodeStream]):
    """Layout -> its stream. Two threads that ask first for one get the same."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Cached] = {}

    def __missing__(self, record: NodeRecord) -> NodeStream:
        return self.setdefault(record, NodeStream(record, self.cache))
