"""The only way out for events: module variables that an observer sets and that cost one load.

Read them as `seam.sink` (never `from seam import sink`), once per operation. What an observer gets
are ints, strings, shapes and weak references, never a tensor, a node or an array. Why they are no
tuples: docs/notes/events.
"""

from __future__ import annotations

import functools
import itertools
import struct
import threading
from collections import deque
from collections.abc import Callable
from types import CodeType
from typing import Any, Final
from weakref import ref

BEGIN, END, HOOK, CALL, CUT = range(5)

Event = tuple[Any, ...]
# What is rare, as a tuple. The kind first; t in perf_counter_ns.
#   BEGIN t, thread, task, code, lasti, seqs of the roots, nodes to run, retain
#   END   t, thread, task, name of the error or ''
#   HOOK  t, thread, seq, task, kind, hook's name, output, handle's id (-1: none), code and lasti of
#         where it was added, effect, factor, error; before and after: |g|^2, min, max, NaNs, infs
#   CUT   t, thread, seq, input's name, how it left the graph, code and lasti of where, seq of the
#         node that made what it was taken from (-1: unknown), that was a leaf
#   CALL  t, thread, call, call around it (0: none, -1: this call ends), name in it, class: a module

RUN: Final = 7
"""Fields of one run of a node: seq, task, order, t0, t1, then |g|^2 and None, or the gradient's
bytes and its dtype (nan possible, -1: no gradient). dtypes are the array library's."""

LEAF: Final = 7
"""Fields of a leaf: t, thread, its AccumulateGrad's seq, shape, dtype, storage, weak reference."""

WRITE: Final = 8
"""Fields of a write in place: t, thread, storage, version, writes, op, code, lasti."""

SMALL: Final = 1024
"""Bytes up to which a gradient is copied in less time than its norm takes; others are in `run`
as |g|^2."""


class Form:
    """What records of nodes have in common: class, outputs, (name, is own) of what may be saved.

    spread: a number that keeps places of different forms apart in `Log.last`.
    """

    __slots__ = ("node_class", "outputs", "saved", "spread")
    _made = itertools.count(1)

    def __init__(
        self, node_class: type, outputs: int, saved: tuple[tuple[str, bool], ...] = ()
    ) -> None:
        self.node_class = node_class
        self.outputs = outputs
        self.saved = saved
        self.spread = next(Form._made) << 32


def size(edges: int, saved: int) -> int:
    """The number of the stream for nodes of so many edges and saved tensors."""
    return edges << 16 | saved


@functools.cache
def packer(size: int) -> Callable[..., bytes]:
    """Makes a record of that size of its numbers."""
    edges, saved = size >> 16, size & 0xFFFF
    return struct.Struct(f"<{4 + edges + 2 * saved}q").pack


Facts = tuple[Any, ...]
Key = tuple[Form, CodeType | None, int, Facts]
Last = tuple[Facts, CodeType | None, int, Callable[[bytes], None]]
"""Facts and code that were met, the number of that key, and where records with it go."""


class Stream:
    """Nodes of one size. What many have in common is a key that is kept once, and its number.

    A key is (form, code, lasti, facts), facts are (shape, dtype, output number of each edge, then
    shape and dtype of each saved tensor, None where it was not saved). A record `pack`s the number
    of a key, t, thread, seq, seq of each edge (-1: none), storage and version of each saved tensor.
    """

    __slots__ = ("_known", "_last", "_lock", "keys", "put", "records", "size")

    def __init__(self, size: int, last: dict[int, Last]) -> None:
        self.size = size
        self.records: list[bytes] = []
        self.put = self.records.append
        # Their code objects live as long as they: the id of one must not be used again.
        self.keys: list[Key] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._last = last
        self._lock = threading.Lock()

    def key(self, form: Form, code: CodeType | None, lasti: int, facts: Facts) -> Last:
        """The key of a node, which is the last at its place from now on."""
        # Code objects that are alike are equal; those of two cells are two places all the same.
        known = form, id(code), lasti, facts
        found = self._known.get(known)
        if found is None:
            with self._lock:
                found = self._known.get(known)
                if found is None:
                    found = len(self.keys)
                    self.keys.append((form, code, lasti, facts))
                    self._known[known] = found
        last = self._last[lasti + form.spread] = facts, code, found, self.put
        return last


class _Streams(dict[int, Stream]):
    """Size -> its stream. Two threads that ask first for one get the same."""

    def __init__(self, last: dict[int, Last]) -> None:
        super().__init__()
        self._last = last

    def __missing__(self, size: int) -> Stream:
        return self.setdefault(size, Stream(size, self._last))


class Log:
    """Where events go, as lists that an observer copies the front of and then deletes.

    What waits in it is hardly seen by the garbage collector: bytes in place of tuples, fields of
    runs, leaves and writes one after the other, and one weak reference to each node, which is there
    (`keep`) before the node is told.
    """

    __slots__ = (
        "__weakref__",
        "_forms",
        "events",
        "keep",
        "last",
        "leaf",
        "leaves",
        "nodes",
        "refs",
        "run",
        "runs",
        "tell",
        "write",
        "writes",
    )

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.tell = self.events.append
        # lasti + spread of the form -> what a place met last.
        self.last: dict[int, Last] = {}
        self.nodes = _Streams(self.last)
        self.refs: list[ref[Any]] = []
        self.keep = self.refs.append
        self.runs: list[Any] = []
        self.run = self.runs.extend
        self.leaves: list[Any] = []
        self.leaf = self.leaves.extend
        self.writes: list[Any] = []
        self.write = self.writes.extend
        self._forms: dict[Any, Form] = {}

    def form(self, node_class: type, outputs: int, saved: tuple[tuple[str, bool], ...]) -> Form:
        """The form of a node that no op has declared."""
        key = node_class, outputs, saved
        found = self._forms.get(key)
        if found is None:
            found = self._forms.setdefault(key, Form(*key))
        return found

    @property
    def waiting(self) -> int:
        """How many records are in it."""
        told = len(self.runs) // RUN + len(self.writes) // WRITE
        return len(self.events) + len(self.refs) + told


# Where events go while somebody records.
sink: Log | None = None

# Asked before each node runs: gate(task, node, gradients) -> gradients. May block, may raise.
gate: Callable[[Any, Any, list[Any]], list[Any]] | None = None

# Told once per backward, in its thread, before the first and after the last node: begin(task),
# end(task). Unlike BEGIN and END events they see the user's frames, and work without a sink.
begin: Callable[[Any], None] | None = None
end: Callable[[Any], None] | None = None

# Told once of each structured autograd error or warning: problem(exception, fields).
problem: Callable[[BaseException, dict[str, Any]], None] | None = None
