"""Events and averages of a finished profile, made of its columns."""

from __future__ import annotations

import gc
import itertools
from time import monotonic
from typing import Any

import numpy

from ag_visual.core import source
from ag_visual.events.spans import EVALUATE, MODULE, NODE, OP, STEP, USER, Stack
from ag_visual.profiler.averages import FunctionEventAvg
from ag_visual.profiler.columns import Columns, own
from ag_visual.profiler.event_lists import MEMORY_EVENT_NAME, EventList
from ag_visual.profiler.function_events import FunctionEvent

_PIECE = 1024
_STEPS = "ProfilerStep*"
_ACTIVITIES = {USER: "user_annotation", STEP: "user_annotation", MODULE: "python_function"}


class Kept:
    """The rows of a profile that become events, each with what is left directly inside of it.

    As in torch, a span that is all there is in one of its own name is one event with it.
    """

    def __init__(self, columns: Columns) -> None:
        spans = columns.spans
        names, parent = spans["name"], spans["parent"].astype(numpy.int64)
        keep = numpy.ones(len(spans), bool)
        while True:
            inner = keep & (parent >= 0)
            children = numpy.bincount(parent[inner], minlength=len(spans))
            gone = inner & (names[parent] == names) & (children[parent] == 1)
            if not gone.any():
                break
            keep &= ~gone
            while True:
                lost = (parent >= 0) & gone[parent]
                if not lost.any():
                    break
                parent[lost] = parent[parent[lost]]
        self.rows = numpy.flatnonzero(keep)
        self.flow = _flows(columns, keep)[keep]
        place = numpy.cumsum(keep) - 1
        self.parent = numpy.where(
            parent[self.rows] >= 0, place[numpy.maximum(parent[self.rows], 0)], -1
        )
        self.spans = spans[self.rows]
        self.paused = columns.paused[self.rows]
        self.length = columns.length[self.rows]
        self.own = own(self.parent, self.length)
        self.on_device = columns.on_device[self.rows]
        self.own_on_device = own(self.parent, self.on_device)
        self.own_bytes = own(self.parent, self.spans["bytes"])


def _flows(columns: Columns, keep: Any) -> Any:
    """Of each span, the number of the arrow from an op to the node that it made; 0: none."""
    spans = columns.spans
    found = numpy.zeros(len(spans), numpy.int64)
    nodes = numpy.flatnonzero((spans["kind"] == NODE) & (spans["forward"] >= 0))
    makers = spans["forward"][nodes]
    while not keep[makers].all():
        makers = numpy.where(keep[makers], makers, spans["parent"][makers])
    found[makers] = found[nodes] = spans["seq"][nodes]
    return found


