"""Files of torch.save: the zip archive, and the stream of pickles that it wrote before 1.6.

In an archive `NAME/data.pkl` is the object and `NAME/data/KEY` the bytes of each storage, stored
as they are. A stream has five pickles (a number, a version, facts of the machine, the object, the
keys of its storages), then for each storage its length and its bytes.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy

from ag_visual import dtypes, files
from ag_visual.devices import device as Device
from ag_visual.errors import FormatError, RefusedError
from ag_visual.serialization.known import Known, StorageKind, Stored
from ag_visual.serialization.unpickle import Unpickler

MAGIC: Final = 0x1950A86A20F9469CFC6C
_LOCAL = struct.Struct("<4s5H3L2H")  # the header before a member's bytes
# What the standard reader of zip archives raises for damaged ones.
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError, LookupError, OSError, struct.error)

Place = Callable[[dtypes.dtype | None, int, str], Device]
"""The device for a storage: its dtype, its bytes, and where it was."""


def is_archive(head: bytes) -> bool:
    return head[:4] == b"PK\x03\x04"


def is_stream(head: bytes) -> bool:
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


# The archive -------------------------------------------------------------------------------------


def read_archive(file: Any, place: Place, encoding: str) -> Any:
    """The object of a zip archive. Raises FormatError."""
    archive = _Archive(file)
    kinds: dict[str, Stored] = {}

    def fetch(pid: tuple[Any, ...]) -> Stored:
        dtype, key, location, count = _storage_id(pid)
        known = kinds.get(key)
        if known is None:
            size = count * (1 if dtype is None else dtype.itemsize)
            memory = archive.read(f"data/{key}", size)
            known = kinds[key] = Stored(key, dtype, memory, place(dtype, size, location))
        return known

    data = archive.read("data.pkl").tobytes()
    return Unpickler(io.BytesIO(data), Known(fetch), encoding).load()


class _Archive:
    """The members of a checkpoint: stored bytes, no more of them than the file is long."""

    def __init__(self, file: Any) -> None:
        self._file = file
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
        except _DAMAGE as error:
            raise FormatError(f"it is cut off or damaged: {error}") from error
        self._left = _length(file)
        names = [m.filename for m in members if m.filename.endswith("/data.pkl")]
        if any(m.filename.endswith("/constants.pkl") for m in members):
            raise RefusedError(
                "it is a TorchScript archive, whose code is not run: save the state_dict() of the "
                "module that it was made of"
            )
        if not names:
            raise FormatError(
                "it is a zip archive, but no checkpoint: an .npz file is read by numpy.load, and "
                "its arrays are made tensors by from_numpy"
            )
        self._folder = names[0].removesuffix("data.pkl")
        self._members = {m.filename: m for m in members}
        order = self._members.get(f"{self._folder}byteorder")
        if order is not None and self.read("byteorder").tobytes() not in (b"little", b""):
            raise FormatError("its numbers have the byte order of another machine")

    def read(self, name: str, size: int | None = None) -> numpy.ndarray[Any, Any]:
        """The bytes of a member, which must be `size`."""
        member = self._members.get(self._folder + name)
        if member is None:
            raise FormatError(f"it is damaged: {name} is missing")
        count = member.file_size
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != count:
            raise FormatError(f"{name} in it is compressed, which checkpoints are not")
        if size is not None and count != size:
            raise FormatError(f"it is damaged: {name} has {count} bytes, not {size}")
        self._left -= count
        if self._left < 0:
            raise FormatError("it is damaged: its parts overlap")
        try:
            self._file.seek(member.header_offset)
            header = _LOCAL.unpack(files.read_up_to(self._file, _LOCAL.size))
            self._file.seek(header[9] + header[10], 1)
        except _DAMAGE as error:
            raise FormatError(f"it is damaged: {name} is not where it should be") from error
        if header[0] != b"PK\x03\x04":
            raise FormatError(f"it is damaged: {name} is not where it should be")
        memory = taken(self._file, count)
        # 0 stands where torch was told to compute none (serialization.set_crc32_options).
        if member.CRC and zlib.crc32(memory.data) != member.CRC:
            raise FormatError(f"it is damaged: {name} has other bytes than were written")
        return memory


def _storage_id(pid: tuple[Any, ...]) -> tuple[dtypes.dtype | None, str, str, int]:
    kind, key, location, count = pid[:4]
    key = key.decode("ascii") if isinstance(key, bytes) else key
    location = location.decode("ascii") if isinstance(location, bytes) else location
    if (
        not isinstance(kind, StorageKind)
        or not isinstance(key, str)
        or not isinstance(location, str)
        or type(count) is not int
        or count < 0
    ):
        raise FormatError("it has a storage that is none")
    return kind.dtype, key, location, count


def _length(file: Any) -> int:
    here = file.tell()
    end = file.seek(0, io.SEEK_END)
    file.seek(here)
    return int(end)


def taken(file: Any, count: int) -> numpy.ndarray[Any, Any]:
    """The next bytes of a file that is known to be as long, writable."""
    memory = numpy.empty(count, numpy.uint8)
    have = 0
    while have < count:
        if hasattr(file, "readinto"):
            got = file.readinto(memory[have:].data)
        else:
            data = file.read(count - have)
            got = len(data)
            memory[have : have + got] = numpy.frombuffer(data, numpy.uint8)
        if not got:
            raise FormatError("it is cut off")
        have += got
    return memory


# The stream --------------------------------------------------------------------------------------


def read_stream(file: Any, place: Place, encoding: str) -> Any:
    """The object of a stream of pickles. Raises FormatError.

    Storages follow the object: it is read twice, first for what storages there are.
    """
    bare = Known(_no_storage)
    for wanted in (MAGIC, 1001, None):
        found = Unpickler(file, bare, encoding).load()
        if wanted is None:
            if isinstance(found, dict) and found.get("little_endian") is False:
                raise FormatError("its numbers have the byte order of another machine")
        elif type(found) is not int or found != wanted:
            raise RefusedError(
                "it was written by pickle, or by another version of torch.save: no code that a "
                "file names is run"
            )
    begin, length = file.tell(), _length(file)
    sizes: dict[str, int] = {}
    memories: dict[str, numpy.ndarray[Any, Any]] = {}

    def fetch(pid: tuple[Any, ...]) -> Stored:
        dtype, root, location, count = _storage_id(pid)
        item = 1 if dtype is None else dtype.itemsize
        size = count * item
        known = memories.get(root)
        if known is None:
            sizes[root] = size
            if sum(sizes.values()) > length:
                raise FormatError("it is cut off: it has fewer bytes than its storages")
            known = memories[root] = numpy.zeros(size, numpy.uint8)
        offset = 0
        if len(pid) > 4 and pid[4] is not None:
            offset = pid[4][1]
            if type(offset) is not int or offset < 0:
                raise FormatError("it has a storage that is none")
        target = place(dtype, size, location) if filled else Device("cpu")
        return Stored(root, dtype, known, target, offset * item)

    filled = False
    Unpickler(file, Known(fetch), encoding).load()
    keys = Unpickler(file, bare, encoding).load()
    if not isinstance(keys, list) or set(map(_text, keys)) != set(sizes) or len(keys) != len(sizes):
        raise FormatError("it is damaged: it has other storages than its tensors")
    for key in map(_text, keys):
        (count,) = struct.unpack("<q", taken(file, 8).tobytes())
        size = sizes[key]
        if not 0 <= count <= size or (size % count if count else size):
            raise FormatError("it is damaged: a storage has another length than its tensors say")
        memories[key] = taken(file, size)
    end, filled = file.tell(), True
    file.seek(begin)
    found = Unpickler(file, Known(fetch), encoding).load()
    file.seek(end)
    return found


def _text(value: Any) -> Any:
    return value.decode("ascii") if isinstance(value, bytes) else value


def _no_storage(pid: tuple[Any, ...]) -> Stored:
    raise FormatError("it has a tensor where none can be")
