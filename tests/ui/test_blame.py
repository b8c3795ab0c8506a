"""Problems in a real notebook: both lines marked in their cells, aliases, a repair tried out."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from .lab import Lab
from .test_accessibility import in_both

IMPORT = "import ag_visual as torch\nx = torch.ones(3, requires_grad=True)"
WRITE = """\
if True:
    y = x.exp(); z = y.sin()
    part = y[:2]
    y += 1  # in place
    z.sum().backward()"""


def marks(lab: Lab, kind: str) -> Locator:
    return lab.page.locator(f".jp-Notebook .ag-place[data-kind={kind}]")


def test_both_lines_are_marked_and_the_repair_is_tried_out(lab: Lab) -> None:
    lab.open("blame/both.ipynb", [IMPORT, WRITE, "'after'"])
    panel = lab.inspector()
    lab.run(0)
    panel.get_by_role("button", name="Record").first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    assert "modified by an inplace operation" in lab.run(1)
    card = panel.locator(".agv-card")
    expect(card).to_have_count(1)
    # Exact columns of both lines, the version strip, the other names of the memory.
    expect(marks(lab, "saved")).to_have_text("y.sin()")
    expect(marks(lab, "written")).to_have_text("y += 1")
    expect(card.locator(".agv-v")).to_have_text(["v0", "v1"])
    expect(card.locator(".agv-aliases")).to_contain_text("part")
    expect(card.locator(".agv-aliases")).to_contain_text("a view: slice of y")
    lab.pictures("blame")
    assert not in_both(lab, ".ag-inspector-panel")

    card.get_by_role("button", name="Try it").click()
    lab.wait_until(lambda: lab.cells() == 4, "the changed cell")
    assert lab.source(1) == WRITE
    assert lab.source(2) == WRITE.replace("y += 1", "y = y + 1")
    expect(panel.locator(".agv-notice")).to_contain_text("Run it to try it")
    lab.pictures("blame_tried")
    assert "Error" not in lab.run(2)

    # An edited cell is told, not guessed at; its marks are gone.
    lab.edit(1, "pass")
    expect(marks(lab, "written")).to_have_count(0)
    card.get_by_role("button", name="Try it").click()
    expect(panel.locator(".agv-notice")).to_contain_text("was changed since it ran")
    assert lab.cells() == 4


def test_leaf_view_and_second_backward_name_their_lines(lab: Lab) -> None:
    leaf = "x += 1"
    view = "a, b = (x * 1).unbind()[:2]\na += 1"
    twice = "w = x.exp().sum()\nw.backward()\nw.backward()"
    lab.open("blame/kinds.ipynb", [IMPORT, "None", leaf, view, twice])
    panel = lab.inspector()
    lab.run(0)
    # The kernel tells of problems once the page listens.
    expect(panel.locator(".agv-pill")).to_have_text("Not recording")
    for cell in range(1, 5):
        lab.run(cell)
    cards = panel.locator(".agv-card")
    expect(cards).to_have_count(3)
    # The newest first; its lines are marked.
    expect(cards.nth(0)).to_contain_text("second backward")
    expect(cards.nth(0)).to_contain_text("freed by the backward at In[5] line 2")
    expect(cards.nth(0)).to_contain_text("the graph is kept by w")
    expect(marks(lab, "saved")).to_have_text("x.exp()")
    expect(marks(lab, "written")).to_have_text("w.backward()")
    # Another card marks its own.
    cards.nth(1).locator("h3").click()
    expect(marks(lab, "written")).to_have_text("a += 1")
    expect(cards.nth(1)).to_contain_text("view made at In[4] line 1")
    cards.nth(2).locator("h3").click()
    expect(marks(lab, "written")).to_have_text("x += 1")
    panel.get_by_role("tab", name="Node").click()
    expect(marks(lab, "written")).to_have_count(0)
