"""Hooks and prehooks of nodes, which torch shows nobody, and where they were added.

For each of them torch calls a function of Python with the dictionary that the node keeps its hooks
in, but not the node. Asked to add one that is refused, it shows the dictionary, and adds none.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from sys import _getframe
from typing import Any, Final

from ag_visual.bridge.saved import KEY
from ag_visual.core import source
from ag_visual.events.log import HookField
from ag_visual.events.memory import CallSite

Register = Callable[[Any, Any], tuple[Any, Any]]
"""torch's: (the dictionary or None, the hook) -> the dictionary and a handle."""

KINDS: Final = (("pre", "register_prehook"), ("post", "register_hook"))


class _Probed(Exception):
    """The dictionary of a node, on its way through torch."""

    def __init__(self, hooks: Any) -> None:
        super().__init__()
        self.hooks = hooks


def _probe(*grads: Any) -> None:
    """Never added, so never called."""


class OwnHook(partial[Any]):
    """A prehook of this package's: where it was added says nothing. Its handle is the dictionary
    that has it, under KEY.
    """


class NodeHooks:
    """What stands in the place of torch's function while it is watched."""

    active: NodeHooks | None = None

    def __init__(self, register: Register) -> None:
        self._register = register
        # Key of the handle -> where it was added, and its dictionary, as long as that lives.
        self._added: dict[int, tuple[CallSite, weakref.ref[Any]]] = {}

    def register(self, hooks: Any, hook: Any) -> tuple[Any, Any]:
        """In the place of torch's."""
        if hook is _probe:
            raise _Probed(hooks)
        if type(hook) is OwnHook:
            if hooks is None:
                hooks = OrderedDict()
            hooks[KEY] = hook
            return hooks, hooks
        hooks, handle = self._register(hooks, hook)
        place = source.call_site_of(_getframe(1))
        if place is not None:
            added, key = self._added, handle.id
            added[key] = place, weakref.ref(hooks, lambda _: added.pop(key, None))
        return hooks, handle

    @property
    def any(self) -> bool:
        """Whether a node that lives had one added."""
        return bool(self._added)

    def of(self, function: Any) -> dict[str, list[HookField]]:
        """Those of a node of torch's, by kind, but for this package's."""
        found: dict[str, list[HookField]] = {}
        for kind, name in KINDS:
            try:
                getattr(function, name)(_probe)
            except _Probed as probed:
                for key, hook in list((probed.hooks or {}).items()):
                    if key != KEY:
                        called = getattr(hook, "__qualname__", type(hook).__name__)
                        place = self._added.get(key, (None,))[0]
                        field = HookField(kind, called, 0, key, place)
                        found.setdefault(kind, []).append(field)
        return found
