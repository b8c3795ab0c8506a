"""The safetensors file: a length, a JSON header, and the bytes of arrays, one after the other.

Source: https://huggingface.co/docs/safetensors (format). The header maps a name to dtype, shape and
the place of the bytes; `__metadata__` maps strings to strings.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zipfile
from typing import Any, BinaryIO

import numpy

from .. import dtypes

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
    raise ValueError(
        f"this safetensors file holds an array of type {name}, which is not known here"
    )


def write(
    target: Any, arrays: dict[str, numpy.ndarray[Any, Any]], metadata: dict[str, str]
) -> None:
    """Write arrays to a path, or to a file object opened for writing bytes.

    A path has the whole file or what it had before, never a part: the bytes go to a file beside it
    that takes its name at the end.
    """
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
    path = os.fspath(target)
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".saving-")
    try:
        with os.fdopen(handle, "wb") as file:
            _put(file, text, arrays)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, _mode(path))
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _mode(path: str) -> int:
    """The rights of a file that is written over, or those of a new one."""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _put(file: BinaryIO, text: bytes, arrays: dict[str, numpy.ndarray[Any, Any]]) -> None:
    file.write(struct.pack("<Q", len(text)))
    file.write(text)
    for array in arrays.values():
        file.write(numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8).data)


def read(source: Any) -> tuple[dict[str, numpy.ndarray[Any, Any]], dict[str, str]]:
    """The arrays of a file, writable, and its metadata.

    Raises:
        ValueError: the file is no safetensors file, or is cut off.
    """
    if hasattr(source, "read"):
        return _take(source, getattr(source, "name", "the file"))
    with open(source, "rb") as file:
        return _take(file, os.fspath(source))


def _take(file: BinaryIO, name: Any) -> tuple[dict[str, Any], dict[str, str]]:
    head = file.read(8)
    _refuse_others(head, file, name)
    if len(head) < 8:
        raise ValueError(f"{name} is no safetensors file: it has {len(head)} bytes")
    (length,) = struct.unpack("<Q", head)
    if length > _MOST:
        raise ValueError(f"{name} is no safetensors file: its header would have {length} bytes")
    text = file.read(length)
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", {})
        entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{name} is no safetensors file: its header cannot be read") from error
    arrays = {}
    end = 0
    for key, entry in entries:
        dtype, shape, (start, stop) = _dtype(entry["dtype"]), entry["shape"], entry["data_offsets"]
        count = dtype.itemsize
        for size in shape:
            count *= size
        if start != end or stop - start != count:
            raise ValueError(
                f"{name} is damaged: the bytes of {key!r} are not where they should be"
            )
        end = stop
        memory = numpy.empty(count, numpy.uint8)
        if _fill(file, memory) < count:
            raise ValueError(f"{name} is cut off: the bytes of {key!r} end too early")
        arrays[key] = memory.view(dtype).reshape(shape)
    return {key: arrays[key] for key in header}, metadata


def _fill(file: BinaryIO, memory: numpy.ndarray[Any, Any]) -> int:
    """Read into an array; returns how many bytes there were."""
    if not memory.nbytes:
        return 0
    if hasattr(file, "readinto"):
        return file.readinto(memory.data) or 0
    data = file.read(memory.nbytes)
    memory[: len(data)] = numpy.frombuffer(data, numpy.uint8)
    return len(data)


def _refuse_others(head: bytes, file: BinaryIO, name: Any) -> None:
    """Say what to do with files of torch, of pickle and of NumPy."""
    if head[:4] == b"PK\x03\x04" and hasattr(file, "seek"):
        file.seek(0)
        try:
            names = zipfile.ZipFile(file).namelist()
        except zipfile.BadZipFile:
            names = []
        if not any(n.endswith("data.pkl") for n in names):
            raise ValueError(
                f"{name} is a zip archive: an .npz file is read by numpy.load, and its arrays are "
                "made tensors by from_numpy"
            )
    elif head[:4] != b"PK\x03\x04" and not (
        head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05"
    ):
        return
    raise ValueError(
        f"{name} was written by torch.save or pickle. It is not loaded here: unpickling a file can "
        "run any code that is in it. Where torch is installed, turn its state dict into a "
        "safetensors file, `safetensors.torch.save_file(torch.load(path, weights_only=True), "
        "'weights.safetensors')`, and load that."
    )
