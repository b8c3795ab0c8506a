"""The flat streams of a log to columns: nodes with their edges and saved tensors, and their runs.

What nodes of one line have in common (class, place, shapes, dtypes) is looked up as one key and
read from a table of facts; only numbers that differ from node to node are converted. Both happen
for whole streams at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ag_visual.core import seam

Array = NDArray[Any]

Stream = tuple[int, list[Any]]
"""The size of the records (see seam.Log) and the records, one after the other."""

_SHARED: Final = 6  # fields of every record before those of its edges
_FACTS: Final = ("name", "site", "shape", "dtype", "outputs", "numel", "thread")
_SAVED: Final = ("name", "bytes", "shape", "dtype", "flags")
_LARGEST: Final = np.finfo(np.float64).max


@dataclass(slots=True)
class Nodes:
    """Nodes in the order in which they were made, with their edges and what they saved."""

    seq: Array
    t: Array  # perf_counter_ns
    columns: dict[str, Array]
    edges: dict[str, Array]
    saved: dict[str, Array]

    @property
    def thread(self) -> Array:
        """The small number of the thread that made each."""
        return self.columns["thread"]


class _Table:
    """What is known of the keys of one size: a column of facts for each, numbered in turn."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self._facts: Array | None = None
        self._new: list[list[int]] = []

    def add(self, key: tuple[Any, ...], facts: list[int]) -> None:
        self.numbers[key] = len(self.numbers)
        self._new.append(facts)

    def find(self, shared: Sequence[list[Any]]) -> Array:
        """The number of each key. Raises KeyError."""
        return np.fromiter(map(self.numbers.__getitem__, _keys(shared)), np.intp, len(shared[0]))

    def facts(self) -> Array:
        """(fact, number of the key)."""
        if self._new:
            new = np.array(self._new, np.int64).T
            old = self._facts
            self._facts = new if old is None else np.concatenate([old, new], axis=1)
            self._new = []
        assert self._facts is not None
        return self._facts


Describe = Callable[[seam.Form, CodeType | None, int, tuple[int, ...], Any, int], list[int]]
Tensor = Callable[[str, bool, tuple[int, ...], Any], list[int]]


class NodeReader:
    """Reads streams of nodes; keeps the facts of the keys it has met.

    describe: the facts of a record's shared fields, as in _FACTS; tensor: those of a saved tensor,
    as in _SAVED. They keep alive what a key has by its id.
    """

    def __init__(self, describe: Describe, tensor: Tensor) -> None:
        self._describe = describe
        self._tensor = tensor
        self._tables: dict[int, _Table] = {}

    def read(self, streams: Sequence[Stream]) -> Nodes | None:
        """All nodes of the streams, sorted by their number; None if there are none."""
        parts = [self._read(size, records) for size, records in streams if records]
        if not parts:
            return None
        if len(parts) == 1 and bool((parts[0].seq[1:] > parts[0].seq[:-1]).all()):
            return parts[0]
        seq = np.concatenate([part.seq for part in parts])
        order = np.argsort(seq, kind="stable")
        return Nodes(
            seq[order],
            np.concatenate([part.t for part in parts])[order],
            _sorted([part.columns for part in parts], order),
            _sorted([part.edges for part in parts], "src"),
            _sorted([part.saved for part in parts], "node"),
        )

    def _read(self, size: int, records: list[Any]) -> Nodes:
        edges, saved = size >> 16, size & 0xFFFF
        width = _SHARED + 2 + 2 * edges + 4 * saved
        split = _SHARED + edges + 2 * saved
        columns = [records[i::width] for i in range(width)]
        count = len(columns[0])
        table = self._tables.setdefault(size, _Table())
        shared = columns[:split]
        try:
            found = table.find(shared)
        except KeyError:
            for key, code in zip(_keys(shared), columns[1], strict=True):
                if key not in table.numbers:
                    self._learn(table, key, code, edges)
            found = table.find(shared)
        facts = table.facts()[:, found]
        t, seq, *numbers = (np.fromiter(column, np.int64, count) for column in columns[split:])
        return Nodes(
            seq,
            t,
            dict(zip(_FACTS, facts, strict=False)),
            _edges(seq, numbers[:edges], facts[len(_FACTS) :]),
            _saved(seq, numbers[edges:], facts[len(_FACTS) + edges :]),
        )

    def _learn(
        self, table: _Table, key: tuple[Any, ...], code: CodeType | None, edges: int
    ) -> None:
        form, _, lasti, shape, dtype, thread, *rest = key
        facts = self._describe(form, code, lasti, shape, dtype, thread) + rest[:edges]
        kept = rest[edges:]
        for (name, own), at, kind in zip(form.saved, kept[::2], kept[1::2], strict=True):
            facts += [-1] * len(_SAVED) if at is None else self._tensor(name, own, at, kind)
        table.add(key, facts)


