"""One selection: gutter marks and lines lead to nodes; nodes to columns, tensors, the timeline."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from .lab import NOTEBOOK, Lab
from .test_accessibility import in_both
from .test_views import PIN, panel_of

START = """\
import ag_visual as torch
W = torch.ones(4, 3, requires_grad=True)

def layer(x):
    return torch.tanh(x @ W)"""
RUN = """\
h = layer(torch.ones(2, 4))
loss = (h * h).sum()
with torch.record():
    loss = (layer(torch.ones(2, 4)) * 2).exp().sum()
    loss.backward()"""


def dots(lab: Lab, cell: int) -> Locator:
    return lab.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".ag-line-mark")


def place(lab: Lab) -> Locator:
    return lab.page.locator(".jp-Notebook .ag-place")


def selects(lab: Lab, name: str) -> None:
    """Wait until a node of that name is selected."""
    selected = lambda: lab.model("model.store.nameOf(model.selected)")  # noqa: E731
    lab.wait_until(lambda: selected() == name, f"{name} to be selected")


def recorded(lab: Lab, name: str) -> Locator:
    lab.open(f"linked/{name}.ipynb", [START, RUN, "'else'"])
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    expect(dots(lab, 0)).to_have_count(1)
    expect(dots(lab, 1)).to_have_count(1)
    return panel


def test_lines_and_nodes_lead_to_each_other(lab: Lab) -> None:
    panel = recorded(lab, "both")
    [mark] = dots(lab, 0).all()
    expect(mark).to_have_attribute("title", "2 nodes of the graph: click to select")
    expect(dots(lab, 1)).to_have_attribute("title", "3 nodes of the graph: click to select")
    # From the line to its nodes, one after the other.
    mark.click()
    selects(lab, "TanhBackward0")
    expect(panel.get_by_text("node 1 of 2 that this line made")).to_be_visible()
    expect(place(lab)).to_have_text("torch.tanh(x @ W)")
    mark.click()
    selects(lab, "MmBackward0")
    # From the node to exactly its columns, wherever it is selected.
    expect(place(lab)).to_have_text("x @ W")
    assert len(lab.model("model.hits")) == 2
    lab.pictures("linked")
    assert not in_both(lab, ".ag-inspector-panel")
    lab.select("ExpBackward0")
    expect(place(lab)).to_have_text("(layer(torch.ones(2, 4)) * 2).exp()")
    # Its rows in the table of tensors are marked and in view; a row leads to its node.
    panel.get_by_role("tab", name="Tensors").click()
    own = panel.locator("tr[data-of-node=yes]")
    expect(own).to_have_count(1)
    expect(own).to_contain_text("ExpBackward0")
    expect(own).to_be_in_viewport()
    lab.pictures("linked_tensors")
    panel.locator(".agv-tensors tbody tr").filter(has_text="TanhBackward0").click()
    expect(place(lab)).to_have_text("torch.tanh(x @ W)")
    # From an event of the timeline to its node.
    axis = panel.locator(".agv-axis")
    axis.focus()
    lab.page.keyboard.press("Home")
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("Enter")
    selects(lab, "MmBackward0")
    expect(place(lab)).to_have_text("x @ W")


def test_the_cursor_leads_to_nodes_by_a_command_and_typing_is_left_alone(lab: Lab) -> None:
    panel = recorded(lab, "cursor")
    editor = lab.page.locator(".jp-Notebook .jp-Cell").nth(0).locator(".cm-content")
    editor.locator(".cm-line").nth(4).click()
    lab.command("ag-visual:select-line")
    selects(lab, "TanhBackward0")
    expect(place(lab)).to_have_text("torch.tanh(x @ W)")
    # The editor kept its focus and its cursor.
    assert lab.focused(".jp-Cell")
    lab.page.keyboard.press("End")
    lab.page.keyboard.type("  # mine")
    typed = lambda: lab.source(0).endswith("torch.tanh(x @ W)  # mine")  # noqa: E731
    lab.wait_until(typed, "the words in the cell")
    expect(panel.locator(".agv-det h3")).to_have_text("TanhBackward0")


def test_marks_go_with_edits_moves_reruns_and_deletions(lab: Lab) -> None:
    recorded(lab, "changes")
    first = lab.page.locator(".jp-Notebook .jp-Cell").nth(0).locator(".cm-content")
    # A line above: the mark moves along with its line.
    first.locator(".cm-line").nth(0).click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.press("Enter")
    expect(dots(lab, 0)).to_have_count(1)
    dots(lab, 0).click()
    selects(lab, "TanhBackward0")
    # The line itself: its mark goes.
    first.locator(".cm-line").nth(5).click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.type(" + 0")
    expect(dots(lab, 0)).to_have_count(0)
    # A cell that moves keeps its marks.
    lab.page.evaluate(f"() => {{ {NOTEBOOK}.content.activeCellIndex = 1; }}")
    lab.command("notebook:move-cell-down")
    expect(dots(lab, 2)).to_have_count(1)
    dots(lab, 2).click()
    selects(lab, "SumBackward0")
    # Run again, with a new graph: one mark, of the new run.
    lab.run(2)
    expect(dots(lab, 2)).to_have_count(1)
    # Run again without making nodes: the marks of the run before are gone.
    lab.edit(2, "loss = 1")
    expect(dots(lab, 2)).to_have_count(0)
    lab.edit(2, RUN)
    lab.run(2)
    expect(dots(lab, 2)).to_have_count(1)
    lab.page.evaluate(f"() => {{ {NOTEBOOK}.content.activeCellIndex = 2; }}")
    lab.command("notebook:delete-cell")
    expect(lab.page.locator(".ag-line-mark")).to_have_count(0)
    assert lab.nodes()


def test_marks_serve_the_panels_that_are_open(lab: Lab) -> None:
    panel = recorded(lab, "reopened")
    dots(lab, 0).click()
    selects(lab, "TanhBackward0")
    lab.close_inspector()
    expect(panel).to_have_count(0)
    expect(lab.page.locator(".ag-line-mark")).to_have_count(0)
    # The next panel's marks lead to its nodes.
    lab.inspector()
    expect(dots(lab, 0)).to_have_count(1)
    dots(lab, 0).click()
    selects(lab, "TanhBackward0")
    # Two panels share them; a click tells both, and one that closes leaves the other's.
    lab.command(PIN)
    pinned = panel_of(lab, "reopened.ipynb")
    expect(pinned.get_by_text("5 nodes, 1 leaf", exact=True)).to_be_visible()
    expect(dots(lab, 0)).to_have_count(1)
    heading = pinned.locator(".agv-det h3")
    for name in ("MmBackward0", "TanhBackward0"):
        dots(lab, 0).click()
        selects(lab, name)
    expect(heading).to_have_text(re.compile("TanhBackward0|MmBackward0"))
    # Each marks what it has selected: one call, or a part of it.
    expect(place(lab)).not_to_have_count(0)
    lab.close_inspector()
    expect(panel).to_have_count(0)
    expect(dots(lab, 0)).to_have_count(1)
    before = heading.inner_text()
    dots(lab, 0).click()
    expect(heading).not_to_have_text(before)
