"""Cards of nodes and checks by finite differences, in a real notebook and in a saved page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import ag_visual as torch

from .lab import Lab
from .test_accessibility import in_both

START = """\
import ag_visual as torch
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
w = torch.tensor([[5.0, 6.0], [7.0, 8.0]], requires_grad=True)
b = torch.tensor([0.5, -0.25], requires_grad=True)
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.factor * g * x * x, None"""
PRODUCT = """\
with torch.debugger(stop=["MmBackward0", "MulBackward0"]):
    y = (x @ w) * b
    y.sum().backward()
print('end')"""
CUSTOM = """\
v = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
with torch.debugger(stop="CubeBackward"):
    Cube.apply(v, {factor}).sum().backward()
print('end')"""


def paused(lab: Lab, cell: int) -> Locator:
    panel = lab.inspector()
    lab.start(cell)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step")
    return panel


def test_a_card_shows_formula_derivative_and_numbers(lab: Lab) -> None:
    lab.open("teaching/card.ipynb", [START, PRODUCT])
    panel = lab.inspector()
    lab.run(0)
    paused(lab, 1)
    expect(panel.get_by_role("heading", name="MulBackward0")).to_be_visible()
    card = panel.get_by_role("region", name="Chain rule")
    expect(card.get_by_label("result = self · other", exact=True)).to_be_visible()
    # At a stop the derivative stands with numbers.
    card.get_by_role("radio", name="names").click()
    expect(card.get_by_label("(∂L) / (∂self) = grad · other", exact=True)).to_be_visible()
    expect(card.locator(".agv-here")).to_have_text("here self is x @ w, other is b, result is y")
    expect(card.get_by_text("their gradients are added up, along dim 0.")).to_be_visible()
    # Real mathematics: the browser gives the fraction a height of two lines.
    fraction = card.locator("mfrac").first.bounding_box()
    assert fraction is not None
    assert fraction["height"] > 20
    card.get_by_role("radio", name="numbers").click()
    card.get_by_label("Gradient of").select_option("other")
    summed = "(∂L) / (∂other)[1] = 1 · 22 + 1 · 50 = 72"
    expect(card.get_by_label(summed, exact=True)).to_be_visible()
    expect(card.get_by_text("grad is the gradient that waits here.")).to_be_visible()
    card.get_by_role("button", name="Next element").click()
    expect(card.get_by_label("(∂L) / (∂other)[0] = 1 · 19 + 1 · 43 = 62")).to_be_visible()
    card.get_by_text("Chain rule").scroll_into_view_if_needed()
    lab.pictures("teaching_card")

    panel.get_by_role("button", name="Continue").click()
    expect(panel.get_by_role("heading", name="MmBackward0")).to_be_visible()
    row = "(∂L) / (∂self)[0, 1] = 0.5 · 7 + (−0.25 · 8) = 1.5"
    expect(card.get_by_label("result = self @ mat2", exact=True)).to_be_visible()
    card.get_by_label("Gradient of").select_option("self")
    expect(card.get_by_label(row, exact=True)).to_be_visible()
    card.get_by_role("button", name="Check by finite differences").click()
    expect(card.locator(".agv-outcome[data-verdict=agrees]")).to_contain_text(
        "✓ MmBackward0 agrees with finite differences"
    )
    assert not in_both(lab, ".ag-inspector-panel")
    card.get_by_role("radio", name="numbers").scroll_into_view_if_needed()
    lab.pictures("teaching_matmul")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "end" in lab.output(1), "the cell to end")
    # The backward freed what the node had saved: the card says so, and nothing can be checked.
    expect(card.get_by_text("Saved values were freed by this backward")).to_be_visible()
    expect(card.get_by_role("button", name="Check by finite differences")).to_be_disabled()


def test_a_wrong_backward_of_a_custom_function_is_found(lab: Lab) -> None:
    cells = [START, CUSTOM.format(factor=2), CUSTOM.format(factor=3)]
    lab.open("teaching/check.ipynb", cells)
    panel = lab.inspector()
    lab.run(0)
    paused(lab, 1)
    card = panel.get_by_role("region", name="Chain rule")
    check = card.get_by_role("button", name="Check by finite differences")
    check.click()
    wrong = card.locator(".agv-outcome[data-verdict=differs]")
    expect(wrong).to_contain_text("✗ CubeBackward differs from finite differences")
    expect(wrong).to_contain_text("x[2]")
    expect(wrong).to_contain_text("relative 0.3333")
    assert not in_both(lab, ".ag-inspector-panel")
    wrong.scroll_into_view_if_needed()
    lab.pictures("teaching_wrong")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "end" in lab.output(1), "the cell to end")
    paused(lab, 2)
    expect(panel.get_by_role("heading", name="CubeBackward")).to_be_visible()
    check.click()
    expect(card.locator(".agv-outcome[data-verdict=agrees]")).to_contain_text(
        "✓ CubeBackward agrees with finite differences"
    )
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "end" in lab.output(2), "the cell to end")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_page_has_the_cards(lab: Lab, tmp_path: Path, scheme: str) -> None:
    with torch.record() as recorded:
        x = torch.tensor([0.5, 2.0], requires_grad=True)
        y = x.sin()
        y.sum().backward(retain_graph=True)
    page = recorded.save(tmp_path / "lesson.html")
    context = lab.page.context.browser.new_context(color_scheme=scheme)
    try:
        tab = context.new_page()
        tab.goto(page.as_uri())
        tab.locator(".agv-graph").focus()
        card = tab.get_by_role("region", name="Chain rule")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowDown")
        expect(card.get_by_label("(∂L) / (∂self) = grad · cos(self)", exact=True)).to_be_visible()
        expect(card.locator(".agv-here")).to_have_text("here self is x, result is y")
        card.get_by_role("radio", name="numbers").click()
        shown = "(∂L) / (∂self)[0] = 1 · cos(0.5) = 0.8776"
        expect(card.get_by_label(shown, exact=True)).to_be_visible()
        expect(card.get_by_text("needs the kernel")).to_be_visible()
        tab.screenshot(path=lab.screenshots / f"teaching_saved_{scheme}.png")
    finally:
        context.close()
    del y
