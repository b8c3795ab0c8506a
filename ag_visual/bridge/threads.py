"""Whether the calling thread alone can make graphs, as far as can be known without asking torch."""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

import torch

from ag_visual.bridge.releases import TELLS

_SERVICES: Final = {"ipykernel", "IPython", "tqdm", __name__.partition(".")[0]}
"""Packages whose threads run nothing of the program's: a notebook's kernel, progress bars, ours."""


def alone() -> bool:
    """Whether no other thread than this one, of those that there are, may make nodes of torch's."""
    if not TELLS or devices_compute():
        return False
    known = {thread.ident: thread for thread in threading.enumerate()}
    return all(_serves(known.get(ident)) for ident in others())


def others() -> set[int]:
    """All threads that run Python code but this one."""
    return set(sys._current_frames()) - {threading.get_ident()}


def devices_compute() -> bool:
    """Whether torch's engine has threads of its own, for nodes of other devices than the CPU."""
    xpu: Any = getattr(torch, "xpu", None)
    return (
        torch.cuda.is_initialized()
        or torch.backends.mps.is_built()
        or (xpu is not None and xpu.is_initialized())
    )


def _serves(thread: threading.Thread | None) -> bool:
    modules = type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", "")
    return any(str(module).partition(".")[0] in _SERVICES for module in modules)
