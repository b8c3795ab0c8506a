"""Lessons in a running session: what cells set up, what files carry, what recordings keep."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ag_visual as torch
from ag_visual.observe.record import scalars
from ag_visual.observe.record.lesson import Lesson
from ag_visual.observe.wire.check import check_fields
from ag_visual.observe.wire.records import RECORDS
from ag_visual.session.session import current


def leaf(*rows: Any) -> Any:
    return torch.tensor(list(rows), requires_grad=True)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"hide": "exports"}, "Did you mean 'export'"),
        ({"speed": 20}, "from 0.25 to 8, but is 20"),
        ({"step": 0}, "1 or more"),
        ({"direction": "up"}, "'on' or 'back'"),
        ({"text": "a" * 601}, "601 characters"),
    ],
)
def test_wrong_settings_are_told(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        torch.lesson(**wrong)  # type: ignore[arg-type]


def test_a_cell_sets_up_the_panel_and_ends_the_lesson() -> None:
    torch.lesson("Find it", hide="export")
    assert current().state()["lesson"]["hide"] == ["export"]
    check_fields(RECORDS["State"], current().state(), "state")
    torch.lesson()
    assert current().state()["lesson"] is None


def test_files_carry_the_lesson(tmp_path: Path) -> None:
    x = torch.tensor(2.0, requires_grad=True)
    with torch.record(scalars=True) as recorded:
        (x * x).backward()
    lesson = Lesson("Find it", predict=True)
    page = recorded.save(tmp_path / "run.html", lesson=lesson).read_text()
    [found] = re.findall(r'id="ag-visual-recording">(.*?)</script>', page, re.DOTALL)
    record = json.loads(found)
    assert record["lesson"] == lesson.json()
    check_fields(RECORDS["Recording"], record, "recording")
    again = torch.load_recording(recorded.save(tmp_path / "run.agv", lesson=lesson))
    assert again.record["lesson"]["text"] == "Find it"
    assert "lesson" not in recorded.recording.record
    bare = torch.load_recording(recorded.save(tmp_path / "bare.agv", values=False))
    assert "scalars" not in bare.record
    nameless = torch.load_recording(recorded.save(tmp_path / "nameless.agv", source=False))
    assert recorded.recording.record["scalars"]["nodes"][0]["label"] == "x"
    assert {one["label"] for one in nameless.record["scalars"]["nodes"]} == {""}


@pytest.mark.parametrize("factor", [1.0, -2.5])
def test_a_recording_keeps_what_really_arrived(factor: float) -> None:
    x = leaf(3.0, 4.0)
    x.register_hook(lambda g: g)
    with torch.record(scalars=True) as recorded:
        y = x * x
        y.register_hook(lambda g: g * 2)
        y.sum().backward(torch.tensor(factor))
    nodes = {n["name"]: n for n in recorded.recording.record["scalars"]["nodes"]}
    assert nodes["SumBackward0"]["outputs"][0]["gradient"] == [factor]
    assert nodes["MulBackward0"]["outputs"][0]["gradient"] == [2 * factor] * 2
    [leaf_] = [n for n in nodes.values() if n["label"] == "x"]
    assert leaf_["outputs"][0]["gradient"] == x.grad.tolist()
    with torch.record() as plain:
        (x * x).sum().backward()
    assert "record(scalars=True)" in plain.recording.record["scalars"]["why"]
    assert plain.recording.record["scalars"]["nodes"] == []


def test_the_numbers_of_a_graph_that_stands_are_found_only_where_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = []
    slopes = scalars.slopes
    monkeypatch.setattr(scalars, "slopes", lambda node: looked.append(node) or slopes(node))
    x = leaf(3.0, 4.0)
    with torch.record() as plain:
        loss = (x * x).sum()
    assert plain.recording.record["scalars"]["nodes"] == []
    assert "scalars=True" in plain.recording.record["scalars"]["why"]
    assert looked == []
    with torch.record(scalars=True) as asked:
        current().clear()  # as the panel's button does in the midst of it
        loss = (x * x).sum()
    assert [n["name"] for n in asked.recording.record["scalars"]["nodes"]] == [
        "torch::autograd::AccumulateGrad",
        "MulBackward0",
        "SumBackward0",
    ]
    assert looked
    looked.clear()
    with torch.record():
        loss = (x * x).sum()
    assert looked == []
    del loss


@pytest.mark.filterwarnings("error")
def test_complex_gradients_that_arrive_are_not_drawn() -> None:
    z = torch.tensor([-3 + 4j, 8 - 6j], requires_grad=True)
    with torch.record(scalars=True) as recorded:
        (z * z).abs().sum().backward()
    nodes = {one["name"]: one for one in recorded.recording.record["scalars"]["nodes"]}
    mul = nodes["MulBackward0"]
    assert mul["outputs"][0]["gradient"] is None
    assert all(one["gives"] is None for one in mul["inputs"])
    assert nodes["AbsBackward0"]["outputs"][0]["gradient"] == [1.0, 1.0]


NET = """
import ag_visual as torch
x = torch.tensor([1.0, -2.0], requires_grad=True)
big = torch.ones(200, requires_grad=True)
"""


def test_a_paused_backward_tells_its_numbers(kernel: Any) -> None:
    kernel.run(NET)
    kernel.open_page()
    running = kernel.start("with torch.debugger():\n    (x.tanh() * 3).sum().backward()")
    kernel.until(lambda: kernel.paused)
    kernel.result("step")
    kernel.until(lambda: (kernel.paused or {}).get("order") == 1)
    seq = kernel.paused["seq"]
    told = kernel.result("local", seq=seq)
    assert told["name"] == "MulBackward0"
    assert told["outputs"][0]["gradient"] == [1.0, 1.0]
    assert told["inputs"][0]["gives"] == [3.0, 3.0]
    kernel.result("edit", how="scale", value=2)
    assert kernel.result("local", seq=seq)["inputs"][0]["gives"] == [6.0, 6.0]
    below = told["inputs"][0]["seq"]
    whole = kernel.result("scalars", seqs=[seq, below])
    assert [one["name"] for one in whole["nodes"]] == ["MulBackward0", "TanhBackward0"]
    assert whole["nodes"][1]["outputs"][0]["gradient"] is None
    kernel.result("continue")
    kernel.finish(running)
    # What was handed on is kept after the graph is gone.
    after = kernel.result("scalars", seqs=[seq, below])
    assert after["nodes"][1]["outputs"][0]["gradient"] == [6.0, 6.0]


def test_a_large_node_tells_what_it_will_hand_on(kernel: Any) -> None:
    kernel.run(NET)
    kernel.open_page()
    running = kernel.start("with torch.debugger('MulBackward0'):\n    (big * 3).sum().backward()")
    kernel.until(lambda: kernel.paused)
    paused = kernel.paused
    assert paused["breakpoint"] > 0
    told = kernel.result("local", seq=paused["seq"])
    assert told["inputs"][0]["gives"] == [3.0] * 64
    assert told["inputs"][0]["shape"] == [200]
    assert told["inputs"][0]["slopes"] is None
    refused = kernel.result("scalars", seqs=[paused["seq"]])
    assert refused["seq"] == paused["seq"]
    assert "MulBackward0" in refused["why"]
    kernel.result("continue")
    kernel.finish(running)


def test_a_page_that_looked_at_numbers_has_them_in_its_file(kernel: Any, tmp_path: Path) -> None:
    def saved() -> Any:
        kernel.run("torch.save_recording('kept.agv')")
        return torch.load_recording(tmp_path / "kept.agv").record

    kernel.run(NET + "with torch.record():\n    loss = x.tanh().sum()")
    kernel.open_page()
    record = saved()
    assert record["scalars"]["nodes"] == []
    seqs = [int(seq) for seq in record["details"]]
    names = {one["name"] for one in kernel.result("scalars", seqs=seqs)["nodes"]}
    assert {"TanhBackward0", "SumBackward0"} <= names
    assert {one["name"] for one in saved()["scalars"]["nodes"]} == names


def test_a_cell_tells_the_page_of_its_lesson(kernel: Any) -> None:
    kernel.run(NET)
    kernel.open_page()
    kernel.run("lesson = torch.lesson('Look', hide=['export'])")
    kernel.until(lambda: (kernel.state.get("lesson") or {}).get("text") == "Look")
    kernel.run("lesson = torch.lesson()")
    kernel.until(lambda: kernel.state.get("lesson") is None)
