"""Jacobians that a program computed while it was recorded, as pages draw them."""

from __future__ import annotations

import math
from typing import Any, Final

from ag_visual.core import modes, source
from ag_visual.events.jacobians import End, Jacobian
from ag_visual.events.memory import CallSite
from ag_visual.observe.record.summaries import matrix_picture, summarize
from ag_visual.observe.wire.batch import site_json
from ag_visual.observe.wire.text import fit

MOST: Final = 12
"""Jacobians that are kept, the newest ones."""

BLOCKS: Final = 64
CELLS: Final = 4096
LIMIT: Final = 4096
"""Blocks of one that are drawn; cells of a block's picture, and bytes of all else about it."""


class Jacobians:
    """The newest ones, as `Jacobian` records."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.count = 0
        self._inside: Jacobian | None = None

    def keep(self, jacobian: Jacobian, call_site: CallSite) -> bool:
        """Keep one; False for one inside of another transform, of which only the ends are kept."""
        if modes.state.levels:
            self._inside = jacobian
            return False
        columns = list(jacobian.columns)
        rows = list(jacobian.rows)
        inside, self._inside = self._inside, None
        if jacobian.kind == "hessian" and inside is not None:
            # Its graph is that of the gradient, which was followed inside.
            columns = [_linked(*pair) for pair in zip(columns, inside.columns, strict=False)]
            rows = [_linked(*pair) for pair in zip(rows, inside.columns, strict=False)]
        self.count += 1
        record = {
            "id": self.count,
            "kind": jacobian.kind,
            "function": fit(jacobian.function),
            "site": site_json(source.resolve_call_site(call_site)),
            "rows": [_end(end) for end in rows],
            "columns": [_end(end) for end in columns],
            "blocks": [
                {"row": r, "column": c, "values": _values(array, rows[r], columns[c])}
                for r, blocks in enumerate(jacobian.blocks)
                for c, array in enumerate(blocks)
            ][:BLOCKS],
        }
        self.found = [*self.found, record][-MOST:]
        return True


def _linked(end: End, other: End) -> End:
    return end if end.seq is not None else end._replace(seq=other.seq)


def _end(end: End) -> dict[str, Any]:
    return {"name": fit(end.name), "shape": [int(n) for n in end.shape], "seq": end.seq}


def _values(array: Any, row: End, column: End) -> dict[str, Any]:
    """A block as a matrix: its `Values`, with a picture that is as fine as may be."""
    matrix = array.reshape(math.prod(row.shape), math.prod(column.shape))
    found = summarize(matrix, LIMIT)
    if matrix.size:
        found["picture"] = matrix_picture(matrix, CELLS)
    return found
