"""Who profiles: any number at a time, in any order, on one log that is cut to each one's time.

Beside them, an `Emitter`, which is called as spans begin and end.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol

from ag_visual.arrays import fast
from ag_visual.core import source
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import Facts, SpanLog, Stack
from ag_visual.events.timed import Span
from ag_visual.profiler import flops, wrappers
from ag_visual.profiler.columns import Columns, finished
from ag_visual.profiler.device import DeviceTimes
from ag_visual.profiler.inputs import Inputs, inputs_of
from ag_visual.profiler.live import NOT_YET, Live
from ag_visual.profiler.memory import Ledger
from ag_visual.profiler.threads import Names

DEEPEST = 64
"""Calls of a stack that are kept."""

fast.first_use = functools.partial(Span, "[loading compiled kernels]")

_lock = threading.RLock()
_open: set[weakref.ref[Collection]] = set()
"""Those that run. An interrupt may drop the only object that could end one: then it has ended.

No `WeakSet`, which an interrupt inside of it leaves with a size that it has not.
"""
_log: SpanLog | None = None
_details: _Details | None = None
_ledger: Ledger | None = None
_device: DeviceTimes | None = None
_names: Names | None = None
_emitter: Emitter | None = None
_overhead = 0
_overheads: dict[tuple[bool, bool], int] = {}
"""What one span costs here, in ns, by whether shapes and stacks are collected."""


class Emitter(Protocol):
    """Is called where a span begins and where it ends, in the thread of that span."""

    def into(self, log: SpanLog) -> None:
        """It begins to listen, or profiles beside it have changed what `log` calls."""


class _Details:
    """What ops were called with and from where, each different one once."""

    def __init__(self) -> None:
        self.shapes = self.stack = False
        self.device: DeviceTimes | None = None
        self.inputs: list[Inputs] = []
        self.stacks: list[Stack] = []
        self._inputs: dict[Inputs, int] = {}
        self._stacks: dict[Any, int] = {}
        self._facts: dict[Facts, int] = {}

    def into(self, log: SpanLog) -> None:
        facts, put = self._facts, log.facts.append

        def number_of(key: Facts) -> int:
            found = facts.get(key)
            if found is None:
                with _lock:
                    found = facts.get(key)
                    if found is None:
                        put(key)
                        found = facts[key] = len(log.facts) - 1
            return found

        def detail(label: int, args: Any, kwargs: Any) -> int:
            inputs = stack = -1
            if self.shapes:
                inputs = self._input(inputs_of(args, kwargs))
            if self.stack:
                stack = self._place()
            if self.device is not None and label >= 0:  # an op, not a range
                with _lock:
                    put(Facts(inputs, stack, self.device.begin()))
                    return len(log.facts) - 1
            return number_of(Facts(inputs, stack))

        def arrived(gradients: Any) -> int:
            given = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
            return number_of(Facts(self._input(inputs_of(given, {})), -1))

        log.detail = detail
        if self.shapes:
            log.arrived = arrived

    def _input(self, key: Inputs) -> int:
        found = self._inputs.get(key)
        if found is None:
            with _lock:
                self.inputs.append(key)
                found = self._inputs[key] = len(self.inputs) - 1
        return found

    def _place(self) -> int:
        # By identity: code objects that are alike are equal, and to hash one takes long.
        calls: list[tuple[CodeType, int]] = []
        frame: FrameType | None = sys._getframe(2)
        inside = source.inside
        while frame is not None and len(calls) < DEEPEST:
            if not inside[frame.f_code.co_filename]:
                calls.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        key = tuple([(id(code), lasti) for code, lasti in calls])
        found = self._stacks.get(key)
        if found is None:
            with _lock:
                self.stacks.append(tuple(calls))
                found = self._stacks[key] = len(self.stacks) - 1
        return found


class Collection:
    """One profile's time: from `Collection(...)` to `stop()`."""

    running = False
    live: Live | None = None

    def __init__(
        self,
        *,
        shapes: bool = False,
        stack: bool = False,
        memory: bool = False,
        modules: bool = False,
        flops: bool = False,
        device: bool = False,
    ) -> None:
        self.ref = weakref.ref(self)
        self.running = True
        self.shapes, self.stack, self.memory, self.modules = shapes, stack, memory, modules
        self.flops, self.device = flops, device
        self.columns: Columns | None = None
        self._skipped: list[tuple[int, int]] = []
        with _lock:
            self._log = _begun(self)
            self._first = len(self._log.rows)
            assert _names is not None
            self.live = Live(self._log, _details, _names.of, self._skipped)
            self.start = self.live.start
        _report(self.live)

    def stop(self) -> None:
        """The profile ends; `columns` are made when somebody asks."""
        end = perf_counter_ns()
        try:
            with _lock:
                if self.running:
                    self._stop(end)
        finally:
            # Also where an interrupt came before: whoever was to end it has been here.
            self._end()
        _report(self.live)

    def _stop(self, end: int) -> None:
        self.pause(False)
        self.end = end
        # What is still open ends here for this profile: the inner ones first, as always.
        unended = [each.row(end) for each in reversed(list(self._log.open.values()))]
        rows = self._log.rows if len(open_now()) == 1 else self._log.rows[self._first :]
        self._rows = [*rows, *itertools.chain(*unended)] if unended else rows
        self._details, self._memory, self._device = _details, _ledger, _device
        assert _names is not None
        self._names = _names

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        if self.running:
            with _lock:
                # First of all nobody profiles any more, whatever an interrupt leaves undone.
                _ended(self)
                if self.live is not None:
                    self.live.ended(getattr(self, "end", 0) or perf_counter_ns())
                self.running = False

    def pause(self, now: bool) -> None:
        """What begins between True and False is none of this profile's."""
        since, until = self._skipped[-1] if self._skipped else (0, 0)
        if now and until != NOT_YET:
            self._skipped.append((perf_counter_ns(), NOT_YET))
        elif not now and until == NOT_YET:
            self._skipped[-1] = since, perf_counter_ns()

    def finish(self) -> Columns:
        """The columns of what was collected."""
        if self.columns is None:
            skipped, named = tuple(self._skipped), self._names.of
            fill = self._device.fill if self.device and self._device is not None else None
            columns = finished(self._log, self._rows, self.start, self.end, named, skipped, fill)
            columns.wall = time.time_ns() - perf_counter_ns()
            columns.overhead = _overhead
            if self._details is not None:
                columns.inputs, columns.stacks = self._details.inputs, self._details.stacks
            if self.flops:
                flops.into(columns)
            if self.memory and self._memory is not None:
                self._memory.into(columns, named)
            self.columns = columns
        return self.columns


