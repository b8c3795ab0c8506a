"""Which gradients are still there as a backward begins although their leaves were written since.

A loop that zeroes them, however seldom, has each of them at zero or None as some backward begins.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ag_visual.events.live import LiveNode

MOST: Final = 64
"""Leaves of one backward that are looked at, of those that have a gradient."""

TELLING: Final = 3
"""Updates of a leaf with the same gradient in which no loop zeroes that is in order."""
IDLE: Final = 10
"""Updates of other leaves by which one is told whose gradient grows and which none changes."""


@dataclass(slots=True)
class _Leaf:
    ref: weakref.ref[Any]
    writes: int
    updates: int = 0
    idle: int = 0  # updates of others since its gradient was zero or None


class HeldGradients:
    """Follows leaves from backward to backward, none of which may be missed."""

    def __init__(self) -> None:
        self._leaves: dict[int, _Leaf] = {}
        self.tells = False  # in the backward looked at last a gradient outlived so many updates
        # (seq of a leaf, how many): leaves of that backward that get gradients and no update.
        self.idle: tuple[int, int] | None = None
        self._witness: tuple[weakref.ref[Any], int] | None = None  # a leaf whose gradient is zeroed

    def forget(self) -> None:
        """A backward was not looked at: before it or after, gradients may have been zeroed."""
        if self._leaves:
            self._leaves = {}
        self._witness = None

    @property
    def none(self) -> bool:
        """Whether no gradient outlived the last backward, and nothing was said of any."""
        return not (self._leaves or self.tells or self.idle)

    def of(self, sinks: Iterable[LiveNode]) -> tuple[int, int, int] | None:
        """(seq of a leaf, updates since its gradient was zero or None, leaves of which that holds).

        Of the leaf with the most updates; None below two: the last step may not be over.
        """
        leaves, looked = self._leaves, 0
        self.tells, self.idle = False, None
        most, seq, count = 0, 0, 0
        still: list[tuple[int, _Leaf]] = []
        zeroed: LiveNode | None = None
        updated = False
        for node in sinks:
            standing = node.leaf_status()
            if standing is None and not leaves:
                continue
            ref = weakref.ref(node.variable)
            key = id(ref)
            looked += standing is not None
            if standing is None or looked > MOST or not np.count_nonzero(standing[1]):
                leaves.pop(key, None)
                if zeroed is None or (self._witness and ref is self._witness[0]):
                    zeroed = node
                continue
            known = leaves.get(key)
            if known is None or known.ref is not ref:
                leaves[key] = _Leaf(ref, standing[0])
                continue
            if known.writes != standing[0]:
                known.writes = standing[0]
                known.updates += 1
                known.idle = 0
                updated = True
                self.tells |= known.updates == TELLING
            elif known.updates == 0:
                still.append((node.seq, known))
            if known.updates > 1:
                count += 1
            if known.updates > most:
                most, seq = known.updates, node.seq
        if still:
            if self._moved(zeroed) or updated:
                for _, known in still:
                    known.idle += 1
                    self.tells |= known.idle == IDLE
            waiting = [each for each, known in still if known.idle >= IDLE]
            self.idle = (waiting[0], len(waiting)) if waiting else None
        if len(leaves) > 2 * MOST:
            self._leaves = {key: leaf for key, leaf in leaves.items() if leaf.ref() is not None}
        return (seq, most, count) if most > 1 else None

    def _moved(self, node: LiveNode | None) -> bool:
        """Whether this leaf, the one of the backward before, was written since."""
        if node is None:
            return False
        ref, writes = weakref.ref(node.variable), node.leaf_writes()
        before, self._witness = self._witness, (ref, writes)
        return before is not None and before[0] is ref and before[1] != writes
