"""torch.cuda.profiler: starts and stops the profiler that watches this process from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ag_visual.cuda import check_error as check_error, cudart as cudart
from ag_visual.names import only as _only

__all__ = ["profile", "start", "stop"]
__dir__ = _only(__all__, __name__)

DEFAULT_FLAGS = [
    "gpustarttimestamp",
    "gpuendtimestamp",
    "gridsize3d",
    "threadblocksize",
    "streamid",
    "enableonstart 0",
    "conckerneltrace",
]
"""What torch gave to nvprof, which no toolkit has any more; nothing reads it."""


def start() -> None:
    """Let Nsight and the like collect from here; raises BackendUnavailable without CuPy."""
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """Let them collect no more."""
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A block in which they collect."""
    start()
    try:
        yield
    finally:
        stop()
