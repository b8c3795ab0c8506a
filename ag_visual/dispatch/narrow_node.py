"""Nodes whose results are 16-bit floats: their gradients are rounded where torch rounds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ag_visual.core import modes, saved
from ag_visual.core.node import Node
from ag_visual.core.tensor import from_array
from ag_visual.dispatch import opmath
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import EACH, Op


def narrow_class(op: Op) -> type[OpNode] | None:
    """The class of these nodes of an op, where they differ from its others."""
    if not op.rounding or not op.rules:
        return None
    known: type[OpNode] = op.node_class
    body: dict[str, Any] = {"__slots__": (), "__module__": known.__module__}
    body.update(raw=_by_ops if op.rounding == EACH else _at_once, take=Node.take, timed=Node.timed)
    return type(op.node_name, (known,), body)


def _of_each(function: Callable[[Any], Any], gradients: Any) -> list[Any]:
    several = isinstance(gradients, (list, tuple))
    return [x if x is None else function(x) for x in (gradients if several else (gradients,))]


def _by_ops(node: OpNode, F: Any, g: Any) -> list[Any]:
    """The rules on Tensors, whose ops round as those of the program do."""
    given: Any = _of_each(from_array, g)
    traced = node.op.table.traced
    given = given if node.outs else given[0]
    found = modes.in_grad_mode(
        False, modes.without_autocast, node._run, traced, given, saved.traced
    )
    return _of_each(lambda x: x._array, found)


def _at_once(node: OpNode, F: Any, g: Any) -> list[Any]:
    """The rules in float32."""
    dtype = node.dtype

    def wide(node: Any, name: str) -> Any:
        return opmath.widened(F.xp, saved.raw(node, name))

    given = _of_each(functools.partial(opmath.widened, F.xp), g)
    found = node._run(F, given if node.outs else given[0], wide)
    return _of_each(lambda x: opmath.narrowed(x, dtype), found)
