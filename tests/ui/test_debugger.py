"""The debugger in a real notebook: conditions, groups, problems, gradients that are changed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab
from .test_groups import NET

START = """\
import ag_visual as torch
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
def run():
    h = (x * 2).exp().log()
    (h * h).sum().backward()"""
DEBUG = "with torch.debugger():\n    run()\nprint('gradient', x.grad.tolist())"
NAN = """\
z = torch.tensor([0.0, 1.0], requires_grad=True)
with torch.debugger():
    (z.sqrt() * 0.0).sqrt().sum().backward()"""
STEP = (
    "net = Net(4)\nwith torch.debugger():\n    net(torch.ones(1, 8)).sum().backward()\nprint('end')"
)


def paused(lab: Lab, cell: int) -> Locator:
    panel = lab.inspector()
    for before in range(cell):
        lab.run(before)
    lab.start(cell)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step 1")
    return panel


def test_a_gradient_is_changed_while_it_waits(lab: Lab) -> None:
    lab.open("debugger/edit.ipynb", [START, DEBUG])
    panel = paused(lab, 1)
    overlay = lab.page.locator(".jp-NotebookPanel .ag-paused-overlay")
    expect(overlay).to_contain_text("Paused in a backward pass")
    overlay.get_by_role("button", name="Step").click()
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step 2")
    expect(panel.get_by_role("heading", name="MulBackward0")).to_be_visible()

    grid = panel.get_by_role("table", name="Numbers of the gradient")
    expect(grid.get_by_label("Element 3")).to_have_value("1")
    panel.get_by_label("Change the gradient").select_option("scale")
    panel.get_by_label("Number", exact=True).fill("10")
    panel.get_by_role("button", name="Change gradient").click()
    expect(grid.get_by_label("Element 3")).to_have_value("10")
    grid.get_by_label("Element 0").fill("0")
    grid.get_by_label("Element 0").press("Enter")
    expect(panel.get_by_text("changed by you")).to_be_visible()
    expect(grid.get_by_label("Element 0")).to_have_value("0")
    panel.get_by_role("button", name="Change gradient").scroll_into_view_if_needed()
    lab.pictures("debugger_edit")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "gradient" in lab.output(1), "the cell to go on")
    # d/dx sum((2x)^2) = 8x; ten times that, and nothing where the gradient was put to zero.
    numbers = [float(text) for text in re.findall(r"[\d.]+", lab.output(1))]
    assert numbers == pytest.approx([0.0, 160.0, 240.0, 320.0], rel=1e-4)
    expect(overlay).to_have_count(0)


def test_conditions_are_breakpoints(lab: Lab) -> None:
    lab.open("debugger/conditions.ipynb", [START, DEBUG])
    panel = paused(lab, 1)
    panel.get_by_role("button", name="Breakpoints").click()
    panel.get_by_label("gradient norm above").fill("20")
    panel.get_by_role("button", name="Add").click()
    expect(panel.get_by_text("gradient norm above 20")).to_be_visible()
    panel.get_by_label("Stop where").select_option("nonfinite")
    panel.get_by_role("button", name="Add").click()
    expect(panel.get_by_role("button", name="Breakpoints 2")).to_be_visible()
    lab.screenshot("debugger_conditions")
    panel.get_by_role("button", name="Remove the breakpoint: NaN").click()
    expect(panel.get_by_role("button", name="Breakpoints 1")).to_be_visible()
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Continue").click()
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step 3")
    expect(panel.get_by_role("heading", name="LogBackward0")).to_be_visible()
    panel.get_by_role("button", name="Breakpoints").click()
    panel.get_by_role("button", name=re.compile("Remove the breakpoint")).click()
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "gradient" in lab.output(1), "the cell to end")


def test_runs_on_to_the_first_nan(lab: Lab) -> None:
    lab.open("debugger/nan.ipynb", ["import ag_visual as torch", NAN], theme="JupyterLab Dark")
    panel = paused(lab, 1)
    panel.get_by_role("button", name="Run on").click()
    panel.get_by_role("button", name="To the next problem").click()
    expect(panel.locator(".agv-warn").first).to_contain_text("NaN or an infinity")
    lab.screenshot("debugger_problem_dark")
    panel.get_by_role("button", name="Continue").click()
    expect(panel.locator(".agv-pill")).not_to_contain_text("Paused")


def test_steps_over_a_closed_group_and_out_of_an_open_one(lab: Lab) -> None:
    lab.open("debugger/groups.ipynb", [NET, STEP])
    panel = paused(lab, 1)
    seq = "model.store.state.paused && model.store.state.paused.seq"
    title = f"model.store.nameOf({seq})"
    lab.page.keyboard.press("F11")
    lab.wait_until(lambda: lab.model(title) == "AddmmBackward0", "the head's node")
    # Out of the head, to the last block; with all groups closed a block is one step.
    lab.page.keyboard.press("Shift+F11")
    lab.wait_until(lambda: lab.model(title) == "AddBackward0", "the last block")
    panel.get_by_role("button", name="Close all groups").click()
    net = lab.model("model.folding.isOpen(model.root.children.find(c => c.detail === 'Net'))")
    assert not net
    lab.screenshot("debugger_over_group")
    lab.page.keyboard.press("F10")
    lab.wait_until(
        lambda: "end" in lab.output(1), "the cell to end: nothing is left after the network"
    )
