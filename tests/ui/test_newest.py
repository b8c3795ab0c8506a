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
    cells = [FIRST, "(loss() * 2).backward()", "torch.exp(loss()).backward()"]
    lab.open("newest/first.ipynb", cells, kernel=WATCHING)
    panel = lab.inspector()
    lab.run(0)
    lab.wait_until(lambda: lab.nodes() == ["MeanBackward0", "ReluBackward0", "MmBackward0"], "it")
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Newest pass")
    lab.run(1)
    lab.wait_until(lambda: lab.nodes()[:1] == ["MulBackward0"], "the next one")
    lab.pictures("newest")

    # Off: what comes is not shown, in the kernel that comes after a restart neither.
    try:
        panel.get_by_role("button", name="Watch", exact=True).click()
        panel.get_by_role("button", name="Off").click()
        expect(pill).to_have_text("Not recording")
        lab.run(2)
        assert lab.nodes()[0] == "MulBackward0"
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
