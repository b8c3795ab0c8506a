"""Thread-local modes (grad mode and its relatives) behind one process-wide counter.

`special` counts everything unusual that is active in any thread. Zero means that every op may take
the fast path without looking at thread-local state (a `threading.local` read costs 70 ns).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

special = 0
# Anomaly mode of the process: None off, else whether gradients are checked for NaN.
anomaly: bool | None = None
_lock = threading.Lock()


class _State(threading.local):
    grad: bool = True
    # What an op's fast wrapper asks: grad mode, or None when it must take the slow path.
    fast: bool | None = True
    # Number of reasons (saved-tensor hooks, ...) for which an op must take the slow path.
    slow: int = 0
    # Innermost last: (pack, unpack) pairs of saved_tensors_hooks.
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()
    # The message of the innermost disable_saved_tensors_hooks.
    saved_hooks_disabled: str | None = None
    # Who is told before an in-place op writes: the context of allow_mutation_on_saved_tensors.
    mutation: Any = None
    # Whether saved tensors are fingerprinted: None no, True all bytes of them, False samples.
    guard: bool | None = None
    # Without effect on where a backward runs (always the calling thread); code asks for it.
    multithreading: bool = True
    # Inference mode: nothing is recorded, and what is made can never be.
    inference: bool = False
    # Whether views follow a write to their base by replaying their ops (else by AsStrided).
    view_replay: bool = False
    # The node that runs in this thread, while anomaly mode is on.
    node: Any = None
    # The GraphTask that runs in this thread.
    task: Any = None

    def __init__(self) -> None:
        # Runs in each thread, when it first looks at its modes.
        _ends.ending = _Ending(self.__dict__)


class _Ending:
    """Gives back what a thread that ends in a special mode has added to `special`.

    Nothing can be done there for long: the thread's own locals are being taken apart.
    """

    def __init__(self, modes: dict[str, Any]) -> None:
        self.modes = modes
        self.borrowed = 0  # what another thread has added, whose modes this one took over

    def added(self) -> int:
        return int(not self.modes.get("grad", True)) + int(self.modes.get("slow", 0))

    def __del__(self) -> None:
        global special
        back = self.added() - self.borrowed
        # No call between reading and storing it: no other thread can come between.
        special -= back


# Beside the modes, not among them: an object that holds the dict it lies in dies late.
_ends = threading.local()


class _Never:
    """Stands in for the thread's state while anomaly mode sends every op down the slow path."""

    fast: bool | None = None


state = _State()
now: _State | _Never = state
"""Where fast wrappers read `fast`: this thread's state, or what sends all threads elsewhere."""


def snapshot() -> dict[str, Any]:
    """The modes of this thread, for a thread that goes on in its place."""
    names = (
        "grad",
        "slow",
        "inference",
        "view_replay",
        "saved_hooks",
        "saved_hooks_disabled",
        "mutation",
        "guard",
        "multithreading",
        "node",
        "task",
    )
    return {name: getattr(state, name) for name in names}


def take_over(modes: dict[str, Any]) -> None:
    """Continue in this (fresh) thread with the modes of another, which waits meanwhile."""
    for name, value in modes.items():
        setattr(state, name, value)
    state.fast = None if state.slow else state.grad
    _ends.ending.borrowed = _ends.ending.added()


def grad_enabled() -> bool:
    return (state.grad and not state.inference) if special else True


def set_grad(mode: bool) -> bool:
    """Set this thread's grad mode and return the previous one."""
    global special
    previous = state.grad
    if mode is not previous:
        state.grad = mode
        if not state.slow:
            state.fast = mode
        # No call and no jump backwards in between: no other thread can come between.
        special += -1 if mode else 1
    return previous


def set_inference(mode: bool) -> tuple[bool, bool]:
    """Switch inference mode, and grad mode with it; returns what both were, for `restore`."""
    previous = (state.inference, state.grad)
    restore(mode, not mode)
    return previous


def restore(inference: bool, grad: bool) -> None:
    """Set inference mode and grad mode."""
    if inference and not state.inference:
        enter_slow()
    elif state.inference and not inference:
        leave_slow()
    state.inference = inference
    set_grad(grad)


def set_anomaly(check_nan: bool | None) -> bool | None:
    """Switch anomaly mode and return what it was."""
    global anomaly, now, special
    with _lock:
        previous, anomaly = anomaly, check_nan
        now = state if check_nan is None else _Never()
        special += (check_nan is not None) - (previous is not None)
    return previous


def enter_slow() -> None:
    """Send every op of this thread down the slow path until `leave_slow`."""
    global special
    state.slow += 1
    state.fast = None
    with _lock:
        special += 1


def leave_slow() -> None:
    global special
    state.slow -= 1
    if not state.slow:
        state.fast = state.grad
    with _lock:
        special -= 1
