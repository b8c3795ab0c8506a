"""Pausing a backward before a node: step, continue, run to, breakpoints.

`Gate` is what the seam asks before each node while something is armed, and None otherwise. The
paused thread serves requests in its wait loop, with short waits, so that Interrupt always gets
through; a pause nobody can end ends by itself.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ag_visual.core import seam
from ag_visual.core.node import Node

PATIENCE: Final = 30.0
"""Seconds without a sign of any page after which a pause ends by itself."""

WAIT: Final = 0.1
_UNHEARD: Final = 2.0
"""Seconds of a pause without a sign of any page after which the reader is told what to do."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Stop before the node with this number, or before each node of this class name."""

    id: int
    seq: int | None = None
    name: str | None = None

    def json(self) -> dict[str, Any]:
        if self.seq is not None:
            return {"id": self.id, "kind": "node", "seq": self.seq}
        return {"id": self.id, "kind": "name", "name": self.name}


@dataclass(frozen=True, slots=True)
class Paused:
    """Where a backward stands: before `seq`, of which `grads` are about to arrive."""

    task: int
    seq: int
    order: int
    total: int
    thread: int
    since: int  # perf_counter_ns
    node: Node
    grads: tuple[Any, ...]


class Gate:
    """Decides where to stop, and holds the thread that stopped. One pause at a time."""

    def __init__(
        self,
        *,
        changed: Callable[[], None],
        serve: Callable[[], None],
        silent_for: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        """changed: state is to be told; serve: answer waiting requests in this thread;
        silent_for: seconds since any page was heard; say: put a sentence into the state.
        """
        self.patience = PATIENCE
        self.paused: Paused | None = None
        self.breakpoints: list[Breakpoint] = []
        self.pause_next = False
        self.requests_wait = False
        self._changed = changed
        self._serve = serve
        self._silent_for = silent_for
        self._say = say
        self._ids = itertools.count(1)
        self._step: int | None = None  # the thread whose next node is to be stopped at
        self._target: int | None = None  # the node to run to
        self._runner: int | None = None  # the thread that was paused when it was asked for
        self._under_way: set[int] = set()  # backwards that the gate saw since it was armed
        self._wake = threading.Event()
        self._go = False
        self._interrupted = False
        self._turn = threading.Lock()

    # Commands, from any thread -----------------------------------------------------------------

    def ask_pause(self) -> None:
        """Stop before the next node that runs, in whichever thread."""
        self.pause_next = True
        self.arm()

    def step(self) -> None:
        """Run the node that waits and stop before the next one of the same backward."""
        if self.paused is None:
            raise RuntimeError("step: no backward is paused; ask for a pause first")
        self._step = self.paused.thread
        self._resume()

    def go_on(self) -> None:
        """Run to the next breakpoint or to the end."""
        self.pause_next = False
        self._target = None
        self._step = None
        if self.paused is not None:
            self._resume()

    def run_to(self, seq: int) -> None:
        """Run on to the node with this number (now, or in the next backward)."""
        self._target = int(seq)
        self._runner = None if self.paused is None else self.paused.thread
        self._step = None
        self.arm()
        if self.paused is not None:
            self._resume()

    def add(self, *, seq: int | None = None, name: str | None = None) -> Breakpoint:
        """Set a breakpoint; the same one again is the same."""
        for old in self.breakpoints:
            if (old.seq, old.name) == (seq, name):
                return old
        found = Breakpoint(next(self._ids), seq, name)
        self.breakpoints = [*self.breakpoints, found]
        self.arm()
        return found

    def remove(self, *, seq: int | None = None, name: str | None = None) -> None:
        """Remove a breakpoint; one that is not there is let be."""
        self.breakpoints = [b for b in self.breakpoints if (b.seq, b.name) != (seq, name)]
        self.arm()

    def interrupt(self) -> None:
        """End a pause with KeyboardInterrupt in the thread that is paused."""
        self.pause_next = False
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

    # The seam ----------------------------------------------------------------------------------

    @property
    def armed(self) -> bool:
        return bool(
            self.pause_next
            or self.breakpoints
            or self._step is not None
            or self._target is not None
            or self.paused is not None
            or self.requests_wait
        )

    def arm(self) -> None:
        """Put the gate into the seam when there is a reason, take it out when there is none."""
        if self.armed:
            seam.gate = self
            return
        self._under_way.clear()
        if seam.gate is self:
            seam.gate = None

    def ended(self, task: Any) -> None:
        """A backward ended: a step or run-to that found no node ends with it."""
        self._under_way.discard(task.id)
        if task.parent is None and self.paused is None:
            if self._target is not None and self._was_last_for_target(task):
                self._target = None
            if self._step == task.thread:
                self._step = None
                self._changed()
            self.arm()

    def _was_last_for_target(self, task: Any) -> bool:
        """Can no other backward that is under way come to the node to run to?"""
        if self._runner is not None:
            return bool(self._runner == task.thread)
        return not self._under_way or any(node.seq == self._target for node in task.counts)

    def __call__(self, task: Any, node: Node, grads: list[Any]) -> list[Any]:
        """Asked by the engine before each node: may wait here; raises KeyboardInterrupt."""
        self._under_way.add(task.id)
        if self.requests_wait:
            self.requests_wait = False
            self._serve()
        if self._stops_at(node):
            self._pause(task, node, grads)
        elif not self.armed:
            self.arm()
        return grads

    def _stops_at(self, node: Node) -> bool:
        if self.paused is not None:
            return False  # another thread owns the pause; this backward goes on
        if self.pause_next or self._target == node.seq or self._step == threading.get_ident():
            return True
        name = node.name()
        names = (name, name.rpartition("::")[2])
        return any(
            b.seq == node.seq if b.seq is not None else b.name in names for b in self.breakpoints
        )

    def _pause(self, task: Any, node: Node, grads: list[Any]) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._go = self._interrupted = self.pause_next = False
            self._step = self._target = None
            self._wake.clear()
            self.paused = Paused(
                task=task.id,
                seq=node.seq,
                order=task.order,
                total=task.total,
                thread=threading.get_ident(),
                since=time.perf_counter_ns(),
                node=node,
                grads=tuple(grads),
            )
            self._changed()
            self._wait(node)
        finally:
            self.paused = None
            self._turn.release()
            self.arm()
            if self._step is None:  # else the next pause is told in a moment, without a flicker
                self._changed()

    def _wait(self, node: Node) -> None:
        began = time.monotonic()
        told = False
        while not self._go:
            if self.requests_wait:
                self.requests_wait = False
                self._serve()
            if self._interrupted:
                raise KeyboardInterrupt("the paused backward was interrupted")
            waited = time.monotonic() - began
            # A page that is there acknowledges the pause at once, however long it was silent.
            heard = self._silent_for() < waited
            if not told and not heard and waited > min(_UNHEARD, self.patience / 2):
                told = True
                self._say(
                    f"Paused before {node.name()}: open the Inspector to step on. Without one the "
                    f"backward goes on by itself after {self.patience:g} s."
                )
                self._changed()
            elif told and heard:
                told = False
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
            self._wake.clear()

    def breakpoints_off(self) -> None:
        """Forget every reason to stop."""
        self.breakpoints = []
        self.pause_next = False
        self._step = self._target = None

    def shutdown(self) -> None:
        """The kernel ends: let the paused thread go, and stop nowhere any more."""
        self.breakpoints_off()
        self._resume()
