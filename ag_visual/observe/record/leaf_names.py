"""Labels of leaves: the names that the user's variables have for them.

core.diagnosis.variable_names finds these.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, Final

from ag_visual.core.diagnosis.variable_names import Scope, scopes_of, tensors_in
from ag_visual.core.tensor import Tensor
from ag_visual.events import live

__all__ = ["Labels", "Scope", "names_by_storage", "scopes_of", "tensors_in"]

_TRIES: Final = 3
"""Backwards that look for a leaf's name as they begin; later ones would look in vain each time."""


class Labels:
    """Leaf -> the name last seen for it. Keyed by the tensor's one plain weak reference."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[Tensor], str]] = {}
        self._sought: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        # References to the leaves that `know` last said yes to: their ids, and they themselves,
        # held so that no other gets these ids.
        self.known: tuple[list[int], list[weakref.ref[Tensor]]] = ([], [])

    def __call__(self, ref: weakref.ref[Any]) -> str:
        found = self._names.get(id(ref))
        return found[1] if found and found[0] is ref else ""

    def texts(self, refs: Sequence[weakref.ref[Any]]) -> list[str]:
        """The name last seen for each leaf, empty where there is none."""
        keys = list(map(id, refs))
        known = {}
        for key, ref in dict(zip(keys, refs, strict=True)).items():
            found = self._names.get(key)
            known[key] = found[1] if found and found[0] is ref else ""
        return list(map(known.__getitem__, keys))

    def know(self, tensors: Sequence[Tensor]) -> bool:
        """Whether each of these leaves has a name, or was sought often enough."""
        names, refs = self._names, list(map(weakref.ref, tensors))
        for ref in refs:
            found = names.get(id(ref))
            if found is None or found[0] is not ref:
                sought = self._sought.get(id(ref))
                if sought is None or sought[0] is not ref or sought[1] < _TRIES:
                    return False
        self.known = list(map(id, refs)), refs
        return True

    def of(self, tensor: Tensor) -> str:
        """The name last seen for a leaf, empty when there is none."""
        return self(weakref.ref(tensor))

    def learn(self, frame: FrameType | None, wanted: Iterable[Tensor] = ()) -> None:
        """Take down the names of all leaves that the user's frames can see."""
        for scope in scopes_of(frame):
            self.learn_scope(scope)
        for tensor in wanted:
            if not self.of(tensor):
                ref = weakref.ref(tensor)
                known, times = self._sought.get(id(ref), (ref, 0))
                self._sought[id(ref)] = ref, times + 1 if known is ref else 1

    def learn_scope(self, scope: Scope) -> None:
        for name, tensor in tensors_in(scope, types=_types()):
            if _is_leaf(tensor):
                ref = weakref.ref(tensor)
                known = self._names.get(id(ref))
                if known is None or known[0] is not ref:
                    self._names[id(ref)] = ref, name

    def forget_dead(self) -> None:
        """Drop names of tensors that are gone."""
        for key, (ref, _) in list(self._names.items()):
            if ref() is None:
                self._names.pop(key, None)
        for key, (ref, _) in list(self._sought.items()):
            if ref() is None:
                self._sought.pop(key, None)


def _types() -> tuple[type, ...]:
    """The tensors of all engines that are watched."""
    return (Tensor, *(engine.tensor_type for engine in live.engines))


def _is_leaf(tensor: Any) -> bool:
    """Whether it is a leaf that requires grad."""
    engine = live.engine_of(tensor)
    return tensor._edge is None and tensor._rg if engine is None else engine.is_leaf(tensor)


def names_by_storage(scopes: Iterable[Scope]) -> dict[int, list[str]]:
    """Storage number -> the variables whose tensors lie on it, sorted, without doubles."""
    found: dict[int, set[str]] = {}
    for scope in scopes:
        for name, tensor in tensors_in(scope, types=_types()):
            engine = live.engine_of(tensor)
            number = tensor._storage.number if engine is None else engine.storage_of(tensor)
            if number:
                found.setdefault(number, set()).add(name)
    return {number: sorted(names) for number, names in found.items()}
