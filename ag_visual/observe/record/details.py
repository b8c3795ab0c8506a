"""All about one node, when somebody asks: from the node while it lives, else from the recording.

Reads slots and shapes only; values are `summaries`. Nothing here is recorded itself: it works on
arrays and never calls an op.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from ag_visual.core import source
from ag_visual.events.live import LiveNode
from ag_visual.observe.formulas.cards import card_by_name
from ag_visual.observe.formulas.local import runs
from ag_visual.observe.record.held_values import NotKeptError
from ag_visual.observe.record.leaf_names import Scope, names_by_storage
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.batch import site_json
from ag_visual.observe.wire.columns import Chunk, Encoder

_TEXT: Final = 200

MOST_HOOKED: Final = 2000
"""Nodes with hooks that one answer tells of."""


class Sharing:
    """Who lies on which storage: variables, and what living nodes saved."""

    def __init__(self, scopes: Iterable[Scope] = ()) -> None:
        self._variables = names_by_storage(scopes)
        self._saved: dict[int, list[tuple[int, str]]] = {}

    def add(self, node: LiveNode) -> None:
        """Count in what this node has saved."""
        if node.freed is None:
            for field in node.saved_fields():
                if field.storage_uid is not None:
                    entry = (node.seq, f"{node.name()}.{field.name}")
                    self._saved.setdefault(field.storage_uid, []).append(entry)

    def with_others(self, recorder: Recorder, node: LiveNode) -> Sharing:
        """Count in the living nodes that the recording says share a storage with this one."""
        wanted = {f.storage_uid for f in node.saved_fields() if f.storage_uid is not None}
        others: set[int] = set()
        for chunk in recorder.chunks() if wanted else ():
            table = chunk.tables.get("saved")
            if table is not None:
                rows = np.isin(table["storage"], np.array(sorted(wanted), np.int64))
                others.update(table["node"][rows].tolist())
        for seq in sorted(others - {node.seq}):
            other = recorder.node(seq)
            if other is not None:
                self.add(other)
        return self

    def names(self, storage: int, seq: int) -> list[str]:
        """Variables, then saved tensors of nodes other than `seq`, on this storage."""
        others = [text for other, text in self._saved.get(storage, ()) if other != seq]
        return self._variables.get(storage, []) + list(dict.fromkeys(others))


def node_details(
    recorder: Recorder, seq: int, scopes: Iterable[Scope] = (), sharing: Sharing | None = None
) -> dict[str, Any]:
    """A `NodeDetails` record. Raises NotKeptError for a number that was never recorded.

    scopes: where variables are looked for; sharing: what was found there already.
    """
    node = recorder.node(seq)
    if node is None:
        return recorded_details(recorder, seq)
    return _of_living(recorder, node, sharing or Sharing(scopes).with_others(recorder, node))


def label_of(recorder: Recorder, node: LiveNode) -> str | None:
    """The name of a leaf's variable where one is known."""
    variable = node.variable if node.leaf else None
    return None if variable is None else recorder.labels.of(variable) or None


def _of_living(recorder: Recorder, node: LiveNode, sharing: Sharing) -> dict[str, Any]:
    fields = node.saved_fields()
    saved = []
    for field in fields:
        if field.kind == "value":
            continue
        uid = field.storage_uid
        saved.append(
            {
                "name": field.name,
                "shape": [int(n) for n in field.shape or ()],
                "dtype": field.dtype or "",
                "bytes": int(field.nbytes),
                "version_then": int(field.version_then or 0),
                "version_now": None if field.freed else field.version_now,
                "storage": uid or 0,
                "shared_with": [] if uid is None else sharing.names(uid, node.seq),
                "freed": bool(field.freed),
                "own_output": bool(field.own_output),
                "lanes": [int(n) for n in field.lanes],
                "tangent": field.tangent is not None
                or recorder.tangents.has(node.seq, f"saved:{field.name}"),
            }
        )
    return {
        "seq": node.seq,
        "name": node.name(),
        "site": site_json(None if node.call_site is None else source.resolve(*node.call_site)),
        "next": [
            {
                "seq": None if below is None else below.seq,
                "name": "" if below is None else below.name(),
                "label": None if below is None else label_of(recorder, below),
                "index": int(index),
            }
            for below, index in node.next_functions
        ],
        "outputs": [
            {"shape": [int(n) for n in shape], "dtype": dtype} for shape, dtype in node.output_meta
        ],
        "saved": saved,
        "values": [
            {"name": field.name, "text": _short(field.value)}
            for field in fields
            if field.kind == "value"
        ],
        "hooks": hooks_of(node),
        "alive": True,
        "runs": runs(node),
        "variable": label_of(recorder, node),
    }


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT else text[:_TEXT] + "..."


