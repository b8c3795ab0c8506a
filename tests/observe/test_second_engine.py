"""Another engine, of a page, is recorded, described and stopped through `events.live` alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import get_ident
from typing import Any
from weakref import ref

import numpy as np
import pytest

from ag_visual.core.source import here
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import LiveBackward, LiveNode, SavedField
from ag_visual.events.log import BEGIN, END, EventLog, HookField, run_record
from ag_visual.events.memory import CallSite
from ag_visual.events.node_record import sequence
from ag_visual.events.threads import numbers
from ag_visual.observe.formulas.cards import card
from ag_visual.observe.record.details import all_hooks, node_details, recorded_details
from ag_visual.observe.record.held_values import NotKeptError, array_of
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire.check import check
from ag_visual.session.breakpoints import problem_of
from ag_visual.session.pause import Gate

from .reading import rows

F64 = np.dtype(np.float64)


class Step:
    """A node: the square of a vector, or (with a variable) the end at a leaf."""

    def __init__(self, below: Step | None, variable: Vector | None, value: Any) -> None:
        self.seq = next(sequence)
        self.below, self.variable, self.leaf = below, variable, variable is not None
        self.shape, self.call_site, self.freed = value.shape, here(), None
        self.saved, self.version = None if self.leaf else value, 0
        self.hooks: list[Any] = []
        if instrument.sink is not None:
            self.emit_creation(instrument.sink)

    @property
    def next_functions(self) -> list[tuple[Any, int]]:
        return [] if self.leaf else [(self.below, 0)]

    @property
    def output_meta(self) -> list[tuple[tuple[int, ...], str]]:
        return [(self.shape, F64.name)]

    def name(self) -> str:
        return "AccumulateGrad" if self.leaf else "SquareBackward"

    def saved_fields(self) -> list[SavedField]:
        if self.leaf:
            return []
        field = SavedField("x", "tensor", self.shape, F64.name, 8 * self.shape[0], 77, 0)
        return [field._replace(version_now=self.version, freed=self.freed is not None)]

    def saved_array(self, name: str) -> Any:
        return self.saved if name == "x" else None

    def saved_arrays(self, most: int) -> list[tuple[str, bool, Any]]:
        return [] if self.saved is None else [("x", False, self.saved)]

    def saved_number(self, name: str) -> float | None:
        return None

    def saved_requires_grad(self, name: str) -> bool:
        return name == "x"

    @property
    def kind(self) -> str:
        return self.name()

    @property
    def hooked(self) -> bool:
        return bool(self.hooks)

    def hook_fields(self) -> list[HookField]:
        return [HookField("pre", hook.__name__, 0, i, None) for i, hook in enumerate(self.hooks)]

    def leaf_writes(self) -> int:
        return 0

    def leaf_status(self) -> None:
        return None

    def kept_gradients(self) -> list[Any]:
        return [None if self.variable is None else self.variable.grad]

    def value(self) -> Any:
        return None if self.variable is None else self.variable.value

    def tangent(self) -> Any:
        return None

    def emit_creation(self, log: EventLog) -> None:
        if self.leaf:
            assert self.variable is not None
            log.keep(ref(self))
            at = perf_counter_ns(), get_ident(), self.seq
            log.leaf((*at, self.shape, F64, 78, ref(self.variable)))
            return
        assert self.call_site is not None
        assert self.below is not None
        saved = [("x", False)], [self.shape, F64], [77, 0]
        log.node(self, Step, *self.call_site, [(self.shape, F64)], [(self.below.seq, 0)], saved)


class Vector:
    def __init__(self, *values: float) -> None:
        self.value, self.grad, self.end = np.array(values), None, None

    def squared(self, times: int) -> Step:
        node = Step(None, self, self.value)
        value = self.value
        for _ in range(times):
            node, value = Step(node, None, value), value**2
        return node


@dataclass
class Task:
    root_edges: list[Any]
    counts: dict[Any, int]
    total: int
    id: int = 9
    order: int = 0
    parent: Any = None
    call_site: CallSite = field(default_factory=here)
    thread: int = field(default_factory=get_ident)

    def results(self) -> list[Any]:
        return [None] * len(self.root_edges)


def backward(node: Step, g: Any) -> None:
    below, counts = node, {node: 1}
    while below.below is not None:
        below = below.below
        counts[below] = 1
    task: LiveBackward = Task([(node, 0)], counts, len(counts))
    if instrument.begin is not None:
        instrument.begin(task)
    if instrument.sink is not None:
        code, lasti = here() or (None, 0)
        begun = (task.thread, task.id, code, lasti, (node.seq,), task.total, False)
        instrument.sink.emit((BEGIN, perf_counter_ns(), *begun))
    for one in counts:
        started = perf_counter_ns()
        if instrument.gate is not None:
            (g,) = instrument.gate(task, one, [g])
        for hook, about in zip(one.hooks, one.hook_fields(), strict=True):
            sink = instrument.sink
            call = sink and sink.around_hook and sink.around_hook(sink, one.seq, 9, about, [g])
            hook(g)
            if call:
                call.ended(None, [g])
        arrived = g
        if one.variable is not None:
            one.variable.grad = g
        else:
            g, one.saved, one.freed = 2 * g * one.saved, None, here()
        if instrument.sink is not None:
            run = (one.seq, task.id, task.order, started, perf_counter_ns())
            numbers = run_record(*run, arrived.nbytes)
            instrument.sink.run((numbers, arrived.tobytes(), arrived.dtype))
        task.order += 1
    if instrument.sink is not None:
        instrument.sink.emit((END, perf_counter_ns(), task.thread, task.id, ""))
    if instrument.end is not None:
        instrument.end(task)


def test_its_graph_and_its_backward_are_recorded(recorder: Recorder) -> None:
    recorder.start()
    x = Vector(1.0, 2.0)
    y = x.squared(2)

    def doubled(g: Any) -> None:
        g *= 2

    y.hooks.append(doubled)
    backward(y, np.ones(2))
    recorder.stop()
    assert x.grad is not None
    assert x.grad.tolist() == [8.0, 64.0]
    found = rows(recorder)
    assert [row["seq"] for row in found["nodes"]] == [y.below.seq, y.seq]
    assert {row["name"] for row in found["nodes"]} == {"Step"}
    assert {row["thread"] for row in found["nodes"]} == {numbers[get_ident()]}
    assert [(row["src"], row["dst"]) for row in found["edges"]] == [
        (y.below.seq, y.below.below.seq),
        (y.seq, y.below.seq),
    ]
    assert [row["name"] for row in found["saved"]] == ["x", "x"]
    assert [row["seq"] for row in found["runs"]] == [y.seq, y.below.seq, y.below.below.seq]
    assert found["runs"][0]["norm"] == pytest.approx(np.sqrt(8))
    assert [(row["name"], row["effect"]) for row in found["hooks"]] == [("doubled", "in place")]
    assert len(found["tasks"]) == 2
    assert len(found["leaves"]) == 1


def test_a_node_is_described_while_it_lives_and_after(recorder: Recorder) -> None:
    recorder.start()
    x = Vector(1.0, 2.0)
    y = x.squared(1)
    recorder.stop()
    recorder.drain()

    def look(g: Any) -> None: ...

    y.hooks.append(look)
    living = node_details(recorder, y.seq)
    check("NodeDetails", living, "living")
    assert living["name"] == "SquareBackward"
    assert living["site"]["line"] > 0
    assert [one["name"] for one in living["next"]] == ["AccumulateGrad"]
    assert [one["name"] for one in living["saved"]] == ["x"]
    assert [hook["name"] for hook in all_hooks(recorder)[0]["hooks"]] == ["look"]
    assert array_of(recorder, y.seq, "saved:x") is x.value
    assert array_of(recorder, y.below.seq, "variable") is x.value
    assert card(y)["op"] == "SquareBackward"
    backward(y, np.ones(2))
    assert array_of(recorder, y.below.seq, "grad") is x.grad
    with pytest.raises(NotKeptError, match="gave x back after its backward"):
        array_of(recorder, y.seq, "saved:x")
    seq = y.seq
    del y
    recorder.drain()
    gone = recorded_details(recorder, seq)
    check("NodeDetails", gone, "gone")
    assert node_details(recorder, seq) == gone
    assert not gone["alive"]


def test_a_graph_from_before_the_recording_is_told(recorder: Recorder) -> None:
    x = Vector(1.0)
    y = x.squared(3)
    recorder.start()
    backward(y, np.ones(1))
    recorder.stop()
    found = rows(recorder)
    assert len(found["nodes"]) == 3
    assert len(found["leaves"]) == 1


def test_its_backward_stops_and_gets_another_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> None: ...

    gate = Gate(changed=nothing, serve=nothing, silent_for=lambda: 0.0, say=nothing)
    monkeypatch.setattr(instrument, "gate", None)
    x = Vector(1.0, 2.0)
    y = x.squared(1)
    stops: list[str] = []

    def answer() -> None:
        assert gate.paused is not None
        node: LiveNode = gate.paused.node
        stops.append(f"{node.name()}: {problem_of(node, gate.paused.grads)}")
        gate.edit("scale", 10.0)
        gate.go_on()

    gate.prompt = answer
    y.version = 1
    gate.add(name="SquareBackward")
    assert gate.breakpoints[0].stops(y, [np.ones(2)])
    backward(y, np.ones(2))
    gate.breakpoints_off()
    gate.arm()
    assert len(stops) == 1
    assert "x was overwritten" in stops[0]
    assert x.grad is not None
    assert x.grad.tolist() == [20.0, 40.0]
