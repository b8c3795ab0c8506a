"""Whether there is a GPU, and the one that a question is about."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ag_visual.arrays import backend as backends
from ag_visual.devices import device as Device


def is_available() -> bool:
    """Whether CuPy is installed and a GPU answers."""
    try:
        return backends.backend_for("cuda").count() > 0
    except backends.BackendUnavailable:
        return False


def at(device: Any) -> AbstractContextManager[Any]:
    """A block in which a device is the current one: a number, a name, or None for what it is."""
    return backends.backend_for("cuda").on(None if device is None else Device(device).index)
