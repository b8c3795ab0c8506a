"""The one numbering of threads: events name a thread by its identifier, readers by its number."""

from __future__ import annotations

import itertools


class _Numbers(dict[int, int]):
    """Identifier -> number, in the order in which threads were first asked for."""

    _next = itertools.count()

    def __missing__(self, ident: int) -> int:
        return self.setdefault(ident, next(self._next))


numbers = _Numbers()
