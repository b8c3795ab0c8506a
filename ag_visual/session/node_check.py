"""Checks the backward of one node against finite differences of its forward.

The work is done in a thread of its own, in double precision, on copies, with the state of random
numbers put back afterwards, and nothing of it is recorded. What can be run again: `forward_again`.
"""

from __future__ import annotations

import cmath
import ctypes
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np

from ag_visual.arrays.backend import backend_of, on_host
from ag_visual.core import modes
from ag_visual.core.node import Node
from ag_visual.core.tensor import Tensor
from ag_visual.events.live import Runnable, engine_of
from ag_visual.observe.formulas.derivation import MOST_ELEMENTS, elements_of
from ag_visual.observe.formulas.local import runs
from ag_visual.observe.formulas.notation import number_text
from ag_visual.ops.tensor.generator import fork_rng
from ag_visual.session.recompute import Again, CannotCheckError, again
from ag_visual.session.recompute_live import again_live
from ag_visual.session.session import current

ELEMENTS: Final = 32
"""Elements of each input that are compared, unless told otherwise."""

SECONDS: Final = 4.0
"""After this time no further element is begun."""

# Relative differences that rounding explains, by bytes of the node's dtype (of one part).
_LOOSE: Final = {8: 1e-5, 4: 1e-3, 2: 3e-2}
_KINK: Final = 1e-3
_POLE: Final = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compared:
    """One element: where it is, what backward says, what the differences say."""

    index: tuple[int, ...]
    backward: complex
    differences: complex

    @property
    def apart(self) -> float:
        gap = abs(self.backward - self.differences)
        return float("inf") if gap != gap else gap


