"""The panel as a piece of JupyterLab: where it docks, what it follows, what outlives a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from .lab import Lab

ASKS = {"ag_visual": {"inspector": "open"}}


def beside(lab: Lab) -> bool:
    """Whether the panel and the notebook are both seen, the panel on the right."""
    notebook = lab.page.locator(".jp-NotebookPanel:visible").bounding_box()
    box = lab.page.locator(".ag-inspector-panel").bounding_box()
    return (
        notebook is not None
        and box is not None
        and box["x"] >= notebook["x"] + notebook["width"]
        and box["width"] > 300
    )


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_docks_to_the_right_and_is_still_there_after_a_reload(lab: Lab, theme: str) -> None:
    lab.open("docks/plain.ipynb", ["1 + 1"], theme=theme)
    panel = lab.inspector()
    expect(panel).to_contain_text("import ag_visual")
    assert lab.run(0).strip() == "2"
    lab.wait_until(lambda: beside(lab), "the panel to stand beside the notebook")
    lab.screenshot(f"panel_{theme.split()[-1].lower()}")
    lab.reload()
    panel.wait_for(state="visible")
    expect(panel).to_have_count(1)
    lab.wait_until(lambda: beside(lab), "the panel to stand beside the notebook again")


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
    expect(tab).to_have_text("Inspector")
    # It was used last: a notebook that is opened now would lie over it.
    lab.open_path("follows/first.ipynb")
    expect(tab).to_have_attribute("title", re.compile("first.ipynb"))
    expect(tab).to_have_text("Inspector: first.ipynb")
    lab.wait_until(lambda: beside(lab), "the second notebook to leave the panel in sight")
    lab.command("docmanager:open", path="follows/second.ipynb")
    expect(tab).to_have_attribute("title", re.compile("second.ipynb"))
    lab.wait_until(lambda: beside(lab), "the first notebook to stand where it was")
    lab.command("docmanager:save-all")
    lab.command("application:close-all")
    lab.command("ag-visual:open-inspector")
    expect(lab.page.locator(".ag-inspector-panel")).to_contain_text("Open a notebook")
    lab.open_path("follows/first.ipynb")
    lab.wait_until(lambda: beside(lab), "the panel to make room for a notebook")
    expect(tab).to_have_text("Inspector")
