"""A signal at every moment at which CPython can deliver one.

A run of the work is recorded, opcode by opcode, in all frames of Python that the main thread runs.
Then it runs again for each point of it, and SIGINT is raised there. The trace function that does so
is a function of C: the signal stays pending, and it is CPython's own eval loop that takes it up,
where it would take up one that came at this moment (after a call of C, where a function begins, at
a jump backwards), with the handlers of that place. So no moment is reported at which none can come.

A point is a place in the bytecode with the place that called it. Moments between two places where
the eval loop looks at signals are one point; each is interrupted the first time it is met and the
last time. What only a signal inside of a function of C can do is left to the timer.
"""

from __future__ import annotations

import ctypes
import dis
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import ag_visual as ag

from .kinds import IN_TURNS, KINDS
from .state import Before
from .timer import Interrupt, leaves_mode, quiet, restore_turned, warm_up
from .work import Work

Trace = Callable[[FrameType, str, Any], Any]


def _of_c(name: str) -> Trace:
    """A function of CPython's C API that takes nothing, as a trace function."""
    function: Any = ctypes.pythonapi[name]
    function.argtypes = [ctypes.py_object] * 3
    function.restype = None
    return function  # type: ignore[no-any-return]


_trip = _of_c("PyErr_SetInterrupt")
_nothing = _of_c("Py_IsInitialized")

_CALLS = frozenset(op for name, op in dis.opmap.items() if name.startswith("CALL"))
_LOOKS = _CALLS | {
    op
    for name, op in dis.opmap.items()
    if "JUMP_BACKWARD" in name and not name.endswith("NO_INTERRUPT")
}
_LEAVES = frozenset(
    op for name, op in dis.opmap.items() if name.startswith(("RETURN_", "YIELD_VALUE"))
)


RUNS = 2
"""Runs that are recorded: one after the other they may differ."""

RETRIES = 3
"""Runs in which a point is sought: the one after an interrupt may differ from the others."""


Code = tuple[str, int, str]
"""What a code object and those made like it in later runs have in common: where it was written."""


PATHS = (os.path.dirname(ag.__file__), str(Path(__file__).parents[1]))
"""Where this package is, the code that it builds, and the program that calls it."""


class Place(NamedTuple):
    """After an event of a frame, and before its next one."""

    code: Code
    caller: Code | None
    called_at: int
    event: str
    offset: int


def _code(frame: FrameType) -> Code:
    code = frame.f_code
    return code.co_name, code.co_firstlineno, code.co_filename


def _place(frame: FrameType, event: str) -> Place:
    back = frame.f_back
    caller, called_at = (None, 0) if back is None else (_code(back), back.f_lasti)
    return Place(_code(frame), caller, called_at, event, frame.f_lasti)


def _traced(trace: Trace, work: Callable[[], Any]) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)