@dataclass(frozen=True, slots=True)
class InputCheck:
    """How the gradient of one input compares: `worst` is the element that is most apart."""

    name: str
    shape: tuple[int, ...]
    ok: bool
    compared: int
    non_smooth: int
    absolute: float
    relative: float
    step: float
    worst: Compared | None
    made_up: bool = False

    def __str__(self) -> str:
        sign = "✓" if self.ok else "✗"
        count = int(np.prod(self.shape, dtype=int))
        text = f"{sign} {self.name}: {self.compared} of {count} elements compared"
        if self.non_smooth:
            text += f", {self.non_smooth} at a non-smooth point left out"
        if self.worst is None:
            return text
        place = f"[{', '.join(map(str, self.worst.index))}]" if self.worst.index else ""
        return (
            f"{text}; largest difference {_text(self.absolute)} (relative "
            f"{_text(self.relative)}) at {self.name}{place}: backward "
            f"{_text(self.worst.backward)}, finite differences {_text(self.worst.differences)} "
            f"(step {_text(self.step)})"
        )


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The result of `check_node`: true when every gradient agrees with the differences."""

    name: str
    seq: int
    inputs: list[InputCheck] = field(default_factory=list)
    why_not: str = ""

    @property
    def ok(self) -> bool:
        return not self.why_not and all(one.ok for one in self.inputs)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def verdict(self) -> str:
        """'agrees', 'differs' or 'unknown'."""
        if self.why_not:
            return "unknown"
        return "agrees" if self.ok else "differs"

    def __str__(self) -> str:
        if self.why_not:
            return f"? {self.name} cannot be checked: {self.why_not}"
        says = "agrees with" if self.ok else "differs from"
        head = f"{'✓' if self.ok else '✗'} {self.name} {says} finite differences"
        return "\n".join([head, *(f"  {one}" for one in self.inputs)])

    __repr__ = __str__

    def json(self) -> dict[str, Any]:
        """A `NodeCheck` record of the schema."""
        return {
            "seq": self.seq,
            "name": self.name,
            "verdict": self.verdict,
            "why_not": self.why_not,
            "text": str(self),
            "inputs": [
                {
                    "name": one.name,
                    "shape": list(one.shape),
                    "ok": one.ok,
                    "compared": one.compared,
                    "non_smooth": one.non_smooth,
                    "absolute": _text(one.absolute),
                    "relative": _text(one.relative),
                    "step": _text(one.step),
                    "made_up": one.made_up,
                    "worst": one.worst
                    and {
                        "index": list(one.worst.index),
                        "backward": _text(one.worst.backward),
                        "differences": _text(one.worst.differences),
                    },
                }
                for one in self.inputs
            ],
        }


def _text(value: Any) -> str:
    if isinstance(value, complex):
        if value.imag == 0:
            return number_text(value.real)
        sign = "−" if value.imag < 0 else "+"
        return f"{number_text(value.real)} {sign} {number_text(abs(value.imag))}i"
    return number_text(value)


def check_node(node: Any, *, elements: int = ELEMENTS) -> NodeCheck:
    """Compare a node's backward with central differences (f(x + h) - f(x - h)) / (2 h).

    node: a node of the graph, or a tensor whose `grad_fn` is meant; also of a watched PyTorch,
    whose rule is compared with the forward of this package's op of the same name. The forward is
    run again in double precision on the inputs that it had, changed in one of up to `elements`
    places per input at a time; the gradient that arrives is a fixed set of random numbers. Nothing
    of the graph is touched, and random numbers go on as before. Returns a `NodeCheck`: true when
    all agree, with `inputs`, `verdict` and, where the forward cannot be run again, `why_not`;
    printed, it says it all. Raises TypeError for what is neither.

    >>> import ag_visual as ag
    >>> x = ag.tensor([0.5, 2.0], requires_grad=True)
    >>> bool(ag.check_node(x.sin()))
    True
    """
    engine = engine_of(node)
    found: Any = node
    if isinstance(node, Tensor):
        found = node.grad_fn
    elif engine is not None:
        found = engine.node_of(node)
    if not runs(found):
        raise TypeError(
            "check_node() takes a node, or a tensor with a grad_fn, but got "
            f"{type(node).__name__}{' without one' if found is None else ''}"
        )
    if elements < 1:
        raise ValueError(f"elements should be 1 or more, but is {elements}")
    return in_own_thread(lambda stopped: _checked(found, elements, stopped))


def _checked(node: Node | Runnable, elements: int, stopped: threading.Event) -> NodeCheck:
    try:
        if elements_of(node) > MOST_ELEMENTS:
            raise CannotCheckError(
                f"it works on more than {MOST_ELEMENTS:,} elements; check it on a smaller input"
            )
        with _unnoticed():
            how = again(node) if isinstance(node, Node) else again_live(node)
            compared = list(_compare(how, _Limits(elements, stopped)))
        nowhere = any(one.non_smooth for one in compared) and not any(
            one.compared for one in compared
        )
        why_not = "its forward has no slope at any of the places that were tried" if nowhere else ""
        return NodeCheck(node.name(), node.seq, compared, why_not)
    except CannotCheckError as error:
        return NodeCheck(node.name(), node.seq, why_not=str(error))
    except Exception as error:  # the user's own forward or backward
        message = f"{type(error).__name__}: {error}"
        return NodeCheck(node.name(), node.seq, why_not=f"running it again raised {message}")


# Apart from the program ---------------------------------------------------------------------------


def in_own_thread(work: Callable[[threading.Event], T]) -> T:
    """Run in a fresh thread, whose modes are the usual ones, and wait for it.

    The wait is one of short waits, so that an interrupt gets through: it sets the event that `work`
    was given, and is raised when the thread has ended. A second one ends the thread where it is in
    Python; a third does not wait until it is.
    """
    stopped, done = threading.Event(), threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(stopped))
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="ag_visual check", daemon=True)
    interrupts: list[KeyboardInterrupt] = []
    try:
        thread.start()
        _wait(thread, done, stopped, interrupts)
    except KeyboardInterrupt as error:
        interrupts.append(error)
    finally:
        stopped.set()  # whatever an interrupt came between
    if interrupts:
        _wait(thread, done, stopped, interrupts)  # it puts back what it put aside
        raise interrupts[0]
    if errors:
        raise errors[0]
    return results[0]


class _Ended(BaseException):
    """Raised in the thread of a check that was interrupted twice."""


def _wait(
    thread: threading.Thread,
    done: threading.Event,
    stopped: threading.Event,
    interrupts: list[KeyboardInterrupt],
) -> None:
    """Wait for a thread, and end it by the number of interrupts that have come.

    Not by `join`: an interrupt in it makes Python before 3.13 take the thread for ended. It may end
    without saying so: where the second interrupt met it while it did.
    """
    while thread.ident in sys._current_frames() and not done.is_set():
        try:
            _some_time(done)
        except KeyboardInterrupt as error:
            interrupts.append(error)
        if interrupts:
            stopped.set()
        if len(interrupts) == 2 and thread.ident is not None:
            ident, ended = ctypes.c_ulong(thread.ident), ctypes.py_object(_Ended)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ended)
            interrupts.append(interrupts[0])
        if len(interrupts) > 3:
            return
    if thread.ident is not None:
        thread.join()


def _some_time(done: threading.Event) -> None:
    done.wait(0.05)


@contextmanager
def _unnoticed() -> Iterator[None]:
    """No grad mode, no events of this thread in a recording, random numbers as before."""
    previous = modes.set_grad(False)
    try:
        with current().recorder.ignoring(threading.get_ident()), _same_numbers():
            yield
    finally:
        modes.set_grad(previous)


@contextmanager
def _same_numbers() -> Iterator[None]:
    """Random numbers drawn inside are drawn again afterwards: this package's, NumPy's, Python's."""
    own, numpys = random.getstate(), np.random.get_state()
    try:
        with fork_rng():
            yield
    finally:
        random.setstate(own)
        np.random.set_state(numpys)


