"""What stands at a node: the meta of its outputs and inputs, its edges by name, its saved values.

Reads slots only: runs no rule and no hook, releases nothing and emits no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ag_visual.core import saved
from ag_visual.core.node import Meta, Node
from ag_visual.core.saved_packed import Packed
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import Op
from ag_visual.events.live import LiveNode


class NotThereError(LookupError):
    """What a rule would ask for is not there, or not as it was saved; the text says why."""


def outputs_of(node: Node) -> tuple[Meta, ...]:
    """Shape and array dtype of each output."""
    return node.outs or ((node.shape, node.dtype),)


def meta_of(edge: Any) -> Meta:
    """Shape and array dtype of what an edge leads to."""
    below, number, shape, dtype = edge
    return (shape, dtype) if shape is not None else outputs_of(below)[number]


def around(node: LiveNode) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype name of each output, and of each input through which gradient flows."""
    below = (n.output_meta[number] for n, number in node.next_functions if n is not None)
    return [*node.output_meta, *below]


def edges_by_name(node: OpNode) -> list[tuple[str, Any]]:
    """An op's edges with the names of its inputs; those of lists are `tensors[0]` and so on."""
    return named_edges(node.op, node.next)


def named_edges(op: Op, edges: Sequence[Any]) -> list[tuple[str, Any]]:
    """The same of edges in the order of an op's inputs."""
    names: list[str] = []
    lists = [name for name in op.lists if name in op.diff_inputs]
    more = len(edges) - len(op.diff_inputs) + 1
    for name in op.diff_inputs:
        names += [f"{name}[{i}]" for i in range(more)] if name in lists else [name]
    return list(zip(names, edges, strict=False))


def kept(node: Node, name: str) -> Iterator[tuple[Any, Any, Any]]:
    """(value, snapshot, storage) of each tensor that one saved field holds.

    The storage is None where no write can be seen: of numbers, and of what hooks packed.
    """
    value, then = getattr(node, f"s_{name}"), getattr(node, f"t_{name}")
    if isinstance(value, tuple):
        for item, snapshot in zip(value, then or (None,) * len(value), strict=True):
            yield item, snapshot, getattr(item, "_storage", None) if snapshot else None
        return
    owner = getattr(node, f"o_{name}", None)
    storage = getattr(value, "_storage", None)
    if storage is None and owner is not None and value is not None:
        storage = owner[0]
    yield value, then, None if isinstance(value, Packed) or not then else storage


def saved_value(node: Node, name: str) -> Any:
    """A saved field as it is: None where nothing was saved. Raises NotThereError."""
    value, then = getattr(node, f"s_{name}"), getattr(node, f"t_{name}")
    if value is None and node.freed is not None and then is not saved.NOTHING:
        raise NotThereError(
            f"Saved values were freed by this backward: {name} is gone. Pause before the node, "
            "or call backward(retain_graph=True)."
        )
    for item, snapshot, storage in kept(node, name):
        if isinstance(item, Packed):
            raise NotThereError(
                f"A saved-tensor hook packed {name}: only the backward itself unpacks it."
            )
        if storage is not None and storage.snapshot != snapshot:
            raise NotThereError(
                f"{name} was overwritten since it was saved (version {snapshot[0]} then, "
                f"{storage.snapshot[0]} now): its numbers are not those of the forward."
            )
    return value
