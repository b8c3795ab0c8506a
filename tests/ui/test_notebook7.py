"""The same panel in Notebook 7, whose windows hold one document: it stands in the right sidebar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .lab import Lab, Server
from .test_kernels import story, whole_story
from .test_live import DEBUG, IMPORT, MODEL, NAMES, RECORD


def notebook7(server: Server) -> list[str]:
    """The command line of a plain Notebook 7."""
    return [
        *(sys.executable, "-m", "notebook", "--no-browser", "--allow-root"),
        *(f"--ServerApp.port={server.port}", "--ServerApp.port_retries=0"),
        f"--ServerApp.root_dir={server.root}",
        "--JupyterNotebookApp.expose_app_in_browser=True",
    ]


@pytest.fixture(scope="module")
def notebook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("notebook7"), command=notebook7)
    yield running
    running.stop()


@pytest.fixture
def notebook(notebook_server: Server, page: Page, screenshots: Path) -> Iterator[Lab]:
    found = Lab(notebook_server, page, screenshots)
    yield found
    page.goto("about:blank")
    notebook_server.end_sessions()


def open_in(notebook: Lab, name: str, cells: list[str]) -> None:
    notebook.write(name, cells)
    notebook.page.goto(f"{notebook.server.url}/notebooks/{name}?token={notebook.server.token}")
    notebook.started()
    notebook.kernel_ready()


def test_records_pauses_and_steps_beside_the_notebook(notebook: Lab) -> None:
    cells = [IMPORT, MODEL, RECORD, DEBUG]
    open_in(notebook, "seven.ipynb", cells)
    notebook.page.locator("[data-command='ag-visual:open-inspector'] button").click()
    panel = notebook.page.locator(".ag-inspector-panel")
    panel.wait_for(state="visible")
    for cell in range(3):
        notebook.run(cell)
    notebook.wait_until(lambda: notebook.nodes() == NAMES, "the graph's nodes")

    def beside() -> bool:
        sheet = notebook.page.locator(".jp-Notebook").bounding_box()
        box = panel.bounding_box()
        assert sheet is not None
        assert box is not None
        return box["x"] >= sheet["x"] + sheet["width"] - 1 and box["width"] > 600

    notebook.wait_until(beside, "the panel to stand beside the notebook")

    notebook.start(3)
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    notebook.page.keyboard.press("F10")
    expect(pill).to_have_text("Paused before step 2 of 5")
    notebook.pictures("notebook7")
    for name in ("Run on", "Breakpoints", "Export"):
        panel.get_by_role("button", name=name).click()
        sheet = panel.locator(".agv-sheet").bounding_box()
        whole = panel.bounding_box()
        assert sheet is not None
        assert whole is not None
        assert sheet["x"] >= whole["x"], f"{name} begins left of the panel"
        assert sheet["x"] + sheet["width"] <= whole["x"] + whole["width"], f"{name} sticks out"
        notebook.page.keyboard.press("Escape")
        expect(panel.locator(".agv-sheet")).to_have_count(0)
    panel.get_by_role("button", name="Continue").click()
    notebook.wait_until(lambda: "went on" in notebook.output(3), "the cell to go on")


def test_the_whole_story_in_notebook_7(notebook: Lab, tmp_path: Path) -> None:
    go = tmp_path / "go"
    open_in(notebook, "story.ipynb", story(go))
    whole_story(notebook, go)


def test_an_output_is_live_in_notebook_7(notebook: Lab) -> None:
    show = "loss = forward()\ntorch.show(loss)"
    debug = "with torch.debugger():\n    loss.backward()\nprint('went on')"
    cells = [IMPORT, MODEL, show, debug]
    open_in(notebook, "output.ipynb", cells)
    for cell in range(3):
        notebook.run(cell)
    notebook.start(3)
    shown = notebook.page.locator(".agv-output")
    expect(shown.locator(".agv-pill")).to_have_text("Paused before step 1 of 5")
    shown.get_by_role("button", name="Step").click()
    expect(shown.locator(".agv-pill")).to_have_text("Paused before step 2 of 5")
    notebook.screenshot("notebook7_output_dark")
    # Its keys are its own: in the notebook A inserts a cell, X cuts one, D twice deletes it.
    shown.get_by_role("button", name="Time", exact=True).click()
    timeline = shown.get_by_role("application")
    timeline.focus()
    for key in ("a", "b", "d", "d", "m", "w", "ArrowRight"):
        notebook.page.keyboard.press(key)
    expect(shown.locator(".agv-timing-chosen")).to_be_visible()
    for key in ("x", "x", "c", "b"):
        notebook.page.keyboard.press(key)
    assert [notebook.source(cell) for cell in notebook.code_cells()] == cells
    notebook.page.keyboard.press("x")
    shown.get_by_role("button", name="Continue").click()
    notebook.wait_until(lambda: "went on" in notebook.output(3), "the cell to go on")
