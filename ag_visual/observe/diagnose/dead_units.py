"""Units of a rectifier that let nothing through on the whole batch, and hence no gradient."""

from __future__ import annotations

from typing import Any, Final

from ag_visual.events.live import LiveNode

ROOM: Final = 48
"""Bytes of an answer that they take at most."""

_RECTIFIERS: Final = {"ReluBackward0": "result", "ThresholdBackward0": "self"}
"""Rectifiers, and what they save that tells which elements passed."""


def dead_units(node: LiveNode | None, which: str, array: Any) -> list[int] | None:
    """[dead units, all units] of a rectifier's saved tensor; None for anything else.

    which: the saved field as a page asks for it, `saved:result`. Units are the last dimension, of
    four and five dimensions the second (channels). One is dead where no element of it is above the
    threshold; a NaN is not dead. None also for a single row, where nothing follows from a zero.
    """
    name = "" if node is None else node.name()
    if which != f"saved:{_RECTIFIERS.get(name)}" or array.ndim < 2 or array.size == 0:
        return None
    unit = 1 if array.ndim in (4, 5) else array.ndim - 1
    units = int(array.shape[unit])
    if array.size == units:
        return None
    fields = [] if node is None else node.saved_fields()
    threshold = next((field.value for field in fields if field.name == "threshold"), 0)
    rest = tuple(axis for axis in range(array.ndim) if axis != unit)
    dead = (array <= threshold).all(axis=rest)
    return [int(dead.sum()), units]


def with_dead_units(
    node: LiveNode | None, which: str, array: Any, summary: dict[str, Any]
) -> dict[str, Any]:
    """The `Values` record of a node's tensor, with its dead units where it has any to tell."""
    dead = dead_units(node, which, array)
    return summary if dead is None else {**summary, "dead": dead}
