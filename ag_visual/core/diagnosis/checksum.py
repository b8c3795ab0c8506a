"""Checksums of saved arrays, kept while `autograd.guard` is on: for writes that no counter sees.

A guarded field carries a snapshot that equals its storage's without being the same object, so that
the fast path, which compares identity, asks `saved.check`, and that asks here. Unguarded fields pay
nothing.
"""

from __future__ import annotations

import weakref
import zlib
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of

SAMPLE = 1 << 16
"""Bytes that are read at the start, in the middle and at the end of a large array."""

Key = tuple[str, int]
kept: weakref.WeakKeyDictionary[Any, dict[Key, tuple[Any, int, bool]]] = weakref.WeakKeyDictionary()
"""Per node: (name of the field, id of the storage) -> array, checksum, was all of it read."""


def checksum(array: Any, whole: bool) -> int:
    """CRC-32 of the contents (of three parts of them for a large array, unless `whole`)."""
    flat = numpy.ascontiguousarray(backend_of(array).to_numpy(array))
    data: Any = memoryview(flat.reshape(-1).view(numpy.uint8))  # type: ignore[arg-type]
    if whole or len(data) <= 3 * SAMPLE:
        return zlib.crc32(data)
    middle = len(data) // 2
    found = zlib.crc32(data[:SAMPLE])
    found = zlib.crc32(data[middle : middle + SAMPLE], found)
    return zlib.crc32(data[-SAMPLE:], found)


def remember(node: Any, name: str, array: Any, storage: Any, whole: bool) -> tuple[int, int]:
    """Take the checksum of a field that is being saved; returns the snapshot to keep with it."""
    kept.setdefault(node, {})[name, id(storage)] = (array, checksum(array, whole), whole)
    version, writes = storage.snapshot
    return (version, writes)


def changed(node: Any, name: str, storage: Any) -> bool:
    """Have the contents of a field changed although its snapshot says that they have not?"""
    entry = kept[node].get((name, id(storage))) if node in kept else None
    return entry is not None and checksum(entry[0], entry[2]) != entry[1]
