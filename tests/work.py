"""Work counted in calls of functions, Python's and C's: the same on every machine, unlike time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def counted(work: Callable[[], T]) -> tuple[T, int]:
    """What the work returns, and how many functions were called for it in this thread.

    Garbage of what ran before is collected first: what its weak references call is no work of this.
    """
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return work(), calls
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
