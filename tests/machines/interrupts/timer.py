"""Signals of a real timer at random moments, thousands of times."""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import ag_visual as ag

from .kinds import IN_TURNS, KINDS
from .state import Before
from .work import Work

SHORTEST = 50e-6
"""Seconds until the signal, at most, of work that takes no longer; else two runs of it."""


class Interrupt(KeyboardInterrupt):
    """What the timer's signal raises."""


class Timer:
    """Ends a loop somewhere, by a real signal."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.armed = False
        self.lost = 0  # raised where nobody can catch it: in a finalizer, say

    def __enter__(self) -> Timer:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        sys.unraisablehook = self._hook

    def _ring(self, number: int, frame: Any) -> None:
        if self.armed:
            self.armed = False
            raise Interrupt

    def _unraisable(self, told: Any) -> None:
        if isinstance(told.exc_value, Interrupt):
            self.lost += 1
            self.armed = True  # the loop runs on: the timer rings again
        else:
            self._hook(told)

    def interrupt(self, work: Callable[[], Any], longest: float) -> bool:
        """Run the work again and again until a signal ends it. False if it swallowed that."""
        delay = self.chance.uniform(1e-6, longest)
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
            while self.armed:
                work()
        except Interrupt:
            return True
        except Exception as error:
            if not isinstance(error.__cause__, Interrupt):  # which NumPy tells in its own words
                raise
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.armed = False
        return False


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings of what is left open: an interrupt is allowed to leave it to the collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def warm_up(work: Work) -> float:
    """How long the signal may take to come.

    Each first call compiles its op: a signal that always ended that would meet nothing else.
    """
    times = []
    with quiet():
        for _ in range(3):
            began = time.perf_counter()
            work.run()
            times.append(time.perf_counter() - began)
            work.after()
    return max(SHORTEST, 2 * min(times))


def run(kind: str, count: int, seed: int, *, enough: int = 0) -> Counter[str]:
    """What so many interrupts of one kind of work have left behind, and how often.

    enough: end when so much was found.
    """
    before, found = Before(), Counter[str]()
    before.restore()  # other tests may have left a session that counts
    assert not (left := before.left()), f"{left} before the first interrupt"
    work = KINDS[kind]()
    try:
        longest = warm_up(work)
        with Timer(seed) as timer, quiet():
            for _ in range(count):
                if not timer.interrupt(work.run, longest):
                    found["an interrupt was swallowed"] += 1
                found.update(before.left())
                before.restore()
                found.update(work.wrong())
                before.restore()
                work.after()
                if enough and found.total() >= enough:
                    break
    finally:
        work.close()
    return found


def compare(kind: str, count: int, seed: int, torch: Any) -> tuple[int, int]:
    """In how many of so many interrupts the mode was left, here and in torch, in turns."""
    before, left = Before(), [0, 0]
    before.restore()
    works = [IN_TURNS[kind](lib) for lib in (ag, torch)]
    longest = [warm_up(work) for work in works]
    with Timer(seed) as timer, quiet():
        for _ in range(count):
            for i, work in enumerate(works):
                timer.interrupt(work.run, longest[i])
                left[i] += leaves_mode(work.lib)
            restore_turned(before)
    return left[0], left[1]


_held: list[Any] = []


def leaves_mode(lib: Any) -> bool:
    """Whether a mode was left on; it is off then."""
    inference, grad = lib.is_inference_mode_enabled(), lib.is_grad_enabled()
    if inference:
        _held.append(lib.inference_mode(False))  # dropped, it would turn it on again
        _held[-1].__enter__()
    lib.set_grad_enabled(True)
    return bool(inference or not grad)


def restore_turned(before: Before) -> None:
    """As before `leaves_mode` found something; nothing else was left."""
    wrong = set(before.left()) - {"saved-tensor hooks are on"}  # ops go slowly, that is
    assert not wrong, wrong
    before.restore()
