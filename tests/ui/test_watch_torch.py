"""A program of the real PyTorch in the panel: watched at a click, paused, stepped, its mistake."""

from __future__ import annotations

import math
import re

import pytest
from playwright.sync_api import expect

from .lab import Lab
from .test_accessibility import in_both
from .test_guide_pictures import beside
from .test_views import PIN, panel_of

START = """\
import torch
from torch import nn
import ag_visual as ag

watched = ag.watch(torch)
torch.manual_seed(0)
X, y = torch.randn(64, 64), torch.randint(0, 10, (64,))"""
MODEL = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.inner = nn.Linear(64, 128), nn.Linear(128, 128)
        self.leave = nn.Linear(128, 10)

    def forward(self, x):
        h = torch.relu(self.enter(x))
        out = torch.relu(self.inner(h))
        out += h
        return self.leave(out)

model = Block()"""
TRAIN = "nn.functional.cross_entropy(model(X), y).backward()"
CALM = "with ag.debugger(stop='ReluBackward0'):\n    "


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_program_of_pytorch_is_paused_and_its_mistake_is_a_card(lab: Lab, theme: str) -> None:
    repaired = MODEL.replace("out += h", "out = out + h")
    cells = [START, MODEL, TRAIN, repaired, CALM + TRAIN]
    lab.open(f"watch/{theme}/block.ipynb", cells, theme=f"JupyterLab {theme}")
    panel = beside(lab, 600)
    pill = panel.locator(".agv-pill")
    lab.run(0)
    expect(pill).to_have_text("Recording")
    lab.unseen("get_ipython().run_line_magic('xmode', 'Minimal')")  # no folder in the picture
    lab.run(1)

    # The error is torch's own; the card names both lines, and the repair.
    assert "modified by an inplace operation" in lab.run(2)
    written = re.compile(r"written at\s+cell In\[2\], line 10: out \+= h")
    expect(lab.page.locator(".jp-Notebook .jp-OutputArea").filter(has_text=written)).to_have_count(
        1
    )
    panel.get_by_role("tab", name="Problems").click()
    card = panel.locator(".agv-card")
    expect(card).to_have_count(1)
    expect(card.locator(".agv-strip li")).to_have_count(2)
    expect(card.locator(".agv-strip li").first).to_contain_text("In[2] line 9")
    expect(card.locator(".agv-strip li").last).to_contain_text("In[2] line 10")
    expect(card.locator(".agv-fix")).to_contain_text("out = out + h")
    expect(card.get_by_role("button", name="Try it")).to_be_visible()
    lab.screenshot(f"watch_problem_{theme.lower()}")
    if theme == "Light":
        assert not in_both(lab, ".ag-inspector-panel")
        lab.dress("JupyterLab Light")

    # Paused in the middle of torch's own backward, with values from the kernel that waits.
    lab.run(3)
    lab.start(4)
    expect(pill).to_have_text("Paused before step 8 of 17")
    expect(panel.get_by_role("heading", name="ReluBackward0")).to_be_visible()
    expect(panel.locator(".agv-src mark")).to_have_text("torch.relu(self.inner(h))")
    expect(panel).to_contain_text("this is that of the op of the same name")
    panel.get_by_role("button", name="Check by finite differences").click()
    expect(panel.get_by_role("status").filter(has_text="finite differences")).to_contain_text(
        "✓ ReluBackward0 agrees with finite differences"
    )
    saved = panel.locator(".agv-saved tbody tr")
    expect(saved.filter(has_text=re.compile("result.*v0.*v0"))).to_have_count(1)
    expect(panel.get_by_role("img", name="Values of shape [64, 128]")).to_be_visible()
    expect(panel.get_by_role("img", name="Histogram of the gradient")).to_be_visible()
    # The row has its widest buttons now, and ends within the panel.
    expect(panel.locator(".agv-tools > .agv-menu > .agv-btn")).to_be_in_viewport(ratio=1)
    lab.screenshot(f"watch_{theme.lower()}")
    panel.get_by_role("button", name="Step").click()
    expect(pill).to_have_text("Paused before step 9 of 17")
    for _ in range(2):
        panel.get_by_role("button", name="Continue").click()
        if pill.inner_text() == "Recording":
            break
    lab.ended(4)
    assert "Error" not in lab.output(4)


def test_a_notebook_that_uses_pytorch_is_watched_at_one_click(lab: Lab) -> None:
    lab.open("watch/click.ipynb", ["import torch\nx = torch.ones(3, requires_grad=True)", "'end'"])
    panel = lab.inspector()
    expect(panel).to_contain_text("Waiting for this notebook to import ag_visual")
    button = panel.get_by_role("button", name="Watch PyTorch")
    expect(button).to_have_count(0)
    lab.run(0)
    expect(panel.locator(".agv-empty")).to_contain_text("This notebook uses PyTorch")
    lab.pictures("watch_offer")
    assert not in_both(lab, ".ag-inspector-panel")
    lab.count_clicks()
    button.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    assert lab.clicks == 1
    assert lab.cells() == 3
    assert lab.source(1) == "import ag_visual as ag, torch\nag.watch(torch)"
    assert "watching torch: everything" in lab.output(1)
    lab.edit(2, "(x * 2).sum().backward()")
    lab.run(2)
    lab.wait_until(lambda: lab.nodes() == ["SumBackward0", "MulBackward0"], "the graph of torch")
    # Its times, as of every recording.
    panel.get_by_role("button", name="Time", exact=True).click()
    expect(panel.locator(".agv-timing-head")).to_contain_text("This recording")
    # What torch's own profiler has collected comes into the same view.
    lab.edit(
        2,
        """\
