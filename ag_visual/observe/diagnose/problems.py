"""Problem records for the Inspector from the fields of structured autograd errors.

The error's own text is made in core.diagnosis.errors; here the same fields become the card: a title
in plain words, the lines, the version strip, the repair.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ag_visual.observe.diagnose.source_edits import edit_of
from ag_visual.observe.wire.batch import site_json
from ag_visual.observe.wire.text import fit_all

KINDS: Final = ("modified-by-inplace", "leaf-inplace", "view-inplace", "second-backward", "silent")


def op_word(node_name: str) -> str:
    """The op's name as users write it: 'log_softmax' from 'LogSoftmaxBackward0'."""
    word = re.sub(r"Backward\d*$", "", node_name.rpartition("::")[2])
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    return word or "an op"


def problem(number: int, fields: dict[str, Any], text: str) -> dict[str, Any]:
    """A `Problem` record of the schema; `text` is the error's full message."""
    kind = fields.get("kind")
    kind = kind if kind in KINDS else "other"
    tensor = fields.get("tensor") or {}
    saved = fields.get("saved")
    repair = fields.get("repair")
    title, detail = _words(kind, fields, text)
    record = {
        "id": number,
        "kind": kind,
        "title": title,
        "detail": detail,
        "node_seq": fields.get("node_seq"),
        "node_name": str(fields.get("node_name") or ""),
        "saved_name": str(fields.get("saved_name") or ""),
        "tensor": {
            "name": tensor.get("name"),
            "shape": [int(n) for n in tensor.get("shape", ())],
            "dtype": str(tensor.get("dtype", "")),
        },
        "saved": saved and {"site": site_json(saved["site"]), "version": saved["version"]},
        "writes": [
            {"site": site_json(w["site"]), "version": w["version"], "op": w["op"]}
            for w in fields.get("writes", ())
        ],
        "more_writes": int(fields.get("more_writes", 0)),
        "version_then": fields.get("version_then"),
        "version_now": fields.get("version_now"),
        "repair": repair
        and {"text": repair["text"], "code": repair["code"], "edit": edit_of(fields)},
        "where": site_json(fields.get("where")),
        "text": text,
        "made": site_json(fields.get("made")),
        "first": site_json(fields.get("first_backward")),
        "holders": list(fields.get("holders", ())),
        "aliases": [
            {"name": alias["name"], "how": alias["how"]} for alias in fields.get("aliases", ())
        ],
    }
    fitted: dict[str, Any] = fit_all(record)
    return fitted


def _words(kind: str, fields: dict[str, Any], text: str) -> tuple[str, str]:
    """Title and detail in plain words."""
    node = str(fields.get("node_name") or "")
    op = op_word(node)
    subject = _subject(fields)
    if kind == "modified-by-inplace":
        what = f"The output of {op}" if fields.get("own_output") else f"A tensor that {op} saved"
        return (
            f"{what} was overwritten before backward could use it",
            f"{subject} {node} needs the values it saved.",
        )
    if kind == "silent":
        what = f"The output of {op}" if fields.get("own_output") else f"A tensor that {op} saved"
        return (
            f"{what} was changed through .data: the gradient is wrong",
            f"{subject} Autograd could not see the write, so {node} uses the new values.",
        )
    if kind == "leaf-inplace":
        return (
            "A leaf that requires grad was changed in place",
            f"{subject} Updates of parameters belong under no_grad().",
        )
    if kind == "view-inplace":
        return (
            "This view must not be changed in place",
            f"{subject} It is one of several views of the same memory, or was made in another "
            "grad mode.",
        )
    if kind == "second-backward":
        first = fields.get("first_backward")
        where = f" in {first.where}" if first is not None and first.line else ""
        return (
            "A second backward through a graph that was freed",
            f"{node} gave its saved tensors back after the first backward{where}.",
        )
    first_line = text.partition("\n")[0]
    return (first_line or "A problem in the backward pass", "")


def _subject(fields: dict[str, Any]) -> str:
    """'out, float32 [64, 128].'"""
    tensor = fields.get("tensor") or {}
    parts = f"{tensor.get('dtype', '')} {list(tensor.get('shape', ()))}".strip()
    name = tensor.get("name")
    return f"{name}, {parts}." if name else f"{parts}."
