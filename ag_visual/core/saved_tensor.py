"""`grad_fn._raw_saved_x`: a saved field as an object to which a pair of hooks can be attached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.saved import OwnOutput, traced, traced_all
from ag_visual.core.saved_packed import Packed


def raw_saved(node: Any, name: str) -> SavedTensor | tuple[SavedTensor, ...]:
    """The field as a `SavedTensor`; a sequence of tensors as a tuple of these."""
    value = getattr(node, f"s_{name}")
    if not isinstance(value, tuple):
        return SavedTensor(node, name)
    return tuple(SavedTensor(node, name, i) for i in range(len(value)))


def two_hooks(hooks: tuple[Any, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The arguments of register_hooks, which must be two functions."""
    if len(hooks) != 2 or not all(map(callable, hooks)):
        raise TypeError(
            "register_hooks(): incompatible function arguments. The following argument types are "
            "supported: (pack_hook: Callable, unpack_hook: Callable), but got "
            f"({', '.join(type(hook).__name__ for hook in hooks)})"
        )
    return hooks


class SavedTensor:
    """One saved tensor of a node: a field, or the item `index` of a field that is a sequence."""

    __slots__ = ("_index", "_name", "_node")

    def __init__(self, *args: Any) -> None:
        if len(args) not in (2, 3):
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        self._node, self._name = args[:2]
        self._index: int | None = args[2] if len(args) == 3 else None

    def register_hooks(self, *hooks: Callable[[Any], Any]) -> None:
        """`(pack, unpack)`: keep `pack(tensor)` instead; `unpack` of it gives the tensor back."""
        node, name, index = self._node, self._name, self._index
        field = getattr(node, f"s_{name}")
        if field is None and node.freed is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the "
                "graph a second time or if you need to access saved tensors after calling backward."
            )
        value = field if index is None else field[index]
        if value is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        if isinstance(value, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        pack, unpack = two_hooks(hooks)
        if index is None:
            owner = getattr(node, f"o_{name}", None)
            number = owner[1] if owner is not None and owner[2] else None
            packed = Packed(pack, unpack, traced(node, name), number, detached=True)
            setattr(node, f"s_{name}", packed)
            return
        own = isinstance(value, OwnOutput) and value.differentiable
        tensor = traced_all(node, name, field)[index]
        packed = Packed(pack, unpack, tensor, value.number if own else None, detached=True)
        setattr(node, f"s_{name}", (*field[:index], packed, *field[index + 1 :]))