with torch.profiler.profile(record_shapes=True):
    (x * 2).tanh().sum().backward()""",
    )
    lab.run(2)
    expect(panel.locator(".agv-timing-head")).to_contain_text("Profile:")
    names = panel.get_by_role("table", name="Time by name")
    expect(names.get_by_role("row", name="TanhBackward0").first).to_be_visible()
    lab.pictures("watch_profiled")


STEPPED = """\
W = torch.full((3,), 2.0, requires_grad=True)
with ag.debugger():
    (W * 3).exp().sum().backward()
print("gradient", W.grad[0].item())"""


def test_a_gradient_of_pytorch_is_edited_and_a_condition_stops_it(lab: Lab) -> None:
    lab.open("watch/edited.ipynb", ["import torch, ag_visual as ag\nag.watch(torch)", STEPPED])
    panel = lab.inspector()
    pill = panel.locator(".agv-pill")
    lab.run(0)
    lab.start(1)
    expect(pill).to_have_text("Paused before step 1 of 4")
    panel.get_by_role("button", name="Step").click()
    expect(pill).to_have_text("Paused before step 2 of 4")
    expect(panel.get_by_role("heading", name="ExpBackward0")).to_be_visible()
    panel.get_by_label("Change the gradient").select_option("scale")
    panel.get_by_label("Number", exact=True).fill("1000")
    panel.get_by_role("button", name="Change gradient").click()
    expect(panel.get_by_text("changed by you")).to_be_visible()
    panel.get_by_role("button", name="Breakpoints").click()
    panel.get_by_label("gradient norm above").fill("100000")
    panel.get_by_role("button", name="Add").click()
    expect(panel.get_by_role("button", name="Breakpoints 1")).to_be_visible()
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Continue").click()
    expect(pill).to_have_text("Paused before step 3 of 4")
    expect(panel.get_by_role("heading", name="MulBackward0")).to_be_visible()
    lab.pictures("watch_edited")
    panel.get_by_role("button", name="Breakpoints").click()
    panel.get_by_role("button", name=re.compile("Remove the breakpoint")).click()
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "gradient" in lab.output(1), "the cell to end")
    # d/dW sum(exp(3 W)) = 3 exp(6), a thousand times.
    assert float(lab.output(1).split()[-1]) == pytest.approx(3000 * math.exp(6), rel=1e-4)


TWO = """\
import torch, ag_visual as ag
watched = ag.watch(torch)
x = torch.ones(3, requires_grad=True)"""
STOPPED = "with ag.debugger():\n    (x * 2).exp().sum().backward()"
WRONG = "y = x.exp()\ny.add_(1)\ny.sum().backward()"


def test_two_notebooks_watch_torch_at_once(lab: Lab) -> None:
    how = "from ag_visual.events import live; print(type(live.engines[0]._mode).__name__)"
    lab.write("watch/right.ipynb", [TWO, STOPPED])
    lab.open("watch/left.ipynb", [TWO, STOPPED, WRONG, how])
    lab.command(PIN)
    lab.run(0)
    lab.start(1)
    left = panel_of(lab, "left.ipynb")
    expect(left.locator(".agv-pill")).to_have_text("Paused before step 1 of 4")
    lab.open_path("watch/right.ipynb")
    lab.command(PIN)
    lab.run(0)
    lab.start(1)
    right = panel_of(lab, "right.ipynb")
    expect(right.locator(".agv-pill")).to_have_text("Paused before step 1 of 4")
    right.get_by_role("button", name="Step").click()
    expect(right.locator(".agv-pill")).to_have_text("Paused before step 2 of 4")
    expect(left.locator(".agv-pill")).to_have_text("Paused before step 1 of 4")
    left.get_by_role("button", name="Continue").click()
    expect(left.locator(".agv-pill")).to_have_text("Recording")

    # A mistake in the one, while the other waits.
    lab.command("docmanager:open", path="watch/left.ipynb")
    assert "modified by an inplace operation" in lab.run(2)
    left.get_by_role("tab", name="Problems").click()
    expect(left.locator(".agv-card")).to_have_count(1)
    expect(left.locator(".agv-card .agv-strip li").last).to_contain_text("In[3] line 2")
    expect(right.locator(".agv-pill")).to_have_text("Paused before step 2 of 4")
    assert "Numbered" in lab.run(3), "the kernel's own threads make no graphs"
    right.get_by_role("button", name="Continue").click()
    expect(right.locator(".agv-pill")).to_have_text("Recording")
    expect(right.locator(".agv-card")).to_have_count(0)
