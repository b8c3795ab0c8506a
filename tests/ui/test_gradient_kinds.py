"""Remarkable gradients in a real notebook: told apart by sign, line and words, not colour alone."""

from __future__ import annotations

from playwright.sync_api import expect

from .lab import Lab

START = """\
import ag_visual as torch
a, b, c, d = (torch.ones(2, requires_grad=True) for _ in range(4))"""
MANY = """\
with torch.record():
    small = a * 1e-5 * 1e-5 * 1e-5
    large = (b * 1e4) * 1e4
    dead = (c - 5).relu() * 2
    broken = (d * 0).sqrt()
    (small + large + dead + broken).sum().backward()"""
KINDS = {
    "NaN or ∞ in the gradient": "✕",
    "exploding gradient": "△",
    "vanishing gradient": "▽",
    "zero gradient": "○",
}


def test_remarkable_gradients_are_told_apart(lab: Lab) -> None:
    lab.open("kinds/both.ipynb", [START, MANY])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: "SqrtBackward0" in lab.nodes(), "the graph's nodes")
    legend = panel.locator(".agv-legend")
    for words, sign in KINDS.items():
        expect(legend.get_by_text(f"{sign} {words}")).to_be_visible()
    lab.command("ag-visual:open-inspector")
    panel.get_by_role("tab", name="Outline").click()
    for words in KINDS:
        expect(panel.get_by_role("treeitem", name=words).first).to_be_attached()
    panel.get_by_role("button", name="Hide").click()
    panel.locator(".agv-graph").focus()
    lab.page.keyboard.press(" ")
    lab.pictures("gradient_kinds")
