"""Time to first paint: from the end of a backward in the kernel to a frame with its whole graph.

Measured in a real JupyterLab in headless Chromium (software raster), by one machine's clock.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.ui.lab import EXTENSION, Lab, Server

CHAIN = """\
x = torch.ones(8, requires_grad=True)
h = x
for _ in range({nodes}):
    h = h * x
loss = h.sum()
loss.backward()
print(time.time() * 1000)
"""

RNN = """\
W = torch.full((8, 8), 0.01, requires_grad=True)
U = torch.full((8, 8), 0.01, requires_grad=True)
b = torch.zeros(8, requires_grad=True)
h = torch.zeros(1, 8)
for _ in range({nodes} // 5):
    h = torch.tanh(torch.ones(1, 8) @ W + h @ U + b)
loss = h.sum()
loss.backward()
print(time.time() * 1000)
"""

# Resolves with the time after the first frame that stands for at least `nodes` nodes was made: the
# message is handled after the frame in which they were first seen to be painted.
WATCH = f"""nodes => {{
    const widgets = [...window.jupyterapp.shell.widgets('main')];
    const {{inspector}} = widgets.find(widget => widget.id === '{EXTENSION}');
    window.painted = new Promise(resolve => {{
        const made = new MessageChannel();
        made.port1.onmessage = () => {{
            made.port1.close();
            resolve([performance.timeOrigin + performance.now(), inspector.stats().layoutMs]);
        }};
        const watch = () => requestAnimationFrame(() => {{
            if ((inspector.stats()?.nodes ?? 0) >= nodes) made.port2.postMessage(0);
            else watch();
        }});
        watch();
    }});
}}"""


def measure(lab: Lab, source: str, nodes: int, times: int) -> tuple[float, float]:
    """Median milliseconds to first paint, and of the layout."""
    found, layouts = [], []
    for i in range(times):
        lab.open(f"paint_{nodes}_{i}.ipynb", ["import time\nimport ag_visual as torch", source])
        lab.run(0)
        lab.inspector()
        lab.until(lambda: lab.model("inspector !== null"), 10, "the Inspector")
        lab.page.wait_for_timeout(500)
        lab.page.get_by_role("button", name="Record").first.click()
        lab.page.wait_for_timeout(500)
        lab.page.evaluate(WATCH, nodes)
        ended = float(lab.run(1, timeout=60).strip().splitlines()[-1])
        painted, layout = lab.page.evaluate("() => window.painted")
        found.append(painted - ended)
        layouts.append(layout)
        lab.server.end_sessions()
    return statistics.median(found), statistics.median(layouts)


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("panel: no Chromium on PATH, not measured")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1560, "height": 900})
            page.set_default_timeout(30_000)
            lab = Lab(server, page, Path(folder))
            for label, source, nodes in (
                ("chain of 1,000 nodes", CHAIN, 1_000),
                ("RNN of 1,000 nodes, shared weights", RNN, 1_000),
                ("chain of 10,000 nodes", CHAIN, 10_000),
            ):
                paint, layout = measure(lab, source.format(nodes=nodes), nodes, 3)
                print(
                    f"first paint, {label:36} {paint:6.0f} ms after backward, layout {layout:.0f}"
                )
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main()
