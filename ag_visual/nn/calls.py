"""Names the range of a module's forward, so that nodes can be grouped by module.

Asked by `Module.__call__` alone, and only while somebody records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ag_visual.events import ranges


class _Call(NamedTuple):
    path: str  # of the module, below the outermost one
    paths: dict[int, str]  # id of each module below the outermost one -> its path


def within(module: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)` in the range of a module's forward."""
    depth = ranges.depth()
    try:
        enter(module)
        return function(*args, **kwargs)
    finally:
        try:
            ranges.leave_to(depth)
        except BaseException:  # an interrupt
            ranges.leave_to(depth)
            raise


def enter(module: Any) -> int:
    """A module's forward begins; the range's number, for `ranges.leave`."""
    kind = type(module).__name__
    around = ranges.around()
    path = around.paths.get(id(module)) if type(around) is _Call else None
    if path is None:
        return ranges.enter(kind, kind, _Call("", _paths(module)))
    name = path.removeprefix(f"{around.path}.") if around.path else path
    return ranges.enter(name or kind, kind, _Call(path, around.paths))


def _paths(module: Any) -> dict[int, str]:
    """Those of a module and all below it, by id, as `named_modules` names them.

    Without its generators, one inside of another: this is done in each call of an outermost module.
    """
    paths: dict[int, str] = {}
    pending = [("", module)]
    while pending:
        path, inner = pending.pop()
        if id(inner) not in paths:
            paths[id(inner)] = path
            below = inner._modules
            if below:
                prefix = f"{path}." if path else ""
                found = [(prefix + name, m) for name, m in below.items() if m is not None]
                pending += found[::-1]
    return paths
