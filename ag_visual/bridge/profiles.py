"""What torch's own profiler has collected, as a profile for the Time view.

Its times are brought to the recording's clock, its sequence numbers to the numbers of nodes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

from torch.autograd import DeviceType

from ag_visual.bridge.releases import is_python_function
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import EVALUATE, MODULE, NODE, OP, STEP, USER, Facts, SpanLog
from ag_visual.profiler.inputs import Inputs
from ag_visual.profiler.live import MOST, Live

_FUNCTION, _BACKWARD, _USER = 0, 1, 7
"""torch's RecordScope of ops, of nodes, of ranges of the user's."""

_EVALUATES: Final = "autograd::engine::evaluate_function: "
_MODULE: Final = "nn.Module: "

Numbers = dict[int, list[tuple[str, int]]]
"""torch's sequence number -> name and number of each node that has it: each thread counts alone."""


def report(results: Any, started: int, numbers: Numbers) -> None:
    """Report what a profile of torch's has collected, the newest of it, to who follows profiles.

    results: its `kineto_results`. started: when it began, in ns of `perf_counter_ns`.
    """
    if instrument.profiled is None or results is None:
        return
    ended = perf_counter_ns()
    to_ours = ended - time.time_ns()
    events = [event for event in results.events() if _shown(event)]
    log, calls = SpanLog({}), _Calls()
    live = Live(log, SimpleNamespace(stacks=(), inputs=calls.inputs), calls.track, ())
    live.start = started
    instrument.profiled(live)
    linked = _linked(events, numbers)
    order = sorted(range(len(events)), key=lambda i: events[i].end_ns())
    for i in order[-MOST:]:
        event = events[i]
        # The clocks are read one after the other: nothing is before the beginning, or ends later.
        begun, over = (
            min(max(at + to_ours, started), ended) for at in (event.start_ns(), event.end_ns())
        )
        label = log.label(event.name(), _kind(event))
        log.put((label, begun, over, calls.thread(event), linked[i], calls.facts(event, log)))
    live.asked = True  # nobody else keeps what was collected
    live.ended(ended)
    instrument.profiled(live)


def _shown(event: Any) -> bool:
    """All but functions of Python: there are too many of them."""
    name = event.name()
    return bool(not is_python_function(event) or name.startswith(_MODULE))


def _kind(event: Any) -> int:
    name, scope = event.name(), event.scope()
    if name.startswith(_EVALUATES):
        return EVALUATE
    if name.startswith("ProfilerStep#"):
        return STEP
    if name.startswith(_MODULE):
        return MODULE
    return {_BACKWARD: NODE, _USER: USER}.get(scope, OP)


def _linked(events: Sequence[Any], numbers: Numbers) -> list[int]:
    """The number of the node of each event, -1 where it is of none or that is unknown."""
    found = [-1] * len(events)
    makers: dict[tuple[int, int], int] = {}
    nodes: dict[tuple[int, int], int] = {}
    for i, event in enumerate(events):
        number = event.sequence_nr()
        if number < 0 or number not in numbers:
            continue
        if _kind(event) in (EVALUATE, NODE):
            name = event.name().removeprefix(_EVALUATES)
            same = [seq for known, seq in numbers[number] if known == name]
            if len(same) == 1:
                found[i] = nodes[event.fwd_thread_id(), number] = same[0]
        elif event.scope() == _FUNCTION:
            # Those that make no node have the number of the next one, too: the last one made it.
            key = event.start_thread_id(), number
            if key not in makers or events[makers[key]].start_ns() < event.start_ns():
                makers[key] = i
    for (thread, number), i in makers.items():
        alone = numbers[number][0][1] if len(numbers[number]) == 1 else -1
        found[i] = nodes.get((thread, number), alone)
    return found


class _Calls:
    """Tracks and arguments of calls, each different one once."""

    def __init__(self) -> None:
        self.inputs: list[Inputs] = []
        self._facts: dict[Inputs, int] = {}
        self._tracks: dict[str, int] = {}

    def thread(self, event: Any) -> int:
        """The number of an event's track."""
        if event.device_type() == DeviceType.CPU:
            name = f"thread {event.start_thread_id()}"
        else:
            device = event.device_type().name.lower()
            name = f"{device}:{event.device_index()}, stream {event.device_resource_id()}"
        return self._tracks.setdefault(name, len(self._tracks))

    def track(self, number: int) -> str:
        """The name of a track."""
        return list(self._tracks)[number]

    def facts(self, event: Any, log: SpanLog) -> int:
        """The number of what is known of a call beside its times."""
        dims, types = event.shapes(), event.dtypes()
        if not dims or len(dims) != len(types):
            return 0
        concrete = list(event.concrete_inputs())
        values = ["" if each is None else str(each) for each in concrete]
        values += [""] * (len(dims) - len(values))
        sizes = tuple(tuple(size) for size in dims)
        key = Inputs(sizes, ((),) * len(dims), tuple(types), tuple(values[: len(dims)]))
        found = self._facts.get(key)
        if found is None:
            self.inputs.append(key)
            log.facts.append(Facts(len(self.inputs) - 1, -1))
            found = self._facts[key] = len(log.facts) - 1
        return found
