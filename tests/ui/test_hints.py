"""Hints: the first NaN, its hook, gradients that became zero, dead units; with their moments."""

from __future__ import annotations

from playwright.sync_api import expect

from .lab import Lab

START = """\
import ag_visual as torch
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
W = torch.tensor([[1.0, -1.0, -1.0], [1.0, -1.0, -1.0]], requires_grad=True)
c = torch.zeros(2, requires_grad=True)"""
TRAIN = """\
with torch.record():
    h = (x @ W).relu()
    shut = (c - 5).clamp(min=0.0)
    broken = (c * 2).sqrt() * 0
    loss = h.sum() + shut.sum() + broken.sum()
    loss.backward(retain_graph=True)"""
HOOKED = """\
def spoil(g): return g * float("nan")
with torch.record():
    y = c * 3
    y.register_hook(spoil)
    y.exp().sum().backward()"""


def test_hints_lead_to_their_moment(lab: Lab) -> None:
    lab.open("hints/both.ipynb", [START, TRAIN, HOOKED])
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    lab.wait_until(lambda: "SqrtBackward0" in lab.nodes(), "the graph's nodes")
    panel.get_by_role("tab", name="Problems").click()
    hints = panel.locator(".agv-hints li")
    # 0 times infinity: the gradient of the square root at 0 is NaN.
    expect(hints.first).to_contain_text("The first NaN or ∞ arrived at MulBackward0 in step")
    expect(hints.first).to_contain_text("computed by SqrtBackward0")
    shut = hints.filter(has_text="SubBackward0")
    expect(shut).to_contain_text("No gradient flows through SubBackward0")
    expect(shut).to_contain_text("since ClampBackward1 gave it zeros")
    # They are no problems: nothing failed.
    expect(panel.locator(".agv-count")).to_have_count(0)
    lab.pictures("hints")

    hints.first.get_by_role("button", name="Jump to the first NaN").click()
    expect(panel.locator(".agv-det h3")).to_have_text("MulBackward0")
    at = lab.model("model.graph.indexOf.get(model.selected)")
    assert lab.model("model.cursor") < lab.model("model.length")
    lab.wait_until(lambda: lab.model(f"model.states.flags[{at}] & 8") == 8, "its NaN")
    # One event earlier no gradient has a NaN.
    lab.page.keyboard.press(",")
    lab.wait_until(lambda: lab.model("model.states.flags.every(flag => !(flag & 8))"), "before it")
    panel.get_by_role("button", name="Back to now").click()

    lab.select("Relu")
    expect(panel.locator(".agv-dead")).to_contain_text(
        "2 of 3 units of this relu are dead on this batch"
    )
    panel.locator(".agv-dead").scroll_into_view_if_needed()
    lab.pictures("dead_units")

    lab.run(2)
    lab.wait_until(lambda: "ExpBackward0" in lab.nodes(), "the next graph's nodes")
    panel.get_by_role("tab", name="Problems").click()
    expect(hints.first).to_contain_text("The first NaN was made by the hook spoil")
    expect(hints.first).to_contain_text("on MulBackward0: its gradient had none before")
