"""Thread-local modes (grad mode and its relatives) behind one process-wide counter.

`special` counts everything unusual that is active in any thread, `slowed` what of it sends a thread
down the slow path: all but a grad mode that is off. Zero means that no op looks at thread-local
state (a `threading.local` read costs 70 ns): of `slowed` whether it may take the fast path, of
`special` whether it is recorded.

A signal may end the program between any two calls: Python looks for one where a function begins,
after a call of C and at jumps backwards. What belongs together is stored without any of them in
between, so that an interrupt finds a mode set with all that goes with it, or not at all. The same
keeps other threads out.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class StreamsOf(Protocol):
    """The streams of a GPU, as far as nodes and the engine ask for them."""

    def made(self, node: Any) -> None:
        """A node was made in the current stream."""

    def of_node(self, node: Any) -> Any:
        """The stream in which a node was made."""

    def current(self) -> Any:
        """The current stream."""

    def inside(self, stream: Any) -> AbstractContextManager[Any]:
        """A block in which a stream is the current one."""


special = 0
slowed = 0
# Anomaly mode of the process: None off, else whether gradients are checked for NaN.
anomaly: bool | None = None
# How many levels of forward mode are open in the process.
duals = 0
# Of these, how many give tangents to tensors that belong to no transform.
plain_duals = 0
# How many levels of transforms there are: open ones, and closed ones of which tensors are left.
levelled = 0
# What torch.cuda's streams tell, since the program chose one; None before.
streams: StreamsOf | None = None
# Whether a sparse tensor was ever made: ops then look whether they were given one.
sparse = False


_OF_A_BACKWARD: tuple[str, ...] = (
    *("grad", "slow", "inference", "before_inference", "view_replay", "saved_hooks"),
    *("saved_hooks_disabled", "mutation", "guard", "multithreading"),
    *("levels", "differentiating", "primal", "forward", "autocast"),
)
"""What a backward finds at its beginning, each of its nodes again, and who called it afterwards."""


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
    # What the innermost inference mode restores: who finds another one here is not the innermost.
    before_inference: Any = None
    # Whether views follow a write to their base by replaying their ops (else by AsStrided).
    view_replay: bool = False
    # The node that runs in this thread, while anomaly mode is on.
    node: Any = None
    # The GraphTask that runs in this thread.
    task: Any = None
    # Levels of function transforms (grad, jvp, vmap) that are open in this thread, outermost first.
    levels: tuple[Any, ...] = ()
    # The innermost of them that differentiates: what is made now belongs to it.
    differentiating: Any = None
    # Whether tensors of the innermost level (of none: all) count without their tangents.
    primal: bool = False
    # Whether forward mode is on.
    forward: bool = True
    # The dtype of mixed precision by device type, where it is on; None: nowhere.
    autocast: Mapping[str, Any] | None = None

    def __init__(self) -> None:
        # Runs in each thread, when it first looks at its modes. (To read the dict takes a fifth.)
        self.__dict__.update({name: getattr(_State, name) for name in ("fast", *_OF_A_BACKWARD)})
        _ends.ending = _Ending(self.__dict__)


class _Ending:
    """Gives back what a thread that ends in a special mode has added to `special` and `slowed`.

    Nothing can be done there for long: the thread's own locals are being taken apart.
    """

    def __init__(self, modes: dict[str, Any]) -> None:
        self.modes = modes
        # What another thread has added, whose modes this one took over.
        self.borrowed = self.borrowed_slow = 0

    def __del__(self) -> None:
        global special, slowed
        slow = int(self.modes.get("slow", 0)) - self.borrowed_slow
        without = int(not self.modes.get("grad", True)) - self.borrowed
        # No call between reading and storing it: no other thread can come between.
        special -= slow + without
        slowed -= slow


# Beside the modes, not among them: an object that holds the dict it lies in dies late.
_ends = threading.local()


class _Never:
    """Stands in for the thread's state while anomaly mode sends every op down the slow path."""

    fast: bool | None = None


