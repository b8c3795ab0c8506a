"""How a kernel is compiled, and what of it is kept.

Layer 1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

# Files whose functions are compiled into the kernels of others: where one has changed, all are
# compiled again. (Numba looks at the file alone that a kernel is in.)
_SHARED = ("making.py", "numbers.py", "tiles.py")


def _stamp() -> tuple[tuple[float, int], ...]:
    found = [Path(__file__).with_name(name).stat() for name in _SHARED]
    return tuple((each.st_mtime, each.st_size) for each in found)


class _Kept(FunctionCache):
    """Kernels on the disk, without which there are kernels, too: a damaged file is made anew."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever it is that was read there
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):  # the disk is full, the folder was taken away
            super().save_overload(sig, data)


def made(*may: str, **more: bool) -> Callable[[Any], Any]:
    """A decorator: compiled when `function` asks, with what `may` be done of fast mathematics."""

    def decorate(function: Any) -> Any:
        how = {"error_model": "numpy", "nogil": True, "fastmath": set(may), **more}
        kernel = njit(**how)(function)
        try:
            kernel._cache = _Kept(function)
        except RuntimeError:  # neither the package's folder nor the user's cache may be written
            return kernel
        kept = kernel._cache._cache_file
        kept._source_stamp = (kept._source_stamp, _stamp())
        return kernel

    return decorate


# What is right in a certain order alone keeps it. (A loop with a call in it is not vectorised.)
ordered = made("contract", forceinline=True)
exact = made()
summing = made("reassoc", "contract", "nsz")
