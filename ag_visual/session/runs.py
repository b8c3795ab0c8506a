"""Recordings of blocks that ended, kept as far as memory is set aside for them.

A block's own recording replaces the passes before it in the panel; from here they are opened again
and compared. They hold no tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ag_visual.observe.export.export import Recording

LIMIT: Final = 32 * 2**20
"""Bytes of recordings that are kept, about; the oldest ones leave first."""

MOST: Final = 20


class Run(NamedTuple):
    """One block's recording. listed: its `Run` record of the schema."""

    listed: dict[str, Any]
    recording: Recording
    size: int


class Runs:
    """The newest recordings of blocks. `listed` is ready to be sent: it goes with every batch."""

    def __init__(self, limit: int = LIMIT, most: int = MOST) -> None:
        self.listed: list[dict[str, Any]] = []
        self._limit = limit
        self._most = most
        self._count = 0
        self._kept: list[Run] = []

    def add(self, recording: Recording, *, goes_on: bool = False) -> None:
        """Keep it if it holds a backward. goes_on: what the one before it holds is in it as well.

        One that is larger than all that may be kept is not, and leaves the others alone.
        """
        nodes, rows = recording.count("nodes"), recording.count("tasks")
        size = recording.weight
        if rows == 0 or size > self._limit:
            return
        kept = self._kept[:-1] if goes_on else self._kept
        self._count += 1
        listed = {
            "number": self._count,
            "name": recording.name,
            "nodes": nodes,
            "passes": (rows + 1) // 2,  # a row for the begin and one for the end
        }
        self._set([*kept, Run(listed, recording, size)])

    def find(self, number: int) -> Recording:
        """The recording of that number. Raises ValueError where it is not kept."""
        for run in self._kept:
            if run.listed["number"] == number:
                return run.recording
        numbers = ", ".join(str(run["number"]) for run in self.listed) or "none"
        raise ValueError(f"run {number} is not kept any more; kept are: {numbers}")

    def clear(self) -> None:
        """Forget all of them; numbers go on."""
        self._set([])

    def _set(self, runs: Iterable[Run]) -> None:
        newest: list[Run] = []
        room = self._limit
        for run in reversed(list(runs)):
            room -= run.size
            if room < 0 or len(newest) == self._most:
                break
            newest.insert(0, run)
        self._kept = newest
        self.listed = [run.listed for run in newest]
