"""Places where tensors were seen to leave a graph by `detach()`, `.data` and their like.

The tensors do not live long enough to be asked for them when a gradient is missed.
"""

from __future__ import annotations

from types import CodeType
from typing import Final

_PLACES: Final = 1000
"""Places that are kept, with their code objects; at one more all are forgotten."""

places: dict[tuple[CodeType, int], None] = {}
"""The place where one did last is the last."""


def note(call_site: tuple[CodeType, int] | None) -> None:
    """A tensor left its graph there."""
    if call_site is not None:
        places.pop(call_site, None)
        if len(places) >= _PLACES:
            places.clear()
        places[call_site] = None
