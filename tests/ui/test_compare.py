"""Two recorded backward passes side by side: in the panel and in a page without a kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import ag_visual as torch

from .lab import Lab, picture, wait_until
from .test_accessibility import faults, in_both

NET = """\
import ag_visual as torch
torch.manual_seed(0)
weights = [torch.randn(16, 16, requires_grad=True) for _ in range(4)]
x = torch.randn(8, 16)

def train(weights, activation, scale):
    h = x
    for i, w in enumerate(weights):
        h = (activation if i == 2 else torch.relu)(h @ w)
    loss = (h * scale).pow(2).mean()
    loss.backward()
    return loss"""
DEEPER = "weights.insert(2, torch.randn(16, 16, requires_grad=True))"


def test_two_passes_of_a_notebook_are_compared(lab: Lab) -> None:
    cells = [
        f"%load_ext ag_visual\n{NET}",
        "%ag_visual record on\ntrain(weights, torch.relu, 1.0)",
        f"{DEEPER}\ntrain(weights, torch.tanh, 4.0)",
    ]
    lab.open("compare/both.ipynb", cells)
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.model("model.tasks.length") == 2, "two passes")
    panel.get_by_role("button", name="Compare with…").click()
    panel.get_by_role("button", name="backward 1 of 2").click()
    summary = panel.locator(".agv-compare-head p")
    expect(summary).to_contain_text("added")
    expect(summary).to_contain_text("largest gradient change at")
    first = panel.locator(".agv-difference").first
    first.click()
    expect(first).to_have_attribute("aria-current", "true")
    expect(panel.locator(".agv-compare-pair")).to_contain_text("not there")
    panel.locator(".agv-compared .agv-graph").nth(1).focus()
    lab.page.keyboard.press("n")
    expect(panel.locator(".agv-difference").nth(1)).to_have_attribute("aria-current", "true")
    lab.pictures("compare")
    assert not in_both(lab, ".ag-inspector-panel")
    panel.locator(".agv-compared .agv-graph").nth(1).focus()  # which a change of theme may take
    lab.page.keyboard.press("Escape")
    expect(panel.locator(".agv-compare")).to_have_count(0)
    lab.command("ag-visual:compare")
    expect(panel.locator(".agv-compare")).to_be_visible()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A page with three passes, and the recording of a run with another activation."""
    scope: dict[str, object] = {}
    exec(NET, scope)
    train, weights = scope["train"], scope["weights"]
    assert callable(train)
    with torch.record() as recorded:
        for scale in (1.0, 1.0, 8.0):
            train(weights, torch.relu, scale)
    page = recorded.save(tmp_path / "before.html")
    with torch.record() as recorded:
        train(weights, torch.tanh, 1.0)
    return page, recorded.save(tmp_path / "after.agv")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_compares_with_a_file_without_a_kernel(
    context: BrowserContext,
    page: Page,
    files: tuple[Path, Path],
    screenshots: Path,
    scheme: Literal["light", "dark"],
) -> None:
    context.set_offline(True)
    before, after = files
    page.emulate_media(color_scheme=scheme)
    page.goto(before.as_uri())
    page.get_by_label("Recording to compare with").set_input_files(after)
    summary = page.locator(".agv-compare-head p")
    expect(summary).to_contain_text("Nodes: 1 changed")
    expect(page.locator(".agv-difference").first).to_contain_text("TanhBackward0 → ReluBackward0")
    page.locator(".agv-difference").first.click()
    expect(page.locator(".agv-compare-pair tr[data-differs='yes']").first).to_contain_text("op")
    left, right = page.locator(".agv-compared .agv-graph > canvas").all()
    picture(page, screenshots / f"compare_page_{scheme}.png")
    pictures = left.screenshot(), right.screenshot()
    right.hover()
    page.mouse.wheel(0, 300)
    wait_until(page, lambda: left.screenshot() != pictures[0], "the left graph to move along")
    wait_until(page, lambda: right.screenshot() != pictures[1], "the right graph to move")
    page.get_by_role("button", name="Show all").click()
    picture(page, screenshots / f"compare_page_{scheme}.png")
    assert not faults(page, ".agv-root")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Compare with…").click()
    page.get_by_role("button", name=re.compile("^backward 2 of 3")).click()
    expect(summary).to_contain_text("No difference in")
    expect(summary).to_contain_text("64 times larger")


def test_a_file_that_cannot_be_read_leaves_the_page_alive(
    page: Page, files: tuple[Path, Path], tmp_path: Path
) -> None:
    before, after = files
    cut = tmp_path / "cut.agv"
    cut.write_bytes(after.read_bytes()[:400])
    page.goto(before.as_uri())
    page.get_by_label("Recording to compare with").set_input_files(cut)
    expect(page.get_by_role("alert")).to_contain_text("cut.agv: The file is damaged or cut short")
    page.get_by_role("button", name="Close this message").click()
    page.get_by_label("Recording to compare with").set_input_files(after)
    expect(page.locator(".agv-compare")).to_be_visible()


def test_compare_shows_both_graphs_in_a_cells_output(lab: Lab) -> None:
    half = "a = train(weights, torch.relu, 1.0)\nb = train(weights, torch.tanh, 1.0)"
    kept = NET.replace("    loss.backward()\n", "")
    lab.open("compare/output.ipynb", [kept, half, "torch.compare(a, b)"])
    told = lab.run_all()[-1]
    assert told.startswith("Nodes: 1 changed")
    output = lab.page.locator(".jp-OutputArea .agv-compare")
    output.scroll_into_view_if_needed()
    expect(output.locator(".agv-compare-head p")).to_contain_text("Nodes: 1 changed")
    output.locator(".agv-difference").first.click()
    expect(output.locator(".agv-compare-pair")).to_contain_text("TanhBackward0")
    expect(output.locator(".agv-deltas").first).to_contain_text("norm")
    lab.screenshot("compare_output")
