"""The last backward that nobody watched, told when its cell has ended: a reader sees what ran last.

What it told while it ran is lost: of its nodes the order is known, by the engine's rule, and
neither when they ran nor what arrived at them.
"""

from __future__ import annotations

import heapq
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final

from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import LiveBackward, LiveNode
from ag_visual.events.log import BEGIN, END, MISSED, EventLog, run_record

UNKNOWN: Final = -2.0
"""In place of the square of a norm that nobody measured."""


class LastUnwatched:
    """Follows backwards that are not watched: each takes the place of the one before.

    One that frees its graph leaves nodes without saved tensors, which may be held; of one that
    retains it the user holds what is to be used again, or it is gone.
    """

    __slots__ = ("_begun", "_ended", "_hold", "_needed", "_roots", "_task", "_times")

    def __init__(self) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Forget it."""
        self._task = 0  # its number; 0: there is none
        self._times = 0, 0
        self._ended = self._hold = False
        self._begun: tuple[Any, ...] = ()
        self._roots: Sequence[Any] = ()
        self._needed: Collection[LiveNode] | None = None

    def began(self, task: LiveBackward, now: int, *, hold: bool) -> None:
        """It begins. hold: its graph may live on until the next one begins or its cell ends."""
        self._task = task.id
        self._times = now, now
        self._ended = False
        self._hold = hold and not task.retain
        code, lasti = task.call_site or (None, 0)
        self._begun = task.thread, task.id, code, lasti, (), task.total, task.retain
        roots = [edge[0] for edge in task.root_edges]
        self._roots = roots if self._hold else list(map(weakref.ref, roots))

    def ended(self, task: LiveBackward) -> None:
        """A backward ended, perhaps the one that is followed."""
        if task.id != self._task:
            return
        needed = task.needed
        if task.error or (needed is not None and not (needed and self._hold)):
            self.let_go()
            return
        self._ended = True
        self._times = self._times[0], perf_counter_ns()
        self._needed = needed

    def roots(self) -> list[LiveNode]:
        """What it began with, once it has ended; nothing where it is gone."""
        if not self._ended:
            return []
        nodes = self._roots if self._hold else [ref() for ref in self._roots]
        return [] if None in nodes else list(nodes)

    def emit(self, log: EventLog, missed: int) -> None:
        """Tell it as far as it is known. missed: how many before it were not recorded."""
        roots = self.roots()
        nodes = [node for node in _in_order(roots) if self._needed is None or node in self._needed]
        thread, task, code, lasti, _, _, retain = self._begun
        began, ended = self._times
        if missed:
            log.emit((MISSED, began, thread, task, missed))
        starts = tuple([node.seq for node in roots])
        log.emit((BEGIN, began, thread, task, code, lasti, starts, len(nodes), retain))
        for order, node in enumerate(nodes):
            log.run((run_record(node.seq, task, order, ended, ended, 0), UNKNOWN, None))
        log.emit((END, ended, thread, task, ""))


def _in_order(roots: Sequence[LiveNode]) -> list[LiveNode]:
    """All nodes in the order in which an engine runs them: leaves as soon as they are ready, else
    the one that was made last.
    """
    waiting = dict.fromkeys(roots, 0)
    pending = list(waiting)
    for node in pending:
        for below, _ in node.next_functions:
            if below is None:
                continue
            if below not in waiting:
                waiting[below] = 0
                pending.append(below)
            waiting[below] += 1
    ready: list[tuple[int, LiveNode]] = []
    leaves: deque[LiveNode] = deque()
    order: list[LiveNode] = []

    def now_ready(node: LiveNode) -> None:
        if node.leaf:
            leaves.append(node)
        else:
            heapq.heappush(ready, (-node.seq, node))

    for node in dict.fromkeys(roots):
        if not waiting[node]:
            now_ready(node)
    while leaves or ready:
        node = leaves.popleft() if leaves else heapq.heappop(ready)[-1]
        order.append(node)
        for below, _ in node.next_functions:
            if below is not None:
                waiting[below] -= 1
                if not waiting[below]:
                    now_ready(below)
    return order
