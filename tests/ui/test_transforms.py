"""Transforms in a notebook: levels as groups, a lane that is picked, tangents beside values."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from .lab import Lab
from .test_groups import BOXES

LANES = """\
import ag_visual as torch
from ag_visual.func import grad, vmap

x, y = torch.arange(64.0 * 3).reshape(64, 3) / 100, torch.ones(64, 2)
W = torch.full((2, 3), 0.5, requires_grad=True)

def loss(x, y):
    return (torch.tanh(W @ x) - y).pow(2).sum()"""
PER_EXAMPLE = """\
with torch.record():
    with torch.debugger("TanhBackward0"):
        g = vmap(grad(loss))(x, y)
    g.pow(2).sum().backward()"""
DUAL = """\
from ag_visual.autograd import forward_ad as fwd

with torch.record(), torch.debugger("TanhBackward0"), fwd.dual_level():
    out = torch.tanh(W @ fwd.make_dual(x[1], torch.ones(3)))
    out.sum().backward()"""

MATRICES = """\
import ag_visual as torch
from ag_visual.func import hessian, jacrev

W = torch.eye(3, 4) / 2 - torch.eye(4)[:, 1:].T
x = torch.zeros(4)

def layer(x):
    return torch.tanh(W @ x)

def energy(x):
    return (layer(x) ** 2).sum() + x.pow(3).sum()"""
COMPUTED = """\
with torch.record():
    J = jacrev(layer)(x)
    H = hessian(energy)(x)"""


def paused(lab: Lab) -> Locator:
    """The panel, when the second cell has stopped."""
    panel = lab.inspector()
    lab.run(0)
    lab.start(1)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step")
    return panel


def test_a_lane_can_be_picked_and_levels_are_groups(lab: Lab) -> None:
    lab.open("transforms/lanes.ipynb", [LANES, PER_EXAMPLE])
    panel = paused(lab)
    expect(panel.get_by_role("heading", name="TanhBackward0")).to_be_visible()
    titles = "model.root.children.map(child => child.title)"
    levels = "vmap, 64 lanes › grad, level 2"
    lab.wait_until(lambda: levels in str(lab.model(titles)), "the group of both levels")
    expect(panel.get_by_text("slice of 64", exact=True)).to_be_visible()
    lane = panel.get_by_role("spinbutton", name="Lane")
    picture = panel.get_by_role("img", name="Values of shape [64, 2]")
    expect(picture).to_be_visible()
    # tanh of half the sum of the example: of (1.89, 1.9, 1.91), and of (1.2, 1.21, 1.22).
    for number, value in ("63", "0.993"), ("40", "0.948"):
        lane.fill(number)
        one = panel.get_by_role("img", name=f"Values of shape [2]: all {value}")
        expect(one).to_be_visible()
    one.scroll_into_view_if_needed()
    lab.pictures("transforms_lane")
    panel.get_by_role("radio", name="all").check()
    expect(picture).to_be_visible()
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: lab.model("model.store.state.paused === null"), "the end of the pause")
    lab.wait_until(lambda: "vmap, 64 lanes" in str(lab.model(f"{titles} + {BOXES}")), "its group")


def test_a_tangent_stands_beside_its_value(lab: Lab) -> None:
    lab.open("transforms/dual.ipynb", [LANES, DUAL])
    panel = paused(lab)
    expect(panel.get_by_role("img", name="The value: values of shape [2]:")).to_be_visible()
    tangent = panel.get_by_role("img", name="The tangent: values of shape [2]:")
    expect(tangent).to_be_visible()
    tangent.scroll_into_view_if_needed()
    lab.pictures("transforms_tangent")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: lab.model("model.store.state.paused === null"), "the end of the pause")
    # The level has ended, and the node gave back what it saved: it is remembered.
    lab.select("TanhBackward0")
    expect(panel.get_by_role("img", name="The tangent: values of shape [2]:")).to_be_visible()


def test_a_jacobian_is_a_heat_map_that_leads_to_its_tensors(lab: Lab) -> None:
    lab.open("transforms/jacobian.ipynb", [MATRICES, COMPUTED])
    panel = lab.inspector()
    lab.run_all()
    panel.get_by_role("tab", name="Jacobians").click()
    jacobian = panel.get_by_role("region", name="jacrev of layer")
    expect(jacobian.get_by_role("img", name="3 rows, 4 columns")).to_be_visible()
    cells = jacobian.get_by_role("application", name="Elements")
    cells.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        lab.page.keyboard.press(key)
    expect(jacobian.get_by_role("status")).to_have_text("∂layer[1] / ∂x[1] = 0.5")
    lab.pictures("transforms_jacobian")
    jacobian.get_by_role("button", name="layer").click()
    lab.wait_until(
        lambda: lab.model("model.store.nameOf(model.selected)") == "TanhBackward0", "its output"
    )
    second = panel.get_by_role("region", name="hessian of energy")
    second.get_by_role("button", name="x").first.click()
    lab.wait_until(
        lambda: lab.model("model.store.nameOf(model.selected)") == "AccumulateGrad", "its input"
    )
