"""Objects between processes: the bytes of their arrays through memory that has no name.

Such memory is a file that nobody can open: it is sent as a descriptor beside a short message, and
the system takes it back when the last process that knows it ends, however it ends.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import numpy

from ag_visual.arrays import shared

_SMALL: Final = 1 << 14
"""Bytes up to which an object is sent in the message."""
_ALIGNED: Final = 64
_HEAD: Final = struct.Struct("<?QQ")
SHARES: Final = hasattr(socket, "send_fds") and shared.POSSIBLE
"""Whether descriptors can be sent here."""


class Packed:
    """An object as bytes: the pickle, and the buffers of its arrays, each at a place."""

    def __init__(self, obj: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        file = io.BytesIO()
        ForkingPickler(file, 5, True, buffers.append).dump(obj)
        self.pickled = file.getvalue()
        self._raw = [buffer.raw() for buffer in buffers]
        self.places: list[tuple[int, int]] = []
        end = len(self.pickled)
        for raw in self._raw:
            begin = -(-end // _ALIGNED) * _ALIGNED
            end = begin + raw.nbytes
            self.places.append((begin, end))
        self.size = end

    def into(self, memory: Any) -> None:
        """Write it into writable memory of `size` bytes."""
        with memoryview(memory) as view:  # else the memory cannot be closed after an interrupt
            view[: len(self.pickled)] = self.pickled
            for (begin, end), raw in zip(self.places, self._raw, strict=True):
                view[begin:end] = raw

    def facts(self) -> bytes:
        """What is needed to make the object again."""
        return pickle.dumps((len(self.pickled), self.places))

    def file(self) -> int:
        """The descriptor of new memory that holds it."""
        handle = shared.new_file()
        try:
            os.ftruncate(handle, self.size)
            with mmap.mmap(handle, self.size) as memory:
                self.into(memory)
        except BaseException:
            os.close(handle)
            raise
        return handle


def taken(facts: bytes, memory: Any) -> Any:
    """The object again; its arrays have memory of their own."""
    length, places = pickle.loads(facts)
    whole = numpy.frombuffer(memory, numpy.uint8)
    buffers = [whole[begin:end].copy() for begin, end in places]
    data = whole[:length].tobytes()
    del whole  # the memory may be closed now, whatever the objects do
    return pickle.loads(data, buffers=buffers)


def from_file(facts: bytes, handle: int, size: int) -> Any:
    """The object in the memory of a descriptor, which stays open."""
    with mmap.mmap(handle, size) as memory:
        return taken(facts, memory)


class Channel:
    """One end of a pair of pipes for objects, of which one direction carries arrays."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.fileno())) if SHARES else None

    def send(self, obj: Any) -> None:
        """Send an object; small ones, and where no memory can be shared, in the message."""
        packed = Packed(obj)
        facts = packed.facts()
        through_memory = self._socket is not None and packed.size > _SMALL
        head = _HEAD.pack(through_memory, len(facts), packed.size)
        if not through_memory:
            memory = bytearray(packed.size)
            packed.into(memory)
            self._connection.send_bytes(head + facts + memory)
            return
        handle = packed.file()
        try:
            self._connection.send_bytes(head + facts)
            socket.send_fds(self._socket, [b"\0"], [handle])
        finally:
            os.close(handle)

    def receive(self) -> Any:
        """The next object. Raises EOFError or OSError when the other end is gone."""
        message = self._connection.recv_bytes()
        through_memory, length, size = _HEAD.unpack_from(message)
        facts = message[_HEAD.size : _HEAD.size + length]
        if not through_memory:
            return taken(facts, bytearray(message[_HEAD.size + length :]))
        assert self._socket is not None
        _, handles, _, _ = socket.recv_fds(self._socket, 1, 1)
        if not handles:
            raise EOFError
        try:
            return from_file(facts, handles[0], size)
        finally:
            os.close(handles[0])

    def close(self) -> None:
        """Give both ends back."""
        self._connection.close()
        if self._socket is not None:
            self._socket.close()
