"""The safetensors file: a length, a JSON header, and the bytes of arrays, one after the other.

Source: https://huggingface.co/docs/safetensors (format). The header maps a name to dtype, shape and
the place of the bytes; `__metadata__` maps strings to strings.
"""

from __future__ import annotations

import json
import math
import os
import struct
from typing import Any, BinaryIO

import numpy

from ag_visual import dtypes, files
from ag_visual.errors import FormatError

NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
_MOST = 100_000_000  # bytes of a header that is believed, as in the reference implementation


def _dtype(name: str) -> numpy.dtype[Any]:
    for ours, theirs in NAMES.items():
        if theirs == name:
            known = getattr(dtypes, ours, None)
            return numpy.dtype(ours) if known is None else known.np
    if name == "C64":
        return numpy.dtype(numpy.complex64)
    raise FormatError(f"it holds an array of type {name!r}, which is not known here")


def write(
    target: Any, arrays: dict[str, numpy.ndarray[Any, Any]], metadata: dict[str, str]
) -> None:
    """Write arrays to a path (see `files.writing`), or to a file object opened for bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {
            "dtype": NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    if hasattr(target, "write"):
        _put(target, text, arrays)
        return
    with files.writing(target) as file:
        _put(file, text, arrays)


def _put(file: BinaryIO, text: bytes, arrays: dict[str, numpy.ndarray[Any, Any]]) -> None:
    files.put(file, struct.pack("<Q", len(text)) + text)
    for array in arrays.values():
        files.put(file, numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data)


def name_of(source: Any) -> str:
    """How errors call a path or a file object."""
    found = getattr(source, "name", None) if hasattr(source, "read") else os.fsdecode(source)
    return found if isinstance(found, str) else "the file"


class Begun:
    """A file object that cannot go back, of which the first bytes have been read."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head, self._file = head, file

    def read(self, count: int) -> Any:
        if not self._head:
            return self._file.read(count)
        found, self._head = self._head[:count], self._head[count:]
        return found


def read(file: Any, name: str) -> tuple[dict[str, numpy.ndarray[Any, Any]], dict[str, str]]:
    """The arrays of a file object, writable, and its metadata.

    What the header says is compared with the length of the file before memory is taken for it.

    Raises:
        FormatError: the file is not a safetensors file, or is cut off or damaged.
    """
    left = files.size_left(file)
    head = bytes(files.read_up_to(file, 8))
    if len(head) < 8:
        raise FormatError(f"{name} is not a safetensors file: it has {len(head)} bytes")
    (length,) = struct.unpack("<Q", head)
    most = _MOST if left is None else min(_MOST, left - 8)
    text = bytes(files.read_up_to(file, length)) if length <= most else b""
    if not text.startswith(b"{"):
        raise FormatError(
            f"{name} is not a safetensors file, or is cut off: its header would have {length} bytes"
        )
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", {})
        if not all(isinstance(value, str) for value in dict.values(metadata)):
            raise TypeError("metadata are strings")
        entries = sorted(
            (_Entry(key, entry) for key, entry in header.items()), key=lambda entry: entry.place
        )
    except FormatError as error:
        raise FormatError(f"{name} cannot be read: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{name} is not a safetensors file: its header cannot be read") from error
    end = 0
    for entry in entries:
        start, stop = entry.place
        if start != end or stop - start != entry.dtype.itemsize * math.prod(entry.shape):
            raise FormatError(
                f"{name} is damaged: the bytes of {entry.key!r} are not where they should be"
            )
        end = stop
        if left is not None and end > left - 8 - length:
            raise FormatError(f"{name} is cut off: the bytes of {entry.key!r} end too early")
    arrays = {}
    for entry in entries:
        count = entry.place[1] - entry.place[0]
        memory = _memory(file, count, known=left is not None)
        if memory.nbytes < count:
            raise FormatError(f"{name} is cut off: the bytes of {entry.key!r} end too early")
        try:
            arrays[entry.key] = memory.view(entry.dtype).reshape(entry.shape)
        except (ValueError, OverflowError) as error:  # more dimensions, or longer, than NumPy's
            raise FormatError(f"{name} is damaged: the shape of {entry.key!r}") from error
    return {key: arrays[key] for key in header}, metadata


class _Entry:
    """One array of a header, its types checked."""

    def __init__(self, key: str, entry: dict[str, Any]) -> None:
        self.key = key
        self.dtype = _dtype(entry["dtype"])
        self.shape = tuple(map(_size, entry["shape"]))
        start, stop = map(_size, entry["data_offsets"])
        self.place = start, stop


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a size")
    return value


def _memory(file: BinaryIO, count: int, *, known: bool) -> numpy.ndarray[Any, Any]:
    """The next bytes, fewer at the end; of a pipe nobody knows how many will come."""
    if not known or not hasattr(file, "readinto"):
        return numpy.frombuffer(files.read_up_to(file, count) or bytearray(), numpy.uint8)
    memory = numpy.empty(count, numpy.uint8)
    have = 0
    while have < count:
        taken = file.readinto(memory[have:].data)
        if not taken:
            break
        have += taken
    return memory[:have]
