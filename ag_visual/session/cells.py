"""Which notebook cell a piece of code came from: registered before each cell runs.

Two runs of the same text share one compiled file name, so each code object is registered too, with
the source as it ran.
"""

from __future__ import annotations

import functools
from types import CodeType
from typing import Any

from ag_visual.core import source
from ag_visual.engine.run import running

_watched: dict[int, Cells] = {}


def watch_cells(shell: Any) -> Cells:
    """Register every cell that this IPython shell runs from now on, and the one that runs now."""
    if id(shell) in _watched:
        return _watched[id(shell)]
    cells = _watched[id(shell)] = Cells(shell)
    shell.events.register("pre_run_cell", cells.before)
    if hasattr(shell, "run_code"):
        shell.run_code = cells.registering(shell.run_code)
    cells.running_now()
    return cells


class Cells:
    """The cells of a shell; `cell` is the one that began last."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cell: source.Cell | None = None

    def before(self, info: Any) -> None:
        """IPython's pre_run_cell event."""
        running()  # what died in a cell before counts as running no more
        count = self._stored() if info.store_history else None
        self._register(info.raw_cell, getattr(info, "cell_id", None), count)

    def _stored(self) -> int:
        """The number of the cell about to be stored in the history.

        Not `execution_count`: IPython 9 has counted it up by now, IPython 8 not yet.
        """
        count = int(self.shell.execution_count)
        history = getattr(self.shell, "history_manager", None)
        stored = len(history.input_hist_raw) if history is not None else count
        return stored if stored in (count - 1, count) else count

    def running_now(self) -> None:
        """The cell that imports this package began before anybody listened."""
        history = getattr(self.shell, "history_manager", None)
        stored = history.input_hist_raw if history is not None else []
        if len(stored) < 2 or not stored[-1]:
            return
        cell_id = None
        kernel = getattr(self.shell, "kernel", None)
        if kernel is not None:
            parent = kernel.get_parent() or {}
            cell_id = (parent.get("metadata") or {}).get("cellId")
        self._register(stored[-1], cell_id, len(stored) - 1)

    def _register(self, raw: str, cell_id: str | None, count: int | None) -> None:
        compiler = self.shell.compile
        transformed = self.shell.transform_cell(raw)
        name = compiler.get_code_name(raw, transformed, count or 0)
        self.cell = source.Cell(cell_id, count, transformed)
        source.register_cell(name, self.cell)

    def registering(self, run_code: Any) -> Any:
        """`run_code` of the shell, which first registers the code object for the current cell."""

        @functools.wraps(run_code)
        def registered(code_obj: CodeType, *args: Any, **kwargs: Any) -> Any:
            if self.cell is not None and isinstance(code_obj, CodeType):
                source.register_code(code_obj, self.cell)
            return run_code(code_obj, *args, **kwargs)

        return registered
