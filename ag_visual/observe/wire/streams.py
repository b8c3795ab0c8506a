"""The streams of a log to columns: nodes with their edges and saved tensors, and their runs.

What nodes of one line have in common (class, place, shapes, dtypes) is described once for each key
of a stream; of single nodes there are only numbers. Both are read for whole streams at once.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import CodeType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ag_visual.arrays.quiet import silent
from ag_visual.events.log import RUN_NUMBERS, SMALLEST, TINY
from ag_visual.events.node_record import (
    DTYPE,
    FORMAT,
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

Records = tuple[NodeStream, list[bytes]]
"""A stream and the records that were taken from it."""

Fields = Sequence[list[Any]]
"""Records that came field after field: a list for each field."""

_FACTS: Final = ("name", "site", "shape", "dtype", "outputs", "numel")
_SAVED: Final = ("name", "bytes", "shape", "dtype", "flags")
_LARGEST: Final = np.finfo(np.float64).max

_BLOCK: Final = 1 << 17
"""Bytes of gradients whose squares are taken at once."""


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

    def read(self, taken: Sequence[Records]) -> Nodes | None:
        """All these nodes, sorted by their number; None if there are none."""
        parts = [self._read(stream, records) for stream, records in taken if records]
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
        rows = np.frombuffer(b"".join(records), np.int64).reshape(len(records), -1)
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
    numbers = np.empty(ends.shape, np.int64)
    numbers[...] = np.arange(each)
    return {
        "src": np.repeat(seq, each),
        "dst": ends.ravel(),
        "src_index": numbers.ravel(),
        "dst_index": facts.ravel(),
    }


def _saved(seq: Array, storages: Array, versions: Array, facts: Array) -> dict[str, Array]:
    fields = {name: facts[:, i :: len(_SAVED)] for i, name in enumerate(_SAVED)}
    fields |= {"storage": storages, "version": versions}
    there = fields["name"] >= 0
    kept = there.any(0)
    if not kept.all():  # what none of these nodes has saved
        there = there[:, kept]
        fields = {name: values[:, kept] for name, values in fields.items()}
    fields["node"] = np.repeat(seq, there.shape[1]).reshape(there.shape)
    if there.all():
        return {name: values.ravel() for name, values in fields.items()}
    places = np.flatnonzero(there)
    return {name: values.ravel().take(places) for name, values in fields.items()}


def _sorted(parts: Sequence[dict[str, Array]], by: Array | str) -> dict[str, Array]:
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined[by], kind="stable") if isinstance(by, str) else by
    return {name: values[order] for name, values in joined.items()}


def read_runs(columns: Fields) -> dict[str, Array]:
    """Columns of runs; `squares` is |g|^2: nan possible, -1 without a gradient."""
    records, values, dtypes = columns
    *numbers, sizes = run_rows(records).T
    found = dict(zip(("seq", "task", "order", "t0", "t1"), numbers, strict=True))
    found["squares"] = _squares(values, dtypes, sizes)
    return found


def run_rows(records: Sequence[bytes]) -> Array:
    """The numbers of each run: seq, task, order, t0, t1, bytes of its gradient."""
    return np.frombuffer(b"".join(records), np.int64).reshape(len(records), RUN_NUMBERS)


def integers(values: Sequence[int]) -> Array:
    """A column of Python's numbers; NumPy's own ways to make one take twice as long and more."""
    return np.frombuffer(struct.pack(f"{len(values)}{FORMAT}", *values), np.int64)


def _squares(values: Sequence[Any], dtypes: Sequence[Any], sizes: Array) -> Array:
    """Sums of squares: of a gradient's bytes where its dtype is given, else the value itself."""
    found = np.empty(len(values))
    one = _is_one(dtypes)
    left = sizes
    while len(left):
        size = left[0]
        left = left[left != size]
        places = np.flatnonzero(sizes == size)
        some = _at(places, values)
        kinds = dtypes[:1] if one else _at(places, dtypes)
        if one or _is_one(kinds):
            found[places] = _sums(some, kinds[0])
            continue
        keys = list(map(id, kinds))
        for key, kind in dict(zip(keys, kinds, strict=True)).items():
            alike = np.flatnonzero(integers(keys) == key)
            found[places[alike]] = _sums(_at(alike, some), kind)
    return found


def _is_one(dtypes: Sequence[Any]) -> bool:
    """Whether they are one object: a dtype may equal None."""
    return all(map(operator.is_, dtypes, repeat(dtypes[0])))


def _at(places: Array, values: Sequence[Any]) -> Sequence[Any]:
    """The values at these places."""
    if len(places) == len(values):
        return values
    chosen = places.tolist()
    return operator.itemgetter(*chosen)(values) if len(chosen) > 1 else [values[chosen[0]]]


@silent
def _sums(parts: Sequence[Any], dtype: np.dtype[Any] | None) -> Array:
    """The sum of squares of arrays of one size; infinite or nan only if an element is, 0 if all
    are.
    """
    if dtype is None:
        return np.array(parts, np.float64)
    if dtype.kind == "c":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    size = len(parts[0])
    found = np.zeros(len(parts))
    # As many at once as stay in the processor's caches.
    step = max(1, _BLOCK // max(1, size))
    for start in range(0, len(parts) if size else 0, step):
        rows = _rows(parts[start : start + step], dtype)
        found[start : start + step] = np.einsum("ij,ij->i", rows, rows)
    # Squares leave the range of a dtype long before its numbers do, at both ends.
    odd = np.flatnonzero(~((found > TINY) & (found < np.inf)))
    if len(odd) and size:
        found[odd] = _wide_sums(_rows(_at(odd, parts), dtype).astype(np.float64))
    return found


def _rows(parts: Sequence[bytes], dtype: np.dtype[Any]) -> Array:
    rows = np.frombuffer(b"".join(parts), dtype).reshape(len(parts), -1)
    return rows if dtype.itemsize >= 4 and dtype.kind == "f" else rows.astype(np.float64)


def _wide_sums(rows: Array) -> Array:
    sums: Array = np.einsum("ij,ij->i", rows, rows)
    sums[np.isinf(sums) & np.isfinite(rows).all(1)] = _LARGEST
    sums[(sums == 0) & rows.any(1)] = SMALLEST
    return sums
