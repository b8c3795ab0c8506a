"""The `op-table` directive: every public function of the package, read from the op table itself.

A function's row names its arguments, its in-place variant, the node that it leaves in the graph and
what that node saves; nothing of it is written down a second time. With a module's name
(`ag_visual.nn.functional`) it lists the functions of that module.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import ag_visual  # noqa: F401  (importing the package declares its ops)
from ag_visual.dispatch import table
from ag_visual.dispatch.record import Op

HEAD = ("function", "node in the graph", "saved for backward")
WIDTHS = (56, 24, 20)


Row = tuple[str, list[str], Callable[..., Any]]


def rows() -> list[Row]:
    """Each function once, without the in-place variants: its name, its other names, itself."""
    names: dict[int, list[str]] = {}
    for name, function in table.functions.items():
        if not name.endswith("_"):
            names.setdefault(id(function), []).append(name)
    found = [(own[0], sorted(own[1:]), table.functions[own[0]]) for own in names.values()]
    return sorted(found, key=lambda row: (row[0][0].isupper(), row[0]))


def records(name: str) -> list[Op]:
    """The ops behind a public name: one, or the overloads that it chooses from."""
    # `linalg.inv` is made of the op that is `linalg.inv_ex` elsewhere.
    words = {name, *(f"linalg.{name}{end}" for end in ("", "_ex"))}
    own = [op for op in table.ops.values() if op.public_name in words]
    if name in table.ops and table.ops[name] not in own:
        own.append(table.ops[name])
    return sorted(own, key=lambda op: op.node_name)


def arguments(function: Callable[..., Any]) -> str:
    """The signature without annotations, as torch's pages write it."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "(...)"
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def rows_of(module: str) -> list[Row]:
    """The public functions of one module."""
    found = vars(importlib.import_module(module)).items()
    listed = [(name, [], f) for name, f in found if callable(f) and not name.startswith("_")]
    return sorted(row for row in listed if not inspect.isclass(row[2]) and row[0] != "Any")


class OpTable(SphinxDirective):
    """`{op-table}`: one row for each function."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        if self.arguments:
            return [_table(rows_of(self.arguments[0]))]
        found = rows()
        total = sum(1 + len(others) for _, others, _ in found)
        inplace = sum(name.endswith("_") for name in table.functions)
        said = (
            f"{total} functions ({len(found)} and their other names), {inplace} in-place variants."
        )
        return [nodes.paragraph("", said), _table(found)]


def _table(found: list[Row]) -> nodes.table:
    group = nodes.tgroup(cols=len(HEAD))
    group += [nodes.colspec(colwidth=width) for width in WIDTHS]
    group += nodes.thead("", nodes.row("", *(_entry(nodes.Text(word)) for word in HEAD)))
    group += nodes.tbody("", *(_row(*row) for row in found))
    return nodes.table("", group, classes=["op-table", "colwidths-given"])


def _entry(*children: nodes.Node) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", "", *children))


def _row(name: str, others: list[str], function: Callable[..., Any]) -> nodes.row:
    ops = records(name)
    differentiable = [op for op in ops if op.rules]
    saved = dict.fromkeys(word for op in differentiable for word in op.saves)
    where = (each for each in ("torch", "nn.functional") if name in table.spaces[each])
    space = {"torch": "", "nn.functional": "nn.functional."}.get(next(where, ""), "Tensor.")
    first = nodes.paragraph("", "", nodes.literal("", f"{space}{name}{arguments(function)}"))
    more = [*others, *([f"{name}_"] if f"{name}_" in table.functions else [])]
    for i, other in enumerate(more):
        first += [nodes.Text(", " if i else " also "), nodes.literal("", other)]
    says = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    if any(op.view for op in ops):
        says = f"{says} Gives a view.".strip()
    entry = nodes.entry("", first, ids=[f"fn-{name}"])
    entry[:0] = [nodes.target("", "", ids=[f"fn-{other}"]) for other in others]
    if says:
        entry += nodes.paragraph("", "", *_code_and_text(says))
    return nodes.row(
        "",
        entry,
        _entry(*_listed([op.node_name for op in differentiable])),
        _entry(*_listed(list(saved))),
    )


def _listed(words: list[str]) -> list[nodes.Node]:
    found: list[nodes.Node] = []
    for i, word in enumerate(dict.fromkeys(words)):
        found += [nodes.Text(" ")] * bool(i) + [nodes.literal("", word)]
    return found


def _code_and_text(text: str) -> list[nodes.Node]:
    """Text in which `words` are code."""
    pieces = text.split("`")
    return [
        nodes.literal("", piece) if i % 2 else nodes.Text(piece) for i, piece in enumerate(pieces)
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("op-table", OpTable)
    return {"parallel_read_safe": True}