class EventBuilder:
    """Makes events of rows; what many of them share is looked up once."""

    def __init__(self, columns: Columns, device: str | None) -> None:
        self.columns = columns
        self.kept = Kept(columns)
        self.device = device
        self.sequence = columns.sequence[self.kept.rows]
        steps = [name.startswith("ProfilerStep#") for name in columns.names]
        self.names = [
            _STEPS if step else name for name, step in zip(columns.names, steps, strict=True)
        ]
        self._stacks: dict[int, list[str]] = {-1: []}

    def unheld(self) -> Any:
        """Rows of `memory` that came or went outside of every span, not those that were there."""
        memory = self.columns.memory
        return memory[(memory["span"] < 0) & (memory["time"] > self.columns.start)]

    def memory_events(self, rows: Any) -> list[FunctionEvent]:
        """An event without length for each of some rows of `unheld`."""
        columns = self.columns
        numbers = itertools.count(len(columns.spans) + 1)
        return [
            FunctionEvent(
                id=number,
                name=MEMORY_EVENT_NAME,
                thread=thread + 1,
                start_us=(time - columns.start) / 1000,
                end_us=(time - columns.start) / 1000,
                overload_name="",
                fwd_thread=thread + 1,
                input_shapes=[],
                stack=[],
                use_device=self.device,
                cpu_memory_usage=size,
            )
            for number, time, thread, size in zip(
                numbers,
                *(rows[name].tolist() for name in ("time", "thread", "bytes")),
                strict=False,
            )
        ]

    def stack(self, number: int) -> list[str]:
        """The calls of a stack as texts, the innermost first."""
        found = self._stacks.get(number)
        if found is None:
            found = self._stacks[number] = stack_text(self.columns.stacks[number])
        return found

    def events(self, rows: Any, deadline: float | None = None) -> list[FunctionEvent]:
        """The events of some rows of `kept`, without what is inside of which."""
        columns, spans = self.columns, self.kept.spans
        begin, names = columns.start, columns.names
        threads = columns.spans["thread"]
        found = []
        fields = ("start", "end", "name", "kind", "scope", "thread", "forward", "inputs", "stack")
        parts = [spans[name][rows].tolist() for name in (*fields, "flops", "bytes")]
        kept = self.kept
        more = (kept.rows, self.sequence, kept.flow, kept.paused, kept.own_on_device)
        numbers = [x[rows].tolist() for x in more]
        for at, each in enumerate(zip(*parts, *numbers, strict=True)):
            if deadline is not None and not at % _PIECE and monotonic() > deadline:
                break
            start, end, name, kind, scope, thread, forward, inputs, stack = each[:9]
            flops, size, row, seq, flow, paused, on_device = each[9:]
            event = FunctionEvent(
                id=row + 1,
                name=self.names[name],
                trace_name=names[name],
                thread=thread + 1,
                start_us=(start - begin) / 1000,
                end_us=(end - begin) / 1000,
                overload_name="",
                fwd_thread=int(threads[forward if forward >= 0 else row]) + 1
                if kind in (EVALUATE, NODE) and seq >= 0
                else 0,
                stack=self.stack(stack),
                scope=scope,
                use_device=self.device,
                cpu_memory_usage=size,
                sequence_nr=seq,
                flops=flops,
                is_user_annotation=kind in (USER, STEP),
                is_python_function=kind == MODULE,
                activity_type=_ACTIVITIES.get(kind, "cpu_op"),
                flow_id=flow,
                flow_type=1 if flow else 0,
                flow_start=bool(flow) and kind == OP,
                external_id=row + 1,
                paused_us=paused / 1000,
            )
            if on_device > 0:
                event.append_kernel(names[name], 0, on_device / 1000)
            if inputs >= 0:
                given = columns.inputs[inputs]
                event.input_shapes = given.shapes
                event.structured_input_shapes = _lists(given.dims)
                event.structured_input_strides = _lists(given.strides)
                event.input_dtypes = list(given.types)
                event.concrete_inputs = [each or None for each in given.concrete]
                event.kwinputs = dict(given.named)
            else:
                event.input_shapes, event.concrete_inputs, event.kwinputs = [], [], {}
            found.append(event)
        return found


def _lists(values: Any) -> Any:
    return [_lists(each) if isinstance(each, tuple) else each for each in values]


def stack_text(stack: Stack) -> list[str]:
    """'file(line): function' of each call."""
    texts = []
    for code, lasti in stack:
        line = _line(code, lasti)
        cell = source.cell_of(code)
        file = cell.label if cell else code.co_filename
        texts.append(f"{file}({line}): {code.co_name}")
    return texts


def _line(code: Any, lasti: int) -> int:
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return int(line)
    return int(code.co_firstlineno)


def function_events(
    builder: EventBuilder, timeout: float | None = None, **options: Any
) -> EventList:
    """All events, each with its parent and children. timeout: seconds after which it stops."""
    deadline = None if timeout is None else monotonic() + timeout
    collects = gc.isenabled()
    gc.disable()  # it would look at all of them again and again: none is garbage
    try:
        found = builder.events(slice(None), deadline)
        for event, parent in zip(found, builder.kept.parent.tolist(), strict=False):
            if parent >= 0:
                around = found[parent]
                event.cpu_parent = around
                around.cpu_children.append(event)
    finally:
        if collects:
            gc.enable()
    _stacks_of_backward(builder, found)
    told = builder.memory_events(builder.unheld())
    if told:
        begun = lambda event: (event.time_range.start, -event.time_range.end)  # noqa: E731
        found = sorted([*found, *told], key=begun)
    events = EventList(found, use_device=builder.device, **options)
    events._tree_built = True
    return events


