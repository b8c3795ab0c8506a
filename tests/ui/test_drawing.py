"""How a graph is drawn: what its boxes are coloured by, and the legend that leads to its nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, expect

import ag_visual as torch

from .test_pages import picture

LAYERS = 20


def deep(folder: Path) -> str:
    """The address of a page with twenty sigmoids, whose gradient vanishes."""
    net = [m for _ in range(LAYERS) for m in (torch.nn.Linear(8, 8), torch.nn.Sigmoid())]
    torch.manual_seed(0)
    with torch.record() as recorded:
        torch.nn.Sequential(*net)(torch.ones(4, 8)).pow(2).mean().backward()
    return recorded.save(folder / "deep.html").as_uri()


def test_the_legend_counts_and_goes_from_one_to_the_next(page: Page, tmp_path: Path) -> None:
    page.goto(deep(tmp_path))
    legend = page.get_by_role("group", name="Legend")
    title = page.locator(".agv-det h3")
    done = legend.get_by_role("button", name="done")
    expect(done).to_have_text(re.compile(r"done\s*\d{2}$"))
    expect(legend.get_by_role("button", name="waiting")).to_be_disabled()
    # By the keyboard: the button is in the order of the page, and keeps the focus.
    done.focus()
    page.keyboard.press("Enter")
    expect(title).to_contain_text("MeanBackward0")
    page.keyboard.press("Enter")
    expect(title).to_contain_text("PowBackward0")
    vanishing = legend.get_by_role("button", name="vanishing gradient")
    selected = "document.querySelector('#agv-outline-selected').textContent"
    for _ in range(2):
        vanishing.click()
        page.wait_for_function(f"{selected}.includes('vanishing gradient')")
    legend.get_by_role("button", name="parameter").click()
    expect(title).to_contain_text("AccumulateGrad")


def test_boxes_are_coloured_by_a_measure_and_it_is_remembered(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    page.goto(deep(tmp_path))
    by = page.get_by_role("combobox", name="colour")
    expect(by).to_have_value("state")
    scale = page.locator(".agv-legend-scale")
    expect(scale).to_have_count(0)
    for measure, words in (
        ("bytes", "bytes saved, .* B to .* B, linear"),
        ("time", "time, .*s to .*s, "),
        ("norm", "gradient norm, .*e−.* to 1, logarithmic"),
    ):
        by.select_option(measure)
        expect(scale).to_have_attribute("aria-label", re.compile(words))
    page.locator(".agv-graph").focus()
    page.keyboard.press("Shift+C")
    page.get_by_role("tab", name="Outline").click()
    expect(page.get_by_role("treeitem").first.locator(".agv-swatch")).to_be_visible()
    schemes: tuple[Literal["dark", "light"], ...] = ("dark", "light")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        page.reload()
        expect(by).to_have_value("norm")
        expect(scale).to_be_visible()
        picture(page, screenshots / f"colour_norm_{scheme}.png")
