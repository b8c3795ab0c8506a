"""torch.cpu: the questions of torch.cuda, answered for the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose


class Stream:
    """A queue of work: on the CPU each operation is done when its call returns."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: all work is done."""

    def record_event(self) -> None:
        """Does nothing: all work is done."""

    def wait_event(self, event: Any) -> None:
        """Does nothing: all work is done."""


class Event:
    """A point in a queue of work: it has always passed."""

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def record(self, stream: Any = None) -> None:
        """Does nothing: all work is done."""

    def synchronize(self) -> None:
        """Does nothing: all work is done."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing: all work is done."""


_stream = Stream()


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Does nothing: all work is done."""


def current_device() -> str:
    """'cpu'."""
    return "cpu"


def device_count() -> int:
    """1."""
    return 1


def set_device(device: Any) -> None:
    """Does nothing: there is one."""


def current_stream(device: Any = None) -> Stream:
    """The one queue of work."""
    return _stream


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    """A block like any other: there is one queue."""
    yield


_expose(__name__)

__getattr__ = _absent.asked(__name__, "cpu")
