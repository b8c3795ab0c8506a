"""Cards of the nodes in a recording, each once, and the numbers of those that still have them."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Final

import numpy as np

from ag_visual.core.node import Node
from ag_visual.dispatch.op_node import OpNode
from ag_visual.observe.formulas.card_numbers import NoNumbersError, kept_gradients, numbers
from ag_visual.observe.formulas.cards import card, card_by_name
from ag_visual.observe.formulas.derivation import elements_of
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire.columns import Chunk

MOST_CARDS: Final = 2000
"""Nodes of which a file keeps a card."""

SECONDS: Final = 0.5
"""Cards are looked for in this time of the processor; nodes without one have that of their op."""

SMALL: Final = 200_000
"""Elements of a node whose numbers go into a file."""


def cards_of_living(
    recorder: Recorder, values: bool
) -> tuple[list[dict[str, Any]], dict[str, int], dict[str, Any]]:
    """The cards, which of them each node has, and numbers by node (values: at all)."""
    cards: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    card_of: dict[str, int] = {}
    found: dict[str, Any] = {}
    end = time.thread_time() + SECONDS

    def put(key: str, one: dict[str, Any]) -> None:
        text = json.dumps(one)
        if text not in places:
            places[text] = len(cards)
            cards.append(one)
        card_of[key] = places[text]

    alike: dict[Any, str] = {}
    for seq in map(int, recorder.alive()[::-1][:MOST_CARDS]):
        node = recorder.node(seq)
        if not isinstance(node, Node) or elements_of(node) > SMALL:
            continue
        late = time.thread_time() > end
        kind = _kind(node)
        if kind is not None and kind in alike:
            card_of[str(seq)] = card_of[alike[kind]]
        elif not late:
            put(str(seq), card(node) | ({} if values else {"given": []}))
            alike[kind] = str(seq)
        if values and not late:
            with contextlib.suppress(NoNumbersError, RuntimeError):
                grads, source = kept_gradients(node)
                found[str(seq)] = numbers(node, grads, source=source)
    for name in _names(recorder):
        if name not in card_of:
            put(name, card_by_name(name))
    return cards, card_of, found


def _kind(node: Node) -> Any:
    """What a card depends on: nodes that agree in it have the same one. None: look at each."""
    if not isinstance(node, OpNode):
        return None
    edges = tuple(edge and (edge[2], edge[3]) for edge in node.next)
    arguments = repr([getattr(node, f"a_{name}") for name in node.op.values])
    written = [field.version_then != field.version_now for field in node.saved_fields()]
    return node.op, node.shape, node.dtype, edges, arguments, node.freed is None, tuple(written)


def _names(recorder: Recorder) -> list[str]:
    """The names of all nodes in the recording."""
    numbers_ = {n for chunk in recorder.chunks() for n in _column(chunk)}
    return [recorder.encoder.strings.texts[n] for n in sorted(numbers_)]


def _column(chunk: Chunk) -> list[int]:
    table = chunk.tables.get("nodes")
    return [] if table is None else [int(n) for n in np.unique(table["name"])]
