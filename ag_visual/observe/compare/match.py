"""Two recorded backward graphs as plain facts, and which node of one is which of the other.

First in order of creation, from the strictest idea of "the same" to the loosest, each in the gaps
that the one before left; then along the edges. `extension/src/model/compare` does the same for the
Inspector, and a test holds the two together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ag_visual.observe.compare.align import align
from ag_visual.observe.export.export import Recording
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.columns import Tables

UNWATCHED: Final = -2.0
"""In place of a norm: nobody watched the pass while it ran."""


@dataclass(slots=True)
class Part:
    """One node or leaf."""

    seq: int
    name: str  # class name, or the variable of a leaf
    shape: str
    dtype: str
    norm: float = -1.0  # 2-norm of the gradient that arrived, -1: none did, -2: not watched
    site: Mapping[str, Any] | None = None
    scope: str = ""
    kinds: str = ""
    saved: tuple[str, ...] = ()
    nbytes: int = 0
    inputs: list[tuple[str, int] | None] = field(default_factory=list)  # ("node" | "leaf", index)
    attributes: Mapping[str, str] | None = None

    @property
    def text(self) -> str:
        return str(self.site["text"]) if self.site else ""


@dataclass(slots=True)
class Facts:
    """The graph of one backward pass, the newest node first."""

    nodes: list[Part]
    leaves: list[Part]


def passes(recording: Recording) -> list[int]:
    """The ids of a recording's backward passes, oldest first."""
    tasks = recording.tables.get("tasks")
    if tasks is None:
        return []
    return sorted({int(t) for t in tasks["task"][tasks["root"] != schema.NONE]})


def facts_of(recording: Recording, task: int | None) -> Facts:
    """The graph of one backward pass; task None: of the newest nodes, where none ran."""
    return _Reader(recording).facts(task)


