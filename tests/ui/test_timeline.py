"""The Time mode: a trace of torch's own profiler and a profile of ours, opened without a kernel."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

import ag_visual as ag

from ..oracle import torch
from .lab import Lab
from .test_accessibility import in_both


def profiled(t: Any) -> Any:
    """Three steps of a small network."""
    module = importlib.import_module(f"{t.__name__}.profiler")
    layers = (t.nn.Linear(64, 128), t.nn.ReLU(), t.nn.Linear(128, 10))
    model = t.nn.Sequential(*layers)
    optimizer = t.optim.SGD(model.parameters(), lr=0.01)
    x, y = t.randn(64, 64), t.randint(0, 10, (64,))
    steps = module.schedule(wait=0, warmup=1, active=3, repeat=1)
    with module.profile(schedule=steps, record_shapes=True, profile_memory=True) as found:
        for _ in range(4):
            with module.record_function("forward"):
                loss = t.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.step()
    return found


def opened(lab: Lab, name: str) -> Locator:
    """The file of that name, in a tab of its own."""
    lab.command("docmanager:open", path=f"profiles/{name}")
    return lab.page.locator(".jp-Document:not(.lm-mod-hidden) .ag-inspector-panel")


@pytest.fixture
def folder(lab: Lab) -> Path:
    folder = lab.server.root / "profiles"
    folder.mkdir(exist_ok=True)
    return folder


def test_a_trace_of_torch_opens_as_a_timeline(lab: Lab, folder: Path) -> None:
    profiled(torch).export_chrome_trace(str(folder / "torch.pt.trace.json"))
    lab.load()
    shown = opened(lab, "torch.pt.trace.json")
    head = shown.locator(".agv-timing-head")
    expect(head).to_contain_text(re.compile(r"torch.pt.trace.json: \d+ slices"))
    table = shown.get_by_role("table", name="Time by name")
    linear = table.get_by_role("row", name="aten::linear")
    expect(linear.get_by_role("cell").nth(2)).to_have_text("6")
    assert lab.server.api("GET", "kernels") == []

    # A node of the backward leads to its op, and a span is summed up by itself.
    shown.get_by_role("textbox", name="Find slices").fill("AddmmBackward0")
    expect(shown.locator(".agv-found")).to_have_text("12")
    shown.get_by_role("textbox", name="Find slices").press("Enter")
    timeline = shown.get_by_role("application")
    timeline.focus()
    lab.page.keyboard.press("f")
    chosen = shown.locator(".agv-timing-chosen")
    expect(chosen).to_contain_text("Backward of")
    chosen.get_by_role("button", name="aten::addmm").click()
    expect(chosen.get_by_role("heading")).to_have_text("aten::addmm")
    expect(chosen).to_contain_text("float [64,")
    timeline.focus()
    for key in ("Space", "m", "w", "w"):
        lab.page.keyboard.press(key)
    box = timeline.bounding_box()
    assert box is not None
    lab.page.mouse.move(box["x"] + 500, box["y"] + 200)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + 1000, box["y"] + 210, steps=3)
    lab.page.mouse.up()
    expect(shown.get_by_role("heading", name="In the selected span")).to_be_visible()
    shown.get_by_role("textbox", name="Find slices").fill("")
    lab.pictures("timeline")
    assert in_both(lab, ".jp-Document .ag-inspector-panel") == []


def test_a_profile_of_ours_opens_and_one_that_is_cut_says_so(lab: Lab, folder: Path) -> None:
    profiled(ag).export_profile(str(folder / "run.agprof"))
    whole = (folder / "run.agprof").read_bytes()
    (folder / "cut.agprof").write_bytes(whole[: -len(whole) // 4])
    (folder / "letter.agprof").write_bytes(b"Dear reader")
    lab.load()
    shown = opened(lab, "run.agprof")
    table = shown.get_by_role("table", name="Time by name")
    linear = table.get_by_role("row", name="aten::linear")
    expect(linear.get_by_role("cell").nth(2)).to_have_text("6")
    lab.screenshot("timeline_ours")
    expect(opened(lab, "cut.agprof").locator(".agv-timing-notices")).to_contain_text("cut short")
    expect(opened(lab, "letter.agprof").get_by_role("alert")).to_contain_text("not a Chrome trace")


MODEL = """\
import ag_visual as torch
from ag_visual.profiler import profile
W = torch.randn(64, 64, requires_grad=True)

def layer(x):
    return torch.tanh(x @ W)"""
TRAIN = """\
with torch.record():
    for step in range(4):
        loss = layer(layer(torch.ones(8, 64))).pow(2).mean()
        loss.backward()"""
STOP = """\
with torch.debugger():
    loss = layer(torch.ones(8, 64)).sum()
    loss.backward()"""
PROFILE = """\
with profile(record_shapes=True, profile_memory=True, with_stack=True) as found:
    layer(layer(torch.ones(512, 64))).pow(2).mean().backward()