class _Forward:
    """Stands in for it while a level of forward mode is open: fast only where no tangent counts."""

    @property
    def fast(self) -> bool | None:
        return state.fast if state.primal else None


state = _State()
now: _State | _Never | _Forward = state
"""Where fast wrappers read `fast`: this thread's state, or what sends all threads elsewhere."""
_never = _Never()
_forward = _Forward()


def _all() -> dict[str, Any]:
    return {name: getattr(state, name) for name in _OF_A_BACKWARD}


def snapshot() -> dict[str, Any]:
    """The modes of this thread, for a thread that goes on in its place."""
    return {**_all(), "node": state.node, "task": state.task}


def take_over(modes: dict[str, Any]) -> None:
    """Continue in this (fresh) thread with the modes of another, which waits meanwhile."""
    mine, ending = state.__dict__, _ends.ending
    ending.borrowed, ending.borrowed_slow = int(not modes["grad"]), modes["slow"]
    state.fast = None if modes["slow"] else modes["grad"]
    mine.update(modes)


def changing() -> None:
    """A user's code is about to change a mode: a backward that runs keeps what was there.

    Who changes modes for itself alone, and back (`in_grad_mode`), need not say so.
    """
    task = state.task
    if task is not None and task.modes is None:
        task.modes = _all()


def put_back(kept: dict[str, Any]) -> None:
    """Restore the modes of this thread."""
    global special, slowed
    mine = state.__dict__
    grad, slow = kept["grad"], kept["slow"]
    special += slow - state.slow + (state.grad - grad)
    slowed += slow - state.slow
    state.fast = None if slow else grad
    mine.update(kept)


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
        special += -1 if mode else 1
    return previous


def switch_grad(mode: bool) -> bool:
    """`set_grad` on behalf of a user's code, which a backward that runs may have to undo."""
    global special
    if state.task is not None:
        changing()
    previous = state.grad
    if mode is not previous:
        state.grad = mode
        if not state.slow:
            state.fast = mode
        special += -1 if mode else 1
    return previous


