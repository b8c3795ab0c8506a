"""What is left out of a recording before it is given away: text and names of the user's code, and
numbers of tensors. Structure stays: ops, shapes, dtypes, lines as numbers, norms of gradients.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ag_visual.observe.formulas.cards import without_own_text
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.batch import decode_tables, without_source

_NAMES: Final = (
    *(("leaves", "label"), ("labels", "label"), ("calls", "name"), ("calls", "kind")),
    *(("hooks", "name"), ("hooks", "error")),
    *(("parameters", "name"), ("absent", "text"), ("absent", "repair")),
)
"""Columns whose strings the user's code gave."""

_NUMBERS: Final = ("before_min", "before_max", "after_min", "after_max")
"""Columns of hooks that hold elements of gradients."""


def without_numbers(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a recording without numbers of tensors; norms of gradients stay."""
    details = {seq: {**one, "values": []} for seq, one in record["details"].items()}
    cards = [{**card, "given": []} for card in record.get("cards", [])]
    batches = [_without_elements(batch) for batch in record["batches"]]
    bare = {"batches": batches, "details": details, "values": {}, "cards": cards, "numbers": {}}
    gone = ("scalars", "jacobians", "weights")
    left = {key: value for key, value in record.items() if key not in gone}
    return {**left, **bare}


def _nameless(jacobian: dict[str, Any]) -> dict[str, Any]:
    ends = {key: [{**end, "name": ""} for end in jacobian[key]] for key in ("rows", "columns")}
    site = jacobian["site"] and without_source(jacobian["site"])
    return {**jacobian, **ends, "function": "", "site": site}


def _without_elements(batch: dict[str, Any]) -> dict[str, Any]:
    hooks = batch["header"]["tables"].get("hooks")
    if hooks is None:
        return batch
    buffer = bytearray(base64.b64decode(batch["buffer"]))
    for name in _NUMBERS:
        offset, length = hooks["columns"][name]
        buffer[offset : offset + length] = np.full(length // 8, np.nan).tobytes()
    return {**batch, "buffer": base64.b64encode(buffer).decode()}


def without_names(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a recording without names and text of the user's code."""
    own, others = set[int](), {0}
    for batch in record["batches"]:
        tables = decode_tables(batch["header"], base64.b64decode(batch["buffer"]))
        for table, columns in tables.items():
            for name, values in columns.items():
                if schema.TABLES[table][name].of == "string":
                    ids = np.unique(values).tolist()
                    (own if (table, name) in _NAMES else others).update(ids)
    hidden = own - others
    start = 0
    batches = []
    for batch in record["batches"]:
        header = batch["header"]
        strings = header["strings"]
        # Modules and hooks stay apart from each other; what was nowhere used may say anything.
        shown = [
            text if start + i in others else f"name {start + i}" if start + i in hidden else ""
            for i, text in enumerate(strings)
        ]
        start += len(strings)
        sites = [_site(site) for site in header["sites"]]
        problems = [_problem(problem) for problem in header["problems"]]
        kept = {**header, "strings": shown, "sites": sites, "problems": problems}
        batches.append({**batch, "header": kept})
    details = {seq: _details(one) for seq, one in record["details"].items()}
    found = {**record, "batches": batches, "details": details}
    found.pop("name", None)
    found.pop("of", None)
    if "cards" in record:
        found["cards"] = [without_own_text(card) for card in record["cards"]]
    if "jacobians" in record:
        found["jacobians"] = [_nameless(one) for one in record["jacobians"]]
    if "scalars" in record:
        # The sentence about a node that is too large names its line.
        nodes = [{**one, "label": "", "why": ""} for one in record["scalars"]["nodes"]]
        found["scalars"] = {**record["scalars"], "nodes": nodes, "why": ""}
    return found


def _site(site: dict[str, Any] | None) -> dict[str, Any] | None:
    if site is None:
        return None
    bare: dict[str, Any] = without_source(site)
    return {**bare, "function": ""}


def _problem(problem: dict[str, Any]) -> dict[str, Any]:
    bare: dict[str, Any] = without_source(problem)
    writes = [{**write, "site": _site(write["site"])} for write in bare["writes"]]
    saved = bare["saved"] and {**bare["saved"], "site": _site(bare["saved"]["site"])}
    title = f"A problem: {bare['kind']}"
    tensor = {**bare["tensor"], "name": None}
    sites = {name: _site(bare[name]) for name in ("where", "made", "first") if name in bare}
    return {**bare, "title": title, "tensor": tensor, "saved": saved, "writes": writes} | sites


def _details(one: dict[str, Any]) -> dict[str, Any]:
    bare: dict[str, Any] = without_source(one)
    return bare | {
        "site": _site(bare["site"]),
        "next": [{**below, "label": None} for below in bare["next"]],
        "saved": [{**saved, "shared_with": []} for saved in bare["saved"]],
        "hooks": _unnamed(bare["hooks"]),
        "variable": None,
    }


def _unnamed(hooks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**hook, "name": "", "site": _site(hook["site"])} for hook in hooks]
