"""Thousands of real training steps beside an open Inspector: the page stays small and answers."""

from __future__ import annotations

SETUP = """\
import ag_visual as torch
W = torch.full((8, 8), 0.01, requires_grad=True)
def train(steps):
    for _ in range(steps):
        h = torch.ones(4, 8)
        for _ in range(70):
            h = torch.tanh(h @ W)
        h.sum().backward()
        W.grad = None"""

# 141 nodes a step: the page's 250,000 nodes are full within the first part.
STEPS = (2000, 300, 300)
PARTS = [f"train({steps})" for steps in STEPS]
SAID = "document.querySelector('.agv-time-head .agv-small').textContent"


def test_memory_is_bounded_and_what_was_forgotten_is_said(lab):
    lab.open("long_training.ipynb", [SETUP, *PARTS])
    lab.run(0)
    panel = lab.inspector()
    panel.get_by_role("button", name="Record").first.click()
    lab.wait_until(lambda: lab.model("model.store.state.recording"), "the recording")
    sizes, forgotten = [], []
    for cell in range(1, 1 + len(PARTS)):
        lab.run(cell)
        # Each step is a pass; what is counted from here on must not grow any more.
        last = sum(STEPS[:cell])
        lab.wait_until(
            lambda last=last: lab.model(
                f"model.shownTask()?.task === {last} && model.shownTask().ended === 'well'"
                f" && model.graph.task === {last}"
            ),
            "the last step of this part",
        )
        lab.wait_until(lambda: lab.model(f"{SAID}.includes('forgotten')"), "the words")
        assert lab.model("model.store.nodes.rows") <= 250_000
        sizes.append(lab.model("model.store.bytes"))
        forgotten.append(lab.model("model.store.forgotten.steps + model.store.droppedSteps"))
    # Columns double when they grow: once full they do not grow again.
    assert sizes[2] <= 1.1 * max(sizes[:2])
    assert forgotten[0] > 0
    assert forgotten[2] > forgotten[0]
    tasks = lab.model("model.tasks.length")
    assert tasks < 2_600

    before = lab.model("model.graph.task")
    panel.get_by_role("button", name="Backward pass before this one").click()
    lab.wait_until(lambda: lab.model(f"model.graph.task < {before}"), "the step before")
    lab.wait_until(lambda: len(lab.nodes()) == 141, "its whole graph")
    lab.pictures("long_training")
