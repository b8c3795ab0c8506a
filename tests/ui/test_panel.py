"""The panel as a piece of JupyterLab: where it docks, what it follows, what outlives a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .lab import Lab

ASKS = {"ag_visual": {"inspector": "open"}}


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_docks_to_the_right_and_is_still_there_after_a_reload(lab: Lab, theme: str) -> None:
    lab.open("docks/plain.ipynb", ["1 + 1"], theme=theme)
    panel = lab.inspector()
    expect(panel).to_contain_text("import ag_visual")
    assert lab.run(0).strip() == "2"

    def beside() -> bool:
        notebook = lab.page.locator(".jp-NotebookPanel").bounding_box()
        box = panel.bounding_box()
        assert notebook is not None
        assert box is not None
        return box["x"] >= notebook["x"] + notebook["width"] and box["width"] > 300

    lab.wait_until(beside, "the panel to stand beside the notebook")
    lab.screenshot(f"panel_{theme.split()[-1].lower()}")
    lab.reload()
    panel.wait_for(state="visible")
    expect(panel).to_have_count(1)
    lab.wait_until(beside, "the panel to stand beside the notebook again")


def test_a_notebook_that_asks_opens_it_once(lab: Lab) -> None:
    lab.write("asks/lesson.ipynb", ["'lesson'"], metadata=ASKS)
    lab.write("asks/other.ipynb", ["'other'"])
    lab.load()
    lab.open_path("asks/other.ipynb")
    panel = lab.page.locator(".ag-inspector-panel")
    expect(panel).to_have_count(0)
    lab.open_path("asks/lesson.ipynb")
    panel.wait_for(state="visible")
    expect(panel).to_have_count(1)


def test_follows_the_active_notebook(lab: Lab) -> None:
    lab.write("follows/first.ipynb", ["1"])
    lab.open("follows/second.ipynb", ["2"])
    lab.inspector()
    tab = lab.page.locator(".lm-TabBar-tab", has_text="Inspector")
    expect(tab).to_have_attribute("title", re.compile("second.ipynb"))
    lab.open_path("follows/first.ipynb")
    expect(tab).to_have_attribute("title", re.compile("first.ipynb"))
    lab.command("docmanager:open", path="follows/second.ipynb")
    expect(tab).to_have_attribute("title", re.compile("second.ipynb"))
    lab.command("docmanager:save-all")
    lab.command("application:close-all")
    lab.command("ag-visual:open-inspector")
    expect(lab.page.locator(".ag-inspector-panel")).to_contain_text("Open a notebook")
