"""What a profile shows outside of the timeline: below a cell, and in the page of a script."""

from __future__ import annotations

import subprocess
from pathlib import Path

from playwright.sync_api import Page, expect

from .lab import Lab, picture

SETUP = """\
import ag_visual as torch
from ag_visual import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))

def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()

step()  # what is loaded or compiled at first use would be all that the figure shows
"""
PROFILED = """\
%%profile --rows 6
for _ in range(10):
    step()"""


def test_a_cell_shows_its_table_and_the_flame_graph_below_it(lab: Lab) -> None:
    lab.open("guide/profile.ipynb", [f"%load_ext ag_visual\n{SETUP}", PROFILED])
    lab.page.set_viewport_size({"width": 1280, "height": 900})
    lab.run(0)
    # (Which ops are the slowest, and how wide their boxes are, depends on what the machine did.)
    assert "Self CPU time total" in lab.run(1)
    table = lab.page.locator(".jp-OutputArea-output pre").filter(has_text="Self CPU time total")
    # A line of the table is one line of the page.
    height = table.evaluate(
        "pre => pre.clientHeight / parseFloat(getComputedStyle(pre).lineHeight)"
    )
    assert height < len(table.inner_text().splitlines()) + 1
    figure = lab.page.locator(".jp-OutputArea-output .svg-container")
    expect(figure).to_have_count(1)
    expect(figure.locator("text.slicetext").filter(visible=True).first).to_be_visible()
    figure.evaluate("figure => figure.scrollIntoView({block: 'end'})")
    lab.screenshot("profile_cell_light")


def test_the_page_of_a_script_has_table_and_figures(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    (tmp_path / "train.py").write_text(
        SETUP.replace("ag_visual", "torch").replace("torch as torch", "torch")
        + "\n\nfor _ in range(10):\n    step()\n"
    )
    command = ("ag-visual", "profile", "--memory", "train.py")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page.set_viewport_size({"width": 1180, "height": 860})
    page.goto((tmp_path / "train.profile.html").as_uri())
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    picture(page, screenshots / "profile_script_light.png")
