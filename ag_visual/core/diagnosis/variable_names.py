"""Names that the user's code has for its tensors: variables, module parameters, list entries.

Looks only at plain containers and one attribute level, never runs user code beyond
`named_parameters` and `named_buffers` of modules, and keeps no tensor alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final

from ag_visual.core import source

tensor_type: type = object  # core.tensor.Tensor, bound by `saved.bind`

_MANY: Final = 2000
"""Variables of one scope, and entries of one container, that are looked at."""

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


Types = tuple[type, ...]


def tensors_in(
    scope: Scope, *, buffers: bool = False, types: Types = ()
) -> Iterator[tuple[str, Any]]:
    """(name, tensor) for each tensor that a variable, module or container of the scope holds.

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
    for name, value in later:
        yield from _inside(name, value, buffers, types)


_PLAIN: Final = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type, ModuleType, FunctionType)
)


def _inside(name: str, value: Any, buffers: bool, types: Types) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    if issubclass(kind, (list, tuple)):
        for i, part in enumerate(value[:_MANY]):
            if issubclass(type(part), types):
                yield f"{name}[{i}]", part
    elif issubclass(kind, dict):
        for key, part in list(value.items())[:_MANY]:
            if issubclass(type(part), types):
                yield f"{name}[{key!r}]", part
    else:
        yield from _attributes(name, value, buffers, types)


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


def parameters_of(module: Any) -> list[tuple[str, Any]]:
    """(path, parameter) of all that a module has, its own and those of modules in it."""
    try:
        return list(type(module).named_parameters(module))
    except Exception:  # a half-built module must not break the backward that looked at it
        return []
