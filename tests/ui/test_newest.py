"""The backward pass that just ran is shown though nobody recorded: a newcomer's first minute."""

from __future__ import annotations

from playwright.sync_api import expect

from .kernels import WATCHING, make_watching
from .lab import Lab, Server

FIRST = """\
import ag_visual as torch

W = torch.randn(8, 4, requires_grad=True)
x = torch.randn(16, 8)

def loss():
    return torch.relu(x @ W).mean()

loss().backward()"""


def test_a_backward_is_shown_without_a_click(lab: Lab, server: Server) -> None:
    make_watching(server)
    many = "for _ in range(300):\n    torch.sin(loss()).backward()"
    cells = [FIRST, "(loss() * 2).backward()", "torch.exp(loss()).backward()", many]
    lab.open("newest/first.ipynb", cells, kernel=WATCHING)
    panel = lab.inspector()
    lab.run(0)
    lab.wait_until(lambda: lab.nodes() == ["MeanBackward0", "ReluBackward0", "MmBackward0"], "it")
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Newest pass")
    lab.run(1)
    lab.wait_until(lambda: lab.nodes()[:1] == ["MulBackward0"], "the next one")
    lab.pictures("newest")

    # Of a fast loop a few are watched; the last one is there, and what is missing is told.
    lab.run(3)
    lab.wait_until(lambda: lab.model("model.shownTask()?.number") == 302, "the last of the loop")
    assert lab.nodes()[0] == "SinBackward0"
    expect(panel.locator(".agv-time-head")).to_contain_text("before it")

    # Off: what comes is not shown, in the kernel that comes after a restart neither.
    try:
        panel.get_by_role("button", name="Watch", exact=True).click()
        panel.get_by_role("button", name="Off").click()
        expect(pill).to_have_text("Not recording")
        lab.run(2)
        assert lab.nodes()[0] == "SinBackward0"
        lab.restart()
        lab.run(0)
        expect(pill).to_have_text("Not recording")
    finally:
        panel.get_by_role("button", name="Watch", exact=True).click()
        panel.get_by_role("button", name="Newest pass").click()
    expect(pill).to_have_text("Newest pass")
    lab.run(2)
    lab.wait_until(
        lambda: lab.nodes()[:1] == ["ExpBackward0"], "the pass after it was chosen again"
    )
