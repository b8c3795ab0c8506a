"""torch, the engine whose answers tests compare with: `from ..oracle import torch`.

Where torch is not installed, the first use of it inside a test ends that test as not run, with one
reason for all; with CI=true the import fails instead, so that nobody takes silence for success.
Don't use it while a module is imported (not in parametrize).
"""

from __future__ import annotations

import os
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
