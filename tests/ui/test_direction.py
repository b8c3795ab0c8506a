"""The graph drawn as gradients flow, and turned round as the program ran."""

from __future__ import annotations

from itertools import pairwise

from playwright.sync_api import expect

from .lab import Lab

RUN = """\
import ag_visual as torch
x = torch.randn(8, 4)
W = [torch.randn(4, 4, requires_grad=True) for _ in range(2)]
b = torch.zeros(4, requires_grad=True)
def train():
    h = torch.tanh(x @ W[0] + b)
    h = h + torch.relu(h @ W[1])
    h.pow(2).mean().backward()"""

# Top edges of the boxes on the page by node, null while nothing stands still.
TOPS = "Array.from(model.graph.seqs, seq => inspector.placeOf(seq)?.y ?? null)"


def test_the_graph_is_turned_round_and_back(lab: Lab) -> None:
    lab.open("direction/both.ipynb", [RUN, "train()"])
    panel = lab.inspector()
    lab.run(0)
    panel.get_by_role("button", name="Record").first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    lab.run(1)
    lab.wait_until(lambda: len(lab.nodes()) == 8, "the graph")

    def order(turned: bool) -> bool:
        """Whether every node stands on the right side of the one that was made before it."""
        tops = lab.model(TOPS)
        return None not in tops and all((a < b) != turned for a, b in pairwise(tops))

    lab.wait_until(lambda: order(False), "the loss on top")
    turn = panel.get_by_role("button", name="Draw the forward direction")
    expect(turn).to_have_attribute("aria-pressed", "false")
    turn.click()
    lab.wait_until(lambda: order(True), "the loss at the bottom")
    expect(turn).to_have_attribute("aria-pressed", "true")
    lab.pictures("direction")

    # What is below on the page is what came later in the program.
    graph = panel.locator(".agv-graph")
    graph.focus()
    lab.page.keyboard.press("ArrowDown")
    first = lab.model("model.selected")
    lab.page.keyboard.press("ArrowUp")
    assert lab.model("model.selected") < first
    lab.page.keyboard.press("ArrowDown")
    assert lab.model("model.selected") == first

    lab.page.keyboard.press("t")
    lab.wait_until(lambda: order(False), "the loss on top again")
    expect(turn).to_have_attribute("aria-pressed", "false")
