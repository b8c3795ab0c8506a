"""torch, the engine whose answers tests compare with: `from ..oracle import torch`.

Where torch is not installed, the first use of it inside a test ends that test as not run, with one
reason for all; with CI=true the import fails instead, so that nobody takes silence for success.
Don't use it while a module is imported (not in parametrize).
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
import warnings
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


@functools.cache
def table(module: str, name: str) -> list[Any]:
    """A list of torch's own tests, as `common_modules`, `module_db`."""
    # torch's test helpers derive a class from one of expecttest's, which nothing here uses.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = object  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    internal = "torch.testing._internal"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(getattr(importlib.import_module(f"{internal}.{module}"), name))
    # For each list of samples torch looks twice through the whole call stack, with the source of
    # each frame, for the unittest that runs: ten times the work of the samples, and there is none.
    for helper in ("common_utils", "opinfo.core"):
        known = sys.modules[f"{internal}.{helper}"]
        if hasattr(known, "extract_test_fn"):  # that of 2.5 does not look
            known.extract_test_fn = lambda: None
    return found


def opinfos() -> list[Any]:
    """torch's own table of ops with their samples (OpInfo)."""
    return list(table("common_methods_invocations", "op_db"))


@contextmanager
def every_warning() -> Iterator[None]:
    """Each warning each time, of those, too, that torch gives once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)
