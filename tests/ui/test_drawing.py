"""How a graph is drawn: what its boxes are coloured by, and the legend that leads to its nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, expect

import ag_visual as torch

from .test_pages import picture


def deep(folder: Path, layers: int = 20) -> str:
    """The address of a page with a net of sigmoids, whose gradient vanishes."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        *(m for _ in range(layers) for m in (torch.nn.Linear(8, 8), torch.nn.Sigmoid()))
    )
    torch.nn.utils.vector_to_parameters(0.15 * torch.randn(72 * layers), net.parameters())
    with torch.record() as recorded:
        loss = net(torch.ones(4, 8)).pow(2).mean()
        loss.backward()
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
    expect(title).not_to_contain_text("Backward0")


def test_boxes_are_coloured_by_a_measure_and_it_is_remembered(
    page: Page, tmp_path: Path, screenshots: Path
) -> None:
    page.goto(deep(tmp_path, layers=6))
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
        page.locator(".agv-graph").focus()
        page.keyboard.press(" ")
        picture(page, screenshots / f"colour_norm_{scheme}.png")


def test_a_long_graph_turns_to_the_side_in_a_wide_view(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1560, "height": 560})
    page.goto(deep(tmp_path))
    graph = page.locator(".agv-graph")
    title = page.locator(".agv-det h3")
    search = page.get_by_role("textbox", name="Find node")

    def shown(name: str) -> None:
        search.fill(name)
        search.press("Enter")
        expect(title).to_contain_text(name)
        graph.focus()

    # Edges lead to the right: the arrow to the right goes on, the one to the left goes back.
    shown("MeanBackward0")
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text("PowBackward0")
    page.keyboard.press("ArrowLeft")
    expect(title).to_contain_text("MeanBackward0")
    direction = page.get_by_role("button", name="Direction of the edges")
    expect(direction).to_have_accessible_name("Direction of the edges: auto")
    direction.focus()
    page.keyboard.press("Enter")
    expect(direction).to_have_accessible_name("Direction of the edges: down")
    graph.focus()
    page.keyboard.press("ArrowDown")
    expect(title).to_contain_text("PowBackward0")
    page.keyboard.press("Shift+T")
    expect(direction).to_have_accessible_name("Direction of the edges: right")
    page.keyboard.press("t")
    page.keyboard.press("ArrowRight")
    expect(title).to_contain_text("MeanBackward0")
    page.reload()
    expect(direction).to_have_accessible_name("Direction of the edges: right")
    # In a view that is not wide the graph leads downward by itself.
    page.set_viewport_size({"width": 900, "height": 1100})
    graph.focus()
    page.keyboard.press("t")
    page.keyboard.press("Shift+T")
    expect(direction).to_have_accessible_name("Direction of the edges: auto")
    shown("MeanBackward0")
    page.keyboard.press("ArrowDown")
    expect(title).to_contain_text("PowBackward0")
