"""Thread-local modes (grad mode and its relatives) behind one process-wide counter.

`special` counts everything unusual that is active in any thread. Zero means that every op may take
the fast path without looking at thread-local state (a `threading.local` read costs 70 ns).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

special = 0
_lock = threading.Lock()


class _State(threading.local):
    grad: bool = True
    # Number of reasons (saved-tensor hooks, ...) for which an op must take the slow path.
    slow: int = 0
    # Innermost last: (pack, unpack) pairs of saved_tensors_hooks.
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()
    # The GraphTask that runs in this thread, and how many of them are nested.
    task: Any = None
    depth: int = 0


state = _State()


def plain() -> bool | None:
    """Grad mode of this thread, or None when an op must take the slow path."""
    return None if state.slow else state.grad


def grad_enabled() -> bool:
    return state.grad if special else True


def set_grad(mode: bool) -> bool:
    """Set this thread's grad mode and return the previous one."""
    global special
    previous = state.grad
    if mode is not previous:
        state.grad = mode
        with _lock:
            special += -1 if mode else 1
    return previous


def enter_slow() -> None:
    """Send every op of this thread down the slow path until `leave_slow`."""
    global special
    state.slow += 1
    with _lock:
        special += 1


def leave_slow() -> None:
    global special
    state.slow -= 1
    with _lock:
        special -= 1
