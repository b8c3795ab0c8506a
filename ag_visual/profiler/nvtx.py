"""torch.cuda.nvtx: ranges of the user's own for Nsight Systems, through the package nvtx.

Each different text stays registered for the life of the process (some 370 bytes).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ag_visual.profiler.own_ranges import OwnRanges as _OwnRanges
from ag_visual.profiler.ranges import nvtx_domain as _nvtx_domain


def _domain() -> Any:
    return _nvtx_domain("torch.cuda.nvtx")


def _text(msg: str) -> Any:
    return _domain().get_event_attributes(msg)


_ranges = _OwnRanges(lambda text: _domain().push_range(_text(text)), lambda: _domain().pop_range())


def range_push(msg: str) -> int:
    """Begin a range inside of those that are open in this thread; how many these are.

    Raises:
        ModuleNotFoundError: the package nvtx is missing.
    """
    return _ranges.push(msg)


def range_pop() -> int:
    """End the innermost range of this thread; how many are open around it, -1: there was none."""
    return _ranges.pop()


def range_start(msg: str) -> int:
    """Begin a range that any thread may end; the number to end it by."""
    return int(_domain().start_range(_text(msg)))


def range_end(range_id: int) -> None:
    """End a range that `range_start` began."""
    _domain().end_range(range_id)


def mark(msg: str) -> None:
    """A moment with a text."""
    _domain().mark(_text(msg))


def range(msg: str, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    """A block, or a function, that is a range; its text is msg.format(*args, **kwargs)."""
    return _ranges.block(msg, args, kwargs)
