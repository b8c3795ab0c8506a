"""What is being watched in this process: recorder, gate, pages, problems, waiting requests.

One session per process, made when first needed. A daemon thread encodes and sends every 40 ms
while there is something to do, at once when a backward has ended or stopped, and sleeps otherwise.
Nothing here imports Jupyter.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import sys
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ag_visual import files
from ag_visual.core.bell import Bell
from ag_visual.core.source import call_site_of
from ag_visual.events import instrument, threads
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.jacobians import Jacobian
from ag_visual.events.live import LiveBackward, LiveNode
from ag_visual.observe.export.bundle import bundle_text
from ag_visual.observe.export.export import Recording, take, to_html
from ag_visual.observe.formulas.local import runs
from ag_visual.observe.record.jacobians import Jacobians
from ag_visual.observe.record.leaf_names import Scope, scopes_of
from ag_visual.observe.record.lesson import Lesson
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.record.scalars import MOST_NODES, ScalarLog
from ag_visual.observe.wire.text import fit
from ag_visual.session.found_problems import FoundProblems
from ag_visual.session.pause import Gate
from ag_visual.session.runs import Runs
from ag_visual.session.transport import Page, Send

if TYPE_CHECKING:
    from ag_visual.profiler.live import Live

FLUSH_SECONDS: Final = 0.04
ENDS_SECONDS: Final = 0.1
"""Ends of backwards that follow each other faster than this wait for the next regular flush."""

MOST_PAGES: Final = 64
UNSEEN_EVENTS: Final = 50_000
"""Events that wait for encoding while no page looks (about 20 MB); the program runs undisturbed."""

STALE_SECONDS: Final = 0.25
"""How long a request waits for the thread that owns the graph before it is answered without it."""

PATIENT_SECONDS: Final = 2.0
"""The same while a backward runs, which serves requests before its next node, and between cells,
when the kernel's loop comes to them: on a machine that is busy with something else, later."""


@dataclass(slots=True)
class Request:
    """A question that the thread which owns the graph should answer."""

    answer: Callable[[bool], None]  # answer(busy): reply; busy: the owner did not come to it
    since: float = field(default_factory=time.monotonic)


class Follower(Protocol):
    """Wants to hear of each backward that is recorded or may stop."""

    def began(self, task: LiveBackward) -> None: ...


class Followers(weakref.WeakSet[Follower]):
    """Followers, weakly. Whether `data` is empty can be asked without a call."""

    data: set[Any]


def package_version() -> str:
    """The version of the package's top, which stands above this layer."""
    return str(getattr(sys.modules[__name__.partition(".")[0]], "__version__", ""))


