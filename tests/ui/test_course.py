"""The course in JupyterLab: questions, handouts, and the panel that opens its lessons."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from playwright.sync_api import Locator, expect

from .lab import CHECKOUT, NOTEBOOK, Lab
from .test_accessibility import in_both

FIRST = CHECKOUT / "notebooks" / "course_1_what_a_gradient_is.ipynb"
CHOICES = """\
import ag_visual as torch
which = torch.Question(
    "Which way is <b>down</b>?", choices=["Along `grad`", "<i>Against</i> it", "Neither"],
    answer="<i>Against</i> it", replies={"Along `grad`": "<img src=x onerror=alert(1)> No."},
    why="It points uphill.")
which"""


def form(lab: Lab, cell: int) -> Locator:
    return lab.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".ag-question")


def in_view(lab: Lab, cell: int) -> None:
    lab.page.evaluate(
        f"index => {NOTEBOOK}.content.widgets[index].node.scrollIntoView({{block: 'center'}})", cell
    )


def of_cell(text: str) -> int:
    """The first cell of lesson 1 that holds this text."""
    cells = json.loads(FIRST.read_text())["cells"]
    return next(i for i, cell in enumerate(cells) if text in "".join(cell["source"]))


def test_a_lesson_asks_replies_and_hands_out(lab: Lab) -> None:
    lab.load()
    (lab.server.root / "course").mkdir(exist_ok=True)
    shutil.copy(FIRST, lab.server.root / "course")
    lab.open_path(f"course/{FIRST.name}")
    lab.inspector()
    for cell in lab.code_cells():
        lab.run(cell)
    asked = of_cell("slope = ag.Question(")
    slope = form(lab, asked)
    in_view(lab, asked)
    # Folded: the answer is not read by chance.
    source = lab.page.locator(".jp-Notebook .jp-Cell").nth(asked).locator(".cm-content")
    expect(source).to_have_count(0)
    field = slope.get_by_role("textbox", name=re.compile("^Your answer"))
    field.fill("2+2")
    field.press("Enter")
    status = slope.get_by_role("status")
    expect(status).to_contain_text("✗ Not yet. 4 is the height of the curve there")
    assert lab.cells() == len(json.loads(FIRST.read_text())["cells"])  # no key of the notebook's
    for theme in lab.themes():
        in_view(lab, asked)
        lab.screenshot(f"course_question_{theme}")
    assert not in_both(lab, ".ag-question")
    slope.get_by_role("button", name="Show the answer").click()
    expect(status).to_contain_text("The answer is -4. 2 · (−2) = −4.")
    field.fill("-4")
    slope.get_by_role("button", name="Check").click()
    expect(status).to_contain_text("✓ Right. 2 · (−2) = −4.")

    page = of_cell("ag.Handout(")
    links = lab.page.locator(".jp-Notebook .jp-Cell").nth(page).locator(".ag-handout a")
    expect(links).to_have_count(2)
    for theme in lab.themes():
        in_view(lab, page)
        lab.screenshot(f"course_handout_{theme}")
    assert not in_both(lab, ".ag-handout")
    with lab.page.context.expect_page() as opened:
        links.nth(1).click()
    handed = opened.value
    note = handed.get_by_role("note", name="Lesson")
    expect(note).to_have_text("Play the backward. In which order are the nodes done?")
    expect(handed.get_by_role("button", name="Export")).to_have_count(0)
    expect(handed.locator(".agv-pill")).to_have_text(re.compile("^Before step 1 "))
    handed.close()


def test_a_choice_is_made_with_the_keyboard_and_texts_stay_texts(lab: Lab) -> None:
    lab.open("course/choice.ipynb", [CHOICES, "1"])
    lab.run(0)
    asked = form(lab, 0)
    group = asked.get_by_role("group", name="Which way is <b>down</b>?")
    group.get_by_role("button", name="Check").click()
    status = asked.get_by_role("status")
    expect(status).to_have_text("Choose one of the answers.")
    group.get_by_role("radio", name="Along grad").focus()
    lab.page.keyboard.press("Space")
    lab.page.keyboard.press("Enter")
    expect(status).to_have_text("✗ Not yet. <img src=x onerror=alert(1)> No.")
    # The arrows choose; they move no cell of the notebook.
    lab.page.keyboard.press("ArrowDown")
    expect(group.get_by_role("radio", name="<i>Against</i> it")).to_be_checked()
    lab.page.keyboard.press("Enter")
    expect(status).to_have_text("✓ Right. It points uphill.")
    assert lab.focused(".ag-question")
    assert lab.page.evaluate(f"{NOTEBOOK}.content.activeCellIndex") == 0
    assert lab.page.evaluate(f"{NOTEBOOK}.content.mode") == "command"
    expect(asked.locator("b, i, img")).to_have_count(0)
    assert not in_both(lab, ".ag-question")


def test_the_panel_opens_a_lesson(lab: Lab) -> None:
    lab.open("course_list/first.ipynb", ["import ag_visual as ag", "1"])
    panel = lab.inspector()
    lab.run(0)
    panel.get_by_text("Course: 8 lessons").click()
    lessons = panel.locator(".agv-course")
    expect(lessons.get_by_role("button")).to_have_count(8)
    assert not in_both(lab, ".ag-inspector-panel")
    lab.pictures("course_list")
    lessons.get_by_role("button", name="2 · The chain rule by hand").click()
    shown = "window.jupyterapp.shell.currentWidget?.context?.path"
    name = "course_list/course_2_chain_rule_by_hand.ipynb"
    lab.wait_until(lambda: lab.page.evaluate(shown) == name, "the lesson to open")
    written = Path(lab.server.root / "course_list")
    assert len(list(written.glob("course_*.ipynb"))) == 8
