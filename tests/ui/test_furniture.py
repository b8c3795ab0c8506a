"""The panel in a browser: one row at any width, its pin, outputs as small as their graph."""

from __future__ import annotations

from playwright.sync_api import FloatRect, Locator, Page, expect

import ag_visual as torch

from .lab import Lab
from .test_accessibility import faults, in_both

RUNS = """\
import ag_visual as torch
W = torch.full((4, 3), 0.5, requires_grad=True)
def run(act):
    act(W @ W.T).sum().backward()
with torch.record(name="relu, lr 0.1"):
    run(torch.relu)
with torch.record():
    run(torch.tanh)"""
SHOW = "loss = torch.relu(W @ W.T).sum()\ntorch.show(loss)"
COMPARE = "other = torch.tanh(W @ W.T).sum()\ntorch.compare(loss, other)"


def height(part: Locator) -> float:
    box = part.bounding_box()
    assert box is not None
    return box["height"]


def test_the_buttons_are_one_row_at_any_width(page: Page, tmp_path) -> None:
    w = torch.tensor([[1.0, -2.0]], requires_grad=True)
    with torch.record(name="relu, lr 0.1") as recorded:
        (w * 2).relu().sum().backward()
    page.goto(recorded.save(tmp_path / "run.html").as_uri())
    expect(page).to_have_title("relu, lr 0.1")
    expect(page.get_by_role("heading", name="relu, lr 0.1")).to_be_visible()
    row = page.locator(".agv-tools")
    export = page.get_by_role("button", name="Export")
    expect(export).to_be_visible()
    expect(export.locator(".agv-label")).to_be_visible()
    at_once = height(row)
    for width in (700, 360):
        page.set_viewport_size({"width": width, "height": 700})
        expect(page.get_by_role("textbox", name="Find node")).to_be_visible()
        assert height(row) == at_once
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert not faults(page, ".agv-root")
    # What does not fit is in the menu, and works from there.
    more = page.get_by_role("button", name="More")
    more.click()
    page.locator(".agv-sheet").get_by_role("button", name="Export").click()
    assert not faults(page, ".agv-root")
    expect(page.get_by_role("button", name="Picture (PNG)")).to_be_visible()
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    page.set_viewport_size({"width": 1280, "height": 700})
    expect(more).to_have_count(0)
    expect(export).to_be_visible()


def overlap(one: FloatRect, other: FloatRect) -> bool:
    return (
        one["x"] < other["x"] + other["width"]
        and other["x"] < one["x"] + one["width"]
        and one["y"] < other["y"] + other["height"]
        and other["y"] < one["y"] + one["height"]
    )


def test_tabs_are_one_row_and_nothing_lies_over_a_graph_in_a_low_view(page: Page, tmp_path) -> None:
    x = torch.zeros(2, requires_grad=True)
    with torch.record() as recorded:
        (torch.log(x) * x).sum().backward()
    page.goto(recorded.save(tmp_path / "low.html").as_uri())
    page.get_by_role("tab", name="Problems").click()
    tabs = page.locator(".agv-tabs [role=tab]")
    expect(tabs.locator(".agv-count")).to_have_text("1")
    for width in (800, 1000, 1560):
        page.set_viewport_size({"width": width, "height": 700})
        tops = tabs.evaluate_all("all => all.filter(e => !e.hidden).map(e => e.offsetTop)")
        assert len(tops) == 6
        assert len(set(tops)) == 1, f"{width} pixels"
    page.get_by_role("button", name="Hide this side").click()
    page.set_viewport_size({"width": 800, "height": 440})
    colour = page.locator(".agv-legend-by").bounding_box()
    assert colour is not None
    for other in (".agv-views", ".agv-zoom"):
        beside = page.locator(other).bounding_box()
        assert beside is not None
        assert not overlap(colour, beside), other
    graph = page.locator(".agv-graph").bounding_box()
    assert graph is not None
    assert graph["height"] < 340
    assert colour["y"] + colour["height"] < graph["y"] + 46, "above where graphs begin"


def test_a_pinned_panel_stays_and_runs_are_reached_in_it(lab: Lab) -> None:
    lab.write("furniture/other.ipynb", ["1 + 1"])
    lab.open("furniture/runs.ipynb", [RUNS, "2 + 2"])
    panel = lab.inspector()
    lab.run(0)
    title = lab.page.locator(".ag-inspector-host:not([hidden]) .agv-title")
    expect(title).to_have_text("runs.ipynb")
    lab.page.get_by_role("button", name="Stay with this notebook").click()
    pinned = lab.page.locator(".ag-inspector-panel.ag-mod-pinned")
    expect(pinned).to_have_count(1)
    lab.open_path("furniture/other.ipynb")
    expect(title).to_have_text("runs.ipynb")
    # Both blocks, though the second one replaced the first one's passes.
    pinned.get_by_role("button", name="Runs 2").click()
    rows = pinned.locator(".agv-sheet-row")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("relu, lr 0.1")
    found = in_both(lab, ".agv-sheet")
    assert not found, "\n".join(found)
    for box in pinned.get_by_role("checkbox").all():
        box.check()
    lab.pictures("runs")
    pinned.get_by_role("button", name="Compare these two").click()
    names = pinned.locator(".agv-compared h3")
    expect(names).to_have_text(["relu, lr 0.1", "run 2"])
    expect(pinned.locator(".agv-compare-head p")).to_contain_text("1 changed")
    pinned.get_by_role("button", name="Close").click()
    pinned.get_by_role("button", name="Stay with this notebook").click()
    expect(title).to_have_text("other.ipynb")
    expect(panel).to_have_count(1)


def test_an_output_is_as_high_as_its_graph_and_has_a_drawer(lab: Lab) -> None:
    lab.open("furniture/output.ipynb", [RUNS, SHOW, COMPARE])
    for cell in range(3):
        lab.run(cell)
    outputs = lab.page.locator(".agv-output")
    shown = outputs.first
    shown.scroll_into_view_if_needed()
    expect(shown.locator(".agv-title")).to_have_text("graph of loss, 4 nodes")
    expect(shown.locator(".agv-side, .agv-time, .agv-legend")).to_have_count(0)
    assert 320 <= height(shown) <= 640
    search = shown.get_by_role("textbox", name="Find node")
    search.fill("ReluBackward0")
    search.press("Enter")
    expect(shown.get_by_role("heading", name="ReluBackward0")).to_be_visible()
    shown.get_by_role("button", name="More").click()
    found = in_both(lab, ".agv-output")
    assert not found, "\n".join(found)
    lab.page.keyboard.press("Escape")
    lab.pictures("output_drawer")
    shown.get_by_role("button", name="Hide this side").click()
    expect(shown.locator(".agv-side")).to_have_count(0)
    compared = outputs.last
    compared.scroll_into_view_if_needed()
    expect(compared.locator(".agv-compared")).to_have_count(2)
    expect(compared.locator(".agv-compared h3")).to_have_text(["loss", "other"])
    # With less room, one graph at a time behind tabs; a difference shows its own side.
    lab.page.set_viewport_size({"width": 900, "height": 900})
    expect(compared.locator(".agv-compared")).to_have_count(1)
    left = compared.get_by_role("tab", name="Left: loss")
    left.click()
    expect(left).to_have_attribute("aria-selected", "true")
    compared.locator(".agv-difference").first.click()
    expect(compared.locator(".agv-compare-pair")).to_contain_text("TanhBackward0")
    found = in_both(lab, ".agv-compare")
    assert not found, "\n".join(found)
