"""Names of threads, also of those that have ended before anybody asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

UNKNOWN = "thread that has ended"
_Thread: Any = threading.Thread


class Names:
    """Identifier -> name, of all that `threading` runs from `begin` until `leave`.

    Identifiers are used again: under one of several threads, the first is named, "and others".
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._before: Callable[..., None] = _Thread.start
        self._start: Callable[..., None] | None = None
        self._noting = True

    def begin(self) -> None:
        """Note from now on."""
        for each in threading.enumerate():
            self._note(each)
        before = self._before

        def start(thread: threading.Thread) -> None:
            before(thread)
            if self._noting:
                self._note(thread)

        self._start = _Thread.start = start

    def leave(self) -> None:
        """Note no more."""
        self._noting = False
        if _Thread.start is self._start:  # else somebody has put something around it
            _Thread.start = self._before

    def of(self, ident: int) -> str:
        """The name of a thread."""
        return self._names.get(ident, UNKNOWN)

    def _note(self, thread: threading.Thread) -> None:
        ident = thread.ident
        if ident is None:
            return
        known = self._names.setdefault(ident, thread.name)
        if known != thread.name and not known.endswith(" and others"):
            self._names[ident] = f"{known} and others"
