"""torch.profiler.itt: tasks of the user's own for Intel VTune, through the package ittapi."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

from ag_visual.names import only as _only
from ag_visual.profiler.own_ranges import OwnRanges as _OwnRanges
from ag_visual.profiler.ranges import tasks as _tasks

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]
__dir__ = _only(__all__, __name__)

_ranges = _OwnRanges(
    lambda text: _tasks("torch.profiler.itt")[0](text), lambda: _tasks("torch.profiler.itt")[1]()
)


def is_available() -> bool:
    """Whether the package ittapi is installed."""
    return find_spec("ittapi") is not None


def range_push(msg: str) -> int:
    """Begin a task inside of those that are open in this thread; how many these are.

    Raises:
        ModuleNotFoundError: the package ittapi is missing.
    """
    return _ranges.push(msg)


def range_pop() -> int:
    """End the innermost task of this thread; how many are open around it, -1: there was none."""
    return _ranges.pop()


def mark(msg: str) -> None:
    """A task that ends where it begins.

    Raises:
        ModuleNotFoundError: the package ittapi is missing.
    """
    begin, end = _tasks("torch.profiler.itt")
    begin(msg)
    end()


def range(msg: str, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    """A block, or a function, that is a task; its text is msg.format(*args, **kwargs)."""
    return _ranges.block(msg, args, kwargs)
