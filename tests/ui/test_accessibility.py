"""axe-core on the panel in both themes: every tab, a pause, a problem, menus, and a saved page."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

import ag_visual as torch
from ag_visual.observe.export.bundle import bundle_text
from ag_visual.profiler import profile, record_function, report

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
# Not waited for: an animation outside of what is drawn never ends by itself.
FADED = """async () => {
    const runs = fade => fade.playState !== 'finished'
        && fade.effect?.getComputedTiming().endTime !== Infinity;
    for (let turn = 0; turn < 50; turn++) {
        const fades = document.getAnimations().filter(runs);
        if (fades.length === 0) return;
        for (const fade of fades) fade.finish();
        await new Promise(done => setTimeout(done, 20));
    }
    throw new Error('animations begin again and again');
}"""
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def faults(page: Page, element: str) -> list[str]:
    """What axe finds wrong inside an element, one line each."""
    page.evaluate(FADED)  # in the middle of a fade every contrast is low
    options: dict[str, Any] = {
        "runOnly": {"type": "tag", "values": STANDARDS},
        # The many elements that pass are neither named nor sent.
        "resultTypes": ["violations"],
    }
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


RUN_OF_MANY = """\
head = torch.nn.Linear(8, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), head)
model.register_parameter("unused", torch.nn.Parameter(torch.ones(3)))
with torch.record(name="one that breaks"):
    for step in range(6):
        p = model(torch.ones(2, 8)).sigmoid() * (step != 3)
        (torch.log(p) * p.detach()).sum().backward()
with torch.record(name="another"):
    for step in range(3):
        p = model(torch.ones(2, 8)).sigmoid() * (step != 1)
        (torch.log(p) * p.detach()).sum().backward()"""


def test_the_guides_parts_pass_axe(lab: Lab) -> None:
    """Findings, parameters, the colours' scale, the strip of passes, menus: in either theme."""
    lab.open("axe/guides.ipynb", [NET, RUN_OF_MANY])
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    strip = panel.get_by_role("slider", name="Backward pass shown")
    expect(strip).to_have_attribute("aria-valuetext", re.compile("^backward 3 of 3"))
    seen: dict[str, list[str]] = {}

    def look(part: str) -> None:
        seen[part] = in_both(lab, ".ag-inspector-panel")

    panel.get_by_role("tab", name="Problems").click()
    expect(panel.locator(".agv-finding")).not_to_have_count(0)
    look("findings")
    panel.get_by_role("tab", name="Parameters").click()
    expect(panel.get_by_text("not used in this pass")).to_be_visible()
    look("parameters")
    panel.get_by_text("not used in this pass").click()
    look("a parameter that got nothing")
    panel.get_by_role("button", name="First with NaN").click()
    strip.focus()
    look("strip")
    for menu in ("Watch", "Runs"):
        button = panel.get_by_role("button", name=menu, exact=menu == "Watch")
        button.click()
        look(menu)
        lab.page.keyboard.press("Escape")
    panel.get_by_role("button", name="Hide this side").click()
    panel.get_by_role("combobox", name="colour").select_option("norm")
    expect(panel.locator(".agv-legend-scale")).to_be_visible()
    look("scale")
    lab.pictures("axe_guides")
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


def profiled() -> Any:
    w = torch.full((3, 2), 0.5, requires_grad=True)
    with profile(
        record_shapes=True, profile_memory=True, with_stack=True, with_flops=True
    ) as found:
        for _ in range(3):
            with record_function("forward"):
                loss = (w * 2).sigmoid().sum()
            loss.backward()
    return found


MOUNT = """async host => {
    const {mount} = await import('/inspector.js');
    const file = document.querySelector('input').files[0];
    window.handle?.dispose();
    const profile = {file, name: file.name};
    window.handle = mount(document.getElementById('here'), {profile, host});
}"""


@pytest.mark.parametrize("host", ["inline", "standalone"])
def test_a_profile_on_a_page_passes_axe_and_goes_by_keys(
    page: Page, tmp_path: Path, host: str
) -> None:
    profiled().export_profile(tmp_path / "run.agprof")
    script = bundle_text()

    def answer(route: Route) -> None:
        if route.request.url.endswith(".js"):
            route.fulfill(body=script, content_type="text/javascript")
        else:
            around = "<title>Profile</title><label>File <input type=file></label>"
            body = f"<!doctype html><html lang=en>{around}<main id=here></main>"
            route.fulfill(body=body, content_type="text/html")

    page.route("http://page.test/**", answer)
    page.goto("http://page.test/")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.locator("input").set_input_files(tmp_path / "run.agprof")
    seen: dict[str, list[str]] = {}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(MOUNT, host)
        timeline = page.get_by_role("application")
        expect(timeline).to_be_visible()
        expect(page.get_by_role("table", name="Time by name")).to_be_visible()
        seen[f"{scheme}, opened"] = faults(page, "#here")
        timeline.focus()
        for key in ("ArrowRight", "ArrowDown", "m", "f"):
            page.keyboard.press(key)
        expect(page.locator(".agv-timing-chosen h2")).to_have_text("aten::mul")
        page.keyboard.press("p")
        held = page.get_by_role("table", name="What held memory at this moment")
        expect(held).to_be_visible()
        seen[f"{scheme}, memory"] = faults(page, "#here")
        page.keyboard.press("g")
        expect(page.get_by_role("button", name="Lines")).to_have_attribute("aria-pressed", "true")
        page.get_by_label("File: Compare…").set_input_files(tmp_path / "run.agprof")
        expect(page.get_by_role("table", name="Differences by line")).to_be_visible()
        seen[f"{scheme}, compared"] = faults(page, "#here")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        seen[f"{scheme}, keys"] = faults(page, "#here")
        page.keyboard.press("Escape")
    told = [f"{part}: {fault}" for part, found in seen.items() for fault in found]
    assert not told, "\n".join(told)


def test_the_page_of_a_profile_passes_axe(page: Page, tmp_path: Path) -> None:
    options = argparse.ArgumentParser()
    report.add_options(options)
    target = tmp_path / "run.html"
    report.save(profiled(), target, options.parse_args(["--memory", "--flops"]), "train.py")
    page.goto(target.as_uri())
    expect(page.get_by_role("heading", name="Table")).to_be_visible()
    found = faults(page, "body")
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