class _Recorder:
    """The places of a run where a signal is worth sending, and how often each was met."""

    def __init__(self) -> None:
        self.hits: Counter[Place] = Counter()
        self.found: dict[Place, list[int]] = {}  # which hits
        self._last: tuple[Place, int] | None = None  # the place before the last opcode

    def record(self, work: Callable[[], Any]) -> None:
        self.hits.clear()
        self._last = None
        _traced(self._called, work)

    def points(self, met: set[Place] | None = None) -> Iterator[tuple[Place, int]]:
        """First and last hits, in the order in which the run came there (met: see `every`)."""
        for place, hits in self.found.items():
            if met is None:
                yield from ((place, hit) for hit in sorted({hits[0], max(hits)}))
            elif place not in met and place.code[2].startswith(PATHS):
                met.add(place)
                yield place, hits[0]

    def _mark(self, at: tuple[Place, int]) -> None:
        place, hit = at
        self.found.setdefault(place, []).append(hit)

    def _met(self, frame: FrameType, event: str) -> tuple[Place, int]:
        place = _place(frame, event)
        self.hits[place] += 1
        return place, self.hits[place]

    def _called(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return None
        if self._last is not None:
            self._mark(self._last)  # the instruction calls a function of Python
        self._last = None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        back = frame.f_back
        by_call = back is not None and back.f_code.co_code[back.f_lasti] in _CALLS
        code = frame.f_code.co_code
        before = self._met(frame, event)

        def opcode(frame: FrameType, event: str, arg: Any) -> Trace:
            nonlocal before
            if event == "opcode":
                op = code[frame.f_lasti]
                self._last = before
                if op in _LOOKS or (by_call and op in _LEAVES):
                    self._mark(before)
                    self._last = None
            before = self._met(frame, event)
            return opcode

        return opcode


class Sender:
    """Sends a signal at a place of a run."""

    def __init__(self) -> None:
        self.where: tuple[CodeType, int] | None = None  # where it was taken up
        self.told = ""
        self.lost = 0
        self._armed = False
        self._sent: FrameType | None = None  # the frame in which it is sent
        self._turn: object = None  # of which frames that outlive their run are none

    def __enter__(self) -> Sender:
        self._before = signal.signal(signal.SIGINT, self._handle)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        sys.unraisablehook = self._hook

    def _handle(self, number: int, frame: Any) -> None:
        if not self._armed:
            raise KeyboardInterrupt
        self._armed = False
        self.where, self.told = (frame.f_code, frame.f_lasti), _told(frame)
        sys.settrace(None)
        raise Interrupt

    def _unraisable(self, told: Any) -> None:
        if isinstance(told.exc_value, Interrupt):
            self.lost += 1
        else:
            self._hook(told)

    def send(self, work: Callable[[], Any], place: Place, hit: int) -> bool | None:
        """Run the work, and send it there; None if it did not come there, False if it went on."""
        self.where = None
        lost = self.lost
        ended = False
        try:
            _traced(self._tracer(place, hit), work)
        except Interrupt:
            ended = True
        except Exception as error:
            if not isinstance(error.__cause__, Interrupt):  # which NumPy tells in its own words
                raise
            ended = True
        finally:
            # A generator left suspended goes on in a later run, when the collector closes it.
            if self._sent is not None:
                self._sent.f_trace = self._sent = None
            self._armed = False
        return ended or (None if self.where is None or self.lost > lost else False)

    def _tracer(self, place: Place, hit: int) -> Trace:
        code, caller, called_at, *rest = place
        name, (wanted, offset) = code[0], rest
        left = hit
        self._turn = turn = object()

        def called(frame: FrameType, event: str, arg: Any) -> Trace | None:
            if frame.f_code.co_name != name or _code(frame) != code:
                return None
            back = frame.f_back
            if back is not None and (back.f_lasti != called_at or _code(back) != caller):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return opcode(frame, event, arg)

        def opcode(frame: FrameType, event: str, arg: Any) -> Trace:
            nonlocal left
            if frame.f_lasti != offset or event != wanted or turn is not self._turn:
                return opcode
            left -= 1
            if left:
                return opcode
            self._sent = frame
            # No trace function of Python runs from here on: it would be where the signal ends.
            self._armed = True
            sys.settrace(_nothing)
            other: FrameType | None = frame.f_back
            while other is not None:
                if other.f_trace is not None:
                    other.f_trace = _nothing
                other = other.f_back
            return _trip

        return called


def _told(frame: FrameType | None) -> str:
    """Where a signal was taken up, innermost first."""
    lines = []
    while frame is not None and len(lines) < 4:
        code = frame.f_code
        lines.append(f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return " < ".join(lines)


def places(kind: str) -> set[Place]:
    """The places of one kind of work."""
    work = KINDS[kind]()
    try:
        with quiet():
            warm_up(work)
            return set(_recorded(work).found)
    finally:
        work.close()


def _recorded(work: Work) -> _Recorder:
    recorder = _Recorder()
    for _ in range(RUNS):
        recorder.record(work.run)
        work.after()
    return recorder


class Figures(NamedTuple):
    """Of one kind: what was left behind, each with where signals were taken up that left it."""

    found: dict[str, Counter[str]]
    points: int
    places: int  # where signals were taken up
    missed: int  # points that no later run came to
    lost: int  # signals that ended a finalizer only


def every(kind: str, *, enough: int = 0, met: set[Place] | None = None) -> Figures:
    """Interrupt one kind of work at every point.

    enough: end when so much was found. met: leave out these places, to which those of this kind are
    added, those outside of this package (see PATHS), and all times but the first.
    """
    before, found = Before(), dict[str, Counter[str]]()
    before.restore()  # other tests may have left a session that counts
    assert not (left := before.left()), f"{left} before the first interrupt"
    work = KINDS[kind]()
    points, places, missed = 0, set[tuple[CodeType, int]](), 0
    try:
        with Sender() as sender, quiet():
            warm_up(work)
            for place, hit in _recorded(work).points(met):
                for _ in range(RETRIES):
                    ended = sender.send(work.run, place, hit)
                    told = [] if ended is not False else ["an interrupt was swallowed"]
                    told += before.left()
                    before.restore()
                    told += work.wrong()
                    before.restore()
                    work.after()
                    if sender.where is not None:
                        break
                else:
                    missed += 1
                    continue
                points += 1
                places.add(sender.where)
                for text in told:
                    found.setdefault(text, Counter())[sender.told] += 1
                if enough and len(found) >= enough:
                    break
    finally:
        work.close()
    return Figures(found, points, len(places), missed, sender.lost)


def turned(kind: str, lib: Any) -> tuple[Counter[str], int]:
    """Where a signal must be taken up to leave the mode on that `with` entered; of how many."""
    before, found = Before(), Counter[str]()
    before.restore()
    work = IN_TURNS[kind](lib)
    points = 0
    with Sender() as sender, quiet():
        warm_up(work)
        for place, hit in _recorded(work).points():
            sender.send(work.run, place, hit)
            if sender.where is not None:
                points += 1
                if leaves_mode(lib):
                    found[sender.told] += 1
            restore_turned(before)
    return found, points
