"""What the Timeline takes to open a profile of a million slices, and its frames while it moves.

Measured on a page of its own in headless Chromium, whose canvas is drawn by the processor: from the
file on disk to the first frame that shows it. Each figure is the median of its turns, the best in
brackets.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy
from playwright.sync_api import Page, sync_playwright

import ag_visual as ag
from ag_visual.observe.export.bundle import bundle_text
from ag_visual.profiler import profile_file
from ag_visual.profiler.scheduled import profile

from .panel import load

SLICES = 1_000_000
ADDRESS = "http://bench.test/"
HTML = "<!doctype html><input type=file><div id=here style='width:1500px;height:850px'></div>"

OPEN = """async () => {
    const {mount} = await import('/inspector.js');
    const file = document.querySelector('input').files[0];
    window.handle?.dispose();
    const begun = performance.now();
    const here = document.getElementById('here');
    window.handle = mount(here, {profile: {file, name: file.name}, host: 'standalone'});
    while (!(handle.timeStats()?.frames > 0)) await new Promise(requestAnimationFrame);
    return performance.now() - begun;
}"""

# Times between frames and of the canvas alone, while every frame moves the view or zooms.
MOVE = """async ([kind, frames]) => {
    const canvas = document.querySelector('.agv-timing-area canvas');
    const {left, top, width, height} = canvas.getBoundingClientRect();
    const [clientX, clientY] = [left + width / 2, top + height / 3];
    const between = [], painting = [];
    let last = 0;
    for (let i = 0; i < frames; i++) {
        const now = await new Promise(requestAnimationFrame);
        if (i > 1) between.push(now - last);
        last = now;
        const turn = i % 80 < 40 ? 1 : -1;
        const by = kind === 'zoom' ? {deltaY: -30 * turn, ctrlKey: true} : {deltaX: 15 * turn};
        const about = {clientX, clientY, bubbles: true, cancelable: true};
        canvas.dispatchEvent(new WheelEvent('wheel', {...by, ...about}));
        painting.push(handle.timeStats().lastMs);
    }
    const p95 = times => times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
    return [p95(between), p95(painting), handle.timeStats().drawn];
}"""


def write(path: Path, slices: int = SLICES) -> int:
    """A profile of steps of a chain, again and again until it has so many slices; how many."""
    x = ag.ones(4, requires_grad=True)
    with profile(profile_memory=True, with_stack=True, record_shapes=True) as found:
        for _ in range(200):
            h = x
            for _ in range(50):
                h = h * x
            h.sum().backward()
    columns = found.columns
    spans, memory, length = columns.spans, columns.memory, columns.end - columns.start
    times = -(-slices // len(spans))
    columns.spans, columns.memory = (
        numpy.concatenate([table] * times) for table in (spans, memory)
    )
    _moved(columns.spans, len(spans), {"start": length, "end": length, "seq": 10**7})
    _moved(columns.spans, len(spans), dict.fromkeys(("parent", "forward", "last"), len(spans)))
    _moved(columns.memory, len(memory), {"time": length, "storage": int(memory["storage"].max())})
    _moved(columns.memory, len(memory), {"span": len(spans)})
    columns.end = columns.start + times * length
    profile_file.write(path, columns)
    return len(columns.spans)


def _moved(table: Any, rows: int, by: dict[str, int]) -> None:
    """Add to some columns of each repetition but the first; -1 stays."""
    repetition = numpy.arange(len(table)) // rows
    for name, step in by.items():
        known = table[name] >= 0
        table[name][known] += (repetition * step).astype(table[name].dtype)[known]


def report(page: Page, path: Path, slices: int, turns: int = 5) -> None:
    """Print what opening and moving take."""
    page.locator("input").set_input_files(path)
    size = path.stat().st_size / 2**20
    found = [page.evaluate(OPEN) for _ in range(turns)]
    print(
        f"opening {slices:,} slices ({size:.0f} MiB) to the first frame "
        f"{statistics.median(found) / 1000:.2f} s (best {min(found) / 1000:.2f})"
    )
    page.wait_for_timeout(5000)  # the sums of all of it are added up
    for kind in ("pan", "zoom"):
        between, painting, drawn = page.evaluate(MOVE, [kind, 240])
        print(
            f"{slices:,} slices, {kind}: p95 between frames {between:.1f} ms, painting "
            f"{painting:.1f} ms, {drawn} rectangles"
        )


def main() -> None:
    """Measure and print."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("timeline: no Chromium on PATH, not measured")
        return
    script = bundle_text()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "million.agprof"
        slices = write(path)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1560, "height": 900})
            page.set_default_timeout(120_000)
            page.route(
                f"{ADDRESS}*",
                lambda route: route.fulfill(
                    body=script if route.request.url.endswith(".js") else HTML,
                    content_type="text/javascript"
                    if route.request.url.endswith(".js")
                    else "text/html",
                ),
            )
            page.goto(ADDRESS)
            print(f"timeline: {load()}; {os.path.basename(chromium)}", flush=True)
            report(page, path, slices)
        finally:
            browser.close()
