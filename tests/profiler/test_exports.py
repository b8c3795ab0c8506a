"""What a profile writes: Chrome traces with torch's keys, stacks, speedscope, memory over time."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.profiler import (
    ProfilerActivity,
    profile,
    tensorboard_trace_handler,
    timeline,
)
from ag_visual.profiler.memory import CATEGORIES

from ..oracle import torch
from .programs import PROGRAMS

ADDED = {
    ("X", "cpu_op"): {"Call stack", "Module Hierarchy"},  # torch has both keys in no trace
}
OPTIONS: dict[str, Any] = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_flops": True,
    "with_modules": True,
}


def _profiled(t: Any, name: str = "mlp", **options: Any) -> Any:
    module = importlib.import_module(f"{t.__name__}.profiler")
    t.manual_seed(0)
    run = PROGRAMS[name](t)
    run()
    activities = [module.ProfilerActivity.CPU]
    with module.profile(activities=activities, **{**OPTIONS, **options}) as found:
        with module.record_function("a range"):
            run()
        with module.record_function("another", "with a text"):
            pass
        found.add_metadata("who", "a test")
        found.add_metadata_json("what", "[1, 2]")
    return found


def _keys(trace: Any) -> dict[tuple[str, str], set[str]]:
    """All keys of events, and of their args, by phase and category."""
    found: dict[tuple[str, str], set[str]] = {}
    for event in trace["traceEvents"]:
        kind = event["ph"], event.get("cat", event["name"] if event["ph"] == "M" else "")
        keys = {key for key in event if key != "args"}
        found.setdefault(kind, set()).update(keys, event.get("args", ()))
    return found


@pytest.mark.oracle
def test_keys_of_traces_are_torchs(tmp_path: Path) -> None:
    traces = []
    for t in (ag, torch):
        path = str(tmp_path / f"{t.__name__}.json")
        _profiled(t).export_chrome_trace(path)
        traces.append(json.loads(Path(path).read_text()))
    ours, theirs = map(_keys, traces)
    assert ours.keys() == theirs.keys()
    for kind, keys in theirs.items():
        assert ours[kind] - ADDED.get(kind, set()) == keys, kind
    tops = [set(each) - {"cpu_name"} for each in traces]
    assert tops[0] == tops[1]
    assert traces[0]["who"] == traces[1]["who"] == "a test"
    assert traces[0]["what"] == [1, 2]


def test_arrows_join_ops_and_the_nodes_that_they_made(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    _profiled(ag, "custom_function").export_chrome_trace(str(path))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    starts = {each["id"]: each for each in events if each["ph"] == "s"}
    ends = {each["id"]: each for each in events if each["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == 2
    assert all(starts[key]["ts"] < ends[key]["ts"] for key in starts)
    spans = {each["ts"]: each["name"] for each in events if each.get("cat") == "cpu_op"}
    assert {spans[starts[k]["ts"]]: spans[ends[k]["ts"]] for k in starts} == {
        "Square": "SquareBackward",
        "aten::sum": "SumBackward0",
    }
    ops = [each for each in events if each.get("cat") == "cpu_op"]
    assert any(__file__ in each["args"].get("Call stack", "") for each in ops)


def test_module_hierarchy_is_the_path_of_modules(tmp_path: Path) -> None:
    found = _profiled(ag)
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    paths = {
        each["args"].get("Module Hierarchy") for each in trace["traceEvents"] if "args" in each
    }
    assert "Sequential_0.Linear_0" in paths


def test_stacks_add_up(tmp_path: Path) -> None:
    found = _profiled(ag)
    path = tmp_path / "stacks.txt"
    found.export_stacks(str(path))
    lines = path.read_text().splitlines()
    assert lines
    for line in lines:
        calls, _, weight = line.rpartition(" ")
        assert int(weight) > 0
        assert calls.split(";")[-1].startswith(__file__.rpartition("/")[0])
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        _profiled(ag, with_stack=False).export_stacks(str(path))


def _tasks() -> Any:
    """Ranges of tasks, each of which goes on while the next one begins."""

    async def task(name: str, count: int) -> None:
        with ag.profiler.record_function(name):
            for _ in range(count):
                ag.ones(2).mul(2)
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task("one", 2), task("other", 3))

    with ag.profiler.profile() as found:
        asyncio.run(both())
    return found


@pytest.mark.parametrize("program", [lambda: _profiled(ag), _tasks])
def test_speedscope_opens_and_closes_in_order(tmp_path: Path, program: Any) -> None:
    found = program()
    path = tmp_path / "speedscope.json"
    found.export_speedscope(str(path))
    data = json.loads(path.read_text())
    frames = data["shared"]["frames"]
    for each in data["profiles"]:
        opened: list[int] = []
        last = each["startValue"]
        for event in each["events"]:
            assert last <= event["at"] <= each["endValue"]
            last = event["at"]
            if event["type"] == "O":
                opened.append(event["frame"])
            else:
                assert opened.pop() == event["frame"]
        assert opened == []
    assert {"aten::linear", "aten::mul"} & {frame["name"] for frame in frames}


def test_a_profile_file_holds_the_columns_as_they_are(tmp_path: Path) -> None:
    found = _profiled(ag)
    found.export_profile(str(tmp_path / "run.agprof"))
    found.export_profile(str(tmp_path / "run.agprof.gz"))
    data = (tmp_path / "run.agprof").read_bytes()
    assert gzip.decompress((tmp_path / "run.agprof.gz").read_bytes()) == data
    line, _, rest = data.partition(b"\n")
    name, version, size = line.split()
    assert (name, version) == (b"ag_visual-profile", b"1")
    header, at = json.loads(rest[: int(size)]), int(size)
    for told, table in (
        (header["spans"], found.columns.spans),
        (header["memory"], found.columns.memory),
    ):
        for column, dtype in told["columns"]:
            read = numpy.frombuffer(rest, dtype, told["count"], at)
            assert (read == table[column]).all()
            at += read.nbytes
    assert at == len(rest)
    linear = found.columns.spans[
        header["names"].index("aten::linear") == found.columns.spans["name"]
    ]
    assert header["inputs"][linear["inputs"][0]].startswith("float [")
    assert (header["pauses"], header["categories"]) == ([], list(CATEGORIES))
    assert header["places"] == [None] * len(header["stacks"])
    assert "test_exports.py" in "".join(header["stacks"]) or "programs.py" in "".join(
        header["stacks"]
    )


def test_memory_over_time_is_the_sum_of_categories(tmp_path: Path) -> None:
    found = _profiled(ag, "optimizer_step")
    path = tmp_path / "memory.json"
    found.export_memory_timeline(str(path))
    times, sizes = json.loads(path.read_text())
    # Microseconds, as torch writes them, each once with its last state.
    memory = found.columns.memory
    micro = (memory["time"] + found.columns.wall) // 1000
    assert times == sorted(set(micro.tolist()))
    states = dict(zip(micro.tolist(), memory["total"].tolist(), strict=True))
    assert [sum(each) for each in sizes] == list(states.values())
    assert {len(each) for each in sizes} == {len(timeline.TORCHS) + 1}
    for name in ("PARAMETER", "OPTIMIZER_STATE", "GRADIENT"):
        at = timeline.TORCHS.index(name) + 1
        assert max(each[at] for each in sizes) >= 24, name
    found.export_memory_timeline(str(tmp_path / "memory.raw.json.gz"))
    raw = json.loads(gzip.decompress((tmp_path / "memory.raw.json.gz").read_bytes()))
    assert [size for _, _, size, _ in raw] == memory["bytes"].tolist()
    kinds = {(action, time > 0, size > 0) for time, action, size, _ in raw}
    assert kinds == {(1, False, True), (2, True, True), (4, True, False)}
    found.export_memory_timeline(str(path), device="cuda:0")
    assert json.loads(path.read_text()) == [[], []]
    found.export_memory_timeline(str(tmp_path / "memory.html"))
    assert "<polygon" in (tmp_path / "memory.html").read_text()
    with pytest.raises(ValueError, match="record_shapes=True, with_stack=True required"):
        _profiled(ag, record_shapes=False, with_stack=False).export_memory_timeline("x.json")


@pytest.mark.oracle
def test_files_of_memory_over_time_are_in_torchs_units(tmp_path: Path) -> None:
    def written(t: Any) -> tuple[Any, Any]:
        found = _profiled(t, "optimizer_step")
        path = tmp_path / f"{t.__name__}.json"
        rows = tmp_path / f"{t.__name__}.raw.json.gz"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's functions are deprecated
            found.export_memory_timeline(str(path), "cpu")
            found.export_memory_timeline(str(rows), "cpu")
        return json.loads(path.read_text()), json.loads(gzip.decompress(rows.read_bytes()))

    (ours, ours_raw), (theirs, theirs_raw) = written(ag), written(torch)
    assert len(str(ours[0][0])) == len(str(theirs[0][0]))
    assert max(map(sum, ours[1])) > 0 < max(map(sum, theirs[1]))
    actions = lambda rows: {  # noqa: E731
        (action, len(str(time)), size > 0) for time, action, size, _ in rows if action != 3
    }
    assert actions(ours_raw) == actions(theirs_raw)


def test_traces_of_a_folder(tmp_path: Path) -> None:
    for packed in (False, True):
        ready = tensorboard_trace_handler(str(tmp_path / "run"), "worker", use_gzip=packed)
        with profile(activities=[ProfilerActivity.CPU], on_trace_ready=ready):
            ag.ones(2).sin()
    names = sorted(each.name.partition(".pt")[2] for each in (tmp_path / "run").iterdir())
    assert names == [".trace.json", ".trace.json.gz"]
