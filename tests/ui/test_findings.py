"""Findings of a run: how many clicks it takes from a program that ran to what went wrong in it.

The panel is open and watches the newest pass; nobody records.
"""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from .kernels import WATCHING, make_watching
from .lab import Lab, Server

START = """\
import ag_visual as torch
torch.manual_seed(0)
nn = torch.nn"""
# However slow the machine is: there is time to look at each pass, if not to record it.
PATIENT = """\
from ag_visual.session.session import current
current().recorder.looks.share = 1e9"""


class Clicks:
    """A panel beside a program that ran, and how often it was clicked since."""

    def __init__(self, lab: Lab, server: Server, name: str, cells: list[str]) -> None:
        make_watching(server)
        lab.open(f"findings/{name}.ipynb", [START, *cells], kernel=WATCHING)
        lab.execute(PATIENT)
        self.lab = lab
        self.panel = lab.inspector()
        self.count = 0
        for i in range(len(cells) + 1):
            lab.run(i)

    def problems(self) -> Locator:
        """Clicks on the tab, whose badge has come, for the cards."""
        expect(self.panel.locator(".agv-count")).not_to_have_count(0)
        self.panel.get_by_role("tab", name="Problems").click()
        self.count += 1
        return self.panel.locator(".agv-finding[data-matters=yes]")


IN_PLACE = """\
w = torch.ones(3, requires_grad=True)
y = (w * 2).exp()
y += 1
y.sum().backward()"""


def test_an_in_place_mistake_takes_no_click(lab: Lab, server: Server) -> None:
    make_watching(server)
    lab.open("findings/in_place.ipynb", [START, IN_PLACE], kernel=WATCHING)
    panel = lab.inspector()
    lab.run(0)
    assert "modified by an inplace" in lab.run(1)
    card = panel.locator(".agv-card")
    expect(card).to_contain_text("The output of exp was overwritten")
    expect(card).to_contain_text("y += 1")


STEPS = """\
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
y = torch.eye(3)[torch.arange(16) % 3]
for step in range(40):
    x = torch.randn(16, 4)
    if step == BAD:
        x = x * 1e4
    optimizer.zero_grad()
    p = torch.softmax(model(x), 1)
    loss = -(y * torch.log(p)).sum()
    loss.backward()
"""
STEP = "    optimizer.step()"
GUARDED = "    if torch.isfinite(loss):\n        optimizer.step()"


def test_a_log_of_zero_takes_one_click(lab: Lab, server: Server) -> None:
    cell = STEPS.replace("BAD", "3") + STEP
    clicks = Clicks(lab, server, "log", [cell])
    cards = clicks.problems()
    expect(cards).to_have_count(1)
    expect(cards.locator("h3")).to_contain_text("torch.log(p) gave −∞: p is 0 in")
    # Of the passes after it not all are recorded while nobody asked: which pass it was is known.
    expect(cards).to_contain_text(re.compile(r"(in|since) pass 4 · "))
    lines = cards.locator(".agv-strip li")
    expect(lines.first).to_contain_text("In[2] line 10")
    expect(lines.first).to_contain_text("torch.log(p)")
    expect(lines.nth(1)).to_contain_text("In[2] line 9")
    expect(cards.locator(".agv-fix")).to_contain_text("log_softmax")
    assert clicks.count == 1
    clicks.panel.get_by_role("button", name="First with NaN").click()
    red = "model.states.flags.some(flag => flag & 8)"
    lab.wait_until(lambda: lab.model(red), "the NaN in the graph")
    lab.pictures("findings")


