"""torch.cuda's streams and events, which are CuPy's."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ag_visual.arrays import backend as backends
from ag_visual.core import modes
from ag_visual.cuda.gpu import at
from ag_visual.names import only as _only


def _cuda() -> Any:
    return backends.backend_for("cuda").xp.cuda


class Event:
    """A point in a stream: when it has passed, and how long after another.

    Raises BackendUnavailable where there is no GPU.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._event = _cuda().Event(block=blocking, disable_timing=not enable_timing)
        self._timed, self._recorded = enable_timing, False

    def record(self, stream: Any = None) -> None:
        """Mark this place of a stream (the current one)."""
        self._recorded = True
        self._event.record(None if stream is None else stream._stream)

    def synchronize(self) -> None:
        """Wait until the work before it is done."""
        self._event.synchronize()

    def query(self) -> bool:
        """Whether the work before it is done."""
        return bool(self._event.done)

    def wait(self, stream: Any = None) -> None:
        """Let a stream (the current one) wait for it."""
        chosen = _cuda().get_current_stream() if stream is None else stream._stream
        chosen.wait_event(self._event)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two events that have passed.

        Raises:
            ValueError: one was made without enable_timing=True, or was not recorded.
        """
        for event in (self, end_event):
            if not event._timed:
                text = "Both events must be created with argument 'enable_timing=True'."
                raise ValueError(text)
            if not event._recorded:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(_cuda().get_elapsed_time(self._event, end_event._event))


class Stream:
    """A queue of kernels; raises BackendUnavailable where there is no GPU."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        with at(device):
            given = kwargs.get("_of")
            self._stream = _cuda().Stream(non_blocking=True) if given is None else given
        self.priority = priority

    @property
    def cuda_stream(self) -> int:
        """Its address."""
        return int(self._stream.ptr)

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Whether all its work is done."""
        return bool(self._stream.done)

    def record_event(self, event: Event | None = None) -> Event:
        """Mark this place of it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let what comes wait for an event."""
        self._stream.wait_event(event._event)

    def wait_stream(self, stream: Stream) -> None:
        """Let what comes wait for all work of another stream so far."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)


def current_stream(device: Any = None) -> Stream:
    """The stream that kernels run in."""
    return Stream(device, _of=_cuda().get_current_stream())


def default_stream(device: Any = None) -> Stream:
    """The stream that kernels run in when no other was chosen."""
    return Stream(device, _of=_cuda().Stream.null)


class _OfNodes:
    """The streams in which nodes were made, for the engine (see `modes.StreamsOf`)."""

    def __init__(self) -> None:
        # Of those that were made in another one than the default.
        self._made: weakref.WeakKeyDictionary[Any, Stream] = weakref.WeakKeyDictionary()

    def made(self, node: Any) -> None:
        stream = current_stream()
        if stream.cuda_stream:
            self._made[node] = stream

    def of_node(self, node: Any) -> Stream:
        found = self._made.get(node)
        return default_stream() if found is None else found

    def current(self) -> Stream:
        return current_stream()

    def inside(self, stream: Stream) -> AbstractContextManager[Any]:
        return stream._stream  # type: ignore[no-any-return]


_of_nodes = _OfNodes()


def set_stream(stream: Stream) -> None:
    """Let kernels run in this stream from now on.

    A backward runs each node in the stream of its forward, and its caller's stream waits for all.
    """
    modes.streams = _of_nodes
    stream._stream.use()


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """A block whose kernels run in this stream; None: a block like any other.

    A backward runs each node in the stream of its forward, and its caller's stream waits for all.
    """
    if stream is None:
        yield
        return
    modes.streams = _of_nodes
    with stream._stream:
        yield


StreamContext = stream
__dir__ = _only(["Event", "Stream"], __name__)
