"""What the Inspector takes, from the kernel's clock to a finished frame of the page.

Measured in a real JupyterLab in headless Chromium, whose canvas is drawn by the processor. Kernel
and page read the same machine's clock. Each figure is the median of its turns, the best in
brackets: on a machine that does other work the best says more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.ui.kernels import WATCHING, make_watching
from tests.ui.lab import EXTENSION, VIEWPORT, Lab, Server

SETUP = "import time\nimport ag_visual as torch"

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

TRAINING = """\
W = torch.full((8, 8), 0.01, requires_grad=True)
began = time.time()
for step in range({steps}):
    h = torch.ones(4, 8)
    for _ in range(50):
        h = torch.tanh(h @ W + W.sum())
    h.sum().backward()
    W.grad = None
print(round((time.time() - began) * 1000 / {steps}, 2))
"""

# The Inspector of the notebook that is shown, and a promise of the time after the first frame for
# which something is so. What a frame has drawn is asked for by a message from it, which is handled
# when the frame is done: its own callback may come before the one that draws.
PAGE = f"""() => {{
    const widgets = ['main', 'right'].flatMap(a => [...window.jupyterapp.shell.widgets(a)]);
    const {{inspector}} = widgets.find(widget => widget.id === '{EXTENSION}');
    window.inspector = inspector;
    window.clock = () => performance.timeOrigin + performance.now();
    window.frameWith = so => new Promise((resolve, reject) => {{
        const waited = () => reject(new Error(JSON.stringify(inspector.stats())));
        setTimeout(waited, 30_000);
        const made = new MessageChannel();
        const look = () => requestAnimationFrame(() => made.port2.postMessage(0));
        made.port1.onmessage = () => {{
            if (!so(inspector.stats())) return look();
            made.port1.close();
            resolve(clock());
        }};
        look();
    }});
}}"""

# The whole graph is there, and every run over it is shown as done.
WATCH_NODES = """nodes => {
    window.painted = frameWith(now => now !== null && now.nodes >= nodes && now.done >= nodes);
}"""

# The time at which all runs were decoded and stored; drawing is not waited for.
WATCH_RUNS = """runs => {
    const {model} = inspector;
    const receive = model.receive.bind(model);
    window.batches = 0;
    window.decoded = new Promise(resolve => {
        model.receive = batch => {
            const handled = receive(batch);
            window.batches++;
            if (model.store.runs.rows >= runs) resolve(clock());
            return handled;
        };
    });
}"""

STEP = """() => {
    const {done} = inspector.stats();
    const graph = document.querySelector('.agv-graph');
    const began = clock();
    graph.dispatchEvent(new KeyboardEvent('keydown', {key: 'F10', bubbles: true}));
    return frameWith(now => now.done > done).then(ended => ended - began);
}"""

# Times between frames and of the canvas alone, while every frame moves the view or zooms.
MOVE = """async ([kind, frames]) => {
    const canvas = document.querySelector('.agv-graph > canvas');
    const {left, top, width, height} = canvas.getBoundingClientRect();
    const [clientX, clientY] = [left + width / 2, top + height / 2];
    const between = [], painting = [];
    let last = 0;
    for (let i = 0; i < frames; i++) {
        const now = await new Promise(requestAnimationFrame);
        if (i > 1) between.push(now - last);
        last = now;
        const zoom = kind === 'zoom';
        const turn = i % 80 < 40 ? 1 : -1;
        canvas.dispatchEvent(new WheelEvent('wheel', {
            deltaX: zoom ? 0 : 6 * turn, deltaY: zoom ? 60 * turn : 40 * turn,
            ctrlKey: zoom, clientX, clientY, bubbles: true, cancelable: true
        }));
        painting.push(inspector.stats().lastMs);
    }
    const p95 = times => times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
    return [p95(between), p95(painting), inspector.stats().nodesDrawn];
}"""


def told(found: list[float]) -> str:
    """The median of these milliseconds, and the best."""
    return f"{statistics.median(found):6.0f} ms (best {min(found):.0f})"


class Bench:
    """One JupyterLab in one browser page; a fresh kernel for each measurement."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.made = 0

    def open(self, *cells: str, record: bool = True) -> None:
        """A notebook whose first cell has run, with the Inspector beside it: recording, or as a
        newcomer has it, who has clicked nothing.
        """
        lab = self.lab
        lab.server.end_sessions()
        self.made += 1
        if not record:
            make_watching(lab.server)
        kernel = "python3" if record else WATCHING
        lab.open(f"bench_{self.made}.ipynb", [SETUP, *cells], kernel=kernel)
        lab.run(0)
        lab.inspector()
        lab.wait_until(lambda: lab.model("inspector !== null"), "the Inspector")
        lab.page.evaluate(PAGE)
        if record:
            lab.page.get_by_role("button", name="Record").first.click()
            lab.wait_until(lambda: lab.model("model.store.state.recording"), "the recording")
        lab.page.wait_for_timeout(1000)

    def ended(self, cell: int) -> float:
        """Run a cell; when its backward ended, by its own last word."""
        return float(self.lab.run(cell).strip().splitlines()[-1])

    def first_paint(
        self, source: str, nodes: int, turns: int, *, record: bool = True
    ) -> tuple[list[float], float]:
        """Milliseconds from the end of the backward to a frame with its whole graph."""
        found, layouts = [], []
        for _ in range(turns):
            self.open(source.format(nodes=nodes), record=record)
            self.lab.page.evaluate(WATCH_NODES, nodes)
            ended = self.ended(1)
            found.append(self.lab.page.evaluate("() => window.painted") - ended)
            layouts.append(self.lab.page.evaluate("() => inspector.stats().layoutMs"))
        return found, statistics.median(layouts)

    def transfer(self, events: int, turns: int) -> tuple[list[float], int]:
        """Milliseconds from the end of a backward until all its events are in the page's store."""
        found = []
        for _ in range(turns):
            nodes = events // 2  # one event when a node is made, one when it ran
            self.open(CHAIN.format(nodes=nodes))
            self.lab.page.evaluate(WATCH_RUNS, nodes)
            ended = self.ended(1)
            found.append(self.lab.page.evaluate("() => window.decoded") - ended)
        return found, self.lab.page.evaluate("() => window.batches")

    def steps(self, turns: int) -> list[float]:
        """Milliseconds from the key to the frame that shows the node as done."""
        lab = self.lab
        self.open(RNN.format(nodes=1000))
        lab.page.get_by_role("button", name="Pause").first.click()
        lab.wait_until(lambda: lab.model("model.store.state.pause_next"), "the request to pause")
        lab.start(1)
        lab.wait_until(lambda: lab.model("model.store.state.paused !== null"), "the pause")
        lab.page.locator(".agv-graph").press("Shift+O")
        lab.page.wait_for_timeout(1000)
        found = [lab.page.evaluate(STEP) for _ in range(turns)]
        lab.model("inspector.run('continue')")
        lab.wait_until(lambda: lab.page.evaluate("window.ended"), "the backward to end")
        return found

    def motion(self, nodes: int) -> dict[str, tuple[float, float, int]]:
        """For moving and zooming: p95 between frames, p95 of painting, nodes drawn at the end."""
        lab = self.lab
        self.open(RNN.format(nodes=nodes))
        lab.run(1)
        lab.wait_until(
            lambda: lab.model(f"(inspector.stats()?.nodes ?? 0) >= {nodes}"), "the graph"
        )
        lab.page.locator(".agv-graph").press("Shift+O")
        opened = f"model.view.seqs.length >= {nodes} && !document.querySelector('.agv-laying')"
        lab.wait_until(lambda: lab.model(opened), "all groups to open")
        lab.page.wait_for_timeout(2000)
        frames = 160
        near = lab.page.evaluate(MOVE, ["pan", frames])
        zoom = lab.page.evaluate(MOVE, ["zoom", frames])
        lab.page.locator(".agv-graph").press(" ")
        lab.page.wait_for_timeout(1000)
        far = lab.page.evaluate(MOVE, ["pan", frames])
        return {"moved near": near, "zoomed": zoom, "moved, all in view": far}

    def memory(self, steps: int) -> list[dict[str, Any]]:
        """The page after a third, two thirds and all of a training run; garbage is collected."""
        lab = self.lab
        part = TRAINING.format(steps=steps // 3)
        self.open(part, part, part)
        session = lab.page.context.new_cdp_session(lab.page)
        found = []
        for cell in (1, 2, 3):
            per_step = float(lab.run(cell).strip())
            lab.page.wait_for_timeout(1500)
            session.send("HeapProfiler.collectGarbage")
            found.append(
                lab.model(
                    "({heap: performance.memory.usedJSHeapSize / 2**20,"
                    " store: model.store.bytes / 2**20, nodes: model.store.nodes.rows,"
                    " said: document.querySelector('.agv-time-head .agv-small').textContent})"
                )
                | {"per_step": per_step}
            )
        return found


PAINTED = (
    ("chain of 1,000 nodes", CHAIN, 1_000, 5),
    ("RNN of 1,000 nodes, shared weights", RNN, 1_000, 5),
    ("chain of 10,000 nodes", CHAIN, 10_000, 3),
    ("chain of 100,000 nodes", CHAIN, 100_000, 2),
)


def report_paint(bench: Bench) -> None:
    found, layout = bench.first_paint(CHAIN, 1_000, 7, record=False)
    label = "chain of 1,000 nodes, nothing clicked"
    print(f"first paint after backward, {label:36} {told(found)}, layout {layout:.0f}")
    for label, source, nodes, turns in PAINTED:
        found, layout = bench.first_paint(source, nodes, turns)
        print(f"first paint after backward, {label:36} {told(found)}, layout {layout:.0f}")


def report_transfer(bench: Bench) -> None:
    found, batches = bench.transfer(100_000, 3)
    print(f"100,000 events from the backward's end into the page {told(found)}, {batches} batches")


def report_steps(bench: Bench) -> None:
    print(f"step, from the key to the frame, RNN of 1,000 nodes all open {told(bench.steps(15))}")


def report_motion(bench: Bench) -> None:
    for kind, (between, painting, drawn) in bench.motion(10_000).items():
        print(
            f"10,000 nodes all open, {kind:20} p95 between frames {between:5.1f} ms, "
            f"painting {painting:5.1f} ms, {drawn} nodes drawn"
        )


def report_memory(bench: Bench) -> None:
    steps = 3_000
    for i, found in enumerate(bench.memory(steps), 1):
        print(
            f"memory after {i * steps // 3} steps of 201 nodes: heap {found['heap']:.0f} MiB, "
            f"store {found['store']:.0f} MiB, {found['nodes']} nodes, on screen: {found['said']}"
        )


REPORTS = {
    "paint": report_paint,
    "transfer": report_transfer,
    "steps": report_steps,
    "motion": report_motion,
    "memory": report_memory,
}


def load() -> str:
    return f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


@contextlib.contextmanager
def lab_page(what: str) -> Iterator[Lab | None]:
    """A JupyterLab of its own in a page that tells its memory; None where there is no browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print(f"{what}: no Chromium on PATH, not measured")
        yield None
        return
    arguments = ["--no-sandbox", "--enable-precise-memory-info"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = Server(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            page = browser.new_page(viewport=VIEWPORT)
            page.set_default_timeout(60_000)
            yield Lab(server, page, Path(folder))
        finally:
            browser.close()
            server.stop()


def main(only: Sequence[str] = ()) -> None:
    """Measure and print everything, or only these."""
    with lab_page("panel") as lab:
        if lab is None:
            return
        bench = Bench(lab)
        for name in only or REPORTS:
            print(f"panel, {name}: {load()}", flush=True)
            REPORTS[name](bench)


if __name__ == "__main__":
    main(sys.argv[1:])