found.export_profile("profiles/here.agprof")"""

FOLLOWED = """\
import time
from pathlib import Path
begun = time.time()
with profile(with_stack=True) as found:
    while time.time() - begun < 90 and not Path("profiles/stop").exists():
        layer(torch.ones(8, 64)).sum().backward()
        time.sleep(0.01)"""


def heat(lab: Lab, cell: int) -> Locator:
    return lab.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".ag-heat")


def test_beside_a_notebook_it_follows_hatches_pauses_and_warms_lines(
    lab: Lab, folder: Path
) -> None:
    lab.open("timed.ipynb", [MODEL, TRAIN, STOP, PROFILE])
    shown = lab.inspector()
    lab.run(0)
    lab.run(1)
    expect(shown.locator(".agv-passes")).to_be_visible()
    shown.get_by_role("button", name="Time", exact=True).click()
    head = shown.locator(".agv-timing-head")
    expect(head).to_contain_text("This recording")
    before = head.inner_text()
    expect(heat(lab, 0)).to_have_count(1)
    expect(heat(lab, 0)).to_have_attribute("title", re.compile(r"of .* with its backward"))
    # What the program does now comes by itself, and what a reader stops is hatched.
    lab.start(2)
    expect(shown.locator(".agv-pill")).to_contain_text("Paused before step 1")
    expect(head).to_contain_text("paused")
    assert head.inner_text() != before
    shown.get_by_role("button", name="Continue").click()
    lab.ended(2)
    expect(shown.locator(".agv-pill")).to_have_text("Not recording")
    lab.pictures("timeline_live")
    assert in_both(lab, ".ag-inspector-panel") == []
    # From a line to its slices, among the lanes of lines.
    heat(lab, 0).click()
    expect(shown.get_by_role("button", name="Lines")).to_have_attribute("aria-pressed", "true")
    expect(shown.locator(".agv-timing-chosen")).to_contain_text("In[1] line 6")
    # A profile of the same notebook: memory, and the lines that hold it.
    lab.run(3)
    files = shown.get_by_label("File: Open…")
    files.set_input_files(lab.server.root / "profiles" / "here.agprof")
    expect(head).to_contain_text("here.agprof")
    expect(heat(lab, 0)).to_have_attribute("title", re.compile("at the peak of memory"))
    shown.get_by_role("application").focus()
    lab.page.keyboard.press("p")
    table = shown.get_by_role("table", name="What held memory at this moment")
    expect(table.get_by_role("row", name="aten::tanh")).to_contain_text("activation")
    lab.pictures("timeline_memory")
    assert in_both(lab, ".ag-inspector-panel") == []
    shown.get_by_role("button", name="Nodes", exact=True).click()
    expect(lab.page.locator(".jp-Notebook .ag-heat")).to_have_count(0)


def test_a_profile_is_followed_as_it_runs(lab: Lab, folder: Path) -> None:
    lab.open("followed.ipynb", [MODEL, FOLLOWED])
    shown = lab.inspector()
    lab.run(0)
    lab.start(1)
    # The empty panel is as high as it will be: nothing moves under the pointer.
    expect(shown.get_by_text("Course: 8 lessons")).to_be_visible()
    shown.get_by_role("button", name="Look at a profile or trace").click()
    head = shown.locator(".agv-timing-head")
    expect(head).to_contain_text("Running profile")
    table = shown.get_by_role("table", name="Time by name")
    calls = table.get_by_role("row", name="aten::tanh").get_by_role("cell").nth(2)
    expect(calls).to_be_visible()
    before = calls.inner_text()
    expect(calls).not_to_have_text(before)
    expect(heat(lab, 0)).to_have_attribute("title", re.compile(r"of .* with its backward"))
    assert in_both(lab, ".ag-inspector-panel") == []
    follow = shown.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    shown.get_by_role("application").focus()
    lab.page.keyboard.press("l")
    expect(follow).to_have_attribute("aria-pressed", "false")
    lab.page.keyboard.press("l")
    (folder / "stop").touch()
    lab.ended(1)
    expect(head).to_contain_text(re.compile(r"^(?!.*Running).*Profile: [\d,]+ slices", re.DOTALL))
    expect(shown.locator(".agv-timing-notices")).to_contain_text("a file of it")


def one_step(forward: Any) -> Any:
    module = importlib.import_module("ag_visual.profiler")
    with module.profile(profile_memory=True, with_stack=True) as found:
        forward().backward()
    return found


def test_what_one_line_keeps_for_the_backward_is_told(lab: Lab, folder: Path) -> None:
    points = ag.randn(1024, 8, requires_grad=True)
    layers = [ag.nn.Linear(256, 256) for _ in range(24)]

    def with_the_fault() -> Any:
        apart = points.unsqueeze(1) - points
        return apart.pow(2).sum()

    def without() -> Any:
        x = ag.randn(2048, 256)
        for layer in layers:
            x = layer(x)
        return x.sum()

    one_step(with_the_fault).export_profile(str(folder / "fault.agprof"))
    one_step(without).export_profile(str(folder / "none.agprof"))
    lab.load()
    hint = re.compile(r"test_timeline.py line \d+ keeps 32 MB for the backward, \d+ % of the peak")
    expect(opened(lab, "fault.agprof").locator(".agv-timing-sums")).to_contain_text(hint)
    sums = opened(lab, "none.agprof").locator(".agv-timing-sums")
    expect(sums.get_by_role("table", name="Time by name")).to_contain_text("aten::addmm")
    expect(sums).not_to_contain_text("keeps")