def test_a_nan_in_one_step_of_forty_takes_one_click(lab: Lab, server: Server) -> None:
    cell = STEPS.replace("BAD", "20") + GUARDED
    clicks = Clicks(lab, server, "once", [cell])
    cards = clicks.problems()
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("in pass 21 · ")
    expect(cards).to_contain_text("In[2] line 10")
    assert clicks.count == 1
    cards.get_by_role("button", name="Show it in pass 21").click()
    head = clicks.panel.locator(".agv-time-head")
    expect(head).to_contain_text("backward 21 of ")
    lab.wait_until(
        lambda: lab.model("model.states.flags.some(flag => flag & 8)"), "the NaN in the graph"
    )
    # The strip goes there, too: its button, and the keys.
    strip = clicks.panel.get_by_role("slider", name="Backward pass shown")
    strip.focus()
    lab.page.keyboard.press("Home")
    expect(head).to_contain_text("backward 1 of ")
    clicks.panel.get_by_role("button", name="First with NaN").click()
    expect(head).to_contain_text("backward 21 of ")
    expect(strip).to_have_attribute("aria-valuetext", re.compile(r"^backward 21 of \d+, NaN or ∞"))


CUT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        h = self.enc(x).relu()
        return self.head(h.detach())

model = Net()
model(torch.randn(16, 4)).square().mean().backward()"""


def test_none_takes_one_click(lab: Lab, server: Server) -> None:
    clicks = Clicks(lab, server, "none", [CUT])
    cards = clicks.problems()
    expect(cards).to_contain_text("In[2] line 9")
    expect(cards).to_contain_text("model.enc.weight")
    assert clicks.count == 1


VANISHING = """\
layers = [part for i in range(20) for part in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(*layers, nn.Linear(16, 1))
for step in range(5):
    model.zero_grad()
    model(torch.randn(32, 16)).square().mean().backward()"""


def test_a_vanishing_gradient_takes_one_click(lab: Lab, server: Server) -> None:
    clicks = Clicks(lab, server, "vanishing", [VANISHING])
    cards = clicks.problems()
    expect(cards).to_have_count(1)
    expect(cards.locator("h3")).to_contain_text(
        "The gradient vanishes on its way to model.0.weight"
    )
    expect(cards).to_contain_text("per layer over 21 layers")
    expect(cards.locator(".agv-fix")).to_contain_text("ReLU in place of sigmoid")
    assert clicks.count == 1


FORGOTTEN = """\
w = torch.randn(3, requires_grad=True)
for step in range(10):
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.01 * w.grad"""


def test_a_finding_is_solved_when_its_cell_runs_without_it(lab: Lab, server: Server) -> None:
    clicks = Clicks(lab, server, "forgotten", [FORGOTTEN])
    cards = clicks.problems()
    expect(cards).to_contain_text("nothing zeroes them")
    expect(cards).to_contain_text("w.grad went through 3 updates")
    lab.edit(1, FORGOTTEN.replace("    (w * w)", "    w.grad = None\n    (w * w)"))
    lab.run(1)
    solved = clicks.panel.locator(".agv-solved")
    expect(solved).to_contain_text("nothing zeroes them")
    expect(clicks.panel.locator(".agv-count")).to_have_count(0)


ODDITIES = """\
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
W = torch.tensor([[1.0, -1.0, -1.0], [1.0, -1.0, -1.0]], requires_grad=True)
c = torch.zeros(2, requires_grad=True)
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


def test_findings_lead_to_their_moment(lab: Lab) -> None:
    lab.open("findings/moment.ipynb", [START, ODDITIES, HOOKED])
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    lab.wait_until(lambda: "SqrtBackward0" in lab.nodes(), "the graph's nodes")
    panel.get_by_role("tab", name="Problems").click()
    cards = panel.locator(".agv-finding")
    # 0 times infinity: the gradient of the square root at 0 is NaN.
    expect(cards.first).to_contain_text("(c * 2).sqrt() has an infinite derivative at 0")
    expect(cards.first).to_contain_text("arrives at MulBackward0")
    shut = cards.filter(has_text="(c - 5).clamp(min=0.0)")
    expect(shut).to_contain_text("no gradient goes through")

    cards.first.get_by_role("button", name="Show it").click()
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
    expect(cards.first).to_contain_text("The hook spoil made NaN or ∞ of a finite gradient")
    expect(cards.first).to_contain_text("was added to MulBackward0")
