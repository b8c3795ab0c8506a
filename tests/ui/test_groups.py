"""Groups in a real notebook: modules and loops folded, opened and closed by mouse and keys."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from .lab import Lab

NET = """\
import ag_visual as torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.grow = torch.nn.Linear(8, 16)
        self.shrink = torch.nn.Linear(16, 8)
    def forward(self, x):
        h = torch.relu(self.grow(x))
        return x + self.shrink(h)

class Net(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block() for _ in range(depth)])
        self.head = torch.nn.Linear(8, 1)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)"""
TRAIN = """\
net = Net({depth})
with torch.record():
    out = net(torch.ones(4, 8))
    loss = out.pow(2).mean()
    loss.backward()"""
LOOP = """\
W = torch.full((4, 4), 0.1, requires_grad=True)
with torch.record():
    h = torch.ones(2, 4)
    for step in range(500):
        a = h @ W
        h = torch.tanh(a)
    h.sum().backward()"""

BOXES = (
    "Array.from(model.view.folds, (fold, i) =>"
    " fold ? fold.title : model.store.nameOf(model.view.seqs[i]))"
)


def place_of(lab: Lab, title: str) -> tuple[float, float]:
    """A point of the box with that title on the page, once nothing moves any more."""
    place = (
        f"(at => at && [at.x + 60, at.y + at.height / 2])"
        f"(inspector.placeOf(model.view.seqs[{BOXES}.indexOf({title!r})]))"
    )
    seen: list[Any] = [None]

    def still() -> bool:
        lab.frames()
        seen.append(lab.model(place))
        return seen[-1] is not None and seen[-1] == seen[-2]

    # Where the toolbar takes a line more, the graph moves without a glide: looked at twice.
    lab.wait_until(still, f"{title} to stand still")
    x, y = seen[-1]
    return x, y


def test_modules_are_groups_that_open_and_close(lab: Lab) -> None:
    lab.open("groups/net.ipynb", [NET, TRAIN.format(depth=30)])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.model(BOXES)[:2] == ["MeanBackward0", "PowBackward0"], "the boxes")
    boxes = lab.model(BOXES)
    assert boxes.count("30 × Block") == 1
    assert len(boxes) < 10

    # The toolbar says by then what it goes on saying: nothing under the pointer moves.
    expect(panel.locator(".agv-pill")).to_have_text("Not recording")
    at = place_of(lab, "30 × Block")
    lab.page.mouse.click(*at)
    expect(panel.get_by_role("heading", name="30 × Block")).to_be_visible()
    lab.pictures("groups_folded")
    lab.page.keyboard.press("Enter")
    lab.wait_until(lambda: "layers.29" in lab.model(BOXES), "the blocks")

    # The side that has come covers them: F brings what is selected into the middle.
    lab.page.keyboard.press("f")
    # A first click leaves a box where it is for the second.
    at = place_of(lab, "layers.28")
    lab.page.mouse.click(*at)
    expect(panel.get_by_role("heading", name="layers.28")).to_be_visible()
    assert place_of(lab, "layers.28") == pytest.approx(at, abs=1)
    lab.page.mouse.dblclick(*at)
    lab.wait_until(lambda: "ReluBackward0" in lab.model(BOXES), "the block's nodes")
    place_of(lab, "ReluBackward0")
    lab.pictures("groups_open")

    # The line around the node closes, then the block: it stands where it stood.
    lab.page.keyboard.press("c")
    lab.page.keyboard.press("c")
    lab.wait_until(lambda: "ReluBackward0" not in lab.model(BOXES), "the block to close")
    # Between the click and the answer of the layout's worker nothing moves, either.
    lab.wait_until(
        lambda: place_of(lab, "layers.28") == pytest.approx(at, abs=4), "it to stand there again"
    )

    panel.get_by_role("tab", name="Outline").click()
    tree = panel.get_by_role("tree")
    expect(tree.get_by_role("treeitem", name="30 × Block")).to_have_attribute(
        "aria-expanded", "true"
    )
    item = tree.get_by_role("treeitem", name="layers.29")
    item.focus()
    lab.page.keyboard.press("ArrowRight")
    expect(item).to_have_attribute("aria-expanded", "true")
    expect(tree.get_by_role("treeitem", name=re.compile("^shrink"))).to_have_count(1)
    lab.pictures("groups_outline")
    panel.get_by_role("button", name="Close all groups").click()
    lab.wait_until(lambda: lab.model(BOXES)[-1] == "net", "one box for the network")
    panel.get_by_role("button", name="Open all groups").click()
    lab.wait_until(lambda: lab.model(BOXES).count("ReluBackward0") == 30, "all nodes")


def test_a_loop_is_folded_with_its_count_and_search_opens_it(lab: Lab) -> None:
    lab.open("groups/loop.ipynb", ["import ag_visual as torch", LOOP])
    lab.inspector()
    lab.run_all()
    folded = ["SumBackward0", "500 × In[2] lines 5 to 6"]
    lab.wait_until(lambda: lab.model(BOXES)[:2] == folded, "the folded loop")
    assert len(lab.model(BOXES)) < 8
    lab.screenshot("groups_loop")
    lab.select("tanh")
    hidden = "model.foldOf(model.selected) === null && model.selected !== null"
    lab.wait_until(lambda: lab.model(hidden), "the node that was found to be drawn")
    lab.screenshot("groups_loop_found")
