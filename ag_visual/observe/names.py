"""Labels of leaves: the names that the user's variables have for them (core.names finds these)."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import FrameType
from typing import Any

from ag_visual.core.names import Scope, scopes_of, tensors_in
from ag_visual.core.tensor import Tensor

__all__ = ["Labels", "Scope", "names_by_storage", "scopes_of", "tensors_in"]


class Labels:
    """Leaf -> the name last seen for it. Keyed by the tensor's one plain weak reference."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[Tensor], str]] = {}

    def __call__(self, ref: weakref.ref[Any]) -> str:
        found = self._names.get(id(ref))
        return found[1] if found and found[0] is ref else ""

    def of(self, tensor: Tensor) -> str:
        """The name last seen for a leaf, empty when there is none."""
        return self(weakref.ref(tensor))

    def learn(self, frame: FrameType | None) -> None:
        """Take down the names of all leaves that the user's frames can see."""
        for scope in scopes_of(frame):
            self.learn_scope(scope)

    def learn_scope(self, scope: Scope) -> None:
        for name, tensor in tensors_in(scope):
            if tensor._edge is None and tensor._rg:
                ref = weakref.ref(tensor)
                known = self._names.get(id(ref))
                if known is None or known[0] is not ref:
                    self._names[id(ref)] = ref, name

    def forget_dead(self) -> None:
        """Drop names of tensors that are gone."""
        for key, (ref, _) in list(self._names.items()):
            if ref() is None:
                self._names.pop(key, None)


def names_by_storage(scopes: Iterable[Scope]) -> dict[int, list[str]]:
    """Storage number -> the variables whose tensors lie on it, sorted, without doubles."""
    found: dict[int, set[str]] = {}
    for scope in scopes:
        for name, tensor in tensors_in(scope):
            number = tensor._storage.number
            if number:
                found.setdefault(number, set()).add(name)
    return {number: sorted(names) for number, names in found.items()}
