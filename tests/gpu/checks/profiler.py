"""The profiler's times on the device, the stream's row in a trace, and arrows to its kernels."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import ag_visual as ag
from ag_visual.profiler import ProfilerActivity, profile, record_function

from ..page import Machine, check


def _profiled(machine: Machine) -> Any:
    size = 1024 if machine.real else 8
    x = ag.ones(size, size, device=machine.device, requires_grad=True)
    (x @ x).sum().backward()  # what is compiled at a first use is no part of it
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:  # noqa: SIM117
        with record_function("the step"):
            ag.nn.functional.linear(x, x).relu().sum().backward()
    return found


@check("profiler")
def ops_have_times_on_the_device(machine: Machine) -> str:
    """In the table, by op, forward and backward; a product takes longer than its launch."""
    assert ProfilerActivity.CUDA in ag.profiler.supported_activities()
    averages = {each.key: each for each in _profiled(machine).key_averages()}
    for name in ("aten::mm", "aten::relu", "aten::sum", "the step"):
        assert averages[name].device_time_total > 0, name
    backward = "autograd::engine::evaluate_function: ReluBackward0"
    assert averages[backward].device_time_total > 0
    table = _profiled(machine).key_averages().table(sort_by="device_time_total")
    assert "Self CUDA" in table
    mm = averages["aten::mm"]
    return f"mm {mm.device_time_total / mm.count:.0f} us" if machine.real else ""


@check("profiler")
def a_trace_has_the_stream_and_arrows(machine: Machine) -> str:
    """Each kernel's slice has an arrow from the op that launched it, and does not come before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        _profiled(machine).export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    kernels = [each for each in events if each.get("cat") == "kernel"]
    assert {"aten::mm", "aten::sum"} <= {each["name"] for each in kernels}
    arrows = [each for each in events if each.get("cat") == "ac2g"]
    starts = {each["id"]: each for each in arrows if each["ph"] == "s"}
    ends = {each["id"]: each for each in arrows if each["ph"] == "f"}
    wanted = {each["args"]["correlation"] for each in kernels}
    assert starts.keys() == ends.keys() == wanted
    for each in kernels:
        launched = starts[each["args"]["correlation"]]
        assert each["ts"] + each["dur"] >= launched["ts"], each["name"]
    return f"{len(kernels)} kernels"
