"""Names that the user's code has for its tensors: variables, module parameters, list entries.

Looks only at plain containers, those in them, and one attribute level, never runs user code beyond
`named_parameters` and `named_buffers` of modules, and keeps no tensor alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

from ag_visual.core import source

tensor_type: type = object  # core.tensor.Tensor, bound by `saved.bind`

_MANY: Final = 2000
"""Variables of one scope, and entries of one container, that are looked at."""

_DEEP: Final = 4
"""Containers in containers that are looked into, counted from the variable."""

_NESTED: Final = 500
"""Entries of all containers inside of one variable's that are looked at."""

_FRAMES: Final = 8

Scope = Mapping[str, Any]


def scopes_of(frame: FrameType | None) -> Iterator[Scope]:
    """Locals of the user's frames from the innermost out, then the globals of the innermost.

    Where the innermost frames are a module's or a cell's own, their globals come in their place.
    """
    innermost: Scope | None = None
    yielded = False
    frame = source.outside(frame)
    left = _FRAMES
    while frame is not None and left:
        if not source.inside[frame.f_code.co_filename]:
            left -= 1
            innermost = innermost if innermost is not None else frame.f_globals
            found = source.locals_of(frame)
            if found is not frame.f_globals:
                yield found
            elif found is innermost and not yielded:
                yielded = True
                yield found
        frame = frame.f_back
    if innermost is not None and not yielded:
        yield innermost


def codes_of(frame: FrameType | None) -> Iterator[CodeType]:
    """The code of the user's frames from the innermost out, as many as `scopes_of` looks at."""
    frame = source.outside(frame)
    left = _FRAMES
    while frame is not None and left:
        if not source.inside[frame.f_code.co_filename]:
            left -= 1
            yield frame.f_code
        frame = frame.f_back


Types = tuple[type, ...]


def tensors_in(
    scope: Scope, *, buffers: bool = False, types: Types = ()
) -> Iterator[tuple[str, Any]]:
    """(name, tensor) for each tensor that a variable, module or container of the scope holds.

    What is nested less comes first: `w`, then `params[0]`, then `params[0][1]`.
    buffers: those of modules, too. types: what counts as one; without them this package's own.
    """
    types = types or (tensor_type,)
    try:
        items = list(scope.items())[:_MANY]
    except RuntimeError:  # another thread adds variables just now: the next look will find them
        return
    later = []
    for name, value in items:
        if name.startswith("_"):
            continue
        # isinstance, which may ask a user's object for its __class__, is not used.
        if issubclass(type(value), types):
            yield name, value
        elif type(value) not in _PLAIN:
            later.append((name, value))
    # Name, container, and how many entries may still be looked at inside of the variable's own.
    nested: list[tuple[str, Any, list[int]]] = []
    for name, value in later:
        entries = _entries(value, _MANY)
        if entries is None:
            yield from _attributes(name, value, buffers, types)
        else:
            yield from _inside(name, entries, types, nested, [_NESTED])
    for _ in range(_DEEP - 1):
        level, nested = nested, []
        for name, value, left in level:
            entries = _entries(value, left[0])
            if entries is None:
                yield from _attributes(name, value, buffers, types)
            else:
                left[0] -= len(entries)
                yield from _inside(name, entries, types, nested, left)


_PLAIN: Final = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type, ModuleType, FunctionType)
)


def _entries(value: Any, most: int) -> list[tuple[Any, Any]] | None:
    """The first entries of a container with their indices or keys; None for anything else."""
    kind = type(value)
    if issubclass(kind, (list, tuple)):
        return list(enumerate(value[:most]))
    return list(value.items())[:most] if issubclass(kind, dict) else None


def _inside(
    name: str,
    entries: list[tuple[Any, Any]],
    types: Types,
    nested: list[tuple[str, Any, list[int]]],
    left: list[int],
) -> Iterator[tuple[str, Any]]:
    """The tensors among a container's entries; its containers and modules are put to `nested`."""
    for key, part in entries:
        kind = type(part)
        if issubclass(kind, types):
            yield f"{name}[{key!r}]", part
        elif kind not in _PLAIN and (issubclass(kind, (list, tuple, dict)) or _is_module(part)):
            nested.append((f"{name}[{key!r}]", part, left))


def _is_module(value: Any) -> bool:
    return callable(getattr(type(value), "named_parameters", None))


def _attributes(name: str, value: Any, buffers: bool, types: Types) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    if _is_module(value):
        for walk in ("named_parameters", "named_buffers") if buffers else ("named_parameters",):
            try:
                found = list(getattr(type(value), walk)(value))
            except Exception:  # a half-built module must not break the backward that looked at it
                continue
            seen.update(id(part) for _, part in found)
            mine = [(path, part) for path, part in found if issubclass(type(part), types)]
            yield from ((f"{name}.{path}", part) for path, part in mine)
    try:
        # Not value.__dict__: an object with slots may have a __getattr__ that does anything.
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return
    if type(own) is dict:
        for key, part in list(own.items())[:_MANY]:
            if issubclass(type(part), types) and id(part) not in seen:
                yield f"{name}.{key}", part
            elif _is_module(part) and not _is_module(value):
                yield from _attributes(f"{name}.{key}", part, buffers, types)


def modules_in(scope: Scope) -> Iterator[tuple[str, Any]]:
    """(name, module) for each module that a variable of the scope, its attribute, or a container
    that is a variable holds.
    """
    try:
        items = list(scope.items())[:_MANY]
    except RuntimeError:
        return
    for name, value in items:
        kind = type(value)
        if name.startswith("_") or kind in _PLAIN:
            continue
        if _is_module(value):
            yield name, value
        elif issubclass(kind, (list, tuple)):
            yield from ((f"{name}[{i}]", v) for i, v in enumerate(value[:_MANY]) if _is_module(v))
        elif issubclass(kind, dict):
            entries = list(value.items())[:_MANY]
            yield from ((f"{name}[{key!r}]", v) for key, v in entries if _is_module(v))
        else:
            try:
                own = object.__getattribute__(value, "__dict__")
            except AttributeError:
                continue
            if type(own) is dict:
                entries = list(own.items())[:_MANY]
                yield from ((f"{name}.{key}", v) for key, v in entries if _is_module(v))


def optimizers_in(scope: Scope) -> Iterator[Any]:
    """Each optimizer that a variable of the scope, or an attribute of one, holds."""
    try:
        items = list(scope.values())[:_MANY]
    except RuntimeError:
        return
    for value in items:
        own = _attributes_of(value)
        if _groups(own):
            yield value
        else:
            yield from (v for v in list(own.values())[:_MANY] if _groups(_attributes_of(v)))


def trained_by(optimizer: Any) -> list[Any]:
    """The parameters of an optimizer's groups."""
    groups = _groups(_attributes_of(optimizer))
    return [p for group in groups if type(group) is dict for p in group.get("params", ())]


def _groups(attributes: dict[str, Any]) -> list[Any]:
    groups = attributes.get("param_groups")
    return groups if type(groups) is list else []


def _attributes_of(value: Any) -> dict[str, Any]:
    """Its own attributes, without running code of its class."""
    if type(value) in _PLAIN:
        return {}
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


def parameters_of(module: Any) -> list[tuple[str, Any]]:
    """(path, parameter) of all that a module has, its own and those of modules in it."""
    try:
        return list(type(module).named_parameters(module))
    except Exception:  # a half-built module must not break the backward that looked at it
        return []
