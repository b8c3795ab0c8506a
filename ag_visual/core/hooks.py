"""Hook tables of nodes and leaves, and the handles that remove a hook again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

_ids = itertools.count()
Hooks = dict[int, Callable[..., Any]]


class HookTable(Hooks):
    """Hooks by handle id, in registration order. (A dict subclass, for weak references.)"""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Removes one hook; also a context manager that removes it on leaving."""

    __slots__ = ("_table", "id")

    def __init__(self, table: HookTable) -> None:
        self.id = next(_ids)
        self._table = weakref.ref(table)

    def remove(self) -> None:
        """Remove the hook; again, or after what it was on is gone, this does nothing."""
        table = self._table()
        if table is not None:
            table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register(table: HookTable, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    """Add a hook after those that are there, or before them."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, but got {type(hook).__name__}")
    handle = RemovableHandle(table)
    later = dict(table) if prepend else {}
    if later:
        table.clear()
    table[handle.id] = hook
    table.update(later)
    return handle


def hook_name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__name__", None) or type(hook).__name__


class NodeHooks:
    """All hooks of one node. `tensor` and `retain` are keyed by output number."""

    __slots__ = ("post", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, HookTable] = {}
        self.pre = HookTable()
        self.post = HookTable()
        # Tensors that asked for retain_grad: held weakly, the node must not keep its output alive.
        self.retain: dict[int, weakref.ref[Any]] = {}

    def of_output(self, number: int) -> HookTable:
        return self.tensor.setdefault(number, HookTable())
