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
        call = _Call("", {id(m): p for p, m in module.named_modules()})
        return ranges.enter(kind, kind, call)
    name = path.removeprefix(f"{around.path}.") if around.path else path
    return ranges.enter(name or kind, kind, _Call(path, around.paths))
