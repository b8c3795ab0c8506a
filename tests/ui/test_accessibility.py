"""axe-core on the panel in both themes: every tab, a pause, a problem, menus, and a saved page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import ag_visual as torch

from .lab import Lab
from .test_groups import NET

PAUSED = """\
net = Net(3)
h = net(torch.ones(2, 8)).sigmoid()
with torch.debugger(stop="SigmoidBackward0"):
    (h * h).sum().backward()"""
WRONG = """\
W = torch.ones(2, requires_grad=True)
y = W.exp()
z = y.sum()
y += 1
try:
    z.backward()
except RuntimeError:
    pass"""
FADED = """async () => {
    const ends = fade => fade.effect?.getComputedTiming().endTime !== Infinity;
    const fades = document.getAnimations().filter(ends);
    await Promise.all(fades.map(fade => fade.finished.catch(() => undefined)));
}"""
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def faults(page: Page, element: str) -> list[str]:
    """What axe finds wrong inside an element, one line each."""
    page.evaluate(FADED)  # in the middle of a fade every contrast is low
    options: dict[str, Any] = {"runOnly": {"type": "tag", "values": STANDARDS}}
    found = Axe().run(page, context={"include": [element]}, options=options)
    return [
        f"{fault['id']}: {fault['help']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for fault in found.response["violations"]
        for node in fault["nodes"]
    ]


def in_both(lab: Lab, element: str) -> list[str]:
    """What axe has to say in either theme."""
    return [f"{theme}: {each}" for theme in lab.themes() for each in faults(lab.page, element)]


def test_every_part_of_the_panel_passes_axe(lab: Lab) -> None:
    lab.open("axe/both.ipynb", [NET, PAUSED, WRONG])
    panel = lab.inspector()
    seen: dict[str, list[str]] = {"empty": in_both(lab, ".ag-inspector-panel")}
    lab.run(0)
    lab.start(1)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step")
    expect(panel.locator(".agv-picture").first).to_be_visible()
    seen["paused"] = in_both(lab, ".ag-inspector-panel")
    seen["overlay"] = in_both(lab, ".ag-paused-overlay")
    for tab in ("Outline", "Tensors", "Hooks", "Problems"):
        panel.get_by_role("tab", name=tab).click()
        seen[tab] = in_both(lab, ".ag-inspector-panel")
    panel.get_by_role("button", name="Breakpoints").click()
    seen["breakpoints"] = in_both(lab, ".ag-inspector-panel")
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Close all groups").click()
    panel.locator(".agv-graph").focus()
    lab.page.keyboard.press("ArrowDown")
    seen["group"] = in_both(lab, ".ag-inspector-panel")
    lab.page.keyboard.press("?")
    expect(panel.get_by_role("dialog", name="Keys")).to_be_visible()
    seen["keys"] = in_both(lab, ".ag-inspector-panel")
    lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Continue").click()
    expect(panel.locator(".agv-pill")).not_to_contain_text("Paused")
    lab.run(2)
    expect(panel.locator(".agv-card")).to_have_count(1)
    seen["problem"] = in_both(lab, ".ag-inspector-panel")
    lab.pictures("axe")
    told = [f"{part}: {fault}" for part, found in seen.items() for fault in found]
    assert not told, "\n".join(told)


def test_a_saved_page_passes_axe(page: Page, tmp_path: Path) -> None:
    w = torch.full((3, 2), 0.5, requires_grad=True)
    with torch.record() as recorded:
        (w * 2).sigmoid().sum().backward()
    page.goto(recorded.save(tmp_path / "page.html").as_uri())
    expect(page.get_by_role("button", name="To the start")).to_be_visible()
    found = faults(page, ".agv-root")
    assert not found, "\n".join(found)


def test_axe_would_see_a_fault(page: Page) -> None:
    page.set_content("<main class='agv-root'><button></button><img src='x'></main>")
    assert {fault.split(":")[0] for fault in faults(page, ".agv-root")} >= {
        "button-name",
        "image-alt",
    }


def test_motion_is_left_out_where_the_reader_wants_none(lab: Lab) -> None:
    lab.page.emulate_media(reduced_motion="reduce")
    lab.open("axe/motion.ipynb", [NET, PAUSED.replace(', stop="SigmoidBackward0"', "")])
    panel = lab.inspector()
    moving = panel.evaluate(
        """panel => [...panel.querySelectorAll('*')].filter(element => {
            const style = getComputedStyle(element);
            const long = text => text.split(',').some(part => parseFloat(part) > 0.001);
            return long(style.transitionDuration) || long(style.animationDuration);
        }).map(element => element.className)"""
    )
    assert moving == []
