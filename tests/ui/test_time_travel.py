"""Scrubbing over every event by keys: states, norms, versions of then; a layout that stays."""

from __future__ import annotations

import ast
from typing import Any

from playwright.sync_api import expect

from .lab import Lab

RUN = """\
import ag_visual as torch
x = torch.ones(3, requires_grad=True)
b = torch.ones(3)
def train():
    y = x * b
    b.add_(1)
    z = y.exp()
    try: z.sum().backward()
    except RuntimeError: pass
    return {"made": b._version - 1, "now": b._version, "norm": 1.0}"""

# Where boxes stand on the page, their width there (the camera's scale), and the canvas's own size.
PLACES = """Array.from(model.graph.seqs, seq => {
    const box = inspector.placeOf(seq);
    return box && [box.x, box.y, box.width];
})"""
MOMENT = """({
    cursor: model.cursor ?? model.length,
    node: Array.from(model.states.node),
    norm: Array.from(model.states.norm)
})"""
WAITING, FUTURE, NEXT, DONE = 0, 1, 2, 4


def test_every_moment_forward_and_back(lab: Lab) -> None:
    lab.open("time/moments.ipynb", [RUN, "train()"])
    panel = lab.inspector()
    lab.run(0)
    panel.get_by_role("button", name="Record").first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    told = ast.literal_eval(lab.run(1))
    lab.wait_until(lambda: len(lab.nodes()) == 3, "the graph")
    # What the function let go as it ended is told last: nothing more comes after the end.
    panel.get_by_role("button", name="Record").first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Not recording")
    lab.wait_until(lambda: None not in lab.model(PLACES), "the layout to stand still")
    panel.get_by_role("tab", name="Tensors").click()

    def places() -> Any:
        """Where boxes stand, once they do: names that come late lay the graph out anew."""
        found = lab.model(PLACES)
        lab.page.wait_for_timeout(400)
        return found if found == lab.model(PLACES) else None

    lab.wait_until(places, "the layout to stand still")
    before = lab.model(PLACES)
    length: int = lab.model("model.length")
    axis = panel.locator(".agv-axis")
    axis.focus()
    lab.page.keyboard.press("Home")
    lab.wait_until(lambda: lab.model("model.cursor") == 0, "the first moment")

    # In the past the toolbar has more to say, which may take a line from the graph: no box moves.
    expect(panel.locator(".agv-pill[data-kind=past]")).to_be_visible()

    def moment(at: int) -> dict[str, Any]:
        lab.wait_until(lambda: lab.model(MOMENT)["cursor"] == at, f"moment {at}")
        lab.frames()
        lab.wait_until(lambda: lab.model(PLACES) == before, "every box to stand where it stood")
        return {
            **lab.model(MOMENT),
            "rows": panel.locator(".agv-tensors tbody tr").all_inner_texts(),
        }

    seen = [moment(0)]
    for at in range(1, length + 1):
        lab.page.keyboard.press("ArrowRight")
        seen.append(moment(at))
    # Nodes come to be one by one, the newest first in the list; then they run.
    assert [m["node"].count(FUTURE) for m in seen[:4]] == [3, 2, 1, 0]
    assert all(norm == -1 for m in seen[:4] for norm in m["norm"])
    assert seen[4]["node"][0] == DONE
    assert seen[4]["norm"][0] == told["norm"]
    # What `x * b` saved was at version 0 when it was made; the write comes before the next node.
    assert told == {"made": 0, "now": 1, "norm": 1.0}
    mul = [next((row for row in m["rows"] if "MulBackward0" in row), "") for m in seen]
    assert "MulBackward0" not in "".join(seen[0]["rows"])
    assert "now v1" not in mul[1]
    assert f"v{told['made']}, now v{told['now']}" in mul[2]
    # Backwards the same moments look the same.
    for at in range(length - 1, -1, -1):
        lab.page.keyboard.press("ArrowLeft")
        assert moment(at) == seen[at]
        if at == 2:
            lab.pictures("time_travel")
    lab.page.keyboard.press("Escape")
    lab.wait_until(lambda: lab.model("model.cursor") is None, "now")
    lab.wait_until(lambda: lab.model(PLACES) == before, "every box to stand where it stood")