def _stacks(builder: EventBuilder) -> Any:
    """Of each row of `kept` its stack. What runs in a backward has that of the op whose gradient it
    computes.
    """
    kept, whole = builder.kept, builder.columns.spans
    spans, parent = kept.spans, kept.parent
    nodes = (spans["kind"] == EVALUATE) | (spans["kind"] == NODE)
    within = builder.columns.within_backward[kept.rows]
    made = spans["forward"]
    of_forward = numpy.where(made >= 0, whole["stack"][numpy.maximum(made, 0)], -1)
    found = numpy.where(nodes, of_forward, spans["stack"])
    inherits = within & ~nodes & (parent >= 0)
    inherits[inherits] = (nodes | within)[parent[inherits]]
    for at in numpy.flatnonzero(inherits).tolist():  # what is around stands before
        found[at] = found[parent[at]]
    return found


def _stacks_of_backward(builder: EventBuilder, events: list[FunctionEvent]) -> None:
    if not (builder.columns.spans["stack"] >= 0).any():
        return
    for event, stack in zip(events, _stacks(builder).tolist(), strict=False):
        event.stack = builder.stack(stack)


def key_averages(
    builder: EventBuilder, by_shapes: bool, calls: int = 0, **options: Any
) -> EventList:
    """What `EventList.key_averages` gives for all events, computed on columns."""
    kept = builder.kept
    spans = kept.spans
    _, name = numpy.unique(
        [builder.names[i] for i in range(len(builder.names))], return_inverse=True
    )
    users = (spans["scope"] == 7).astype(numpy.int64)
    parts = [name[spans["name"]], users] if len(builder.names) else []
    if by_shapes:
        texts = [str(each.shapes) for each in builder.columns.inputs]
        _, shapes = numpy.unique([*texts, "[]"], return_inverse=True)
        parts.append(shapes[spans["inputs"]])
    stacks = numpy.full(len(spans), -1)
    if calls and len(builder.columns.stacks):
        stacks = _stacks(builder)
        number: dict[tuple[str, ...], int] = {}
        alike = [
            number.setdefault(tuple(builder.stack(at)[:calls]), len(number))
            for at in range(-1, len(builder.columns.stacks))
        ]
        parts.append(numpy.array(alike)[stacks + 1])
    found = EventList(use_device=builder.device, **options)
    told = builder.unheld()
    if len(spans) == 0:
        found.extend([_memory_average(builder, told, by_shapes)] if len(told) else [])
        return found
    # One number for all parts: NumPy compares rows slowly, and turns an interrupt into a TypeError.
    keys = numpy.ravel_multi_index(parts, [int(part.max()) + 1 for part in parts])
    _, first, group = numpy.unique(keys, return_index=True, return_inverse=True)
    sums = {
        "cpu_time_total": _sums(kept.length, group) / 1000,
        "self_cpu_time_total": _sums(kept.own, group) / 1000,
        "device_time_total": _sums(kept.on_device, group) / 1000,
        "self_device_time_total": _sums(kept.own_on_device, group) / 1000,
        "cpu_memory_usage": _sums(spans["bytes"], group),
        "self_cpu_memory_usage": _sums(kept.own_bytes, group),
        "flops": _sums(spans["flops"], group),
        "count": numpy.bincount(group),
    }
    columns = {key: values.tolist() for key, values in sums.items()}
    order = numpy.argsort(first)
    for event, at in zip(builder.events(first[order]), order.tolist(), strict=True):
        average = FunctionEventAvg()
        average.add(event)
        for key, values in columns.items():
            setattr(average, key, values[at])
        average.stack = builder.stack(int(stacks[first[at]]))[:calls]
        average.overload_name = ""
        if not by_shapes:
            average.input_shapes = ""
        parent = int(kept.parent[first[at]])
        if parent >= 0:
            average.cpu_parent = builder.events(slice(parent, parent + 1))[0]
        children = numpy.flatnonzero(kept.parent == first[at])
        average.cpu_children = builder.events(children)
        found.append(average)
    if len(told):
        earlier = spans["start"][first] < told["time"][0]
        found.insert(int(earlier.sum()), _memory_average(builder, told, by_shapes))
    return found


def _memory_average(builder: EventBuilder, rows: Any, by_shapes: bool) -> FunctionEventAvg:
    """What came and went outside of every span, together."""
    average = FunctionEventAvg()
    average.add(builder.memory_events(rows[:1])[0])
    average.count = len(rows)
    average.cpu_memory_usage = average.self_cpu_memory_usage = int(rows["bytes"].sum())
    average.stack = []
    average.input_shapes = [] if by_shapes else ""
    return average


def _sums(values: Any, group: Any) -> Any:
    found = numpy.zeros(int(group.max()) + 1, numpy.int64)
    numpy.add.at(found, group, values)
    return found
