"""Hook tables of nodes and leaves, and the handles that remove a hook again."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

from ag_visual.core import source
from ag_visual.events.log import HookField

_ids = itertools.count()
Hooks = Mapping[int, Callable[..., Any]]
CallSite = tuple[CodeType, int] | None


class HookTable(OrderedDict[int, Callable[..., Any]]):
    """Hooks by handle id, in registration order; of torch's type, and weakly referable."""

    __slots__ = ("places",)

    def __init__(self, hooks: Hooks | None = None) -> None:
        super().__init__(hooks or {})
        self.call_sites: dict[
            int, CallSite
        ] = {}  # by handle id: where in the user's code it was added

    def __reduce__(self) -> Any:
        return HookTable, (dict(self),)  # code objects cannot be pickled

    def described(self, kind: str, number: int = 0) -> Iterator[HookField]:
        """What an observer is told of each hook."""
        for key, hook in list(self.items()):
            yield self.field(kind, key, hook, number)

    def field(self, kind: str, key: int, hook: Callable[..., Any], number: int = 0) -> HookField:
        """What an observer is told of one hook that is, or was, in this table."""
        return HookField(*described_as(kind, hook), number, key, self.call_sites.get(key))


class RemovableHandle:
    """Removes one hook; also a context manager that removes it on leaving."""

    __slots__ = ("_marks", "_table", "id")

    def __init__(self, table: HookTable, marks: Iterable[dict[int, bool]] = ()) -> None:
        self.id = next(_ids)
        self._table = weakref.ref(table)
        self._marks = tuple(marks)  # tables that say something of the hook, by its id

    def remove(self) -> None:
        """Remove the hook; again, or after what it was on is gone, this does nothing."""
        table = self._table()
        for mark in self._marks:
            mark.pop(self.id, None)
        if table is not None:
            table.pop(self.id, None)
            table.call_sites.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register(
    table: HookTable,
    hook: Callable[..., Any],
    prepend: bool = False,
    marks: Iterable[dict[int, bool]] = (),
) -> RemovableHandle:
    """Add a hook after those that are there, or before them, and its id to each of `marks`."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, but got {type(hook).__name__}")
    marks = tuple(marks)
    handle = RemovableHandle(table, marks)
    for mark in marks:
        mark[handle.id] = True
    table[handle.id] = hook
    table.call_sites[handle.id] = source.here()
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def hook_name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__name__", None) or type(hook).__name__


def full_name(hook: Callable[..., Any]) -> str:
    """The qualified name of a hook: of a function, a method, a partial or a callable object."""
    if type(hook) is functools.partial:
        return f"partial({full_name(hook.func)})"
    name = getattr(hook, "__qualname__", None)
    return name if isinstance(name, str) and name else type(hook).__qualname__


def described_as(kind: str, hook: Callable[..., Any]) -> tuple[str, str]:
    """Kind and name of a hook for its reader: those of the user's hook that it stands for."""
    if type(hook) is FunctionType and "stands_for" in hook.__dict__:
        return "multi_grad", full_name(hook.__dict__["stands_for"])
    if type(hook) is MethodType:
        names = getattr(type(hook.__self__), "hooks_behind", None)
        if names is not None:
            behind = names(hook.__self__, hook.__func__.__name__)
            return "module", ", ".join(map(full_name, behind)) or full_name(hook)
    return kind, full_name(hook)


class NodeHooks:
    """All hooks of one node. `tensor`, `retain` and `retained` are keyed by output number."""

    __slots__ = ("post", "pre", "retain", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, HookTable] = {}
        self.pre = HookTable()
        self.post = HookTable()
        # Tensors that asked for retain_grad: held weakly, the node must not keep its output alive.
        self.retain: dict[int, weakref.ref[Any]] = {}
        self.retained: dict[int, CallSite] = {}  # where they asked

    def described(self, after: Iterable[HookField] = ()) -> list[HookField]:
        """What an observer is told of them, in the order in which the engine runs them.

        after: what runs between the node and its post-hooks.
        """
        found: list[HookField] = []
        for number in dict.fromkeys((*self.tensor, *self.retain)):
            if number in self.tensor:
                found += self.tensor[number].described("tensor", number)
            ref = self.retain.get(number)
            if ref is not None and ref() is not None:
                call_site = self.retained.get(number)
                found.append(HookField("retain_grad", "retain_grad", number, None, call_site))
        return [*found, *self.pre.described("pre"), *after, *self.post.described("post")]

    def of_output(self, number: int) -> HookTable:
        return self.tensor.setdefault(number, HookTable())
