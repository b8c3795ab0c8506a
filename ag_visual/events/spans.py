"""Spans: what ran from when to when, collected while somebody profiles (`instrument.spans`).

Who runs something writes one row when it has ended; which span is inside of which follows from the
order of the rows of a thread (docs/notes/profiler). Knows no reader, and no tensor or node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, Final, NamedTuple

OP, EVALUATE, NODE, USER, STEP, MODULE = range(6)
"""Kinds: an op; a node with its hooks and what passes its gradients on; a node; a range of the
user's or the library's; a step of a schedule; a module's forward."""

ROW: Final = 6
"""Fields of a row: label, start, end, thread, node's seq (-1: none), number of facts."""

Stack = tuple[tuple[CodeType, int], ...]
"""Places of calls, the innermost first: (code object, instruction offset)."""


class Label(NamedTuple):
    name: str
    kind: int


labels: list[Label] = []
"""What the first field of a row says, for the life of the process; below 0: of `SpanLog.names`."""
_numbers: dict[Label, int] = {}
_lock = threading.Lock()


def label(name: str, kind: int) -> int:
    """The number of a label."""
    key = Label(name, kind)
    found = _numbers.get(key)
    if found is None:
        with _lock:
            found = _numbers.get(key)
            if found is None:
                found = len(labels)
                labels.append(key)
                _numbers[key] = found
    return found


class Facts(NamedTuple):
    """What a reader asked for beside times. Each is a number of its own table, -1: nothing."""

    inputs: int
    stack: int
    device: int = -1


class SpanLog:
    """Where rows go while somebody profiles: one list of their fields, one after the other."""

    __slots__ = (
        *(
            "__weakref__",
            "_known",
            "arrived",
            "began",
            "detail",
            "namespaces",
            "facts",
            "held",
            "made",
            "names",
            "nodes",
        ),
        *("open", "pauses", "put", "rows"),
    )

    def __init__(self, namespaces: Mapping[Any, Any]) -> None:
        self.rows: list[Any] = []
        # Ranges that have not ended (`timed.Span`, which has `row(end)`), by id.
        self.open: dict[int, Any] = {}
        self.put = self.rows.extend
        # (since, until, thread): the program was stopped by who watches it.
        self.pauses: list[tuple[int, int, int]] = []
        self.facts: list[Facts] = [Facts(-1, -1)]
        # detail(label, args, kwargs): the number of facts about a call, asked before it; None: not
        # wanted.
        self.detail: Callable[[int, Any, Any], int] | None = None
        # arrived(gradients): the number of facts about what a node is given, asked before it runs;
        # None: not wanted.
        self.arrived: Callable[[Any], int] | None = None
        # began(label, seq): a node begins to run, or what evaluates it (of a leaf -1); None: not
        # wanted.
        self.began: Callable[[int, int], None] | None = None
        # made(given, results, end): an op has run on tensors, or a node on arrays, until `end`;
        # None: not wanted.
        self.made: Callable[[Any, Any, int], None] | None = None
        # held(what, arrays, new): arrays of parameters, of gradients, of an optimizer or of data;
        # new: one that nobody has seen was made just now; None: as above.
        self.held: Callable[[str, Any, bool], None] | None = None
        # A namespace of ops on arrays -> the same, each of which writes a row, too.
        self.namespaces: Mapping[Any, Any] = namespaces
        # Texts of the user's, of which there may be many: they go with the log.
        self.names: list[Label] = []
        self._known: dict[Label, int] = {}
        self.nodes: dict[type, tuple[int, int]] = {}

    def label(self, name: str, kind: int) -> int:
        """The number of a label of this log alone."""
        key = Label(name, kind)
        found = self._known.get(key)
        if found is None:
            with _lock:
                found = self._known.get(key)
                if found is None:
                    self.names.append(key)
                    found = self._known[key] = -len(self.names)
        return found

    def of_node(self, node: Any) -> tuple[int, int]:
        """The labels of what evaluates a node, and of the node; `nodes` has those of its class."""
        name = node.name()
        found = (
            label(f"autograd::engine::evaluate_function: {name}", EVALUATE),
            label(name, NODE),
        )
        self.nodes[type(node)] = found
        return found