def _keys(shared: Sequence[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """What can be looked up: code objects by their id, as their hash walks through their code.

    `zip` makes a single tuple as long as nobody keeps it.
    """
    return zip(shared[0], map(id, shared[1]), *shared[2:], strict=True)


def _edges(seq: Array, numbers: Sequence[Array], facts: Array) -> dict[str, Array]:
    each = len(numbers)
    return {
        "src": np.repeat(seq, each),
        "dst": np.stack(numbers, axis=1).ravel() if each else seq[:0],
        "src_index": np.tile(np.arange(each), len(seq)),
        "dst_index": facts[:each].T.ravel(),
    }


def _saved(seq: Array, numbers: Sequence[Array], facts: Array) -> dict[str, Array]:
    each = len(numbers) // 2
    found = {"node": np.repeat(seq, each)}
    for name, values in (("storage", numbers[0::2]), ("version", numbers[1::2])):
        found[name] = np.stack(values, axis=1).ravel() if each else seq[:0]
    for i, name in enumerate(_SAVED):
        found[name] = facts[i :: len(_SAVED)].T.ravel() if each else seq[:0]
    there = found["name"] >= 0
    return found if there.all() else {name: values[there] for name, values in found.items()}


def _sorted(parts: Sequence[dict[str, Array]], by: Array | str) -> dict[str, Array]:
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined[by], kind="stable") if isinstance(by, str) else by
    return {name: values[order] for name, values in joined.items()}


def read_runs(records: list[Any]) -> dict[str, Array]:
    """Columns of runs; `squares` is |g|^2: nan possible, -1 without a gradient."""
    columns = [records[i :: seam.RUN] for i in range(seam.RUN)]
    names = ("seq", "task", "order", "t0", "t1")
    count = len(columns[0])
    found = {
        name: np.fromiter(column, np.int64, count)
        for name, column in zip(names, columns[:5], strict=True)
    }
    found["squares"] = _squares(columns[5], columns[6])
    return found


def _squares(values: list[Any], dtypes: list[Any]) -> Array:
    """Sums of squares: of a gradient's bytes where its dtype is given, else the value itself."""
    keys = list(map(id, dtypes))
    kinds = dict(zip(keys, dtypes, strict=True))  # by identity: a dtype equals None
    if len(kinds) == 1:
        return _sums(values, dtypes[0])
    result = np.empty(len(values))
    for key, kind in kinds.items():
        rows = [i for i, of in enumerate(keys) if of == key]
        result[rows] = _sums([values[i] for i in rows], kind)
    return result


def _sums(parts: list[Any], dtype: np.dtype[Any] | None) -> Array:
    """The sum of squares of each array; infinite or nan only if an element is."""
    if dtype is None:
        return np.array(parts, np.float64)
    flat = np.frombuffer(b"".join(parts), dtype)
    lengths = np.fromiter(map(len, parts), np.intp, len(parts)) // dtype.itemsize
    ends = np.cumsum(lengths)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            squares = flat.real.astype(np.float64) ** 2 + flat.imag.astype(np.float64) ** 2
        else:
            squares = flat.astype(np.float64) ** 2
        sums = np.asarray(np.add.reduceat(squares, ends - lengths))
    for i in np.flatnonzero(np.isinf(sums)):
        # Squares leave the range of float64 long before its numbers do.
        if np.isfinite(flat[ends[i] - lengths[i] : ends[i]]).all():
            sums[i] = _LARGEST
    return sums
