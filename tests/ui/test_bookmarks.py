"""Bookmarks of a view: set and found again by digits, after a reload of Lab and of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

import ag_visual as torch

from .lab import Lab
from .test_accessibility import in_both

CHAIN = """\
%load_ext ag_visual
import ag_visual as torch
x = torch.ones(4, requires_grad=True)
def run():
    y = x
    for i in range(12):
        y = (y * 1.1).sin()
    y.sum().backward()"""
RECORD = "%ag_visual record on\nrun()"


def place(lab: Lab) -> list[float] | None:
    """Where the selected node stands on the page; None while nothing stands still."""
    found: Any = lab.model(
        "model.selected === null ? null : inspector.placeOf(model.selected)?.toJSON() ?? null"
    )
    return None if found is None else [round(found[side]) for side in ("x", "y", "width")]


def test_a_digit_goes_back_to_the_view(lab: Lab) -> None:
    lab.open("bookmarks/both.ipynb", [CHAIN, RECORD])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: len(lab.nodes()) > 20, "the graph")
    panel.get_by_role("button", name="Open all groups").click()
    lab.select("sin")
    graph = panel.locator(".agv-graph")
    graph.focus()
    lab.wait_until(lambda: place(lab) is not None, "a view that stands still")
    before = place(lab)
    lab.page.keyboard.press("Shift+Digit3")
    expect(panel.get_by_role("alert")).to_contain_text("Bookmark 3 set")
    panel.get_by_role("button", name="Close all groups").click()
    graph.focus()
    lab.page.keyboard.press("Escape")
    lab.page.keyboard.press("Space")
    panel.get_by_role("button", name="Views").click()
    expect(panel.locator(".agv-sheet")).to_contain_text("3  SinBackward0")
    assert not in_both(lab, ".ag-inspector-panel")
    lab.pictures("bookmarks")
    lab.page.keyboard.press("Escape")
    graph.focus()
    lab.page.keyboard.press("3")
    lab.wait_until(lambda: place(lab) is not None, "the view of before")
    found = place(lab)
    assert found is not None
    assert before is not None
    assert abs(found[2] - before[2]) <= 1
    assert abs(found[0] - before[0]) <= 2
    lab.page.keyboard.press("7")
    expect(panel.get_by_role("alert")).to_contain_text("No bookmark 7 yet")
    lab.reload()
    panel = lab.inspector()
    lab.wait_until(lambda: len(lab.nodes()) > 20, "the graph after the reload")
    panel.locator(".agv-graph").focus()
    lab.page.keyboard.press("3")
    lab.wait_until(lambda: place(lab) is not None, "the bookmark after the reload")


def test_a_page_keeps_bookmarks_over_a_reload(page: Page, tmp_path: Path) -> None:
    x = torch.ones(4, requires_grad=True)
    with torch.record() as recorded:
        (x * 2).sin().sum().backward()
    page.goto(recorded.save(tmp_path / "page.html").as_uri())
    page.locator(".agv-graph").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Digit1")
    expect(page.get_by_role("alert")).to_contain_text("Bookmark 1 set")
    page.reload()
    expect(page.locator(".agv-det h3")).to_have_count(0)
    page.locator(".agv-graph").focus()
    page.keyboard.press("1")
    expect(page.locator(".agv-det h3")).to_be_visible()
