"""Execution traces: ops with what they were called with, in torch's schema."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.profiler import ExecutionTraceObserver, profile

from ..oracle import torch


def _trace(t: Any, path: Path) -> Any:
    observer = t.profiler.ExecutionTraceObserver().register_callback(str(path))
    x = t.ones(2, 3, requires_grad=True)
    x.cos()
    observer.start()
    assert observer.is_running()
    x.mul(x).sin().backward(t.ones(2, 3))
    observer.stop()
    x.exp()
    observer.unregister_callback()
    assert not observer.is_registered
    return json.loads(path.read_text())


@pytest.mark.oracle
def test_ops_and_their_parents_are_torchs(tmp_path: Path) -> None:
    theirs, ours = (_trace(t, tmp_path / f"{t.__name__}.json") for t in (torch, ag))
    assert ours.keys() == theirs.keys()
    assert ours["schema"] == theirs["schema"]
    outer = {"aten::mul", "aten::sin", "SinBackward0", "MulBackward0"}
    found = []
    for trace in (theirs, ours):
        nodes = {each["id"]: each for each in trace["nodes"]}
        told: dict[str, Any] = {}
        for each in nodes.values():
            attributes = {a["name"]: a["type"] for a in each["attrs"]}
            parent = nodes[each["ctrl_deps"]]["name"]
            if each["name"] in outer:
                told.setdefault(each["name"], (parent, each["inputs"]["shapes"][:2], attributes))
        found.append({name: told[name] for name in ("aten::mul", "aten::sin")})
        assert outer <= told.keys()
    assert found[0] == found[1]


def test_a_profile_starts_stops_and_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    observer = ExecutionTraceObserver().register_callback(str(path))
    with profile(execution_trace_observer=observer):
        ag.ones(2).add(ag.ones(2), alpha=3).mul(2.5)
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    product = next(each for each in nodes if each["name"] == "aten::mul")
    assert product["inputs"]["types"] == ["Tensor(float)", "Double"]
    assert product["inputs"]["values"] == [None, 2.5]


def test_the_environment_asks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with profile() as found:
        ag.ones(2).sin()
    observer = found.execution_trace_observer
    folder = observer.get_resources_dir()
    assert folder is not None
    assert os.path.dirname(folder) == str(tmp_path)
    assert "aten::sin" in Path(observer.output_file_path).read_text()
