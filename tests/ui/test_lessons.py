"""Class mode: lessons in links and from cells, playing, predicting, every number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import ag_visual as torch

from .lab import Lab
from .test_accessibility import faults

THEMES = ["JupyterLab Light", "JupyterLab Dark"]
NETWORK = """\
import ag_visual as torch
x = torch.tensor([[1.0, 2.0]], requires_grad=True)
W1 = torch.tensor([[0.1, 0.2], [0.3, -0.4]], requires_grad=True)
b1 = torch.tensor([0.0, 0.1], requires_grad=True)
W2 = torch.tensor([[0.5], [-0.6]], requires_grad=True)
b2 = torch.tensor([0.2], requires_grad=True)
def network():
    h = torch.tanh(x @ W1 + b1)
    y = h @ W2 + b2
    return ((y - 1) ** 2).sum()"""
DEBUG = "with torch.debugger():\n    network().backward()\nprint('gradient', W1.grad.tolist())"
LESSON = """\
lesson = torch.lesson("What does each node hand on?", hide=["export", "search", "timeline"],
                      predict=True, speed=8)"""


@pytest.fixture
def handout(tmp_path: Path) -> str:
    """The address of a page with the small network, its numbers in it."""
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    W1 = torch.tensor([[0.1, 0.2], [0.3, -0.4]], requires_grad=True)
    b1 = torch.tensor([0.0, 0.1], requires_grad=True)
    W2 = torch.tensor([[0.5], [-0.6]], requires_grad=True)
    b2 = torch.tensor([0.2], requires_grad=True)
    with torch.record(scalars=True) as recorded:
        h = torch.tanh(x @ W1 + b1)
        y = h @ W2 + b2
        loss = ((y - 1) ** 2).sum()
        loss.backward()
    return recorded.save(tmp_path / "handout.html").as_uri()


def answer(panel: Locator | Page, text: str) -> None:
    panel.get_by_label(re.compile("^Gradient to")).first.fill(text)
    panel.get_by_role("button", name="Reveal").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_lesson_link_asks_and_reveals(
    page: Page, handout: str, screenshots: Path, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    link = "#lesson=Which%20gradient%20goes%20on%3F&hide=export,search,wings&predict=on&step=2"
    page.goto(handout + link)
    expect(page.get_by_role("note", name="Lesson")).to_have_text("Which gradient goes on?")
    expect(page.get_by_role("alert")).to_contain_text("“hide=wings”")
    page.get_by_role("button", name="Close this message").click()
    expect(page.locator(".agv-pill")).to_have_text(re.compile("^Before step 2 "))
    expect(page.get_by_role("button", name="Export")).to_have_count(0)
    expect(page.get_by_role("textbox", name="Find node")).to_have_count(0)
    # The square: 2 (y - 1) times the 1 that arrived.
    card = page.get_by_role("form", name="Prediction")
    expect(card).to_contain_text("Which gradient does PowBackward0 hand on?")
    expect(page.locator(".agv-root")).not_to_contain_text("−0.441")
    card.get_by_label(re.compile("^Gradient to")).fill("2*(0.779-1)")
    expect(card).to_contain_text("= −0.442")
    page.screenshot(path=screenshots / f"teaching_predict_{scheme}.png")
    assert not faults(page, ".agv-root")
    page.get_by_role("button", name="Reveal").click()
    expect(card).to_contain_text("✓")
    expect(card).to_contain_text("you −0.442, right −0.441 = 1 × (−0.441)")
    expect(page.get_by_text("1 of 1 right").first).to_be_visible()
    page.screenshot(path=screenshots / f"teaching_revealed_{scheme}.png")
    page.get_by_role("button", name="Next node").click()
    expect(page.locator(".agv-pill")).to_have_text(re.compile("^Before step 3 "))
    expect(page).to_have_url(re.compile("step=3"))
    answer(page, "0.441")
    expect(card).to_contain_text("✗")
    expect(card).to_contain_text("right size, wrong sign")
    expect(page.get_by_text("1 of 2 right").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_number_of_a_small_network(
    page: Page, handout: str, screenshots: Path, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(handout)
    page.get_by_role("button", name="Numbers").click()
    number = page.get_by_role("button", name="h[0]: value 0.604")
    number.click()
    expect(page.locator(".agv-rule")).to_contain_text("= 0.5 × (−0.441) = −0.221")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".agv-rule")).to_contain_text("= 0.635 × (−0.221) = −0.14")
    page.screenshot(path=screenshots / f"teaching_numbers_{scheme}.png")
    assert not faults(page, ".agv-root")
    # At an earlier moment the gradients that did not arrive yet are not there.
    page.get_by_role("button", name="To the start").click()
    later = page.get_by_role("button", name="h[0]: value 0.604, gradient not known yet")
    expect(later).to_be_visible()
    expect(page.get_by_role("button", name="gradient not known yet")).not_to_have_count(0)
    page.keyboard.press("x")
    page.get_by_role("button", name="Nodes").click()
    expect(page.locator(".agv-graph canvas").first).to_be_visible()


def test_a_recording_plays(page: Page, handout: str, screenshots: Path) -> None:
    page.emulate_media(reduced_motion="reduce")
    # Slowly, so that nobody misses what is looked at in between: a step takes two seconds.
    page.goto(handout + "#lesson=&speed=0.25")
    play = page.get_by_role("button", name="Play", exact=True)
    play.click()
    playing = page.get_by_role("button", name="Playing")
    expect(playing).to_have_attribute("aria-pressed", "true")
    page.screenshot(path=screenshots / "teaching_playing.png")
    expect(page.locator(".agv-pill")).to_have_text(re.compile(r"^Before step ([4-9]|1\d) "))
    page.get_by_role("button", name="Back", exact=True).click()
    expect(play).to_be_visible()
    page.get_by_role("button", name="¼×").click()
    page.get_by_role("button", name="8×").click()
    play.click()
    expect(page.locator(".agv-pill")).to_contain_text("Recording")
    expect(play).to_be_visible()  # at the end it stops by itself


def test_a_cell_sets_up_the_panel_and_the_backward_is_guessed(lab: Lab) -> None:
    cells = [NETWORK, LESSON, DEBUG, "ended = torch.lesson()"]
    lab.open("teaching/live.ipynb", cells)
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    expect(panel.get_by_role("note", name="Lesson")).to_have_text("What does each node hand on?")
    expect(panel.get_by_role("button", name="Export")).to_have_count(0)
    lab.start(2)
    pill = panel.locator(".agv-pill")
    expect(pill).to_contain_text("Paused before step 1")
    expect(panel.locator(".agv-time")).to_have_count(0)
    card = panel.get_by_role("form", name="Prediction")
    answer(panel, "1")
    expect(card).to_contain_text("✓")
    card.get_by_role("button", name="Next node").click()
    expect(pill).to_contain_text("Paused before step 2")
    expect(panel.get_by_role("button", name="Reveal")).to_be_disabled()
    lab.pictures("teaching_live")
    assert not faults(lab.page, ".ag-inspector-panel")
    panel.get_by_role("button", name="Skip").click()
    panel.get_by_role("button", name="Numbers").click()
    expect(
        panel.get_by_role("button", name=re.compile("^W1\\[0,0\\].*not known yet"))
    ).to_be_visible()
    lab.pictures("teaching_live_numbers")
    panel.get_by_role("button", name="Nodes").click()
    # Without predicting, playing runs to the end.
    predict = panel.get_by_role("button", name="Predict", exact=True)
    expect(predict).to_have_attribute("aria-pressed", "true")
    predict.click()
    panel.get_by_role("button", name="Play", exact=True).click()
    lab.wait_until(lambda: "gradient" in lab.output(2), "the backward to be played to its end")
    lab.run(3)
    expect(panel.get_by_role("note", name="Lesson")).to_have_count(0)
    expect(panel.get_by_role("button", name="Export")).to_be_visible()


def test_playing_stops_at_a_breakpoint_and_interrupt_ends_it(lab: Lab) -> None:
    lab.open("teaching/play.ipynb", [NETWORK, DEBUG])
    panel = lab.inspector()
    lab.run(0)
    lab.start(1)
    pill = panel.locator(".agv-pill")
    expect(pill).to_contain_text("Paused before step 1")
    panel.get_by_role("button", name="Breakpoints").click()
    panel.get_by_label("Stop where").select_option("name")
    panel.get_by_label("every node named").fill("TanhBackward0")
    panel.get_by_role("button", name="Add").click()
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="1×").click()
    panel.get_by_role("button", name="8×").click()
    panel.get_by_role("button", name="Play", exact=True).click()
    expect(panel.get_by_role("alert")).to_contain_text("Playing stopped at a breakpoint")
    expect(panel.get_by_role("heading", name="TanhBackward0")).to_be_visible()
    panel.get_by_role("button", name="8×").click()
    panel.get_by_role("button", name="¼×").click()
    panel.get_by_role("button", name="Play", exact=True).click()
    expect(panel.get_by_role("button", name="Playing")).to_be_visible()
    lab.command("notebook:interrupt-kernel")
    lab.wait_until(lambda: "KeyboardInterrupt" in lab.output(1), "the interrupt")
    expect(panel.get_by_role("button", name="Playing")).to_have_count(0)


def test_a_picture_in_a_cell_draws_every_number(lab: Lab) -> None:
    lab.open(
        "teaching/show.ipynb",
        [
            NETWORK,
            "torch.show(network(), scalars=True)",
            "torch.show(torch.ones(90, requires_grad=True).exp().sum(), scalars=True)",
        ],
    )
    lab.run(0)
    lab.run(1)
    output = lab.page.locator(".jp-Cell").nth(1)
    expect(output.get_by_role("button", name="tanh[0]: value 0.604")).to_be_visible()
    lab.screenshot("teaching_show")
    lab.run(2)
    refused = lab.page.locator(".jp-Cell").nth(2).locator(".agv-refused")
    expect(refused).to_contain_text("numbers are drawn one by one up to 64")
    refused.scroll_into_view_if_needed()
    lab.screenshot("teaching_too_large")