def in_grad_mode(mode: bool, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)` in this grad mode; an interrupt cannot leave it behind."""
    global special
    previous = state.grad
    try:
        set_grad(mode)
        return function(*args, **kwargs)
    finally:
        # `set_grad(previous)`, written out: a signal could end the call where it begins.
        if state.grad is not previous:
            special += -1 if previous else 1
            state.grad = previous
            if not state.slow:
                state.fast = previous


def without_grad(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: each call of the function runs with grad mode off."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = in_grad_mode(False, function, *args, **kwargs)
        return result

    return wrapped


def set_inference(mode: bool) -> Any:
    """Switch inference mode, and grad mode with it; returns what `leave_inference` wants."""
    global special, slowed
    outer = state.before_inference
    previous = [state.inference, state.grad, outer]  # a list: no other is the same object
    slow = state.slow + (mode - state.inference)
    special += slow - state.slow + (state.grad - (not mode))
    slowed += slow - state.slow
    state.inference = mode
    state.grad = not mode
    state.slow = slow
    state.fast = None if slow else not mode
    state.before_inference = previous
    return previous


def leave_inference(previous: Any) -> None:
    """Restore what `set_inference` found."""
    global special, slowed
    inference, grad, outer = previous
    slow = state.slow + (inference - state.inference)
    special += slow - state.slow + (state.grad - grad)
    slowed += slow - state.slow
    state.inference = inference
    state.grad = grad
    state.slow = slow
    state.fast = None if slow else grad
    state.before_inference = outer


def set_anomaly(check_nan: bool | None) -> bool | None:
    """Switch anomaly mode and return what it was."""
    global anomaly, now, special, slowed
    previous = anomaly
    anomaly = check_nan
    now = _never if check_nan is not None else _forward if plain_duals else state
    change = (check_nan is not None) - (previous is not None)
    special += change
    slowed += change
    return previous


def count_duals(change: int, plain: bool) -> None:
    """A level of forward mode opens (1) or closes (-1). plain: its tensors may be of no level."""
    global duals, plain_duals, now, special, slowed
    duals += change
    plain_duals += change if plain else 0
    special += change
    slowed += change
    now = _never if anomaly is not None else _forward if plain_duals else state


def count_level(change: int) -> None:
    """A level of a transform begins (1), or nothing of it is left (-1)."""
    global levelled
    levelled += change


def forward_enabled() -> bool:
    """Whether tensors count with their tangents in this thread."""
    return state.forward and not state.inference


def set_forward(mode: bool) -> None:
    """Switch forward mode in this thread."""
    changing()
    state.forward = mode


def set_slow(name: str, value: Any, change: int) -> None:
    """Set a mode for which every op of this thread takes the slow path.

    change: 1 to enter it, -1 to leave it.
    """
    global special, slowed
    mine = state.__dict__
    slow = state.slow + change
    mine[name] = value
    state.slow = slow
    state.fast = None if slow else state.grad
    special += change
    slowed += change


def at_levels(
    levels: tuple[Any, ...],
    grad: bool,
    inference: bool,
    primal: bool,
    function: Callable[..., R],
    *args: Any,
    **kwargs: Any,
) -> R:
    """`function(*args, **kwargs)` where these levels of transforms are open; back again then.

    primal: whether tensors of the innermost level count without their tangents.
    """
    global special, slowed
    mine = state.__dict__
    before_levels, before_primal = mine["levels"], mine["primal"]
    before = mine["differentiating"]
    before_grad, before_inference, before_slow = mine["grad"], mine["inference"], mine["slow"]
    try:
        slow = before_slow + (not before_levels) - (not levels) + inference - before_inference
        special += slow - before_slow + (before_grad - grad)
        slowed += slow - before_slow
        mine["slow"] = slow
        mine["grad"] = grad
        mine["inference"] = inference
        mine["fast"] = None if slow else grad
        mine["levels"] = levels
        mine["differentiating"] = levels[-1].differentiating if levels else None
        mine["primal"] = primal
        return function(*args, **kwargs)
    finally:
        # No call before all of it is done, as a signal may end the program at any.
        special += before_slow - mine["slow"] + (mine["grad"] - before_grad)
        slowed += before_slow - mine["slow"]
        mine["slow"] = before_slow
        mine["grad"] = before_grad
        mine["inference"] = before_inference
        mine["fast"] = None if before_slow else before_grad
        mine["levels"] = before_levels
        mine["differentiating"] = before
        mine["primal"] = before_primal


def set_autocast(dtypes: Mapping[str, Any] | None) -> None:
    """Switch mixed precision: its dtype on each type of device where it is on, or None."""
    changing()
    on = dtypes is not None
    set_slow("autocast", dtypes, on - (state.autocast is not None))


def in_autocast(
    dtypes: Mapping[str, Any] | None, function: Callable[..., R], *args: Any, **kwargs: Any
) -> R:
    """`function(*args, **kwargs)` where mixed precision is as given; back again then."""
    global special, slowed
    mine = state.__dict__
    before = mine["autocast"]
    change = (dtypes is not None) - (before is not None)
    try:
        slow = mine["slow"] + change
        special += change
        slowed += change
        mine["slow"] = slow
        mine["autocast"] = dtypes
        mine["fast"] = None if slow else mine["grad"]
        return function(*args, **kwargs)
    finally:
        # No call before all of it is done, as a signal may end the program at any.
        if mine["autocast"] is not before:
            slow = mine["slow"] - change
            special -= change
            slowed -= change
            mine["slow"] = slow
            mine["autocast"] = before
            mine["fast"] = None if slow else mine["grad"]


def without_autocast(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """`function(*args, **kwargs)` where mixed precision is off."""
    if state.autocast is None:
        return function(*args, **kwargs)
    return in_autocast(None, function, *args, **kwargs)


def without_tangents(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """`function(*args, **kwargs)` where tensors of the innermost level have no tangents."""
    here = state
    return at_levels(here.levels, here.grad, here.inference, True, function, *args, **kwargs)
