"""The Inspector in cells' outputs: live, in step with others, or a picture that says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import ag_visual as torch
from ag_visual.observe.export.bundle import bundle_text

from .lab import NOTEBOOK, Lab
from .test_accessibility import faults, in_both
from .test_live import IMPORT, MODEL

SHOW = "loss = forward()\ntorch.show(loss)"
DEBUG = "with torch.debugger():\n    loss.backward()\nprint('went on')"
HOST = """async ([state, script]) => {
    const heard = [];
    const answer = ({bundle}) => {
        const buffer = new TextEncoder().encode(script);
        for (const [name, listen] of heard) if (name === 'msg:custom') listen({bundle}, [buffer]);
    };
    const model = {
        get: name => state[name],
        on: (name, listen) => heard.push([name, listen]),
        off: () => undefined,
        send: message => queueMicrotask(() => answer(message)),
    };
    const module = new Blob([state._esm], {type: 'text/javascript'});
    const loader = await import(URL.createObjectURL(module));
    await loader.default.render({model, el: document.getElementById('out')});
}"""
COUNT = """() => {
    window.scripts = 0;
    const create = URL.createObjectURL;
    URL.createObjectURL = blob => {
        if (blob.type === 'text/javascript' && blob.size > 100_000) window.scripts += 1;
        return create.call(URL, blob);
    };
}"""


def output(lab: Lab, cell: int) -> Locator:
    return lab.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".agv-output")


def test_the_picture_of_a_graph_turns_live_when_its_backward_stops(lab: Lab) -> None:
    lab.open("output/turns.ipynb", [IMPORT, MODEL, SHOW, DEBUG])
    for cell in range(3):
        lab.run(cell)
    shown = output(lab, 2)
    bar = shown.locator(".agv-output-bar")
    expect(bar.get_by_role("button", name="Picture")).to_have_attribute("aria-pressed", "true")
    expect(bar.get_by_role("status")).to_contain_text("as it was when its cell ran")
    lab.start(3)
    pill = shown.locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    expect(bar.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
    shown.get_by_role("button", name="Step").click()
    expect(pill).to_have_text("Paused before step 2 of 5")
    search = shown.get_by_role("textbox", name="Find node")
    search.fill("sigmoid")
    search.press("Enter")
    saved = shown.locator(".agv-saved tbody tr")
    expect(saved.filter(has_text=re.compile(r"result.*\[4, 2\]"))).to_have_count(1)
    shown.scroll_into_view_if_needed()
    found = in_both(lab, ".agv-output")
    assert not found, "\n".join(found)
    lab.pictures("output_live")
    shown.get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(3), "the cell to go on")
    bar.get_by_role("button", name="Picture").click()
    expect(bar.get_by_role("status")).to_contain_text("as it was when its cell ran")


@pytest.mark.usefixtures("anew")
def test_outputs_and_panel_keep_in_step_and_load_one_script(lab: Lab) -> None:
    cells = [IMPORT, MODEL, SHOW, "torch.show(height=420)", "torch.show(loss)", DEBUG, "1"]
    lab.open("output/several.ipynb", cells)
    lab.page.evaluate(COUNT)
    panel = lab.inspector()
    for cell in range(5):
        lab.run(cell)
    expect(output(lab, 4)).to_have_count(1)
    lab.start(5)
    pills = [output(lab, cell).locator(".agv-pill") for cell in (2, 3, 4)]
    pills.append(panel.locator(".agv-pill"))

    def all_say(text: str) -> None:
        for pill in pills:
            expect(pill).to_have_text(text)

    all_say("Paused before step 1 of 5")
    output(lab, 3).get_by_role("button", name="Step").click()
    all_say("Paused before step 2 of 5")
    panel.get_by_role("button", name="Step").click()
    all_say("Paused before step 3 of 5")
    assert lab.page.evaluate("window.scripts") == 1

    # One is closed: the others go on, and the kernel forgets its page.
    lab.page.evaluate(f"() => {NOTEBOOK}.content.widgets[3].outputArea.model.clear()")
    expect(output(lab, 3)).to_have_count(0)
    del pills[1]
    output(lab, 2).get_by_role("button", name="Step").click()
    all_say("Paused before step 4 of 5")
    output(lab, 4).get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(5), "the cell to go on")
    lab.edit(6, "from ag_visual.session.api import session\nlen(session().pages)")
    lab.wait_until(lambda: int(lab.run(6)) == 3, "the page of the closed output to be forgotten")


def test_a_live_output_in_the_cell_that_is_paused(lab: Lab) -> None:
    """The renderer itself has to come while the cell runs."""
    cell = "from IPython.display import display\nloss = forward()\ndisplay(torch.show(loss))\n"
    lab.open("output/same.ipynb", [IMPORT, MODEL, cell + DEBUG])
    lab.run(0)
    lab.run(1)
    lab.start(2)
    pill = output(lab, 2).locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    output(lab, 2).get_by_role("button", name="Continue").click()
    lab.wait_until(lambda: "went on" in lab.output(2), "the cell to go on")


def test_an_output_of_a_kernel_that_was_restarted_says_so(lab: Lab) -> None:
    lab.open("output/restart.ipynb", [IMPORT, MODEL, SHOW])
    for cell in range(3):
        lab.run(cell)
    shown = output(lab, 2)
    shown.get_by_role("button", name="Live").click()
    expect(shown.get_by_role("status").first).to_contain_text("Follows every backward")
    lab.restart()
    lab.run(0)
    expect(shown.get_by_role("status").first).to_contain_text("the kernel was restarted since")
    search = shown.get_by_role("textbox", name="Find node")
    search.fill("sigmoid")
    search.press("Enter")
    expect(shown.get_by_role("heading", name="SigmoidBackward0")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_front_end_that_gives_no_way_to_the_kernel_shows_a_picture(
    page: Page, screenshots: Path, theme: str
) -> None:
    """What every host of widgets offers, and nothing else; here with VS Code's mark of a theme."""
    x = torch.tensor([[1.0, 2.0, 3.0]] * 4)
    weight = torch.full((3, 2), 0.5, requires_grad=True)
    hidden = (x @ weight).sigmoid()
    picture = torch.show((hidden * hidden).sum())
    picture._repr_mimebundle_()
    state = {key: value for key, value in picture._widget.get_state().items() if key != "layout"}
    back, ink = ("#1e1e1e", "#d4d4d4") if theme == "dark" else ("#ffffff", "#1f2933")
    colours = f"--vscode-editor-background: {back}; --vscode-editor-foreground: {ink}"
    page.set_content(
        f"<html lang=en><body class='vscode-{theme}' style='{colours}; "
        f"background: {back}; color: {ink}'><main id=out></main></body></html>"
    )
    page.evaluate(HOST, [state | {"live": True}, bundle_text()])
    bar = page.locator(".agv-output-bar")
    expect(bar).to_contain_text("gives outputs no way to a kernel that is running a cell")
    expect(bar.get_by_role("button")).to_have_count(0)
    search = page.get_by_role("textbox", name="Find node")
    search.fill("sigmoid")
    search.press("Enter")
    expect(page.get_by_role("heading", name="SigmoidBackward0")).to_be_visible()
    page.screenshot(path=screenshots / f"output_elsewhere_{theme}.png")
    found = faults(page, ".agv-output")
    assert not found, "\n".join(found)


TINY = """\
a, b = (torch.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
loss = (a * b).sum()
torch.show(loss)"""


def test_numbers_of_a_picture_come_when_a_reader_wants_them(lab: Lab) -> None:
    lab.open("output/numbers.ipynb", [IMPORT, TINY, "loss = a = b = None"])
    for cell in range(2):
        lab.run(cell)
    shown = output(lab, 1)
    shown.get_by_role("button", name="Numbers").click()
    boxes = shown.locator(".agv-scalars .agv-num")
    expect(boxes).to_have_count(7)  # a, b, their product and the sum
    shown.scroll_into_view_if_needed()
    lab.pictures("output_numbers")
