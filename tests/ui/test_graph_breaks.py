"""Graph breaks: a broken edge at the op, the line, whose gradient stays None."""

from __future__ import annotations

from playwright.sync_api import expect

from .lab import Lab

START = """\
import ag_visual as torch
x = torch.ones(3)
w, b, c = (torch.ones(3, requires_grad=True) for _ in range(3))"""
TRAIN = """\
with torch.record():
    h = (x * w).exp()
    target = h.detach()
    fixed = c.data
    with torch.no_grad():
        scale = b * 2
    loss = (b * target).sum() + (b + fixed).sum() + (b * scale).sum()
    loss.backward()
w.grad, c.grad, b.grad"""


def test_a_cut_names_its_line_and_whose_gradient_is_missing(lab: Lab) -> None:
    lab.open("graph_breaks/both.ipynb", [START, TRAIN])
    panel = lab.inspector()
    lab.run(0)
    assert lab.run(1).startswith("(None, None, tensor(")
    lab.wait_until(lambda: "SumBackward0" in lab.nodes(), "the graph's nodes")
    panel.get_by_role("tab", name="Problems").click()
    hints = panel.locator(".agv-finding")
    detached = hints.filter(has_text="w.grad stays None: detached")
    expect(detached).to_contain_text("In[2] line 3")
    expect(hints.filter(has_text="c.grad stays None: taken from .data")).to_contain_text(
        "In[2] line 4"
    )
    # b has a gradient on other ways: only this input is detached.
    expect(hints.filter(has_text="made under no_grad")).to_contain_text("In[2] line 6")
    expect(hints.filter(has_text="b.grad")).to_have_count(0)
    expect(hints).to_have_count(3)
    lab.pictures("graph_breaks_hints")
    detached.get_by_role("button", name="In[2] line 3").click()
    lab.wait_until(lambda: lab.focused(".jp-Cell"), "the cell to have the focus")
    detached.get_by_role("button", name="Show it").click()
    details = panel.locator(".agv-det")
    expect(details.locator("h3")).to_have_text("MulBackward0")
    expect(details).to_contain_text("Graph breaks")
    expect(details).to_contain_text("other was detached at In[2] line 3")
    flag = "model.drawn.flags[model.view.indexOf.get(model.selected)] & 64"
    lab.wait_until(lambda: lab.model(flag) == 64, "the broken edge of the node")
    lab.page.keyboard.press("+")
    lab.page.keyboard.press("f")
    lab.wait_until(lambda: lab.model("inspector.placeOf(model.selected)"), "the node in view")
    lab.pictures("graph_breaks")


FUNCTION = """\
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b
    @staticmethod
    def backward(ctx, g):
        return g, None
with torch.record():
    first = w.detach()[0]
    loss = Product.apply(b, c).sum() + (b * first).sum()
    loss.backward()
w.grad, c.grad, b.grad"""


def test_a_function_that_returns_none_and_a_view_are_cuts(lab: Lab) -> None:
    lab.open("graph_breaks/function.ipynb", [START, FUNCTION])
    panel = lab.inspector()
    lab.run(0)
    assert lab.run(1).startswith("(None, None, tensor(")
    lab.wait_until(lambda: "ProductBackward" in lab.nodes(), "the graph's nodes")
    panel.get_by_role("tab", name="Problems").click()
    hints = panel.locator(".agv-finding")
    given = hints.filter(has_text="c.grad stays None: given None by this backward")
    expect(given).to_contain_text("In[2] line 7")
    expect(hints.filter(has_text="w.grad stays None: detached")).to_contain_text("In[2] line 9")
    expect(hints).to_have_count(2)
    given.get_by_role("button", name="Show it").click()
    details = panel.locator(".agv-det")
    expect(details.locator("h3")).to_have_text("ProductBackward")
    expect(details).to_contain_text("b was given None by this backward at In[2] line 7")
    lab.pictures("graph_breaks_function")
