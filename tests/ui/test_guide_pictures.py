"""The pictures of the README and the guide, taken from the program that they explain.

`pytest tests/ui --docs-images` copies them to docs/images, whose README says what each shows.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import FloatRect, Locator, expect

from .lab import Lab

SETUP = """\
import ag_visual as torch
import ag_visual.nn.functional as F

torch.manual_seed(0)
X, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
W1 = (torch.randn(64, 128) * 0.2).requires_grad_()
b1 = torch.zeros(128, requires_grad=True)
W2 = (torch.randn(128, 128) * 0.1).requires_grad_()
W3 = (torch.randn(128, 10) * 0.1).requires_grad_()"""
MISTAKE = """\
def forward():
    h = torch.relu(X @ W1 + b1)
    out = torch.relu(h @ W2)
    out += h
    return F.cross_entropy(out @ W3, y)

try:
    with torch.record():
        forward().backward()
except RuntimeError as error:
    print(error)"""
REPAIRED = """\
def forward():
    h = torch.relu(X @ W1 + b1)
    out = torch.relu(h @ W2)
    out = out + h
    return F.cross_entropy(out @ W3, y)

with torch.debugger(stop="ReluBackward0"):
    forward().backward()"""


def beside(lab: Lab, notebook: int) -> Locator:
    """The panel with all the room that a notebook of so many pixels leaves."""
    lab.page.set_viewport_size({"width": 1680, "height": 960})
    panel = lab.inspector()
    if not lab.page.evaluate("() => window.jupyterapp.shell.leftCollapsed"):
        lab.command("application:toggle-left-area")
    sheet = lab.page.locator(".jp-NotebookPanel")

    def boxes() -> tuple[FloatRect, FloatRect]:
        left, right = sheet.bounding_box(), panel.bounding_box()
        assert left is not None
        assert right is not None
        return left, right

    seen: list[Any] = [None]

    def still() -> bool:
        seen.append(boxes())
        return bool(seen[-1] == seen[-2])

    lab.wait_until(still, "the notebook and the panel to take their places")
    left, right = seen[-1]
    mouse = lab.page.mouse
    mouse.move((left["x"] + left["width"] + right["x"]) / 2, 500)
    mouse.down()
    mouse.move(left["x"] + notebook, 500, steps=8)
    mouse.up()
    near = lambda: abs(boxes()[0]["width"] - notebook) < 20  # noqa: E731
    lab.wait_until(near, f"a notebook of {notebook} pixels")
    return panel


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_residual_block_is_paused_in_the_middle(lab: Lab, theme: str) -> None:
    cells = [SETUP, REPAIRED]
    lab.open(f"guide/{theme}/residual.ipynb", cells, theme=f"JupyterLab {theme}")
    panel = beside(lab, 560)
    lab.run(0)
    lab.start(1)
    # Four nodes and W3 came before; the nodes are nine, and four parameters.
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 6 of 13")
    expect(panel.get_by_role("heading", name="ReluBackward0")).to_be_visible()
    expect(panel.locator(".agv-src mark")).to_have_text("torch.relu(h @ W2)")
    saved = panel.locator(".agv-saved tbody tr")
    expect(saved.filter(has_text=re.compile("result.*v0.*v0"))).to_have_count(1)
    # The values that were saved and the gradient that waits come from the paused kernel.
    expect(panel.get_by_role("img", name="Values of shape [64, 128]")).to_be_visible()
    expect(panel.get_by_role("img", name="Histogram of the gradient")).to_be_visible()
    lab.screenshot(f"inspector_{theme.lower()}")
    for stop in ("Paused before step 9 of 13", "Not recording"):
        panel.get_by_role("button", name="Continue").click()
        expect(pill).to_have_text(stop)


def test_the_mistake_is_a_card_and_a_node_of_the_graph(lab: Lab) -> None:
    lab.open("guide/residual.ipynb", [SETUP, MISTAKE])
    panel = beside(lab, 620)
    lab.run(0)
    assert "h @ W2" in lab.run(1)
    panel.get_by_role("tab", name="Problems").click()
    card = panel.locator(".agv-card")
    expect(card.locator(".agv-strip li")).to_have_count(2)
    expect(card.locator(".agv-strip li").last).to_contain_text("In[2] line 4")
    expect(card.locator(".agv-fix")).to_contain_text("out = out + h")
    lab.screenshot("problem_light")
