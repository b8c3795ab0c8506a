"""What a process looks like in which nothing runs: what an interrupt must not have changed."""

from __future__ import annotations

import threading

import numpy

from ag_visual.core import modes
from ag_visual.events import instrument, ranges
from ag_visual.profiler import collection, wrappers
from ag_visual.session.session import current


class Before:
    """What a process looks like in which nothing runs, and how to make it so again."""

    def __init__(self) -> None:
        self.numpy = numpy.geterr()
        self.start = threading.Thread.start

    def left(self) -> list[str]:
        """What is not as it was, in words."""
        state, session = modes.state, current()
        gate, recorder = session.gate, session.recorder
        slowed = state.slow + (modes.anomaly is not None)
        wrong = {
            "a backward counts as running": state.task is not None,
            "grad mode is off": not state.grad,
            "inference mode is on": state.inference,
            "saved-tensor hooks are on": bool(state.saved_hooks) or state.slow > 0,
            "saved-tensor hooks are refused": state.saved_hooks_disabled is not None,
            "mutation of saved tensors is allowed": state.mutation is not None,
            "the guard is on": state.guard is not None,
            "view replay is on": state.view_replay,
            "anomaly mode is on": modes.anomaly is not None,
            "a node counts as running": state.node is not None,
            "modes are counted wrongly": (modes.special, modes.slowed)
            != (slowed + (not state.grad), slowed),
            "ops take the wrong path": state.fast is not (None if state.slow else state.grad),
            "NumPy's setting is another": numpy.geterr() != self.numpy,
            "a gate is closed": gate.paused is not None or gate._turn is not None,
            "somebody waits to stop": gate.waiting != 0,
            "a range is open": ranges.depth() != 0,
            "the session counts a backward": bool(session._running),
            "the numbers of a backward are waited for": bool(session.numbers.tasks),
            "a thread is ignored": bool(recorder.ignored),
            "somebody profiles": instrument.spans is not None or bool(collection.open_now()),
            "a profile is half begun": collection._log is not None,
            "an op has the code of a profile": any(
                each.function.__code__ is each.code for each in wrappers._all.known.values()
            ),
            "modules have the code of a profile": wrappers._Modules.code is not None,
            "starts of threads are noted": threading.Thread.start is not self.start,
            "a lock is held": session._lock._is_owned() or recorder._lock._is_owned(),  # type: ignore[attr-defined]
        }
        return [text for text, found in wrong.items() if found]

    def restore(self) -> None:
        """As it was, whatever was left."""
        state, session = modes.state, current()
        for name in list(state.__dict__):
            delattr(state, name)
        type(state).__init__(state)  # as a thread begins
        modes.set_anomaly(None)
        modes.special = modes.slowed = 0
        numpy.seterr(**self.numpy)
        session.gate.paused = session.gate._turn = None
        session.gate.waiting = 0
        ranges.leave_to(0)
        session._running.clear()
        session.numbers.tasks.clear()
        for lock in (session._lock, session.recorder._lock):
            while lock._is_owned():  # type: ignore[attr-defined]
                lock.release()
        session.recorder.ignored.clear()
        collection._open.clear()
        collection._ended(None)
        threading.Thread.start = self.start  # type: ignore[method-assign]
