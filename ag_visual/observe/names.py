"""Names that the user's code has for its tensors: variables, module parameters, list entries.

Looks only at plain containers and one attribute level, never runs user code beyond
`named_parameters` of modules, and keeps no tensor alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final

from ag_visual.core import source
from ag_visual.core.tensor import Tensor

_MANY: Final = 2000
"""Variables of one scope, and entries of one container, that are looked at."""

_FRAMES: Final = 8

Scope = Mapping[str, Any]


def scopes_of(frame: FrameType | None) -> Iterator[Scope]:
    """Locals of the user's frames from the innermost out, then the globals of the innermost.

    Where the innermost frames are a module's or a cell's own, their globals come in their place.
    """
    innermost: Scope | None = None
    told = False
    frame = source.outside(frame)
    for _ in range(_FRAMES):
        if frame is None:
            break
        if not source.inside[frame.f_code.co_filename]:
            innermost = innermost if innermost is not None else frame.f_globals
            found = source.locals_of(frame)
            if found is not frame.f_globals:
                yield found
            elif found is innermost and not told:
                told = True
                yield found
        frame = frame.f_back
    if innermost is not None and not told:
        yield innermost


def tensors_in(scope: Scope) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) for each tensor that a variable, module or container of the scope holds."""
    try:
        items = list(scope.items())[:_MANY]
    except RuntimeError:  # another thread adds variables just now: the next look will find them
        return
    later = []
    for name, value in items:
        if name.startswith("_"):
            continue
        if isinstance(value, Tensor):
            yield name, value
        elif not isinstance(value, _PLAIN):
            later.append((name, value))
    for name, value in later:
        yield from _inside(name, value)


_PLAIN: Final = (int, float, complex, str, bytes, type(None), type, ModuleType, FunctionType)


def _inside(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, list | tuple):
        for i, part in enumerate(value[:_MANY]):
            if isinstance(part, Tensor):
                yield f"{name}[{i}]", part
    elif isinstance(value, dict):
        for key, part in list(value.items())[:_MANY]:
            if isinstance(part, Tensor):
                yield f"{name}[{key!r}]", part
    else:
        yield from _attributes(name, value)


def _attributes(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    parameters = getattr(type(value), "named_parameters", None)
    if callable(parameters):
        try:
            found = list(parameters(value))
        except Exception:  # a half-built module must not break the backward that looked at it
            return
        yield from ((f"{name}.{path}", part) for path, part in found if isinstance(part, Tensor))
        return
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        for key, part in list(own.items())[:_MANY]:
            if isinstance(part, Tensor):
                yield f"{name}.{key}", part
            elif callable(getattr(type(part), "named_parameters", None)):
                yield from _attributes(f"{name}.{key}", part)


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
