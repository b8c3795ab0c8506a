"""Let the C library keep large blocks that NumPy frees, instead of returning them to the kernel.

Layer 1: imports nothing of the package. Linux with glibc only; elsewhere nothing happens.

glibc maps blocks above 128 kB freshly and unmaps them when they are freed, so a graph that retains
arrays pays page faults for every op (201 against 14 us for 100,000 float32). The price: up to
KEEP_BYTES of freed memory stay with the process. Set the environment variable AG_VISUAL_MALLOC=0
before the first import to leave the allocator alone.
"""

from __future__ import annotations

import os
import sys
from typing import Final

# Blocks up to this size come from the heap: glibc's upper limit, HEAP_MAX_SIZE / 2 on 64-bit.
HEAP_BLOCK_BYTES: Final = 32 * 1024 * 1024
# Freed memory at the top of the heap is returned to the kernel only beyond this.
KEEP_BYTES: Final = 512 * 1024 * 1024

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

_state = "not asked for"


def tune() -> str:
    """Apply the thresholds once per process and return what happened, in words."""
    global _state
    if _state == "not asked for":
        _state = _apply()
    return _state


def state() -> str:
    """What `tune` did, in words."""
    return _state


def _apply() -> str:
    if os.environ.get("AG_VISUAL_MALLOC", "1") == "0":
        return "off: AG_VISUAL_MALLOC=0"
    if not sys.platform.startswith("linux"):
        return f"off: {sys.platform} is not Linux"
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - absent outside glibc
        mallopt = libc.mallopt
    except (ImportError, OSError, AttributeError):
        return "off: the C library is not glibc"
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    kept = mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEEP_BYTES)
    return "on" if kept else "off: mallopt refused the thresholds"
