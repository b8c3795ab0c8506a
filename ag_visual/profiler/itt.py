"""torch.profiler.itt: tasks of the user's own for Intel VTune, through the package ittapi."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from threading import local
from typing import Any

from ag_visual.names import only as _only
from ag_visual.profiler.ranges import tasks

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]
__dir__ = _only(__all__, __name__)


class _Depth(local):
    now = 0


_depth = _Depth()


def is_available() -> bool:
    """Whether the package ittapi is installed."""
    return find_spec("ittapi") is not None


def range_push(msg: str) -> int:
    """Begin a task inside of those that are open in this thread; how many these are.

    Raises:
        ModuleNotFoundError: the package ittapi is missing.
    """
    begin, _ = tasks("torch.profiler.itt")
    begin(msg)
    _depth.now += 1
    return _depth.now - 1


def range_pop() -> int:
    """End the innermost task of this thread; how many are open around it, -1: there was none.

    Raises:
        ModuleNotFoundError: the package ittapi is missing.
    """
    _, end = tasks("torch.profiler.itt")
    if not _depth.now:
        return -1
    _depth.now -= 1
    end()
    return _depth.now


def mark(msg: str) -> None:
    """A task that ends where it begins.

    Raises:
        ModuleNotFoundError: the package ittapi is missing.
    """
    begin, end = tasks("torch.profiler.itt")
    begin(msg)
    end()


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block, or a function, that is a task; its text is msg.format(*args, **kwargs)."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
