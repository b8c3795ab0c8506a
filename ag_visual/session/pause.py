"""Pausing a backward before a node: step, continue, run to, run past, and the gradient meanwhile.

`Gate` is what is asked before each node while something is armed. The paused thread serves requests
in its wait loop, with short waits, so that Interrupt always gets through; a pause nobody can end
ends by itself. A backward that comes to a stop in another thread meanwhile waits for its turn
there, and is counted.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from ag_visual.core.bell import Bell
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import LiveBackward, LiveNode
from ag_visual.events.log import PAUSE
from ag_visual.session.breakpoints import Breakpoint, line_of, problem_of
from ag_visual.session.gradient_edits import edited

PATIENCE: Final = 30.0
"""Seconds without a sign of any page after which a pause ends by itself."""

WAIT: Final = 0.1
_STEP_TURN: Final = 1.0
"""Seconds that a stop waits for the step of another thread, which may itself wait for this one."""

_UNHEARD: Final = 2.0
"""Seconds of a pause without a sign of any page after which a message says what to do."""


Passes = Callable[[LiveNode, Sequence[Any]], bool]
"""Whether a stepping backward runs on past a node."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Where a backward stands: before `seq`, of which `grads` are about to arrive."""

    task: int
    seq: int
    order: int
    total: int
    thread: int
    since: int  # perf_counter_ns
    node: LiveNode
    grads: tuple[Any, ...]
    problem: str = ""
    edited: bool = False
    breakpoint: int = 0  # the id of the one that it stopped at


