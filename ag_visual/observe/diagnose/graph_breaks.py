"""Where a computation leaves the graph, read off the source: `.item()`, `float(x)`, comparisons.

Values that leave it in the middle of an expression are not variables that `explain` could look at.
Reads the assignments above the user's line backwards from one name; parses, never runs.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import FrameType
from typing import Final, NamedTuple

from ag_visual.core import source
from ag_visual.core.diagnosis.source_rewrite import SourceLocation, method_call, names_in

NUMPY: Final = "a NumPy array"
_METHODS: Final = {
    "item": "a Python number",
    "tolist": "a list of Python numbers",
    "numpy": NUMPY,
    "detach": "a tensor outside of the graph",
    "detach_": "a tensor outside of the graph",
    "argmax": "an index, which has no derivative",
    "argmin": "an index, which has no derivative",
    "long": "integers, which have no derivative",
    "int": "integers, which have no derivative",
    "bool": "truth values, which have no derivative",
}
_FUNCTIONS: Final = {"float": "a Python number", "int": "a Python number", "bool": "a truth value"}
_COPIES: Final = {"tensor", "as_tensor", "array", "asarray", "from_numpy"}
_LIMIT: Final = 50
"""Names that are followed."""


class GraphBreak(NamedTuple):
    """An expression that is no part of the graph: its text, what it gives, where it stands."""

    text: str
    gives: str
    site: source.Site


def breaks_in_source(frame: FrameType | None, name: str) -> list[GraphBreak]:
    """What the values of a variable were computed from, as far as it left the graph there."""
    frame = source.outside(frame)
    if frame is None or not name.isidentifier():
        return []
    code = frame.f_code
    cell = source.cell_of(code)
    text = cell.source if cell is not None else "".join(linecache.getlines(code.co_filename))
    line = text.splitlines()[frame.f_lineno - 1] if text and frame.f_lineno else ""
    location = SourceLocation(name, line, text, frame.f_lineno or 0)
    lines = text.splitlines()
    found: dict[str, GraphBreak] = {}
    pending, passed = [name], {name}
    while pending and len(passed) < _LIMIT:
        value = location.value_of(pending.pop(0))
        if value is None:
            continue
        for node, gives in _leaving(value):
            expression, site = ast.unparse(node), site_of(code.co_filename, cell, node, lines)
            found.setdefault(expression, GraphBreak(expression, gives, site))
        fresh = sorted(names_in(value) - passed)
        pending += fresh
        passed.update(fresh)
    return list(found.values())


def _leaving(value: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """The parts of an expression that give no tensor of the graph, and what they give."""
    for node in ast.walk(value):
        gives = gives_of(node)
        if gives is not None and isinstance(node, ast.expr):
            yield node, gives


def gives_of(node: ast.AST) -> str | None:
    """What an expression gives that is no tensor of the graph it comes from; None for others."""
    if isinstance(node, ast.Compare):
        return "truth values, which have no derivative"
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return "a tensor outside of the graph"
    if not isinstance(node, ast.Call):
        return None
    method = method_call(node)
    taken = any(names_in(part) for part in node.args)
    if method is None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        return _FUNCTIONS.get(name) if taken else None
    if method[1] in _METHODS:
        return _METHODS[method[1]]
    return "a copy outside of the graph" if method[1] in _COPIES and taken else None


def site_of(
    filename: str, cell: source.Cell | None, node: ast.expr, lines: list[str]
) -> source.Site:
    return source.Site(
        file=filename,
        kind="cell" if cell else "file",
        cell_id=cell.cell_id if cell else None,
        execution_count=cell.execution_count if cell else None,
        line=node.lineno,
        col=node.col_offset,
        end_line=node.end_lineno or node.lineno,
        end_col=node.end_col_offset or 0,
        function="",
        text=ast.unparse(node),
        source_line=lines[node.lineno - 1].strip(),
    )