def hooks_of(node: LiveNode) -> list[dict[str, Any]]:
    """Hooks in the order in which the engine runs them."""
    return [
        {
            "kind": hook.kind,
            "name": hook.name,
            "number": hook.number,
            "hook": hook.key,
            "site": site_json(source.resolve_call_site(hook.call_site)),
        }
        for hook in node.hook_fields()
    ]


def all_hooks(recorder: Recorder) -> list[dict[str, Any]]:
    """`NodeHooks` of the recorded nodes that live and have hooks, the newest node first."""
    found = []
    for seq in recorder.alive()[::-1].tolist():
        node = recorder.node(seq)
        hooks = hooks_of(node) if node is not None and node.hooked else []
        if node is not None and hooks:
            found.append({"seq": seq, "name": node.name(), "hooks": hooks})
            if len(found) >= MOST_HOOKED:
                break
    return found


class _Rows:
    """Rows of one seq in the recorded chunks, read back as Python values."""

    def __init__(self, encoder: Encoder, chunks: Iterable[Chunk]) -> None:
        self.encoder = encoder
        self.chunks = list(chunks)

    def where(self, table: str, column: str, value: int) -> Iterator[dict[str, Any]]:
        for chunk in self.chunks:
            columns = chunk.tables.get(table)
            if columns is None:
                continue
            for i in np.flatnonzero(columns[column] == value):
                yield {name: self._value(table, name, array[i]) for name, array in columns.items()}

    def _value(self, table: str, column: str, value: Any) -> Any:
        of = schema.TABLES[table][column].of
        if of == "string":
            return self.encoder.strings.texts[int(value)]
        if of == "site":
            return None if value == schema.NONE else self.encoder.sites.found[int(value)]
        return value.item()


def _dims(text: str) -> list[int]:
    return [int(n) for n in text.split("×")] if text else []


def recorded_details(recorder: Recorder, seq: int) -> dict[str, Any]:
    """The same from what was recorded alone, without touching the node."""
    rows = _Rows(recorder.encoder, recorder.chunks())
    found = next(rows.where("nodes", "seq", seq), None)
    leaf = next(rows.where("leaves", "seq", seq), None)
    row = found or leaf
    if row is None:
        raise NotKeptError(
            f"node {seq} is not in this recording: it was never recorded, or dropped"
        )
    labels = [r["label"] for r in rows.where("labels", "seq", seq)]
    label = (labels or [leaf["label"] if leaf else ""])[-1] or None
    return {
        "seq": seq,
        "name": found["name"] if found else "torch::autograd::AccumulateGrad",
        "site": site_json(row["site"]),
        "next": [
            {
                "seq": None if edge["dst"] == schema.NONE else edge["dst"],
                "name": _name_of(rows, edge["dst"]),
                "label": None,
                "index": edge["dst_index"],
            }
            for edge in rows.where("edges", "src", seq)
        ],
        "outputs": [{"shape": _dims(row["shape"]), "dtype": row["dtype"]}],
        "saved": [
            {
                "name": saved["name"],
                "shape": _dims(saved["shape"]),
                "dtype": saved["dtype"],
                "bytes": int(saved["bytes"]),
                "version_then": saved["version"],
                "version_now": None,
                "storage": saved["storage"],
                "shared_with": [],
                "freed": True,
                "own_output": bool(saved["flags"]),
                "lanes": recorder.tangents.lanes(seq, f"saved:{saved['name']}"),
                "tangent": recorder.tangents.has(seq, f"saved:{saved['name']}"),
            }
            for saved in rows.where("saved", "node", seq)
        ],
        "values": [],
        "hooks": [
            {
                "kind": hook["kind"],
                "name": hook["name"],
                "number": hook["number"],
                "hook": None if hook["hook"] == schema.NONE else hook["hook"],
                "site": site_json(hook["site"]),
            }
            for hook in rows.where("hooks", "seq", seq)
        ],
        "alive": False,
        "variable": label,
    }


def recorded_card(recorder: Recorder, seq: int) -> dict[str, Any]:
    """The card of a node that is gone: that of its op, by the node's name."""
    name = recorded_details(recorder, seq)["name"]
    note = "The node itself is gone: this is the card of its op."
    found = card_by_name(name)
    return found | {"note": f"{note} {found['note']}".rstrip()}


def _name_of(rows: _Rows, seq: int) -> str:
    if seq == schema.NONE:
        return ""
    found = next(rows.where("nodes", "seq", seq), None)
    return str(found["name"]) if found else "torch::autograd::AccumulateGrad"
