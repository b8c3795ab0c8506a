"""Hooks in a real notebook: their order, what each changed, and the one that made NaN."""

from __future__ import annotations

from playwright.sync_api import expect

from .lab import Lab
from .test_accessibility import in_both

START = """\
import ag_visual as torch
W = torch.full((3, 2), 0.5, requires_grad=True)
def halve(g): return g * 0.5
def look(g): return None
def clip(grads): return tuple(g.clamp(-0.1, 0.1) for g in grads)
def poison(g): return g * float("nan")
def summed(grads): pass
def after(p): p.grad *= 2
W.register_hook(look)
W.register_post_accumulate_grad_hook(after)"""
PAUSED = """\
h = torch.ones(4, 3) @ W
h.register_hook(halve)
h.retain_grad()
h.grad_fn.register_prehook(clip)
y = h * h
y.register_hook(look)
y.register_hook(poison)
torch.autograd.graph.register_multi_grad_hook([y], summed)
loss = y.sum()
with torch.debugger(stop="MmBackward0"):
    loss.backward()"""


def test_hooks_in_order_with_what_each_changed(lab: Lab) -> None:
    lab.open("hooks/both.ipynb", [START, PAUSED])
    panel = lab.inspector()
    lab.run(0)
    lab.start(1)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step")
    panel.get_by_role("tab", name="Hooks").click()
    hooks = panel.locator(".agv-hook")
    ran = panel.locator(".agv-hook[data-ran=yes]")
    waiting = panel.locator(".agv-hook[data-ran=no]")
    # The engine asks the debugger after a node's tensor hooks, before its own pre-hooks.
    expect(ran).to_contain_text(["look", "poison", "summed", "halve", "retain_grad", "clip"])
    expect(waiting).to_contain_text(["look", "after"])
    expect(ran.nth(0)).to_contain_text("returned None: unchanged")
    expect(ran.nth(1)).to_contain_text("it made 8 NaN of none")
    expect(ran.nth(2)).to_contain_text("multi-grad hook")
    expect(panel.get_by_text("The first NaN comes from")).to_be_visible()
    lab.pictures("hooks")
    assert not in_both(lab, ".ag-inspector-panel")

    # A line link leads to where the hook was added.
    hooks.nth(1).get_by_role("button", name="In[2] line 7").click()
    mark = lab.page.locator(".ag-source-expression")
    expect(mark).to_have_text("y.register_hook(poison)")
    # A node's heading selects it; its own hooks stand in the node's view.
    panel.locator(".agv-hook-node").get_by_role("button", name="MmBackward0").click()
    selected = "model.store.nameOf(model.selected)"
    lab.wait_until(lambda: lab.model(selected) == "MmBackward0", "the node to be selected")
    panel.get_by_role("tab", name="Node").click()
    expect(panel.locator(".agv-hook")).to_contain_text(["halve", "retain_grad", "clip"])
    lab.pictures("hooks_node")
    panel.get_by_role("button", name="Continue").click()
    panel.get_by_role("tab", name="Hooks").click()
    expect(waiting).to_have_count(0)
    expect(hooks.last).to_contain_text("post-accumulate hook after")
    expect(hooks.last).to_contain_text("norm NaN, 6 NaN")
