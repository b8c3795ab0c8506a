"""Nodes whose results are 16-bit floats: their gradients are rounded where torch rounds them."""

from __future__ import annotations

from typing import Any

from ag_visual.core import modes
from ag_visual.core.node import Node
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import Op


def narrow_class(op: Op) -> type[OpNode] | None:
    """The class of these nodes of an op, where they differ from its others.

    (Where its rules round once, built code takes the place of `raw`.)
    """
    if not op.rounding or not op.rules:
        return None
    known: type[OpNode] = op.node_class
    body: dict[str, Any] = {"__slots__": (), "__module__": known.__module__}
    return type(
        op.node_name, (known,), {**body, "raw": _by_ops, "take": Node.take, "timed": Node.timed}
    )


def _by_ops(node: OpNode, F: Any, g: Any) -> list[Any]:
    """The rules on Tensors, whose ops round as those of the program do."""
    given = [x if x is None else from_array(x) for x in g] if node.outs else from_array(g)
    found = modes.in_grad_mode(False, modes.without_autocast, node.traced, given)
    return [x if x is None else x._array for x in found]
