"""Batches to pages: one `Page` per open comm, each with its own window, numbering and losses.

A page that does not keep up is never flooded and never silently robbed: when its window is full
batches wait; when much waits, finished and freed backward passes are left out and counted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.batch import BatchStream, Header
from ag_visual.observe.wire.columns import Chunk
from ag_visual.observe.wire.store import thin

BATCH_BYTES: Final = 500_000
"""Bytes of columns from which on a batch is sent off; a batch is at most one chunk larger."""

BEHIND: Final = 4_000_000
"""Waiting bytes at which what a slow page gets is thinned."""

PING_SECONDS: Final = 5.0

epochs = itertools.count(1)


class Send(Protocol):
    """Puts one message on the wire; raises OSError-like errors when the page is gone."""

    def __call__(self, data: dict[str, Any], buffers: list[bytes]) -> None: ...


class Page:
    """What one page has been sent, and what it has said that it received."""

    def __init__(
        self,
        id: str,
        send: Send,
        recorder: Recorder,
        session: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = id
        self.heard = clock()
        self._send = send
        self._recorder = recorder
        self._session = session
        self._clock = clock
        self._sent = clock()
        self._restart_asked = False
        self.restart()

    def ask_restart(self) -> None:
        """Restart at the next flush; from any thread."""
        self._restart_asked = True

    def heard_now(self) -> None:
        """The page gave a sign of life."""
        self.heard = self._clock()

    def reply(self, content: dict[str, Any]) -> None:
        """Answer a request that came over a comm: among the events, where this page listens."""
        self._send({"v": schema.VERSION, "reply": content}, [])

    def restart(self) -> None:
        """Begin a new epoch: everything kept is sent again, from batch 1 on."""
        self._restart_asked = False
        store = self._recorder.store
        self._stream = BatchStream(self._session, next(epochs), self._recorder.encoder)
        self._stream.dropped.add(store.dropped)
        self._next = store.first
        self._acknowledged = 0
        self._problems: dict[int, dict[str, Any]] = {}
        self._sent_state: Any = None

    @property
    def epoch(self) -> int:
        return self._stream.epoch

    @property
    def unacknowledged(self) -> int:
        return self._stream.batch - self._acknowledged

    @property
    def window_full(self) -> bool:
        return self.unacknowledged >= schema.WINDOW

    @property
    def idle(self) -> bool:
        """Nothing waits to be sent to this page."""
        return self._next >= self._recorder.store.last and not self._restart_asked

    def acknowledge(self, batch: int) -> None:
        """The page received this batch and all before it (0: it only says that it is there)."""
        self.heard_now()
        if batch <= self._stream.batch:
            self._acknowledged = max(self._acknowledged, int(batch))

    def flush(
        self,
        state: dict[str, Any],
        problems: Sequence[dict[str, Any]],
        t: float,
        silence: float = PING_SECONDS,
    ) -> None:
        """Send what is new, as far as the window allows; a ping after so much silence."""
        store = self._recorder.store
        lost = self._stream.batch > 0 and self._next < store.thinned
        if self._restart_asked or lost or self._stream.encoder is not self._recorder.encoder:
            self.restart()
        while not self.window_full:
            chunk = self._take()
            fresh = [p for p in problems if self._problems.get(p["id"]) != p]
            if chunk is None and not fresh and state == self._sent_state:
                break
            header, buffer = self._stream.next(chunk or Chunk({}), state, fresh, t)
            self._problems = {p["id"]: p for p in problems}
            self._sent_state = state
            self._sent = self._clock()
            self._send(header, [buffer])
        if self._clock() - self._sent > min(silence, PING_SECONDS):
            self._sent = self._clock()
            self._send(ping(t), [])

    def _take(self) -> Chunk | None:
        """The next chunks as one; thinned when too much waits."""
        store = self._recorder.store
        waiting = list(store.since(self._next))
        if not waiting:
            return None
        if sum(chunk.nbytes for chunk in waiting) > BEHIND:
            # All but the newest: what happens now is what the page wants to show.
            late = waiting[:-1]
            self._next += len(late)
            chunk, dropped = thin(Chunk.joined(late), self._recorder.alive())
            self._stream.dropped.add(dropped)
            return chunk
        taken: list[Chunk] = []
        size = 0
        for chunk in waiting:
            if taken and size + chunk.nbytes > BATCH_BYTES:
                break
            taken.append(chunk)
            size += chunk.nbytes
        self._next += len(taken)
        return Chunk.joined(taken)


def ping(t: float) -> Header:
    """Asks a page whether it is there; it has no batch number, the page answers with ack 0."""
    return {"v": schema.VERSION, "ping": True, "t": t}
