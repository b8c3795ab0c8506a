"""Memory of arrays that other processes see: `share_memory_` and what sends such an array.

It is a file without a name, which the system takes back when the last process that knows it ends.
Who sends an array in it to another process (`torch.multiprocessing`) sends a descriptor.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy

POSSIBLE = os.name == "posix"
"""Whether descriptors can be sent to another process here."""


class SharedMemory(mmap.mmap):
    """A mapping that knows its descriptor."""

    handle: int

    def __del__(self) -> None:
        os.close(self.handle)


def new_file() -> int:
    """The descriptor of a new, empty file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ag_visual")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def memory_of(array: Any) -> SharedMemory | None:
    """The shared memory in which an array lies."""
    while type(array) is numpy.ndarray:
        array = array.base
    return array if type(array) is SharedMemory else None


def copied(array: numpy.ndarray) -> numpy.ndarray:
    """An array of the same values and strides in new shared memory; OSError without space."""
    _register()
    low, high = numpy.lib.array_utils.byte_bounds(array)
    start = array.__array_interface__["data"][0]
    handle = new_file()
    try:
        os.ftruncate(handle, max(high - low, 1))
    except BaseException:
        os.close(handle)
        raise
    result = _mapped(handle, array.dtype, array.shape, array.strides, start - low)
    result[...] = array
    return result


def _mapped(handle: int, dtype: Any, shape: Any, strides: Any, offset: int) -> numpy.ndarray:
    """An array in the file of a descriptor, which it owns."""
    try:
        memory = SharedMemory(handle, 0)
    except BaseException:
        os.close(handle)
        raise
    memory.handle = handle
    return numpy.ndarray(shape, dtype, memory, offset, strides)


class Sendable:
    """An array in shared memory as it is pickled: its values, or for multiprocessing its memory."""

    def __init__(self, array: numpy.ndarray, memory: SharedMemory) -> None:
        self.array = array
        self.memory = memory

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.array.__reduce_ex__(protocol)


def sendable(array: Any) -> Any:
    """What to pickle in the place of an array."""
    memory = memory_of(array)
    return array if memory is None else Sendable(array, memory)


def _received(sent: Any, *rest: Any) -> numpy.ndarray:
    _register()  # it may go on from here to a third process
    return _mapped(sent.detach(), *rest)


def _reduced(sent: Sendable) -> Any:
    from multiprocessing.reduction import DupFd

    array, memory = sent.array, sent.memory
    begin = numpy.frombuffer(memory, numpy.uint8).__array_interface__["data"][0]
    offset = array.__array_interface__["data"][0] - begin
    return _received, (DupFd(memory.handle), array.dtype, array.shape, array.strides, offset)


def _register() -> None:
    """Have multiprocessing send arrays in shared memory as such, once there are any."""
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(Sendable, _reduced)