# Differences --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much is compared: so many elements of an input, so long, until it is interrupted."""

    elements: int
    stopped: threading.Event
    end: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def reached(self, some: bool) -> bool:
        """Is no further element to be begun? some: whether one of this input was looked at."""
        return self.stopped.is_set() or (some and time.monotonic() > self.end)


def _compare(how: Again, limits: _Limits) -> Iterator[InputCheck]:
    chance = np.random.default_rng(0)
    outputs = _same_again(how)
    gs = [None if o is None else _weights(chance, o) for o in outputs]
    found = how.back(gs)
    narrow = any(
        o is not None and o.dtype.itemsize < (16 if o.dtype.kind == "c" else 8) for o in outputs
    )
    loose = max(_LOOSE.get(how.size, 1e-3), 3e-2 if narrow else 0.0)
    for name in how.wanted:
        array = how.inputs[name]
        gradient = found.get(name)
        if gradient is None:
            gradient = np.zeros(array.shape)
        yield _one(how, name, on_host(gradient), gs, limits, chance, loose, narrow)


def _same_again(how: Again) -> list[Any]:
    """The outputs; running twice must give the same."""
    with _same_numbers():
        first = how.run(how.inputs)
    with _same_numbers():
        second = how.run(how.inputs)
    for a, b in zip(first, second, strict=True):
        if a is not None and not np.array_equal(on_host(a), on_host(b), equal_nan=True):
            raise CannotCheckError(
                "its forward gives another result each time it is run: there is no one function "
                "whose slope could be compared"
            )
    return first


def _weights(chance: Any, output: Any) -> Any:
    """Numbers for the gradient that arrives: none is zero, and no sum of them is by chance."""

    def draw() -> Any:
        return np.round(chance.uniform(0.5, 1.5, output.shape), 2) * chance.choice(
            [-1.0, 1.0], output.shape
        )

    found = draw() + 1j * draw() if output.dtype.kind == "c" else draw()
    if isinstance(output, np.ndarray):
        return np.asarray(found)
    return backend_of(output).from_numpy(np.asarray(found))


