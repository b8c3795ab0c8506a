"""Waking a thread from a program that a signal may interrupt anywhere."""

from __future__ import annotations

import queue


class Bell:
    """Rings until somebody has waited for it: an event that whoever waits clears.

    `threading.Event` takes its lock in Python code: an interrupt there leaves it locked for ever,
    and the next `set` of the program waits for it. A queue of C does not.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        return not self._rings.empty()

    def set(self) -> None:
        """Ring: who waits goes on, or whoever waits next does so at once."""
        if self._rings.empty():
            self._rings.put(None)

    def clear(self) -> None:
        """Be silent again."""
        while not self._rings.empty():
            try:
                self._rings.get_nowait()
            except queue.Empty:  # another thread was faster
                return

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it rings, or so many seconds, and silence it."""
        try:
            self._rings.get(timeout=timeout)
        except queue.Empty:
            return
        self.clear()
