"""How much time an observer may take of a program that nobody asked it to watch."""

from __future__ import annotations

from ag_visual.events.clock import perf_counter_ns


class Allowance:
    """Time that may be spent without being asked for: 50 ms at once, of which a share of the time
    that passes comes back while `grows`. What took longer, or waited for a processor, is owed up
    to as much again: what follows would not be seen for minutes.
    """

    def __init__(self, seconds: float = 0.05, share: float = 0.05, *, grows: bool = False) -> None:
        self.most = seconds * 1e9
        self.share = share
        self.grows = grows
        self._left = self.most
        self._at = perf_counter_ns()

    def any_left(self, now: int) -> bool:
        """Whether something may be done at this moment."""
        if self.grows:
            self._left = min(self.most, self._left + (now - self._at) * self.share)
        self._at = now
        return self._left > 0

    def spend(self, nanoseconds: float) -> None:
        """So much was done."""
        self._left = max(self._left - nanoseconds, -self.most)

    def once_more(self) -> None:
        """A person has begun something: once it may be done, whatever was spent before."""
        self._left = max(self._left, 1.0)