class Gate:
    """Decides where to stop, and holds the thread that stopped. One pause at a time."""

    def __init__(
        self,
        *,
        changed: Callable[[], None],
        serve: Callable[[], None],
        silent_for: Callable[[], float],
        say: Callable[[str], None],
        ignored: AbstractSet[int] = frozenset(),
    ) -> None:
        """changed: state is to be told; serve: answer waiting requests in this thread;
        silent_for: seconds since any page was heard; say: put a sentence into the state; ignored:
        threads that work for the observer and stop nowhere, as it changes.
        """
        self.patience = PATIENCE
        self.paused: Paused | None = None
        self.breakpoints: list[Breakpoint] = []
        self.pause_next = False
        self.requests_wait = False
        self.waiting = 0  # backwards of other threads that wait to stop
        self.prompt: Callable[[], None] | None = None  # asks in the paused thread what to do
        self.watch: Callable[[LiveNode, Sequence[Any]], None] | None = None  # told of each node's
        self._changed = changed
        self._serve = serve
        self._silent_for = silent_for
        self._say = say
        self._ignored = ignored
        self._ids = itertools.count(1)
        self._step: int | None = None  # the thread whose next node is to be stopped at
        self._passes: Passes | None = None  # which nodes that step runs past
        self._unmet = ""  # what is said when it ends without a stop
        self._target: int | None = None  # the node to run to
        self._runner: int | None = None  # the thread that was paused when it was asked for
        self._under_way: set[int] = set()  # backwards that the gate saw since it was armed
        self._wake = Bell()
        self._go = False
        self._interrupted = False
        self._interrupts = 0
        self._turn: int | None = None  # the thread that is paused, or about to be

    # Commands, from any thread -----------------------------------------------------------------

    def ask_pause(self) -> None:
        """Stop before the next node that runs, in whichever thread."""
        self.pause_next = True
        self.arm()

    def step(self, passes: Passes | None = None, unmet: str = "") -> None:
        """Run the node that waits and stop before the next one of the same backward.

        passes(node, grads): run past this one; unmet: what is said if that is so to the end.
        """
        paused = self.paused  # it may go on meanwhile
        if paused is None:
            raise RuntimeError("step: no backward is paused; ask for a pause first")
        self._step = paused.thread
        self._passes, self._unmet = passes, unmet
        self._resume()

    def step_past(self, first: int, last: int) -> None:
        """Run on to the first node whose number is not in this range: out of a group."""

        def passes(node: LiveNode, grads: Sequence[Any]) -> bool:
            # A parameter's accumulation belongs to the group that used it.
            return first <= node.seq <= last or node.leaf

        self.step(passes)

    def step_line(self) -> None:
        """Run on to the first node that another line made."""
        paused = self.paused
        line = None if paused is None else line_of(paused.node)

        def passes(node: LiveNode, grads: Sequence[Any]) -> bool:
            return node.leaf or line_of(node) == line

        self.step(passes)

    def step_to_problem(self) -> None:
        """Run on to a node that gets NaN or infinity, or whose saved tensor was overwritten."""
        self.step(
            lambda node, grads: not problem_of(node, grads),
            "The rest of the backward ran without a problem.",
        )

    def edit(self, how: str, value: float | None = None, **where: int | None) -> None:
        """Change the gradient that waits (see gradient_edits.edited); in the paused thread."""
        paused = self.paused
        if paused is None:
            raise RuntimeError("edit: no backward is paused; ask for a pause first")
        grads = edited(paused.grads, how, value, **where)
        self.paused = replace(paused, grads=tuple(grads), edited=True)
        self._changed()

    def go_on(self) -> None:
        """Run to the next breakpoint or to the end."""
        self.pause_next = False
        self._target = None
        self._step = self._passes = None
        if self.paused is not None:
            self._resume()

    def run_to(self, seq: int) -> None:
        """Run on to the node with this number (now, or in the next backward)."""
        self._target = int(seq)
        paused = self.paused
        self._runner = None if paused is None else paused.thread
        self._step = self._passes = None
        self.arm()
        if self.paused is not None:
            self._resume()

    def add(self, **criteria: Any) -> Breakpoint:
        """Set a breakpoint (see Breakpoint's fields); the same one again is the same."""
        found = Breakpoint(0, **criteria)
        for old in self.breakpoints:
            if old.same(found):
                return old
        found = replace(found, id=next(self._ids))
        self.breakpoints = [*self.breakpoints, found]
        self.arm()
        return found

    def remove(self, *, id: int | None = None, **criteria: Any) -> None:
        """Remove a breakpoint by its number or by what it says; an unknown one is ignored."""
        like = Breakpoint(0, **criteria)
        self.breakpoints = [
            b for b in self.breakpoints if not (b.same(like) if id is None else b.id == id)
        ]
        self.arm()

    @property
    def interrupted(self) -> bool:
        """Is the paused backward about to end with KeyboardInterrupt?"""
        return self.paused is not None and self._interrupted

    def interrupt(self) -> None:
        """End each pause with KeyboardInterrupt, in the thread that is paused or waits to be."""
        self.pause_next = False
        self._interrupts += 1
        if self.paused is not None:
            self._interrupted = True
            self._wake.set()

    def poke(self) -> None:
        """Requests wait: the paused thread, or the backward that runs, should serve them."""
        self.requests_wait = True
        self.arm()
        self._wake.set()

    def _resume(self) -> None:
        self._go = True
        self._wake.set()

    # The gate ----------------------------------------------------------------------------------

    @property
    def armed(self) -> bool:
        return bool(
            self.pause_next
            or self.breakpoints
            or self._step is not None
            or self._target is not None
            or self.paused is not None
            or self.requests_wait
            or self.watch is not None
        )

    def arm(self) -> None:
        """Install the gate when there is a reason, take it out when there is none.

        Several threads may be here at once, each with what it saw: who has stored looks again, so
        that the last to store is right.
        """
        armed = None
        while armed is not self.armed:
            armed = self.armed
            if armed:
                instrument.gate = self
                continue
            self._under_way.clear()
            if instrument.gate is self:
                instrument.gate = None

    def ended(self, task: LiveBackward) -> None:
        """A backward ended: a step or run-to that found no node ends with it."""
        self._under_way.discard(task.id)
        if task.parent is None and self.paused is None:
            if self._target is not None and self._was_last_for_target(task):
                self._target = None
            if self._step == task.thread:
                if self._passes is not None and self._unmet:
                    self._say(self._unmet)
                self._step = self._passes = None
                self._changed()
            self.arm()

    def _was_last_for_target(self, task: LiveBackward) -> bool:
        """Can no other backward that is under way come to the node to run to?"""
        if self._runner is not None:
            return bool(self._runner == task.thread)
        return not self._under_way or any(node.seq == self._target for node in task.counts)

    def __call__(self, task: LiveBackward, node: LiveNode, grads: list[Any]) -> list[Any]:
        """Asked by the engine before each node: may wait here; raises KeyboardInterrupt."""
        if threading.get_ident() in self._ignored:
            return grads  # the paused thread may wait for this one
        self._under_way.add(task.id)
        if self.requests_wait:
            self.requests_wait = False
            self._serve()
        watch = self.watch
        if watch is not None:
            watch(node, grads)
        while self._stops_at(node, grads):
            if self._may_stop(task) and self._turn is None:
                passed = self._pause(task, node, grads)
                if passed is not None:
                    if watch is not None and passed is not grads:
                        watch(node, passed)
                    return passed
            self._wait_turn(task)
        if not self.armed:
            self.arm()
        return grads

    def _stops_at(self, node: LiveNode, grads: list[Any]) -> bool:
        here, paused = threading.get_ident(), self.paused
        if paused is not None and paused.thread == here:
            return False  # a backward that the paused thread runs on its own account
        if self.pause_next or self._target == node.seq:
            return True
        if self._step == here and not (self._passes is not None and self._passes(node, grads)):
            return True
        return any(b.stops(node, grads) for b in self.breakpoints)

    def _may_stop(self, task: LiveBackward) -> bool:
        """No other thread is paused, or about to be where its step ends."""
        if self.paused is not None:
            return False
        # A backward inside of another one must not wait for what waits for it.
        return self._step in (None, threading.get_ident()) or task.parent is not None

    def _wait_turn(self, task: LiveBackward) -> None:
        """Wait until the backward of another thread has gone on; raises KeyboardInterrupt."""
        interrupts = self._interrupts
        stepping_since = None
        since = perf_counter_ns()
        try:
            self.waiting += 1
            self._changed()
            while interrupts == self._interrupts:
                if self._may_stop(task):
                    return
                now = time.monotonic()
                if self.paused is not None:
                    stepping_since = None
                elif stepping_since is None:
                    stepping_since = now
                elif now - stepping_since > _STEP_TURN:
                    self._step = self._passes = None
                time.sleep(WAIT / 10)
            raise KeyboardInterrupt("the backward that waited to stop was interrupted")
        finally:
            self.waiting -= 1
            _emit_pause(task.id, since)
            self._changed()

    def _pause(self, task: LiveBackward, node: LiveNode, grads: list[Any]) -> list[Any] | None:
        """Stop here and return what is passed on; None where another thread has the turn."""
        here, since = threading.get_ident(), perf_counter_ns()
        # Seen to be free, taken and guarded without a call: no thread and no signal comes between.
        if self._turn is not None:
            return None
        self._turn = here
        try:
            self._go = self._interrupted = self.pause_next = False
            self._step = self._target = self._passes = None
            self._wake.clear()
            self.paused = Paused(
                task=task.id,
                seq=node.seq,
                order=task.order,
                total=task.total,
                thread=here,
                since=since,
                node=node,
                grads=tuple(grads),
                problem=problem_of(node, grads),
                breakpoint=next((b.id for b in self.breakpoints if b.stops(node, grads)), 0),
            )
            self._changed()
            self._wait(node)
            return list(self.paused.grads) if self.paused.edited else grads
        finally:
            self.paused = self._turn = None
            _emit_pause(task.id, since)
            self.arm()
            if self._step is None:  # else the next pause is told in a moment, without a flicker
                self._changed()

    def _wait(self, node: LiveNode) -> None:
        began = time.monotonic()
        announced = False
        while not self._go:
            if self.prompt is not None:
                self.prompt()
                continue
            if self._interrupted:
                raise KeyboardInterrupt("the paused backward was interrupted")
            if self.requests_wait:
                self.requests_wait = False
                self._serve()
                continue
            waited = time.monotonic() - began
            # A page that is there acknowledges the pause at once, however long it was silent.
            heard = self._silent_for() < waited
            if not announced and not heard and waited > min(_UNHEARD, self.patience / 2):
                announced = True
                self._say(
                    f"Paused before {node.name()}{_in_thread()}: open the Inspector to step on. "
                    f"Without one the backward goes on by itself after {self.patience:g} s."
                )
                self._changed()
            elif announced and heard:
                announced = False
                self._say("")
                self._changed()
            if min(self._silent_for(), waited) > self.patience:
                self.breakpoints_off()
                self._say(
                    f"No Inspector was heard for {self.patience:g} s: the paused backward went "
                    "on by itself, without its breakpoints."
                )
                return
            self._wake.wait(WAIT)

    def breakpoints_off(self) -> None:
        """Forget every reason to stop."""
        self.breakpoints = []
        self.pause_next = False
        self._step = self._target = self._passes = None

    def shutdown(self) -> None:
        """The kernel ends: let the paused thread go, and stop nowhere any more."""
        self.breakpoints_off()
        self._resume()


def _emit_pause(task: int, since: int) -> None:
    """Tell who records or profiles that this thread stood still from `since` until now."""
    now, thread = perf_counter_ns(), threading.get_ident()
    sink, spans = instrument.sink, instrument.spans
    if sink is not None:
        sink.emit((PAUSE, now, thread, task, since))
    if spans is not None:
        spans.pauses.append((since, now, thread))


def _in_thread() -> str:
    """The name of this thread, where it is not the main one."""
    here = threading.current_thread()
    return "" if here is threading.main_thread() else f" in {here.name}"
