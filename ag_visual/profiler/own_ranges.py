"""Ranges of the user's own for a tool outside: what torch.cuda.nvtx and profiler.itt share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from threading import local
from typing import Any


class _Depth(local):
    now = 0


class OwnRanges:
    """Ranges in ranges, in each thread.

    begin: begins one with a text. end: ends the innermost of the thread.
    """

    def __init__(self, begin: Callable[[str], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end
        self._depth = _Depth()

    def push(self, text: str) -> int:
        """Begin one; how many are open around it."""
        self._begin(text)
        self._depth.now += 1
        return self._depth.now - 1

    def pop(self) -> int:
        """End the innermost one; how many are open around it, -1: there was none."""
        if not self._depth.now:
            return -1
        self._depth.now -= 1
        self._end()
        return self._depth.now

    @contextlib.contextmanager
    def block(self, text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
        """One around a block, or around a function; its text is text.format(*args, **kwargs)."""
        self.push(text.format(*args, **kwargs))
        try:
            yield
        finally:
            self.pop()
