"""The text of a table is torch's, given the same events."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch

# name, start, end, thread, shapes, bytes, flops, stack
EVENTS = (
    ("aten::linear", 0.0, 1500.25, 1, [[3, 4], [5, 4], [5]], 2048, 0, ["a.py(3): f", "a.py(9): g"]),
    ("aten::t", 10.0, 40.5, 1, [[5, 4]], 0, 0, ["a.py(3): f"]),
    ("aten::addmm", 50.0, 1400.125, 1, [[5], [3, 4], [4, 5]], 2048, 120_000, ["b" * 90]),
    ("aten::mul", 1600.0, 1600.001, 1, [[2], []], -5 << 20, 8, []),
    (
        "a range of the user with a name that is far too long to be shown whole",
        0.0,
        3e6,
        2,
        [],
        0,
        0,
        [],
    ),
    ("aten::mul", 5.0, 7.5, 2, [[2], []], 3 << 30, 8, []),
    ("aten::mul", 5.25, 7.25, 2, [[2], []], 0, 8, []),
    ("async", 20.0, 30.0, 1, [], 0, 0, []),
)


def _events(t: Any, stacks: bool, shapes: bool, **options: Any) -> Any:
    util = importlib.import_module(f"{t.__name__}.autograd.profiler_util")
    found = util.EventList(
        [
            util.FunctionEvent(
                id=number,
                name=name,
                thread=thread,
                start_us=start,
                end_us=end,
                overload_name="",
                input_shapes=sizes if shapes else [],
                stack=list(stack) if stacks else [],
                cpu_memory_usage=size,
                flops=flops,
                trace_name=name,
                fwd_thread=0,
                is_async=name == "async",
            )
            for number, (name, start, end, thread, sizes, size, flops, stack) in enumerate(EVENTS)
        ],
        **options,
    )
    found._build_tree()
    return found


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sorted": {"sort_by": "self_cpu_time_total"},
    "sorted by count": {"sort_by": "count", "row_limit": 2},
    "by memory": {"sort_by": "self_cpu_memory_usage", "header": "A title"},
    "narrow": {
        "max_name_column_width": 20,
        "max_shapes_column_width": 15,
        "max_src_column_width": 30,
    },
    "wide": {"max_name_column_width": None, "max_shapes_column_width": None, "row_limit": -1},
    "outermost": {"top_level_events_only": True, "row_limit": 3},
    "ms": {"time_unit": "ms"},
    "us": {"time_unit": "us"},
    "no limit": {"row_limit": None, "max_src_column_width": 0},
    "no such unit": {"time_unit": "ns", "row_limit": 0},
}


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("more", ["", "shapes", "stacks", "flops"])
def test_tables_are_torchs(case: str, memory: bool, more: str) -> None:
    given: Any = (more == "stacks", more == "shapes")
    options = {"profile_memory": memory, "with_flops": more == "flops"}
    ours, theirs = _events(ag, *given, **options), _events(torch, *given, **options)
    assert ours.table(**CASES[case]) == theirs.table(**CASES[case])
    groups: Any = {"group_by_input_shapes": more == "shapes"}
    for calls in (2, -1):
        groups["group_by_stack_n"] = calls
        grouped = ours.key_averages(**groups).table(**CASES[case])
        assert grouped == theirs.key_averages(**groups).table(**CASES[case])


@pytest.mark.oracle
def test_totals_and_fields_are_torchs() -> None:
    ours, theirs = _events(ag, True, True), _events(torch, True, True)
    facts = ("key", "count", "cpu_memory_usage", "flops", "cpu_time_total_str", "cpu_time_str")
    for name in facts:
        assert getattr(ours.total_average(), name) == getattr(theirs.total_average(), name)
    for mine, other in zip(ours, theirs, strict=True):
        assert [child.id for child in mine.cpu_children] == [c.id for c in other.cpu_children]
        assert mine.self_cpu_time_total == pytest.approx(other.self_cpu_time_total)
        assert vars(other).keys() - vars(mine).keys() == set()
        assert str(mine.device_type) == str(other.device_type) == "DeviceType.CPU"


@pytest.mark.oracle
def test_former_names_are_told_in_torchs_words() -> None:
    names = ("cuda_time", "cuda_time_total", "self_cuda_time_total", "self_cuda_memory_usage")
    ours, theirs = (_events(t, False, False)[0] for t in (ag, torch))
    for name in names:
        with pytest.warns(FutureWarning) as told:
            assert getattr(ours, name) == getattr(theirs, name) == 0
        assert len({str(each.message) for each in told}) == 1, name


def test_lists_of_no_events_are_empty_tables() -> None:
    from ag_visual.autograd.profiler_util import EventList, MemRecordsAcc, StringTable

    assert str(EventList()) == ""
    with pytest.raises(AssertionError, match="Expected tree to be built"):
        EventList().key_averages()
    with pytest.raises(ValueError, match="metric should be one of"):
        EventList().export_stacks("x", "time")
    with pytest.raises(ValueError, match="a column cannot be -1 characters wide"):
        _events(ag, False, False).table(max_name_column_width=-1)
    assert StringTable()["aten::mul"] == "aten::mul"
    assert list(MemRecordsAcc([]).in_interval(0, 1)) == []
