"""The same renderer without JupyterLab's panel: a cell's output, and a page without a kernel."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import ag_visual as torch

from .lab import Lab, picture
from .test_live import IMPORT, MODEL


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    x = torch.tensor([[1.0, 2.0, 3.0]] * 4)
    weight = torch.full((3, 2), 0.5, requires_grad=True)
    with torch.record() as recorded:
        hidden = (x @ weight).sigmoid()
        (hidden * hidden).sum().backward()
    return recorded.save(tmp_path / "recording.html")


@pytest.fixture
def offline(context: BrowserContext) -> BrowserContext:
    """Pages that reach nothing but files."""
    context.set_offline(True)
    context.route(re.compile("^https?:"), lambda route: route.abort())
    return context


def opened(
    context: BrowserContext, path: Path, scheme: Literal["light", "dark"] = "light"
) -> tuple[Page, list[str]]:
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on(
        "request",
        lambda request: failures.append(request.url) if "http" in request.url[:5] else None,
    )
    page.goto(path.as_uri())
    return page, failures


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_page_needs_neither_kernel_nor_network(
    offline: BrowserContext, recording: Path, screenshots: Path, scheme: Literal["light", "dark"]
) -> None:
    page, failures = opened(offline, recording, "light")
    expect(page.get_by_role("status").first).to_contain_text("Recording")
    page.emulate_media(color_scheme=scheme)  # the system's theme may change while it is open
    expect(page.locator(".agv-root")).to_have_attribute("data-agv-theme", scheme)
    search = page.get_by_role("textbox", name="Find node")
    search.fill("sigmoid")
    search.press("Enter")
    expect(page.get_by_role("heading", name="SigmoidBackward0")).to_be_visible()
    expect(page.locator(".agv-saved tbody tr").filter(has_text="result")).to_have_count(1)
    page.get_by_role("button", name="Back", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Before step")
    picture(page, screenshots / f"standalone_{scheme}.png")
    # When what ran, and another program's trace beside it: read in a worker, as the page allows.
    page.get_by_role("button", name="Time", exact=True).click()
    sums = page.get_by_role("table", name="Time by name")
    ran = sums.get_by_role("row", name="SigmoidBackward0").get_by_role("cell").nth(2)
    expect(ran).to_have_text("1")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".agv-timing-chosen")).to_contain_text("in the graph")
    picture(page, screenshots / f"standalone_time_{scheme}.png")
    slices = [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]
    trace = {"name": "t.json", "mimeType": "", "buffer": json.dumps(slices).encode()}
    page.get_by_label("File: Open…").set_input_files(trace)  # type: ignore[arg-type]
    expect(page.locator(".agv-timing-head")).to_contain_text("t.json: 1 slice, 2 µs")
    ink = page.evaluate("() => getComputedStyle(document.querySelector('.agv-root')).color")
    assert (sum(map(int, re.findall(r"\d+", ink)[:3])) < 384) == (scheme == "light")
    assert failures == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda text: re.sub(r'("buffer":")[^"]{40}', r"\1", text, count=1), "cut short|cannot be"),
        (lambda text: text.replace('"v":1', '"v":99'), "format 99|99"),
        (lambda text: text.replace("ag_visual-recording", "something-else"), "cannot be shown"),
    ],
)
def test_a_spoilt_recording_is_said_in_words(
    offline: BrowserContext, recording: Path, spoil: object, told: str
) -> None:
    text = recording.read_text()
    head, start, rest = text.partition('id="ag-visual-recording">')
    body, end, tail = rest.partition("</script>")
    assert callable(spoil)
    spoilt = spoil(body)
    assert spoilt != body
    recording.write_text(head + start + spoilt + end + tail)
    page, failures = opened(offline, recording)
    expect(page.get_by_role("alert")).to_contain_text(re.compile(told))
    assert failures == []


# What a fault that lets markup in would be used for.
INJECTED = """
<img src=x onerror="__ran.push('onerror')">
<script>__ran.push('inline')</script>
<script src="data:text/javascript,__ran.push('data')"></script>
<a href="javascript:__ran.push('address')">a</a>
<iframe srcdoc="<script>parent.__ran.push('frame')</script>"></iframe>
<form action="https://example.org/"><input name=a></form>
<base href="https://example.org/">
<p style="position: fixed">a</p>"""


def test_markup_that_gets_into_a_page_runs_nothing(
    offline: BrowserContext, recording: Path
) -> None:
    whole = recording.read_text().replace('<div id="ag-visual">', INJECTED + '<div id="ag-visual">')
    recording.write_text(whole)
    watch = """
        window.__ran = []; window.__refused = [];
        addEventListener('securitypolicyviolation', event =>
            __refused.push([event.effectiveDirective, event.blockedURI]));"""
    offline.add_init_script(watch)
    page, failures = opened(offline, recording)
    expect(page.get_by_role("status").first).to_contain_text("Recording")
    page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", INJECTED)
    page.locator("a").first.click()
    page.evaluate("() => document.forms[0].submit()")
    wanted = ["script-src-attr", "script-src-elem", "style-src-attr", "base-uri", "form-action"]
    # The browser tells of what it refused when it finds the time.
    page.wait_for_function(
        "wanted => wanted.every(name => __refused.some(([found]) => found === name))", arg=wanted
    )
    assert page.evaluate("() => __ran") == []
    assert failures == []


@pytest.mark.parametrize("frame", [False, True], ids=["page", "frame"])
def test_a_pages_policy_refuses_nothing_of_its_own(
    offline: BrowserContext, recording: Path, tmp_path: Path, frame: bool
) -> None:
    """Also in the frame that shows a page in the output of a notebook without widgets."""
    refused: list[str] = []
    path = recording
    if frame:
        path = tmp_path / "notebook.html"
        page_text = html.escape(recording.read_text())
        size = "width: 100%; height: 520px"
        path.write_text(
            f'<iframe sandbox="allow-scripts" style="{size}" srcdoc="{page_text}"></iframe>'
        )
    page = offline.new_page()
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    shown = page.frame_locator("iframe") if frame else page
    expect(shown.get_by_role("status").first).to_contain_text("Recording")
    for tab in ("Outline", "Tensors", "Hooks", "Problems", "Node"):
        shown.get_by_role("tab", name=tab).click()
    bar = shown.locator(".agv-root").first
    assert bar.evaluate("element => getComputedStyle(element).display") == "grid"
    assert refused == []


def test_show_puts_the_graph_into_the_cells_output(lab: Lab) -> None:
    lab.open("pages/show.ipynb", [IMPORT, MODEL, "torch.show(forward())", "torch.show(forward())"])
    lab.run_all()
    pictures = lab.page.locator(".jp-OutputArea .agv-root")
    expect(pictures).to_have_count(2)
    pictures.first.scroll_into_view_if_needed()
    search = pictures.first.get_by_role("textbox", name="Find node")
    search.fill("sigmoid")
    search.press("Enter")
    expect(pictures.first.get_by_role("heading", name="SigmoidBackward0")).to_be_visible()
    lab.screenshot("show_inline")
