"""The only way out for events: module variables that an observer sets and that cost one load.

Read them as `seam.sink` (never `from seam import sink`), once per operation. What an observer gets
are ints, strings, shapes and weak references, never a tensor, a node or an array.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import ref

LEAF, BEGIN, END, WRITE, HOOK, CALL = range(6)

Event = tuple[Any, ...]
# The kind first; t in perf_counter_ns; dtype is the array library's.
#   LEAF  t, thread, seq, shape, dtype, storage, weak reference to the leaf tensor
#   BEGIN t, thread, task, code, lasti, seqs of the roots, nodes to run, retain
#   END   t, thread, task, name of the error or ''
#   WRITE t, thread, storage, version, writes, op, code, lasti, shape, dtype
#   HOOK  t, thread, seq, task, kind, hook's name, output, handle's id (-1: none), code and lasti of
#         where it was added, effect, factor, error; before and after: |g|^2, min, max, NaNs, infs
#   CALL  t, thread, call, call around it (0: none, -1: this call ends), name in it, class: a module

RUN: Final = 7
"""Fields of one run of a node: seq, task, order, t0, t1, then |g|^2 and None, or the gradient's
bytes and its dtype (nan possible, -1: no gradient)."""

SMALL: Final = 1024
"""Bytes up to which a gradient is copied in less time than its norm takes; others are in `run`
as |g|^2."""


class Form:
    """What records of nodes have in common: class, outputs, (name, is own) of what may be saved."""

    __slots__ = ("node_class", "outputs", "saved")

    def __init__(
        self, node_class: type, outputs: int, saved: tuple[tuple[str, bool], ...] = ()
    ) -> None:
        self.node_class = node_class
        self.outputs = outputs
        self.saved = saved


def size(edges: int, saved: int) -> int:
    """The number of the stream for nodes of so many edges and saved tensors."""
    return edges << 16 | saved


class _Streams(dict[int, Callable[[Iterable[Any]], None]]):
    """Size -> `extend` of its stream. Two threads that ask first for one get the same."""

    def __missing__(self, size: int) -> Callable[[Iterable[Any]], None]:
        return self.setdefault(size, [].extend)


class Log:
    """Where events go: a list for each shape of record, to which every field is appended flat.

    A tuple per event would be one more object for the garbage collector to walk over, and that
    costs a program more than the event itself. `extend` and `append` of a list are atomic; an
    observer copies the front of a list and then deletes it.

    `nodes[size(edges, saved)]` takes records of 8 + 2 * edges + 4 * saved fields:
      form, code, lasti, shape, dtype, thread, output number of each edge, shape and dtype of each
      saved tensor (None: not saved); then t, seq, seq of each edge (-1: none), storage and version
      of each saved tensor
    Before it, `keep` takes a weak reference to the node.
    """

    __slots__ = ("_forms", "events", "keep", "nodes", "refs", "run", "runs", "tell")

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.tell = self.events.append
        self.nodes = _Streams()
        self.refs: list[ref[Any]] = []
        self.keep = self.refs.append
        self.runs: list[Any] = []
        self.run = self.runs.extend
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
        return len(self.events) + len(self.refs) + len(self.runs) // RUN

    def streams(self) -> list[tuple[int, list[Any]]]:
        """(size, its stream) of all nodes."""
        return [(size, extend.__self__) for size, extend in list(self.nodes.items())]  # type: ignore[attr-defined]

    def clear(self) -> None:
        """Drop all that is in it."""
        self.events.clear()
        self.refs.clear()
        self.runs.clear()
        self._forms.clear()
        for _, stream in self.streams():
            stream.clear()


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
