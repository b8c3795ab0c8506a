"""One part of the panel fails: it says so in its place, the rest goes on."""

from __future__ import annotations

from playwright.sync_api import expect

from .lab import Lab

RUN = """\
import ag_visual as torch
x = torch.ones(3, requires_grad=True)
def train():
    (x * 2).exp().sum().backward()"""

NO_CANVAS = """() => {
    const own = HTMLCanvasElement.prototype.getContext;
    window.giveCanvasBack = () => { HTMLCanvasElement.prototype.getContext = own; };
    HTMLCanvasElement.prototype.getContext = function (kind) {
        return this.closest('.agv-graph') ? null : own.call(this, kind);
    };
}"""


def test_a_part_that_fails_is_said_and_tried_again(lab: Lab) -> None:
    logged: list[str] = []
    lab.page.on("console", lambda message: logged.append(message.text))
    lab.open("boundary/both.ipynb", [RUN, "train()"])
    lab.page.evaluate(NO_CANVAS)
    panel = lab.inspector()
    failed = panel.locator(".agv-graph.agv-failed")
    expect(failed).to_contain_text("This part of the panel failed: the graph: This browser")
    assert any("the graph failed" in text for text in logged)
    lab.run(0)
    panel.get_by_role("button", name="Record").first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    lab.run(1)
    # The side, the timeline and the toolbar do not need the graph.
    expect(panel.locator(".agv-time-head")).to_contain_text("3 nodes")
    panel.get_by_role("tab", name="Outline").click()
    expect(panel.locator(".agv-side")).to_contain_text("ExpBackward0")
    lab.pictures("boundary")
    failed.get_by_role("button", name="Try again").click()
    expect(failed).to_be_visible()
    lab.page.evaluate("() => window.giveCanvasBack()")
    failed.get_by_role("button", name="Try again").click()
    expect(failed).to_have_count(0)
    lab.wait_until(lambda: lab.model("inspector.placeOf(model.graph.seqs[0])"), "the graph")
