"""torch.cuda.profiler: starts and stops the profiler that watches this process from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ag_visual.arrays import backend as backends
from ag_visual.names import only as _only

__all__ = ["profile", "start", "stop"]
__dir__ = _only(__all__, __name__)


def start() -> None:
    """Let Nsight and the like collect from here; raises BackendUnavailable without CuPy."""
    backends.backend_for("cuda").xp.cuda.runtime.profilerStart()


def stop() -> None:
    """Let them collect no more."""
    backends.backend_for("cuda").xp.cuda.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A block in which they collect."""
    start()
    try:
        yield
    finally:
        stop()
