"""What a node keeps of a saved tensor that went through a pack hook.

Imported by `saved` alone, which binds the Tensor type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core import modes

_tensor_type: Any = None
_rebuild: Callable[..., Any]


def bind(tensor_type: Any, rebuild: Callable[..., Any]) -> None:
    """Called once by `saved.bind`."""
    global _tensor_type, _rebuild
    _tensor_type, _rebuild = tensor_type, rebuild


_OWN = object()
"""Stands in a packed value where a node's own output was."""


def _holds(value: Any, item: Any) -> bool:
    """Is `item` the value, or in the tuple (of tuples) that it is?"""
    return value is item or (type(value) is tuple and any(_holds(v, item) for v in value))


def _exchanged(value: Any, old: Any, new: Any) -> Any:
    """The value with `new` in place of `old`."""
    if value is old:
        return new
    return tuple(_exchanged(v, old, new) for v in value) if type(value) is tuple else value


class Packed:
    """A saved tensor that went through a pack hook. Hooks carry values; the graph is kept here.

    number: for a node's own output, which one it is (its history is the node itself). Where the
    hook gave that output back (alone or in a tuple), its memory is kept and not the Tensor, whose
    history would be a reference cycle. detached: the hook gets an alias outside of the graph.
    """

    __slots__ = ("dual", "edge", "number", "own", "shape", "unpack", "value")

    def __init__(
        self,
        pack: Callable[..., Any],
        unpack: Callable[..., Any],
        tensor: Any,
        number: int | None = None,
        *,
        detached: bool = False,
    ) -> None:
        snapshot = tensor._storage.snapshot
        self.value = modes.in_grad_mode(False, pack, tensor.detach() if detached else tensor)
        if tensor._storage.snapshot is not snapshot:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook can not be modified by in-place operations as this can lead "
                "to unexpected side-effects. Work on a clone inside the hook instead."
            )
        self.own = None
        if number is not None and _holds(self.value, tensor):
            self.own = (tensor._array, tensor._storage)
            self.value = _exchanged(self.value, tensor, _OWN)
        self.unpack = unpack
        self.shape = tensor._array.shape
        self.number = number
        self.edge = tensor.gradient_edge() if number is None else None
        # Level and tangent of what was saved, which the hooks know nothing of.
        self.dual = getattr(tensor, "_dual", None)

    def tensor(self, node: Any) -> Any:
        """What the unpack hook gives, in the place in the graph of what was saved."""
        packed = self.value
        if self.own is not None:
            packed = _exchanged(packed, _OWN, _rebuild(*self.own, node.edge(self.number)))
        value = self.unpack(packed)
        if not isinstance(value, _tensor_type):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(value).__name__}"
            )
        edge = self.edge if self.number is None else node.edge(self.number)
        if edge is not None or value.requires_grad:  # else the very object, which has no history
            value = _rebuild(value._array, value._storage, edge)
        if self.dual is not None and self.dual[0].open:
            self.dual[0].give(value, self.dual[1])
        return value
