"""Values with a tangent, described while they have it: a level of forward mode takes it away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ag_visual.events.live import LiveNode, lanes, whole
from ag_visual.observe.record.summaries import summarize

TANGENT: Final = "tangent:"
"""What stands before the name of a value when its tangent is asked for."""

MOST: Final = 400
"""Values that are described, each with its tangent; the first ones."""

LIMIT: Final = 6000
ELEMENTS: Final = 65_536
"""Bytes of one description, and elements that are looked at for it."""


class NotKeptError(LookupError):
    """What was asked for is not there (any more); the text says why and what to do."""


class Tangents:
    """`Values` records by node and by what they are of, in pairs: of a value and of its tangent."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], dict[str, Any]] = {}

    @property
    def full(self) -> bool:
        return len(self.found) >= 2 * MOST

    def has(self, seq: int, what: str) -> bool:
        """Whether a value of a node has a tangent that is known here."""
        return (seq, TANGENT + what) in self.found

    def lanes(self, seq: int, what: str) -> list[int]:
        """How many slices a value that is known here stood for."""
        found: list[int] = self.found.get((seq, what), {}).get("lanes", [])
        return found

    def keep(self, nodes: Iterable[LiveNode]) -> None:
        """Describe what these nodes hold that has a tangent now."""
        for node in nodes:
            if self.full:
                return
            for field in node.saved_fields():
                if field.tangent is not None:
                    array = node.saved_array(field.name)
                    self._describe(node.seq, f"saved:{field.name}", array, field.tangent)
            tangent = node.tangent()
            if tangent is not None:
                self._describe(node.seq, "variable", node.value(), tangent)

    def _describe(self, seq: int, what: str, array: Any, tangent: Any) -> None:
        if array is None:
            return
        self.found[seq, what] = _values(array) | {"tangent": True}
        self.found[seq, TANGENT + what] = _values(tangent)


def _values(array: Any) -> dict[str, Any]:
    found = summarize(whole(array), LIMIT, ELEMENTS)
    sizes = lanes(array)
    return found | {"lanes": [int(n) for n in sizes]} if sizes else found
