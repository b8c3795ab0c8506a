"""torch, the engine whose answers tests compare with: `from ..oracle import torch`.

Where torch is not installed, the first use of it inside a test ends that test as not run, with one
reason for all; with CI=true the import fails instead, so that nobody takes silence for success.
Don't use it while a module is imported (not in parametrize).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

REASON = "torch, the oracle, is not installed: pip install '.[oracle]'"


class _Absent:
    """Stands where torch would be; any use inside a test ends it."""

    __version__ = ""

    def __getattr__(self, name: str) -> NoReturn:
        # While pytest collects, it looks at every object of a module: nothing is skipped for that.
        if "PYTEST_CURRENT_TEST" not in os.environ:
            raise AttributeError(f"{name}: {REASON}")
        pytest.skip(REASON)


torch: Any
try:
    import torch
except ImportError:
    if os.environ.get("CI", "").lower() in ("1", "true"):
        raise RuntimeError(f"CI=true and {REASON}") from None
    torch = _Absent()


@contextmanager
def every_warning() -> Iterator[None]:
    """Each warning each time, of those, too, that torch gives once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)