def _report(live: Live | None) -> None:
    """Report to whoever follows profiles that one began or ended."""
    if instrument.profiled is not None and live is not None:
        instrument.profiled(live)


def open_now() -> list[Collection]:
    """The profiles that run."""
    return [one for ref in list(_open) if (one := ref()) is not None]


def _begun(one: Collection | None) -> SpanLog:
    global _log, _details, _ledger, _names, _overhead
    try:
        # First of all: another profile may end here, when the collector finds it.
        if one is not None:
            _open.add(one.ref)
        log = _log
        if log is None:
            names, details, log = Names(), _Details(), SpanLog(wrappers.namespaces)
            _log, _details, _ledger, _names = log, details, None, names
            names.begin()
        _set_up(log)
        if instrument.spans is None:
            wrappers.install()
            instrument.spans = log
            if _emitter is None:
                assert _details is not None
                wanted = _details.shapes, _details.stack
                if wanted not in _overheads:
                    _overheads[wanted] = _measured()
                    log.rows.clear()
                _overhead = _overheads[wanted]
    except BaseException:  # an interrupt: no profile stays that its caller knows nothing of
        _ended(one)
        raise
    return log


def emit(emitter: Emitter) -> None:
    """Call an emitter from now on where spans begin and end, in all threads.

    Raises:
        RuntimeError: there is another one.
    """
    global _emitter
    with _lock:
        if _emitter is not None:
            raise RuntimeError("emit_nvtx or emit_itt is enabled already: at most one can be")
        _emitter = emitter
        try:
            _begun(None)
        except BaseException:
            _emitter = None
            _ended(None)
            raise


def emit_no_more(emitter: Emitter) -> None:
    """Call it no more, if it was called; also where an interrupt ended that halfway."""
    global _emitter
    with _lock:
        if _emitter is emitter or _emitter is None:
            _emitter = None
            _ended(None)


def _ended(one: Collection | None) -> None:
    """One profiles no more, or the emitter is called no more."""
    if one is not None:
        _open.discard(one.ref)
    try:
        _left()
    except BaseException:  # an interrupt: all of it again
        _left()
        raise


def _left() -> None:
    """What those who still profile want is there, and nothing else."""
    global _log, _details, _ledger, _device, _names
    still = open_now()
    if _log is not None and (still or _emitter is not None):
        if not still:
            _log.rows = []  # the profile that has ended has these
        _set_up(_log)
        return
    instrument.spans = None
    wrappers.remove()
    wrappers.modules(False)
    if _ledger is not None:
        _ledger.close()
    if _names is not None:
        _names.leave()
    _log = _details = _ledger = _device = _names = None


def _nothing(row: Any) -> None:
    """Keeps no row: nobody profiles."""


def _set_up(log: SpanLog) -> None:
    """What the profiles that are open want beside times."""
    global _ledger, _device
    assert _details is not None
    still = open_now()
    device = any(each.device for each in still)
    if device and _device is None:
        _device = DeviceTimes()
    _details.device = _device if device else None
    _details.shapes = any(each.shapes or each.flops for each in still)
    _details.stack = any(each.stack for each in still)
    log.detail = log.arrived = None
    if _details.shapes or _details.stack or device:
        _details.into(log)
    log.put, log.began = log.rows.extend if still else _nothing, None
    if device and _device is not None:
        _device.into(log, log.put)
    if _emitter is not None:
        _emitter.into(log)
    wanted = any(each.memory for each in still)
    if wanted and _ledger is None:
        _ledger = Ledger()
    log.made = log.held = None
    if wanted and _ledger is not None:
        log.made, log.held = _ledger.made, _ledger.held
        log.arrived = _both(log.arrived, _ledger.arrived)
    wrappers.modules(any(each.modules for each in still))


def _both(facts: Callable[[Any], int] | None, see: Callable[[Any], None]) -> Callable[[Any], int]:
    """What arrives at nodes is seen, and has the facts that are wanted of it."""

    def arrived(gradients: Any) -> int:
        see(gradients)
        return 0 if facts is None else facts(gradients)

    return arrived


def _measured() -> int:
    """What collecting one span costs here, in ns."""
    times = []
    for _ in range(10):
        start = perf_counter_ns()
        for _ in range(20):
            Span("").end()
        times.append(perf_counter_ns() - start)
    return min(times) // 20
