"""The Inspector beside a real notebook: the graph while it runs, a pause, a mistake explained."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from .lab import Lab

IMPORT = "import ag_visual as torch"
MODEL = """\
x = torch.tensor([[1.0, 2.0, 3.0]] * 4)
W = torch.full((3, 2), 0.5, requires_grad=True)
def forward():
    h = (x @ W).sigmoid()
    return (h * h).sum()"""
RECORD = "with torch.record():\n    forward().backward()"
DEBUG = "with torch.debugger():\n    forward().backward()\nprint('went on')"
NAMES = ["SumBackward0", "MulBackward0", "SigmoidBackward0", "MmBackward0"]


def test_a_recorded_backward_is_drawn_and_its_nodes_explained(lab: Lab) -> None:
    lab.open("live/record.ipynb", [IMPORT, MODEL, RECORD])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
    states = lab.model("Array.from(model.graph.seqs, seq => model.stateOf(seq))")
    assert len(set(states)) == 1, f"all nodes are done, but their states are {states}"

    lab.select("sigmoid")
    expect(panel.get_by_role("heading", name="SigmoidBackward0")).to_be_visible()
    expect(panel.locator(".agv-src mark")).to_have_text("(x @ W).sigmoid()")
    saved = panel.locator(".agv-saved tbody tr")
    expect(saved).to_have_count(1)
    expect(saved.filter(has_text=re.compile(r"result.*\[4, 2\].*32 B.*v0"))).to_have_count(1)
    lab.screenshot("live_node")

    panel.get_by_role("button", name="In[2] line 4").first.click()
    marked = lab.page.locator(".jp-Notebook .ag-source-expression")
    expect(marked).to_have_text("(x @ W).sigmoid()")
    lab.wait_until(lambda: lab.focused(".jp-CodeCell"), "the cell to have the focus")


def test_a_backward_is_paused_stepped_and_continued(lab: Lab) -> None:
    lab.open("live/pause.ipynb", [IMPORT, MODEL, DEBUG], theme="JupyterLab Dark")
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    lab.start(2)
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    tab = lab.page.locator(".lm-TabBar-tab", has_text="Inspector (paused)")
    expect(tab).to_be_visible()

    panel.get_by_role("button", name="Step").click()
    expect(pill).to_have_text("Paused before step 2 of 5")
    # The keys work from the notebook too, as long as it is paused.
    lab.page.keyboard.press("F10")
    expect(pill).to_have_text("Paused before step 3 of 5")
    lab.screenshot("live_paused_dark")

    panel.get_by_role("button", name="Step").click()
    expect(pill).to_have_text("Paused before step 4 of 5")
    assert "went on" not in lab.output(2)
    lab.page.keyboard.press("F9")
    lab.wait_until(lambda: "went on" in lab.output(2), "the cell to go on")
    expect(pill).not_to_contain_text("Paused")
    expect(tab).to_have_count(0)


def test_a_breakpoint_on_a_node_name_and_run_to_a_node(lab: Lab) -> None:
    stop = "with torch.debugger(stop='MulBackward0'):\n    forward().backward()\n'end'"
    lab.open("live/breakpoint.ipynb", [IMPORT, MODEL, stop])
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    lab.start(2)
    pill = panel.locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 2 of 5")
    lab.select("mm")
    panel.get_by_role("button", name="To node").click()
    expect(pill).to_have_text("Paused before step 4 of 5")
    panel.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "end" in lab.output(2), "the cell to end")


def test_an_inplace_mistake_is_explained_and_leads_to_its_lines(lab: Lab) -> None:
    wrong = """\
h = (x @ W).sigmoid()
h += 1
try:
    h.sum().backward()
except RuntimeError as error:
    print('raised')"""
    lab.open("live/mistake.ipynb", [IMPORT, MODEL, wrong])
    panel = lab.inspector()
    *_, said = lab.run_all()
    assert "raised" in said
    panel.get_by_role("tab", name="Problems").click()
    card = panel.locator(".agv-card")
    expect(card).to_have_count(1)
    strip = card.locator(".agv-strip li")
    expect(strip).to_have_count(2)
    expect(strip.first).to_contain_text("In[3] line 1")
    expect(strip.last).to_contain_text("In[3] line 2")
    expect(card.locator(".agv-fix")).to_contain_text("h = h + 1")
    strip.last.get_by_role("button").click()
    expect(lab.page.locator(".jp-Notebook .ag-source-line")).to_have_text("h += 1")
    lab.screenshot("live_problem")


def test_names_of_a_program_never_become_markup(lab: Lab) -> None:
    hostile = """\
import ag_visual.autograd
name = '<img src=x onerror="document.title=1">'
Evil = type(name, (torch.autograd.Function,), {
    'forward': staticmethod(lambda ctx, a: a * 2),
    'backward': staticmethod(lambda ctx, g: g * 2)})
with torch.record():
    Evil.apply(W).sum().backward()"""
    lab.open("live/hostile.ipynb", [IMPORT, MODEL, hostile])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: any("<img" in name for name in lab.nodes()), "the node")
    lab.select("<img")
    expect(panel.get_by_role("heading", name="<img")).to_be_visible()
    assert panel.locator("img").count() == 0
    assert lab.page.title() != "1"


def test_an_edited_cell_is_not_mistaken_for_what_ran(lab: Lab) -> None:
    lab.open("live/edited.ipynb", [IMPORT, MODEL, RECORD])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
    lab.edit(1, MODEL.replace("(x @ W).sigmoid()", "(x @ W).tanh()"))
    lab.select("sigmoid")
    panel.get_by_role("button", name="In[2] line 4").first.click()
    expect(panel.get_by_role("alert")).to_be_visible()
    expect(lab.page.locator(".jp-Notebook .ag-source-line")).to_have_count(0)
