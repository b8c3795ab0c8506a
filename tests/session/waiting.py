"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 90.0
"""Seconds after which something counts as never happening: many times what the slowest takes."""


def until(true: Callable[[], Any], told: Callable[[], object] = lambda: "") -> None:
    """Wait until something is true; told: what else to say when it never is."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not within {PATIENCE:g} s; {told()}"
        time.sleep(0.005)