class Session:
    """Everything that upper layers and pages talk to."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.recorder = Recorder()
        self.gate = Gate(
            changed=self.hurry,
            serve=self.serve,
            silent_for=self.silent_for,
            say=self.say,
            ignored=self.recorder.ignored,
        )
        self.pages: dict[str, Page] = {}
        self.found = FoundProblems()
        self.runs = Runs()
        self.name = ""  # of what is recorded, as its author gave it
        self.control = False  # commands reach this process while it computes
        self.message = ""
        self.numbers = ScalarLog()
        self.jacobians = Jacobians()
        self.lesson: Lesson | None = None
        self.profile: Live | None = None  # the newest one, while it runs or was followed
        self.namespace: Callable[[], Mapping[str, Any]] = dict  # variables of a notebook
        self.when_idle: Callable[[Callable[[], None]], None] | None = None
        self.at_rest = False  # no cell runs: what `when_idle` was given is called in a moment
        self.announce: Callable[[str], None] = lambda text: None
        self.followers = Followers()
        self._requests: deque[Request] = deque()
        self._lock = threading.RLock()
        self._wake = Bell()
        self._hurry = Bell()
        self._end_sent = -ENDS_SECONDS  # when the end of a backward was last sent at once
        self._thread: threading.Thread | None = None
        self._closed = False
        self._running: set[int] = set()  # the ids of backwards that run now, in all threads
        self.recorder.on_scope_end = self.changed

    # Recording ---------------------------------------------------------------------------------

    def start(self, scope: Any = "block", every: int = 1) -> None:
        """Record from now on (see Recorder.start)."""
        self.recorder.start(scope, every)
        self.watch()
        self.changed()

    def stop(self) -> None:
        """Stop recording, and send everybody all that was recorded."""
        self.recorder.stop()
        self.watch()
        self.flush()

    def watch_newest(self, wanted: bool) -> None:
        """Whether backwards are recorded as they come (see Recorder.watch_newest)."""
        self.recorder.watch_newest(wanted)
        self.watch()
        self.changed()

    def clear(self) -> None:
        """Forget what was recorded and every problem."""
        with self._lock:
            self.recorder.clear()
            self.found.clear()
            self.numbers.clear()
            self.jacobians = Jacobians()
            self.message = self.name = ""
            if self.profile is not None and self.profile.end is not None:
                self.profile = None
        self.changed()

    def watch(self) -> None:
        """Hear of backwards and problems as long as somebody may look."""
        instrument.problem = self._add_problem
        instrument.begin, instrument.end = self._begin, self._end
        instrument.losing_tangents = self._losing_tangents
        instrument.jacobian = self._jacobian
        instrument.profiled = self._profiled

    def _losing_tangents(self, since: int) -> None:
        try:
            self.recorder.losing_tangents(since)
        except Exception as error:
            self._failed(error)

    def _jacobian(self, jacobian: Jacobian) -> None:
        if not self.recorder.on or threading.get_ident() in self.recorder.ignored:
            return
        try:
            if self.jacobians.keep(jacobian, call_site_of(sys._getframe(1))):
                self.changed()
        except Exception as error:
            self._failed(error)

    def _profiled(self, live: Live) -> None:
        """A profile began, or has ended: then its last rows stay for who follows it."""
        if threading.get_ident() in self.recorder.ignored:
            return
        if live.end is None:
            self.profile = live
        elif self.profile is live and not live.asked:
            self.profile = None
        if self.pages:
            self.changed()

    def _begin(self, task: LiveBackward) -> None:
        ignored = self.recorder.ignored
        if ignored and threading.get_ident() in ignored:
            return
        if task.parent is None:
            self._running.add(task.id)
        try:
            self.recorder.began(task, sys._getframe(1))
            if self.recorder.unwatched:
                self._report_too_large()
            if self.followers.data and (self.recorder.on or self.gate.armed):
                self._notify_followers(task)
            if self._keeps_numbers(task):
                found = [*scopes_of(sys._getframe(1)), self.namespace()]
                if self.numbers.began(task, found):
                    self.gate.watch = self._arrived
                    self.gate.arm()
        except Exception as error:
            self._failed(error)

    def _keeps_numbers(self, task: LiveBackward) -> bool:
        """Whether the numbers of a backward are to be kept, if its graph is small enough."""
        if (self.numbers.wanted and self.numbers.on) or self.gate.pause_next:
            return True
        if not self.pages or not self.recorder.listening or task.parent is not None:
            return False
        small = len(task.counts) <= MOST_NODES and all(map(runs, task.counts))
        return small and self.numbers.may_watch()

    def _notify_followers(self, task: LiveBackward) -> None:
        for follower in list(self.followers):
            try:
                follower.began(task)
            except Exception as error:  # its comm is closed, or may not be used in this thread
                self.followers.discard(follower)
                logging.getLogger("ag_visual").error("an output goes live no more", exc_info=error)

    def _arrived(self, node: LiveNode, grads: Any) -> None:
        try:
            self.numbers.arrived(node, grads)
        except Exception as error:
            self._failed(error)

    def _end(self, task: LiveBackward) -> None:
        self._running.discard(task.id)
        ignored = self.recorder.ignored
        if ignored and threading.get_ident() in ignored:
            return
        try:
            self.recorder.ended(task)
            if self.numbers.ended(task):  # perhaps told twice: an interrupt came in between
                self.gate.watch = None
            if instrument.gate is not None:
                self.gate.ended(task)
            if task.parent is None and self.pages and self.recorder.waiting:
                self._ended_now()
                if not self.recorder.on:  # no regular flush follows
                    self.changed()
        except Exception as error:
            self._failed(error)

    def _report_too_large(self) -> None:
        """The newest backward was not watched: the reader of an empty panel is told why."""
        nodes, self.recorder.unwatched = self.recorder.unwatched, 0
        text = f"A backward pass of {nodes:,} nodes is watched only when asked for: press Record."
        if self.message != text:
            self.message = text
            self.changed()

    def _ended_now(self) -> None:
        """Who looks wants to see a backward as soon as it is over; a training loop runs on."""
        now = time.monotonic()
        if now - self._end_sent >= ENDS_SECONDS:
            self._end_sent = now
            self.hurry()

    def _add_problem(self, error: BaseException, fields: dict[str, Any]) -> None:
        if threading.get_ident() in self.recorder.ignored:
            return
        try:
            if self.found.add(fields, fields.get("text") or str(error)):
                self.changed()
        except Exception as own:
            self._failed(own)

    def _failed(self, error: Exception) -> None:
        """An error of the observer's own ends the recording, never the program that it watches."""
        logging.getLogger("ag_visual").error("recording stopped", exc_info=error)
        self.recorder.rest = "off"
        self.recorder.stop()
        self.message = f"Recording stopped by an error of its own: {type(error).__name__}: {error}"
        self.changed()

    def cell_ended(self, cell: str | None, ran_through: bool) -> None:
        """A cell of the notebook ended, without an error or with one."""
        solved = self.found.cell_ended(cell, ran_through)
        missed = self.recorder.missed
        try:
            self.recorder.cell_ended()
        except Exception as error:
            self._failed(error)
        if missed:
            self.hurry()
        elif solved:
            self.changed()

    @property
    def problems(self) -> list[dict[str, Any]]:
        """The `Problem` records, the one that occurred last at the end."""
        return self.found.records

    def recording(self, *, values: bool = False, source: bool = True) -> Recording:
        """Everything that is kept, as a recording (see observe.export.export.take)."""
        return take(
            self.recorder,
            session=self.id,
            problems=self.problems,
            values=values,
            source=source,
            version=package_version(),
            scopes=(scopes := [*scopes_of(sys._getframe(1)), self.namespace()]),
            scalars=self.numbers.record(self.recorder, scopes) if values else None,
            jacobians=self.jacobians.found if values else (),
            name=self.name,
        )

    def export(self, *, values: bool, source: bool) -> Path:
        """Write a standalone page into the working folder; the path is new each time."""
        page = to_html(self.recording(values=values, source=source), bundle_text())
        stamp = time.strftime("%Y-%m-%d-%H%M%S")
        for i in itertools.count(1):
            path = Path(f"ag_visual-{stamp}{'' if i == 1 else f'-{i}'}.html").absolute()
            if not path.exists():
                break
        return files.write(path, page.encode())

    # State -------------------------------------------------------------------------------------

    def milliseconds(self, t: int | None = None) -> float:
        """Milliseconds since the session began."""
        return self.recorder.encoder.milliseconds(perf_counter_ns() if t is None else t)

    def state(self) -> dict[str, Any]:
        """The State record of the schema."""
        paused = self.gate.paused
        return {
            "recording": self.recorder.on,
            "scope": self.recorder.scope,
            "every": self.recorder.every,
            "paused": paused
            and {
                "task": paused.task,
                "seq": paused.seq,
                "order": paused.order,
                "total": paused.total,
                "thread": threads.numbers[paused.thread],
                "since": self.milliseconds(paused.since),
                "edited": paused.edited,
                "problem": paused.problem,
                "waiting": self.gate.waiting,
                "breakpoint": paused.breakpoint,
            },
            "breakpoints": [b.json() for b in self.gate.breakpoints],
            "pause_next": self.gate.pause_next,
            "control": self.control,
            "missed": self.recorder.missed if self.recorder.scope == "newest" else 0,
            "jacobians": self.jacobians.count,
            "message": self.message,
            "lesson": None if self.lesson is None else self.lesson.json(),
            "profile": None if self.profile is None else self.profile.number,
            "name": fit(self.name),
            "runs": self.runs.listed,
        }

    def say(self, text: str) -> None:
        """Put one sentence into the state, for the reader of every page."""
        self.message = text
        if text:
            self.announce(text)

    def changed(self) -> None:
        """The state changed, or there is something to send: the flushing thread wakes."""
        self._ensure_thread()
        self._wake.set()

    def hurry(self) -> None:
        """Like `changed`, and no pause between flushes holds it up: somebody waits for this."""
        self._hurry.set()
        self.changed()

    # Pages -------------------------------------------------------------------------------------

    def open_page(self, id: str, send: Send) -> Page:
        """A page listens: it gets everything that is kept, then what comes."""
        with self._lock:
            self.watch()
            while len(self.pages) >= MOST_PAGES:
                oldest = min(self.pages.values(), key=lambda page: page.heard)
                del self.pages[oldest.id]
            page = self.pages[id] = Page(id, send, self.recorder, self.id)
            self.recorder.allowance.grows = self.recorder.looks.grows = True
        self.changed()
        return page

    def close_page(self, page: Page) -> None:
        """A page is gone (if another took its id meanwhile, that one stays)."""
        with self._lock:
            if self.pages.get(page.id) is page:
                del self.pages[page.id]
            self.recorder.allowance.grows = self.recorder.looks.grows = bool(self.pages)

    def pages_named(self, id: str | None) -> list[Page]:
        """The page of that id, or all without one."""
        with self._lock:
            if id is None:
                return list(self.pages.values())
            return [self.pages[id]] if id in self.pages else []

    def silent_for(self) -> float:
        """Seconds since any page was last heard; infinite when there is none."""
        heard = [page.heard for page in list(self.pages.values())]
        return time.monotonic() - max(heard) if heard else float("inf")

    def flush(self) -> None:
        """Encode all that came and send what pages can take. From any thread."""
        with self._lock:
            began = time.thread_time_ns()
            if self.pages or self.recorder.waiting > UNSEEN_EVENTS:
                self.recorder.drain()
            state = self.state()
            # A pause is given up after its patience: pages are to answer well within it.
            silence = self.gate.patience / 4
            for page in list(self.pages.values()):
                try:
                    page.flush(state, self.problems, self.milliseconds(), silence)
                except Exception as error:  # its comm is closed or its socket gone, somehow
                    self.close_page(page)
                    self.message = f"The channel to an Inspector broke ({error}): reload its page."
            if not self.recorder.on:  # what nobody asked for
                self.recorder.allowance.spend(time.thread_time_ns() - began)

    # Requests that need the thread which owns the graph ------------------------------------------

    def ask(self, answer: Callable[[bool], None]) -> None:
        """Have `answer` called by the paused or running backward, by the idle kernel, or late."""
        self._requests.append(Request(answer))
        self.gate.poke()
        if self.when_idle is not None:
            self.when_idle(self.serve)
        self.changed()

    def serve(self) -> None:
        """Answer waiting requests in this thread."""
        self._answer_older_than(0.0, busy=False)

    def _answer_older_than(self, seconds: float, *, busy: bool) -> None:
        while self._requests:
            if time.monotonic() - self._requests[0].since < seconds:
                return
            if not busy and self.gate.interrupted:
                return  # they wait for the idle kernel, and the interrupt not for them
            try:
                request = self._requests.popleft()
            except IndexError:  # another thread was faster
                break
            request.answer(busy)
        if self.gate.requests_wait:
            self.gate.requests_wait = False
            # One that came meanwhile was there before its poke.
            self.gate.requests_wait = bool(self._requests)
            self.gate.arm()

    def scopes(self) -> list[Scope]:
        """Where variables are looked for: the frames of a running backward, then the notebook."""
        found = []
        paused = self.gate.paused
        if paused is not None and paused.thread == threading.get_ident():
            found = list(scopes_of(sys._getframe(1)))
        return [*found, self.namespace()]

    # The flushing thread -------------------------------------------------------------------------

    def _ensure_thread(self) -> None:
        if self._closed or (self._thread is not None and self._thread.is_alive()):
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="ag_visual flush", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            active = self.recorder.on or bool(self._requests) or self.gate.paused is not None
            behind = any(not page.idle for page in list(self.pages.values()))
            self._wake.wait(FLUSH_SECONDS if active or behind else None)
            if self._closed:
                return
            if self._thread is not threading.current_thread():
                self._wake.set()  # for the other one: an interrupt hid that this one had started
                return
            self.flush()
            served = self._running or self.at_rest
            self._answer_older_than(PATIENT_SECONDS if served else STALE_SECONDS, busy=True)
            self._hurry.wait(FLUSH_SECONDS / 2)

    def close(self) -> None:
        """End the thread and let a paused backward go."""
        self._closed = True
        self.gate.shutdown()
        self.recorder.rest = "off"
        self.recorder.stop()
        self._wake.set()


_session: Session | None = None
_making = threading.Lock()


def current() -> Session:
    """The session of this process."""
    global _session
    if _session is None:
        with _making:
            if _session is None:
                _session = Session()
                atexit.register(_session.close)
    return _session


def _forget_after_fork() -> None:
    """A forked child has no flushing thread and no page: it begins without a session."""
    global _session, _making
    _making = threading.Lock()
    if _session is not None:
        instrument.sink = instrument.gate = instrument.problem = None
        instrument.begin = instrument.end = instrument.losing_tangents = None
        instrument.jacobian = instrument.profiled = None
        _session = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
