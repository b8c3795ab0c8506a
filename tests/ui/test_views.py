"""Several notebooks and several views at once: each shows its own, and all of one kernel agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab, Server
from .test_accessibility import in_both
from .test_live import DEBUG, IMPORT, MODEL, NAMES, RECORD

PIN = "ag-visual:open-pinned-inspector"
PINNED = ".ag-mod-pinned[aria-label$='{}']"
WAITS = 12
"""Seconds that a pause waits for a page to be heard, which is asked for it four times as often."""
OTHER = "with torch.debugger():\n    (W * 2).sum().backward()\nprint('other went on')"


def panel_of(lab: Lab, name: str) -> Locator:
    """The pinned panel of a notebook."""
    found = lab.page.locator(PINNED.format(name))
    found.wait_for(state="visible")
    return found


@pytest.fixture
def second(server: Server, screenshots: Path, lab: Lab) -> Iterator[Lab]:
    """Another page in the same browser, on the same server."""
    other = Lab(server, lab.page.context.new_page(), screenshots)
    yield other
    other.page.close()


def test_two_notebooks_are_watched_in_two_panels(lab: Lab) -> None:
    lab.write("views/right.ipynb", [IMPORT, MODEL, OTHER])
    lab.open("views/left.ipynb", [IMPORT, MODEL, DEBUG])
    lab.command(PIN)
    for cell in range(2):
        lab.run(cell)
    lab.start(2)
    left = panel_of(lab, "left.ipynb").locator(".agv-pill")
    expect(left).to_have_text("Paused before step 1 of 5")
    lab.open_path("views/right.ipynb")
    lab.command(PIN)
    for cell in range(2):
        lab.run(cell)
    lab.start(2)
    right = panel_of(lab, "right.ipynb").locator(".agv-pill")
    expect(right).to_have_text("Paused before step 1 of 3")
    panel_of(lab, "right.ipynb").get_by_role("button", name="Step").click()
    expect(right).to_have_text("Paused before step 2 of 3")
    expect(left).to_have_text("Paused before step 1 of 5")
    lab.pictures("views_two_panels")
    found = in_both(lab, PINNED.format("right.ipynb"))
    assert not found, "\n".join(found)
    # F10 in a notebook steps the backward of that notebook.
    lab.command("docmanager:open", path="views/left.ipynb")
    lab.command("ag-visual:step")
    expect(left).to_have_text("Paused before step 2 of 5")
    expect(right).to_have_text("Paused before step 2 of 3")
    panel_of(lab, "left.ipynb").get_by_role("button", name="Continue").click()
    expect(left).not_to_contain_text("Paused")
    expect(right).to_have_text("Paused before step 2 of 3")
    panel_of(lab, "right.ipynb").get_by_role("button", name="Continue").click()
    expect(right).not_to_contain_text("Paused")


def test_a_pinned_panel_and_the_following_one_show_one_kernel(lab: Lab) -> None:
    lab.open("views/both.ipynb", [IMPORT, MODEL, DEBUG])
    lab.command(PIN)
    following = lab.inspector()
    for cell in range(2):
        lab.run(cell)
    lab.start(2)
    pinned = panel_of(lab, "both.ipynb")
    for panel in (pinned, following):
        expect(panel.locator(".agv-pill")).to_have_text("Paused before step 1 of 5")
    expect(lab.page.locator(".ag-paused-overlay")).to_have_count(1)
    pinned.get_by_role("button", name="Step").click()
    for panel in (pinned, following):
        expect(panel.locator(".agv-pill")).to_have_text("Paused before step 2 of 5")
    # One is closed: keys and the other panel go on.
    lab.close_inspector()
    expect(following).to_have_count(0)
    lab.command("ag-visual:step")
    expect(pinned.locator(".agv-pill")).to_have_text("Paused before step 3 of 5")
    pinned.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(2), "the cell to go on")


@pytest.mark.usefixtures("anew")
def test_two_pages_follow_one_kernel_and_share_breakpoints(lab: Lab, second: Lab) -> None:
    patient = DEBUG.replace("debugger()", f"debugger(patience={WAITS})")
    lab.open("views/shared.ipynb", [IMPORT, MODEL, patient])
    first = lab.inspector()
    for cell in range(2):
        lab.run(cell)
    second.load()
    second.open_path("views/shared.ipynb")
    other = second.inspector()
    expect(other.locator(".agv-pill")).to_have_text("Not recording")
    lab.start(2)
    for panel in (first, other):
        expect(panel.locator(".agv-pill")).to_have_text("Paused before step 1 of 5")
    second.select("sigmoid")
    other.get_by_role("button", name="Break here").click()
    for panel in (first, other):
        expect(panel.get_by_role("button", name="Breakpoints 1")).to_be_visible()
    first.get_by_role("button", name="Continue").click()
    for panel in (first, other):
        expect(panel.locator(".agv-pill")).to_have_text("Paused before step 3 of 5")

    # The first page is closed: longer than anybody is waited for, but the second one watches.
    lab.page.close()
    second.page.wait_for_timeout(1500 * WAITS)
    expect(other.locator(".agv-pill")).to_have_text("Paused before step 3 of 5")
    other.get_by_role("button", name="Step").click()
    expect(other.locator(".agv-pill")).to_have_text("Paused before step 4 of 5")
    other.get_by_role("button", name="Continue").click()
    expect(other.locator(".agv-pill")).not_to_contain_text("Paused")


def test_a_reload_between_cells_brings_everything_back(lab: Lab) -> None:
    lab.open("views/reload.ipynb", [IMPORT, MODEL, RECORD, DEBUG])
    lab.inspector()
    for cell in range(3):
        lab.run(cell)
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
    lab.command(PIN)
    lab.reload()
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes after the reload")
    panel_of(lab, "reload.ipynb")
    lab.start(3)
    expect(panel_of(lab, "reload.ipynb").locator(".agv-pill")).to_contain_text("Paused before")
    panel_of(lab, "reload.ipynb").get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(3), "the cell to go on")


def test_a_panel_that_is_closed_and_opened_again_finds_the_pause(lab: Lab) -> None:
    lab.open("views/closed.ipynb", [IMPORT, MODEL, DEBUG])
    lab.inspector()
    for cell in range(2):
        lab.run(cell)
    lab.start(2)
    pill = lab.page.locator(".ag-inspector-panel .agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    lab.close_inspector()
    expect(lab.page.locator(".ag-inspector-panel")).to_have_count(0)
    expect(lab.page.locator(".ag-paused-overlay")).to_have_count(0)
    panel = lab.inspector()
    expect(pill).to_have_text("Paused before step 1 of 5")
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(2), "the cell to go on")


def test_a_kernel_that_is_shut_down_is_said_and_a_new_one_followed(lab: Lab) -> None:
    lab.open("views/shutdown.ipynb", [IMPORT, MODEL, DEBUG, RECORD])
    panel = lab.inspector()
    for cell in range(2):
        lab.run(cell)
    lab.start(2)
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    lab.shut_down_kernel()
    expect(pill).to_have_text("No kernel")
    expect(panel.get_by_text("This notebook has no kernel").first).to_be_visible()
    expect(lab.page.locator(".ag-paused-overlay")).to_have_count(0)
    lab.start_kernel()
    expect(pill).to_have_text("Connecting")
    for cell in (0, 1, 3):
        lab.run(cell)
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph of the new kernel")


def test_a_renamed_notebook_keeps_its_inspector(lab: Lab) -> None:
    lab.open("views/before.ipynb", [IMPORT, MODEL, DEBUG])
    lab.inspector()
    lab.command(PIN)
    for cell in range(2):
        lab.run(cell)
    lab.start(2)
    pinned = panel_of(lab, "before.ipynb").locator(".agv-pill")
    expect(pinned).to_have_text("Paused before step 1 of 5")
    lab.rename("after.ipynb")
    tab = lab.page.locator(".lm-TabBar-tab", has_text="Inspector: after.ipynb (paused)")
    expect(tab).to_be_visible()
    caption = lab.page.locator(".lm-TabBar-tab[title='Backward passes of after.ipynb']")
    expect(caption.first).to_be_attached()
    again = panel_of(lab, "after.ipynb")
    again.get_by_role("button", name="Step").click()
    expect(again.locator(".agv-pill")).to_have_text("Paused before step 2 of 5")
    lab.select("sigmoid")
    panel_of(lab, "after.ipynb").get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(2), "the cell to go on")
