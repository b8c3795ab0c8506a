"""The problems a session was told of: equal ones are one, solved when their cell ran through."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ag_visual.core.source import Site
from ag_visual.observe.diagnose.problems import problem

MOST: Final = 200
"""Different problems that are kept."""


@dataclass(slots=True)
class _Found:
    record: dict[str, Any]
    cell: str | None  # the notebook's cell that ran then
    run: int  # how many cells had ended before it


class FoundProblems:
    """`records` are `Problem` records, in the order in which they last occurred; none is changed.

    Any thread may add; `cell` says which cell of the notebook runs, None outside of one.
    """

    def __init__(self) -> None:
        self.cell: Callable[[], str | None] = lambda: None
        self._found: dict[Any, _Found] = {}
        self._number = 0
        self._runs = 0
        self._lock = threading.RLock()

    @property
    def records(self) -> list[dict[str, Any]]:
        with self._lock:
            return [one.record for one in self._found.values()]

    def add(self, fields: dict[str, Any], text: str) -> bool:
        """Take a problem down; False where nothing is new."""
        key = _key(fields)
        cell = self.cell()
        with self._lock:
            known = self._found.get(key)
            # A write through .data is told at each step of a training loop.
            if known is not None and fields.get("kind") == "silent" and known.run == self._runs:
                return False
            if known is None and len(self._found) >= MOST:
                return False
            if known is None:
                self._number += 1
            number = self._number if known is None else known.record["id"]
            times = 1 if known is None else known.record["times"] + 1
            record = problem(number, fields, text) | {"times": times, "solved": False}
            self._found.pop(key, None)
            self._found[key] = _Found(record, cell, self._runs)
        return True

    def cell_ended(self, cell: str | None, ran_through: bool) -> bool:
        """A cell ended: what it met in an earlier run, and not in this one, is solved."""
        solved = False
        with self._lock:
            for one in self._found.values() if cell and ran_through else ():
                if one.cell == cell and one.run < self._runs and not one.record["solved"]:
                    one.record = one.record | {"solved": True}
                    solved = True
            self._runs += 1
        return solved

    def clear(self) -> None:
        with self._lock:
            self._found = {}
            self._number = 0


def _key(fields: dict[str, Any]) -> Any:
    """Equal for the same mistake, made again: in the same lines of the same cells."""
    saved = fields.get("saved")
    return (
        fields.get("kind"),
        fields.get("node_name"),
        fields.get("saved_name"),
        _place(fields.get("where")),
        saved and _place(saved["site"]),
        tuple(_place(write["site"]) for write in fields.get("writes", ())),
    )


def _place(site: Site | None) -> Any:
    return site and (site.cell_id or site.file, site.line, site.col, site.text)
