"""Schedules and steps do what torch's do, its warnings included."""

from __future__ import annotations

import inspect
import itertools
import warnings
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import profiler
from ag_visual.profiler import legacy

from ..oracle import torch


def _told(module: Any, program: Any) -> tuple[list[Any], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = program(module.profiler)
    return found, [str(each.message) for each in caught]


@pytest.mark.oracle
def test_actions_are_torchs() -> None:
    names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
    for numbers in itertools.product((0, 2), (0, 1), (1, 3), (0, 2), (0, 1), (0, 1)):
        given = dict(zip(names, numbers, strict=True))

        def actions(module: Any, given: Any = given) -> Any:
            schedule = module.schedule(**given)
            return [schedule(step).name for step in range(15)]

        assert _told(ag, actions) == _told(torch, actions), given


@pytest.mark.oracle
def test_activities_have_torchs_numbers() -> None:
    theirs = torch.profiler.ProfilerActivity.__members__
    ours = profiler.ProfilerActivity.__members__
    assert {name: int(each) for name, each in ours.items()} == {
        name: int(each) for name, each in theirs.items()
    }


@pytest.mark.oracle
def test_what_is_experimental_is_accepted_and_what_means_nothing_is_told() -> None:
    names = inspect.signature(profiler._ExperimentalConfig).parameters
    told = torch.profiler._ExperimentalConfig.__init__.__doc__.partition(") ->")[0]
    assert [name for name in names if f" {name}: " not in told] == []
    assert len(names) == told.count(": ") - 1
    plain = ag._C._profiler._ExperimentalConfig(verbose=True, profile_all_threads=True)
    legacy._warned.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for config in (plain, profiler._ExperimentalConfig(trace_only=True), plain):
            with profiler.profile(experimental_config=config) as prof:
                ag.ones(2).add(1)
            assert "aten::add" in [each.name for each in prof.events() or ()]
    assert [str(each.message) for each in caught] == [
        "experimental_config's trace_only changes nothing here: events are made when they are "
        "asked for."
    ]


@pytest.mark.oracle
def test_traces_begin_and_end_when_torchs_do() -> None:
    """All schedules of up to three steps: warm up, record, record and save, nothing."""
    kinds = ("WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE")
    for length in range(1, 4):
        for text in itertools.product(kinds, repeat=length):

            def calls(module: Any, text: Any = text) -> Any:
                told: list[str] = []

                class Told(module.profile):  # type: ignore[misc, name-defined]
                    def prepare_trace(self) -> None:
                        told.append("prepare")

                    def start_trace(self) -> None:
                        told.append("start")

                    def stop_trace(self) -> None:
                        told.append("stop")

                schedule = lambda step: module.ProfilerAction[text[step]]  # noqa: E731
                ready = lambda prof: told.append(f"ready {prof.step_num}")  # noqa: E731
                with Told(schedule=schedule, on_trace_ready=ready) as prof:
                    for _ in text[1:]:
                        prof.step()
                return told

            ours, said = _told(ag, calls)
            assert (ours, said) == _told(torch, calls), text


def test_steps_are_ranges_of_the_trace() -> None:
    found: list[list[str]] = []

    def ready(prof: Any) -> None:
        found.append([each.trace_name for each in prof.events() if each.cpu_parent is None])

    steps = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with profiler.profile(schedule=steps, on_trace_ready=ready) as prof:
        for _ in range(6):
            ag.ones(2).sin()
            prof.step()
    assert found == [["ProfilerStep#2", "ProfilerStep#3"]]
    assert prof.key_averages()[0].key == "ProfilerStep*"


def test_a_schedule_may_not_ask_to_be_stopped() -> None:
    stopped = profiler.ProfilerAction.DEVICE_STOPPED
    with pytest.raises(ValueError, match="must not be returned by a user-provided schedule"):
        profiler.profile(schedule=lambda step: stopped)
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        profiler.schedule(wait=-1, warmup=1, active=1)


def test_events_of_all_cycles_are_kept_where_asked() -> None:
    steps = profiler.schedule(wait=0, warmup=1, active=1)
    with profiler.profile(schedule=steps, acc_events=True) as prof:
        for _ in range(6):
            ag.ones(2).sin()
            prof.step()
    counts = {each.key: each.count for each in prof.key_averages()}
    assert counts["aten::sin"] == 3
