"""`ag-visual tour` as a newcomer meets it: the notebook with the Inspector beside it, all run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .lab import Lab, Server

START = "import sys; from ag_visual.cli import main; sys.exit(main(sys.argv[1:]))"


def tour_command(server: Server) -> list[str]:
    return [
        *(sys.executable, "-c", START, "tour", "--no-browser"),
        *("--port", str(server.port), "--output", str(server.root)),
    ]


@pytest.fixture
def tour(tmp_path: Path, page: Page, screenshots: Path) -> Iterator[Lab]:
    """The JupyterLab that the command starts."""
    server = Server(tmp_path / "tour", command=tour_command)
    yield Lab(server, page, screenshots)
    page.goto("about:blank")
    server.end_sessions()
    server.stop()


def test_the_tour_opens_with_the_inspector_and_runs(tour: Lab) -> None:
    [address] = re.findall(r"http://\S+", tour.server.log.read_text())
    assert f":{tour.server.port}/lab/tree/tour.ipynb?token=" in address
    tour.page.goto(address)
    tour.started()
    panel = tour.page.locator(".ag-inspector-panel")
    panel.wait_for(state="visible")
    tour.kernel_ready()

    pill = panel.locator(".agv-pill")
    graph = "Array.from(model.graph.seqs, seq => model.titleOf(seq))"
    last = tour.cells() - 1
    for cell in tour.code_cells():
        if "torch.debugger" not in tour.source(cell):
            said = tour.run(cell)
            assert "Traceback" not in said
        else:
            tour.start(cell)
            expect(pill).to_have_text("Paused before step 6 of 13")
            tour.screenshot("tour_paused")
            panel.get_by_role("button", name="Step").click()
            expect(pill).to_have_text("Paused before step 7 of 13")
            panel.get_by_role("button", name="Continue").click()
            expect(pill).to_have_text("Paused before step 9 of 13")
            panel.get_by_role("button", name="Continue").click()
            tour.ended(cell)
        if "torch.record" in tour.source(cell):
            tour.wait_until(lambda: len(tour.model(graph)) > 5, "the graph of a training step")
            tour.screenshot("tour_trained")
    [accuracy] = re.findall(r"'accuracy': ([\d.]+)", tour.output(last))
    assert float(accuracy) >= 0.95
    panel.get_by_role("tab", name="Problems").click()
    expect(panel.locator(".agv-card")).to_contain_text("out = out + hidden")
    tour.screenshot("tour_problem")
