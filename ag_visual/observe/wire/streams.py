"""The streams of a log to columns: nodes with their edges and saved tensors, and their runs.

What nodes of one line have in common (class, place, shapes, dtypes) is described once for each key
of a stream; of single nodes there are only numbers. Both are read for whole streams at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from types import CodeType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ag_visual.arrays.quiet import silent
from ag_visual.events.node_record import (
    DTYPE,
    KEY,
    SEQ,
    SHAPE,
    THREAD,
    TIME,
    Key,
    NodeRecord,
    NodeSchema,
    NodeStream,
    Parts,
)

Array = NDArray[Any]

Told = tuple[NodeStream, list[bytes]]
"""A stream and the records that were taken from it."""

Fields = Sequence[list[Any]]
"""Records that were told field after field: a list for each field."""

_FACTS: Final = ("name", "site", "shape", "dtype", "outputs", "numel")
_SAVED: Final = ("name", "bytes", "shape", "dtype", "flags")
_LARGEST: Final = np.finfo(np.float64).max


@dataclass(slots=True)
class Nodes:
    """Nodes in the order in which they were made, with their edges and what they saved."""

    seq: Array
    t: Array  # perf_counter_ns
    thread: Array  # its identifier
    columns: dict[str, Array]
    edges: dict[str, Array]
    saved: dict[str, Array]


Describe = Callable[[NodeSchema, CodeType | None, int, tuple[int, ...], Any], list[int]]
Tensor = Callable[[str, bool, tuple[int, ...], Any], list[int]]


class NodeReader:
    """Reads the nodes of one log; keeps the facts of the keys it has met.

    describe: the facts of a key, as in _FACTS; tensor: those of a saved tensor, as in _SAVED.
    """

    def __init__(self, describe: Describe, tensor: Tensor) -> None:
        self._describe = describe
        self._tensor = tensor
        self._facts: dict[NodeRecord, Array] = {}  # (number of the key, fact)

    def read(self, told: Sequence[Told]) -> Nodes | None:
        """All these nodes, sorted by their number; None if there are none."""
        parts = [self._read(stream, records) for stream, records in told if records]
        if not parts:
            return None
        if len(parts) == 1 and bool((parts[0].seq[1:] > parts[0].seq[:-1]).all()):
            return parts[0]
        order = np.argsort(np.concatenate([part.seq for part in parts]), kind="stable")
        return Nodes(
            np.concatenate([part.seq for part in parts])[order],
            np.concatenate([part.t for part in parts])[order],
            np.concatenate([part.thread for part in parts])[order],
            _sorted([part.columns for part in parts], order),
            _sorted([part.edges for part in parts], "src"),
            _sorted([part.saved for part in parts], "node"),
        )

    def _read(self, stream: NodeStream, records: list[bytes]) -> Nodes:
        at = stream.record.numbers
        rows = np.frombuffer(b"".join(records), "<i8").reshape(len(records), -1)
        seq, ends = rows[:, SEQ].copy(), rows[:, at.edges]
        facts = self._facts_of(stream).take(rows[:, KEY], axis=0)
        return Nodes(
            seq,
            rows[:, TIME],
            rows[:, THREAD],
            dict(zip(_FACTS, facts.T, strict=False)),
            _edges(seq, ends, facts[:, len(_FACTS) : (saved := len(_FACTS) + ends.shape[1])]),
            _saved(seq, rows[:, at.first], rows[:, at.second], facts[:, saved:]),
        )

    def _facts_of(self, stream: NodeStream) -> Array:
        known = self._facts.get(stream.record)
        keys = stream.keys[0 if known is None else len(known) :]
        if keys or known is None:
            at = stream.record.facts
            fresh = np.array([self._learn(key, at) for key in keys], np.int64)
            known = fresh if known is None else np.concatenate([known, fresh])
            self._facts[stream.record] = known
        return known

    def _learn(self, key: Key, at: Parts) -> list[int]:
        schema, code, lasti, facts = key
        found = self._describe(schema, code, lasti, facts[SHAPE], facts[DTYPE])
        found += facts[at.edges]
        saved = zip(schema.saved, facts[at.first], facts[at.second], strict=True)
        for (name, own), shape, dtype in saved:
            found += [-1] * len(_SAVED) if shape is None else self._tensor(name, own, shape, dtype)
        return found


def _edges(seq: Array, ends: Array, facts: Array) -> dict[str, Array]:
    each = ends.shape[1]
    return {
        "src": np.repeat(seq, each),
        "dst": ends.ravel(),
        "src_index": np.tile(np.arange(each), len(seq)),
        "dst_index": facts.ravel(),
    }


def _saved(seq: Array, storages: Array, versions: Array, facts: Array) -> dict[str, Array]:
    found = {"node": np.repeat(seq, storages.shape[1])}
    found |= {"storage": storages.ravel(), "version": versions.ravel()}
    found |= {name: facts[:, i :: len(_SAVED)].ravel() for i, name in enumerate(_SAVED)}
    there = found["name"] >= 0
    return found if there.all() else {name: values[there] for name, values in found.items()}


def _sorted(parts: Sequence[dict[str, Array]], by: Array | str) -> dict[str, Array]:
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined[by], kind="stable") if isinstance(by, str) else by
    return {name: values[order] for name, values in joined.items()}


def read_runs(columns: Fields) -> dict[str, Array]:
    """Columns of runs; `squares` is |g|^2: nan possible, -1 without a gradient."""
    names = ("seq", "task", "order", "t0", "t1")
    found = {name: integers(column) for name, column in zip(names, columns[:5], strict=True)}
    found["squares"] = _squares(columns[5], columns[6])
    return found


def integers(values: Sequence[int]) -> Array:
    """A column of Python's numbers; NumPy's own ways to make one take twice as long and more."""
    return np.frombuffer(struct.pack(f"<{len(values)}q", *values), "<i8")


def _squares(values: Sequence[Any], dtypes: Sequence[Any]) -> Array:
    """Sums of squares: of a gradient's bytes where its dtype is given, else the value itself."""
    keys = list(map(id, dtypes))  # by identity: a dtype may equal None
    kinds = dict(zip(keys, dtypes, strict=True))
    if len(kinds) == 1:
        return _sums(values, dtypes[0])
    of = integers(keys)
    result = np.empty(len(values))
    for key, kind in kinds.items():
        chosen = of == key
        result[chosen] = _sums(list(compress(values, chosen.tolist())), kind)
    return result


@silent
def _sums(parts: Sequence[Any], dtype: np.dtype[Any] | None) -> Array:
    """The sum of squares of each array; infinite or nan only if an element is."""
    if dtype is None:
        return np.array(parts, np.float64)
    flat = np.frombuffer(b"".join(parts), dtype)
    lengths = integers(list(map(len, parts))) // dtype.itemsize
    ends = np.cumsum(lengths)
    if dtype.kind == "c":
        squares = np.square(flat.real, dtype=np.float64)
        squares += np.square(flat.imag, dtype=np.float64)
    elif dtype.itemsize == 2:  # bfloat16 has no square into another dtype
        squares = np.square(flat.astype(np.float64))
    else:
        squares = np.square(flat, dtype=np.float64)
    sums = np.asarray(np.add.reduceat(squares, ends - lengths))
    for i in np.flatnonzero(np.isinf(sums)):
        # Squares leave the range of float64 long before its numbers do.
        if np.isfinite(flat[ends[i] - lengths[i] : ends[i]]).all():
            sums[i] = _LARGEST
    return sums