class _Reader:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.tables: Tables = recording.tables
        self.strings = recording.strings
        self.sites = [s for batch in recording.record["batches"] for s in batch["header"]["sites"]]
        self.node_row = self._rows("nodes", "seq")
        self.leaf_row = self._rows("leaves", "seq")
        self.edges = self._grouped("edges", "src")
        self.saved = self._grouped("saved", "node")

    def _column(self, table: str, name: str) -> list[Any]:
        columns = self.tables.get(table)
        return [] if columns is None else columns[name].tolist()

    def _rows(self, table: str, key: str) -> dict[int, int]:
        return {seq: row for row, seq in enumerate(self._column(table, key))}

    def _grouped(self, table: str, key: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for row, value in enumerate(self._column(table, key)):
            found[value].append(row)
        return found

    def _roots(self, task: int | None) -> list[int]:
        if task is None:
            newest = max(self.node_row, default=None)
            return [] if newest is None else [newest]
        tasks, runs = self.tables["tasks"], self.tables.get("runs")
        own: list[int] = tasks["root"][
            (tasks["task"] == task) & (tasks["root"] != schema.NONE)
        ].tolist()
        return own if runs is None else [*own, *runs["seq"][runs["task"] == task].tolist()]

    def facts(self, task: int | None) -> Facts:
        dst = self._column("edges", "dst")
        found: set[int] = set()
        stack = [seq for seq in self._roots(task) if seq in self.node_row]
        while stack:
            seq = stack.pop()
            if seq not in found:
                found.add(seq)
                stack += [dst[row] for row in self.edges[seq] if dst[row] in self.node_row]
        seqs = sorted(found, reverse=True)
        index = {seq: i for i, seq in enumerate(seqs)}
        norms = self._norms(task)
        paths = _Paths(self._column("calls", "call"), self.tables, self.strings)
        call_of = dict(
            zip(self._column("scopes", "seq"), self._column("scopes", "call"), strict=True)
        )
        leaf_index: dict[int, int] = {}
        leaves: list[Part] = []
        labels = dict(
            zip(self._column("labels", "seq"), self._column("labels", "label"), strict=True)
        )
        nodes = [self._node(seq, norms, paths.of(call_of.get(seq))) for seq in seqs]
        order = self._column("edges", "src_index")
        for node in nodes:
            for row in sorted(self.edges[node.seq], key=order.__getitem__):
                target = dst[row]
                if target == schema.NONE:
                    node.inputs.append(None)
                elif target in index:
                    node.inputs.append(("node", index[target]))
                else:
                    if target not in leaf_index:
                        leaf_index[target] = len(leaves)
                        leaves.append(self._leaf(target, norms, labels))
                    node.inputs.append(("leaf", leaf_index[target]))
        return Facts(nodes, leaves)

    def _norms(self, task: int | None) -> dict[int, float]:
        runs = self.tables.get("runs")
        if runs is None or task is None:
            return {}
        own = runs["task"] == task
        return dict(zip(runs["seq"][own].tolist(), runs["norm"][own].tolist(), strict=True))

    def _text(self, table: str, name: str, row: int) -> str:
        return self.strings[int(self.tables[table][name][row])]

    def _node(self, seq: int, norms: Mapping[int, float], path: tuple[str, str]) -> Part:
        row = self.node_row[seq]
        site = int(self.tables["nodes"]["site"][row])
        details = self.recording.record["details"].get(str(seq))
        kept = self.saved[seq]
        return Part(
            seq=seq,
            name=self._text("nodes", "name", row),
            shape=self._text("nodes", "shape", row),
            dtype=self._text("nodes", "dtype", row),
            norm=norms.get(seq, -1.0),
            site=None if site == schema.NONE else self.sites[site],
            scope=path[0],
            kinds=path[1],
            saved=tuple(self._text("saved", "name", at) for at in kept),
            nbytes=int(sum(self.tables["saved"]["bytes"][at] for at in kept)),
            attributes=(
                {value["name"]: value["text"] for value in details["values"]}
                if details and details["alive"]
                else None
            ),
        )

    def _leaf(self, seq: int, norms: Mapping[int, float], labels: Mapping[int, int]) -> Part:
        row = self.leaf_row.get(seq)
        if row is None:
            return Part(seq, "", "", "", norms.get(seq, -1.0))
        own = self._text("leaves", "label", row)
        name = self.strings[labels[seq]] if seq in labels else own
        shape, dtype = self._text("leaves", "shape", row), self._text("leaves", "dtype", row)
        return Part(seq, name, shape, dtype, norms.get(seq, -1.0))


class _Paths:
    """Module paths by call, with names and with classes."""

    def __init__(self, calls: list[int], tables: Tables, strings: list[str]) -> None:
        self._tables = tables
        self._strings = strings
        self._row = {call: row for row, call in enumerate(calls)}
        self._known: dict[int, tuple[str, str]] = {}

    def of(self, call: int | None) -> tuple[str, str]:
        way = []
        while call is not None and call in self._row and call not in self._known:
            way.append(call)
            call = int(self._tables["calls"]["parent"][self._row[call]])
        scope, kinds = self._known.get(call, ("", "")) if call is not None else ("", "")
        for inner in reversed(way):
            row = self._row[inner]
            name = self._strings[int(self._tables["calls"]["name"][row])]
            kind = self._strings[int(self._tables["calls"]["kind"][row])]
            scope, kinds = f"{scope}.{name}" if scope else name, f"{kinds}/{kind}"
            self._known[inner] = (scope, kinds)
        return scope, kinds


@dataclass(slots=True)
class Matching:
    """By index: the partner's index, or -1; of nodes and of leaves, in both directions."""

    of_a: list[int]
    of_b: list[int]
    leaf_of_a: list[int]
    leaf_of_b: list[int]


def _leaves_text(facts: Facts, node: Part) -> tuple[str, ...]:
    leaves = [facts.leaves[at[1]] for at in node.inputs if at is not None and at[0] == "leaf"]
    return tuple(f"{leaf.name} {leaf.shape}" for leaf in leaves)


def _pattern(node: Part) -> str:
    """Which inputs are nodes, leaves, or need no gradient: the ends of a chain differ in it."""
    return "".join("-" if at is None else at[0][0] for at in node.inputs)


Key = Callable[[Facts, Part], tuple[Any, ...]]
_KEYS: Final[tuple[Key, ...]] = (
    lambda f, n: (n.name, n.shape, n.scope, n.text, _pattern(n), _leaves_text(f, n)),
    lambda f, n: (n.name, n.shape, n.kinds, n.text, _pattern(n)),
    lambda f, n: (n.name, n.kinds, n.text, _pattern(n)),
    lambda f, n: (n.name, n.kinds, n.text),
    lambda f, n: (n.name, n.shape),
    lambda f, n: (n.name,),
)


def match(a: Facts, b: Facts) -> Matching:
    """Pairs the nodes and leaves of two graphs."""
    found = Matching(
        [-1] * len(a.nodes), [-1] * len(b.nodes), [-1] * len(a.leaves), [-1] * len(b.leaves)
    )
    _in_order(a, b, found)
    _along_edges(a, b, found)
    _replaced(a, b, found)
    _leaves(a, b, found)
    return found


def _in_order(a: Facts, b: Facts, found: Matching) -> None:
    for key in _KEYS:
        numbers: dict[tuple[Any, ...], int] = {}
        one, other = (
            [numbers.setdefault(key(facts, node), len(numbers)) for node in facts.nodes]
            for facts in (a, b)
        )
        i = j = 0
        while i < len(one) or j < len(other):
            from_a, from_b = i, j
            while i < len(one) and found.of_a[i] < 0:
                i += 1
            while j < len(other) and found.of_b[j] < 0:
                j += 1
            for x, y in align(one[from_a:i], other[from_b:j]):
                _take(found, from_a + x, from_b + y)
            i += 1
            j += 1


def _take(found: Matching, i: int, j: int) -> None:
    found.of_a[i], found.of_b[j] = j, i


def _users(facts: Facts) -> list[list[tuple[int, int]]]:
    """For every node: which nodes use it, and as which input."""
    users: list[list[tuple[int, int]]] = [[] for _ in facts.nodes]
    for i, node in enumerate(facts.nodes):
        for slot, at in enumerate(node.inputs):
            if at is not None and at[0] == "node":
                users[at[1]].append((i, slot))
    return users


def _along_edges(a: Facts, b: Facts, found: Matching) -> None:
    """Pairs what hangs on a pair in the same way and has the same name."""
    users_a, users_b = _users(a), _users(b)
    queue = [i for i, j in enumerate(found.of_a) if j >= 0]

    def pair(i: int, j: int) -> None:
        free = found.of_a[i] < 0 and found.of_b[j] < 0
        if free and a.nodes[i].name == b.nodes[j].name:
            _take(found, i, j)
            queue.append(i)

    for i in queue:  # grows while it is walked
        j = found.of_a[i]
        for one, other in zip(a.nodes[i].inputs, b.nodes[j].inputs, strict=False):
            if one and other and one[0] == other[0] == "node":
                pair(one[1], other[1])
        for user, slot in users_a[i]:
            if found.of_a[user] < 0:
                for candidate, place in users_b[j]:
                    if place == slot:
                        pair(user, candidate)


def _shares_input(a: Facts, b: Facts, found: Matching, i: int, j: int) -> bool:
    """Whether an input of i stands where one of j does: paired nodes, or leaves on both sides."""
    return any(
        one is not None
        and other is not None
        and one[0] == other[0]
        and (one[0] == "leaf" or found.of_a[one[1]] == other[1])
        for one, other in zip(a.nodes[i].inputs, b.nodes[j].inputs, strict=False)
    )


def _replaced(a: Facts, b: Facts, found: Matching) -> None:
    """Nodes of other names in the same place: between the same users and the same inputs."""
    users_a, users_b = _users(a), _users(b)
    for i, partner in enumerate(found.of_a):
        if partner >= 0:
            continue
        if not users_a[i]:
            free = (j for j, at in enumerate(found.of_b) if at < 0 and not users_b[j])
            root = next(free, None)
            if root is not None and _shares_input(a, b, found, i, root):
                _take(found, i, root)
            continue
        for user, slot in users_a[i]:
            other = found.of_a[user]
            inputs = b.nodes[other].inputs if other >= 0 else []
            at = inputs[slot] if slot < len(inputs) else None
            if at is None or at[0] != "node" or found.of_b[at[1]] >= 0:
                continue
            if _shares_input(a, b, found, i, at[1]):
                _take(found, i, at[1])
                break


def _leaves(a: Facts, b: Facts, found: Matching) -> None:
    """Leaves go with the nodes that use them; among several, those of the same name and shape."""
    votes: dict[tuple[int, int], int] = defaultdict(int)
    for i, j in enumerate(found.of_a):
        if j < 0:
            continue
        for one, other in zip(a.nodes[i].inputs, b.nodes[j].inputs, strict=False):
            if one and other and one[0] == other[0] == "leaf":
                votes[one[1], other[1]] += 1

    def alike(pair: tuple[int, int]) -> int:
        one, other = a.leaves[pair[0]], b.leaves[pair[1]]
        named = one.name != "" and one.name == other.name
        return 2 * named + (one.shape == other.shape)

    def take(x: int, y: int) -> None:
        if found.leaf_of_a[x] < 0 and found.leaf_of_b[y] < 0:
            found.leaf_of_a[x], found.leaf_of_b[y] = y, x

    for x, y in sorted(votes, key=lambda pair: (-alike(pair), -votes[pair], pair)):
        take(x, y)
    named: dict[str, int] = {}
    for y, leaf in enumerate(b.leaves):
        if leaf.name and found.leaf_of_b[y] < 0:
            named.setdefault(leaf.name, y)
    for x, leaf in enumerate(a.leaves):
        if leaf.name in named:
            take(x, named[leaf.name])


def is_finite(norm: float) -> bool:
    """Neither NaN nor infinite."""
    return bool(np.isfinite(norm))