def _one(
    how: Again,
    name: str,
    gradient: Any,
    gs: list[Any],
    limits: _Limits,
    chance: Any,
    loose: float,
    narrow: bool,
) -> InputCheck:
    array = how.inputs[name]
    shape = tuple(array.shape)
    step = 1.0 if how.linear else 1e-2 if narrow else float(np.finfo(np.float64).eps) ** (1 / 3)

    def outputs(index: tuple[int, ...], by: complex) -> list[Any]:
        changed = array.copy()
        changed[index] += by
        with _same_numbers():
            return how.run(how.inputs | {name: changed})

    def rise(index: tuple[int, ...], to: complex, since: complex) -> float:
        """How much larger the loss is at one place than at another."""
        total = 0.0
        for g, after, before in zip(gs, outputs(index, to), outputs(index, since), strict=True):
            if g is not None:
                after, before = on_host(after), on_host(before)
                with np.errstate(invalid="ignore"):
                    moved = np.where(after == before, 0.0, after - before)  # infinite ones, too
                total += float(np.sum(np.real(np.conj(on_host(g)) * moved)))
        return total

    def slope(index: tuple[int, ...], h: float, unit: complex) -> float:
        return rise(index, h * unit, -h * unit) / (2 * h)

    compared: list[Compared] = []
    non_smooth = 0
    scale = float(np.nanmax(np.abs(gradient))) if gradient.size else 0.0
    for flat in _places(gradient, limits.elements, chance):
        if limits.reached(bool(compared or non_smooth)):
            break
        index = tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()
        size = abs(complex(on_host(array)[index]))
        if not math.isfinite(size):
            non_smooth += 1
            continue
        h = step * max(1.0, size)
        found = complex(slope(index, h, 1.0))
        if array.dtype.kind == "c":
            found += 1j * slope(index, h, 1j)
        one = Compared(index, complex(gradient[index]), found)
        if not cmath.isfinite(found) or (
            one.apart > _allowed(one, loose, scale) and _is_non_smooth(rise, index, h, loose)
        ):
            non_smooth += 1
            continue
        compared.append(one)
    scale = max([scale, *(abs(c.differences) for c in compared)], default=0.0)
    wrong = [c for c in compared if not c.apart <= _allowed(c, loose, scale)]
    worst = max(wrong or compared, key=lambda c: c.apart, default=None)
    absolute = 0.0 if worst is None else worst.apart
    most = 0.0 if worst is None else max(abs(worst.backward), abs(worst.differences))
    return InputCheck(
        name=name,
        shape=shape,
        ok=not wrong,
        compared=len(compared),
        non_smooth=non_smooth,
        absolute=absolute,
        relative=absolute / most if most else 0.0,
        step=step,
        worst=worst,
        made_up=name in how.made_up,
    )


def _allowed(one: Compared, loose: float, scale: float) -> float:
    return loose * max(abs(one.backward), abs(one.differences)) + 0.1 * loose * scale + 1e-9


def _is_non_smooth(
    rise: Callable[[tuple[int, ...], complex, complex], float],
    index: tuple[int, ...],
    h: float,
    loose: float,
) -> bool:
    """Do the slopes on both sides of the place differ, as at the edge of relu, or those over other
    distances, as at a pole?
    """
    right, left = rise(index, h, 0.0) / h, rise(index, 0.0, -h) / h
    if abs(right - left) > max(_KINK, loose) * max(abs(right), abs(left), 1e-9):
        return True
    near, far = rise(index, h, -h) / (2 * h), rise(index, 2 * h, -2 * h) / (4 * h)
    return abs(near - far) > _POLE * max(abs(near), abs(far), 1e-9)


def _places(gradient: Any, elements: int, chance: Any) -> list[int]:
    """Flat indices to compare: all, or some by chance and where the gradient is largest."""
    if gradient.size <= elements:
        return list(range(gradient.size))
    largest = int(np.nanargmax(np.abs(gradient))) if np.isfinite(gradient).any() else 0
    some = chance.choice(gradient.size, elements, replace=False)
    return list(dict.fromkeys([largest, *map(int, some)]))[:elements]
