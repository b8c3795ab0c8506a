"""Times on a GPU, of a make-believe CUDA: events that note a clock, which ops on NumPy move on."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import cuda
from ag_visual.autograd.profiler import profile, record_function
from ag_visual.cuda import streams
from ag_visual.profiler import legacy


class Clock:
    """The GPU's time in ms, which goes on by 0.25 with each event that is recorded."""

    now = 0.0
    waited = 0


class FakeEvent:
    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.timed, self.at = not disable_timing, -1.0

    def record(self, stream: Any = None) -> None:
        Clock.now += 0.25
        self.at = Clock.now

    def synchronize(self) -> None:
        Clock.waited += 1

    done = True


def _elapsed(begun: FakeEvent, ended: FakeEvent) -> float:
    assert begun.timed and ended.timed and begun.at >= 0 and ended.at >= 0  # noqa: PT018
    return ended.at - begun.at


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    Clock.now, Clock.waited = 0.0, 0
    stream = SimpleNamespace(ptr=7, use=lambda: None, done=True)
    fake = SimpleNamespace(
        Event=FakeEvent, get_elapsed_time=_elapsed, get_current_stream=lambda: stream
    )
    monkeypatch.setattr(streams, "_cuda", lambda: fake)
    monkeypatch.setattr(streams, "at", lambda device: nullcontext())
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "synchronize", lambda device=None: None)
    return Clock


def test_events_tell_milliseconds_and_what_was_forgotten(gpu: type[Clock]) -> None:
    begun, ended = ag.cuda.Event(enable_timing=True), ag.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="Both events must be recorded before calculating"):
        begun.elapsed_time(ended)
    begun.record()
    ended.record()
    assert begun.elapsed_time(ended) == 0.25
    plain = ag.cuda.Event()
    plain.record()
    with pytest.raises(ValueError, match="created with argument 'enable_timing=True'"):
        begun.elapsed_time(plain)


def _profiled() -> profile:
    x = ag.ones(4, 4, requires_grad=True)
    bias = ag.ones(4)
    with profile(use_device="cuda") as found, record_function("outer"):
        ag.nn.functional.linear(x, x, bias).sum().backward()
    return found


def test_ops_have_the_time_between_their_events(gpu: type[Clock]) -> None:
    found = _profiled()
    events = {each.name: each for each in found.function_events}
    # linear: its own two events, and those of t and addmm between them.
    assert events["aten::t"].device_time_total == 250
    assert events["aten::addmm"].device_time_total == 250
    linear = events["aten::linear"]
    assert linear.device_time_total == 1250
    assert linear.self_device_time_total == 750
    assert [each.name for each in linear.kernels] == ["aten::linear"]
    outer = events["outer"]
    assert outer.kernels == []
    assert outer.device_time_total == sum(each.device_time_total for each in outer.cpu_children)
    backward = events["autograd::engine::evaluate_function: AddmmBackward0"]
    mm = [each for each in found.function_events if each.name == "aten::mm"]
    assert backward.device_time_total >= sum(each.device_time_total for each in mm) > 0
    averages = {each.key: each for each in found.key_averages()}
    slow = {each.key: each for each in found.function_events.key_averages()}
    for key, each in averages.items():
        assert each.device_time_total == pytest.approx(slow[key].device_time_total), key
        assert each.self_device_time_total == pytest.approx(slow[key].self_device_time_total), key
    table = found.key_averages().table(sort_by="device_time_total")
    assert "Self CUDA" in table
    total = sum(each.self_device_time_total for each in averages.values())
    assert f"Self CUDA time total: {total / 1000:.3f}ms" in table


def test_nothing_waits_before_the_profile_has_ended(gpu: type[Clock]) -> None:
    x = ag.ones(3)
    with profile(use_device="cuda") as found:
        x.exp().sin()
        begun = Clock.waited
    assert begun == 1  # the event that both clocks are compared by
    assert len(found.columns.device) == 2
    assert Clock.waited == 3


def test_a_trace_has_a_row_for_the_stream(gpu: type[Clock], tmp_path: Path) -> None:
    found = _profiled()
    found.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [each for each in events if each.get("cat") == "kernel"]
    assert {"aten::t", "aten::addmm", "aten::mm"} <= {each["name"] for each in kernels}
    assert "aten::linear" not in {each["name"] for each in kernels}
    assert {each["dur"] for each in kernels} == {250}
    assert all(each["pid"] == 0 for each in kernels)
    arrows = [each for each in events if each.get("cat") == "ac2g"]
    assert len(arrows) == 2 * len(kernels)
    ends = {each["id"] for each in arrows if each["ph"] == "f"}
    assert ends == {each["args"]["correlation"] for each in kernels}
    (title,) = (each for each in events if each.get("pid") == 0 and each["name"] == "process_name")
    assert title["args"] == {"name": "GPU 0"}


def test_without_a_device_nothing_of_it_is_there() -> None:
    assert legacy._usable(None) is None
    with profile() as found:
        ag.ones(3).exp()
    assert found.columns.device is None
    assert found.columns.on_device.sum() == 0
