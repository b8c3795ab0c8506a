"""Two notebooks that train beside an open Inspector for as long as is asked for, one of which loses
its kernel again and again.

Once a round the page goes to the other notebook and back, the panel is asked for the pass before,
and one kernel is killed as the system does when memory runs out. What each round leaves is told:
the page's heap after a garbage collection, its nodes of the DOM, what the store holds, the memory
of the kernel that goes on, and how long the panel took to show the pass before. An error in the
page, or a panel that does not answer, ends the run with exit status 1.
"""

from __future__ import annotations

import time
from typing import Any

import psutil
from playwright.sync_api import Page

from tests.ui.kernels import WATCHING, make_watching
from tests.ui.lab import Lab, words_of

from .panel import lab_page

TRAINING = """\
import time
import ag_visual as torch
nn = torch.nn
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
end = time.time() + {seconds}
step = 0
while time.time() < end:
    x = torch.randn(64, 16)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
print(step)
"""

OF_TORCH = TRAINING.replace(
    "import ag_visual as torch\n", "import torch, ag_visual as ag\nag.watch(torch)\n"
)

ACTIVATE = """path => {
    const widgets = [...window.jupyterapp.shell.widgets('main')];
    const one = widgets.find(widget => widget.context?.path === path);
    window.jupyterapp.shell.activateById(one.id);
}"""
# Runs the first cell of that notebook and waits for nothing.
RUN = """path => {
    const app = window.jupyterapp;
    const widgets = [...app.shell.widgets('main')];
    const one = widgets.find(widget => widget.context?.path === path);
    app.shell.activateById(one.id);
    one.content.activeCellIndex = 0;
    one.content.mode = 'command';
    app.commands.execute('notebook:run-cell').catch(() => undefined);
}"""


class Endurance:
    """One page with two notebooks, `a.ipynb` and `b.ipynb`."""

    def __init__(self, lab: Lab, page: Page, minutes: float) -> None:
        self.lab = lab
        self.page = page
        self.seconds = minutes * 60
        self.errors: list[str] = []
        self.kills = 0
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def kernel(self, path: str) -> psutil.Process:
        """The process of this notebook's kernel."""
        [session] = [s for s in self.lab.server.api("GET", "sessions") if s["path"] == path]
        for process in psutil.Process(self.lab.server.process.pid).children(recursive=True):
            if any(session["kernel"]["id"] in word for word in words_of(process)):
                return process
        raise RuntimeError(f"the kernel of {path} has no process")

    def passes(self) -> int:
        """How many backward passes the panel knows of; 0 where none has come."""
        return int(self.lab.model("inspector === null ? 0 : model.tasks.length"))

    def shows(self, path: str, what: str) -> None:
        """Come to this notebook and wait until the panel shows passes of it."""
        self.page.evaluate(ACTIVATE, path)
        self.lab.inspector()
        self.lab.wait_until(lambda: self.passes() > 1, what)

    def back(self) -> float:
        """Milliseconds from the click on the pass before the newest until its graph is shown.

        From the newest each time: going on from where the round before stood, one comes to the
        oldest pass, before which there is none, and waits for its button.
        """
        self.lab.model("model.show({kind: 'latest'})")
        self.lab.frames()
        began = time.monotonic()
        self.page.get_by_role("button", name="Backward pass before this one").first.click()
        self.lab.wait_until(
            lambda: self.lab.model("model.graph.task === model.shownTask()?.task"),
            "the pass before",
        )
        self.lab.frames()
        return (time.monotonic() - began) * 1000

    def round(self) -> dict[str, Any]:
        """One visit of both notebooks, and the kill of the second one's kernel."""
        took = []
        for path in ("a.ipynb", "b.ipynb"):
            self.shows(path, f"passes of {path}")
            took.append(self.back())
        self.kill("b.ipynb")
        self.page.evaluate(RUN, "b.ipynb")
        self.shows("b.ipynb", "passes of the new kernel")
        self.page.evaluate(ACTIVATE, "a.ipynb")
        self.lab.wait_until(lambda: self.passes() > 1, "passes of a.ipynb again")
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        dom = session.send("Memory.getDOMCounters")
        session.detach()
        heap, store, passes = self.lab.model(
            "[performance.memory.usedJSHeapSize / 2**20, model.store.bytes / 2**20,"
            " model.tasks.length]"
        )
        kernel = self.kernel("a.ipynb").memory_info().rss / 2**20
        return dict(heap=heap, store=store, passes=passes, kernel=kernel, back=max(took), **dom)

    def kill(self, path: str) -> None:
        """End this notebook's kernel from outside; JupyterLab says so and starts another one."""
        self.kernel(path).kill()
        self.kills += 1
        told = self.page.locator(".jp-Dialog-footer button").first
        told.wait_for(state="visible")
        told.click()
        self.lab.kernel_ready()

    def run(self) -> int:
        lab = self.lab
        make_watching(lab.server)
        for path, source in (("a.ipynb", TRAINING), ("b.ipynb", OF_TORCH)):
            lab.write(path, [source.format(seconds=self.seconds + 600)], kernel=WATCHING)
        lab.load()
        for path in ("a.ipynb", "b.ipynb"):
            lab.open_path(path)
            self.page.evaluate(RUN, path)
            self.shows(path, f"the first passes of {path}")
        began = time.monotonic()
        while time.monotonic() - began < self.seconds:
            found = self.round()
            print(
                f"{(time.monotonic() - began) / 60:5.1f} min: page {found['heap']:4.0f} MiB,"
                f" {found['nodes']} nodes and {found['jsEventListeners']} listeners of the DOM,"
                f" store {found['store']:4.1f} MiB of {found['passes']} passes, kernel"
                f" {found['kernel']:4.0f} MiB, the pass before after {found['back']:4.0f} ms",
                flush=True,
            )
            if self.errors:
                print("errors in the page:", *self.errors, sep="\n")
                return 1
            self.page.wait_for_timeout(20_000)
        print(f"{self.kills} kernels killed, no error in the page")
        return 0


def main(minutes: float) -> int:
    """Run for so long; 0 if the panel was alive all the time."""
    with lab_page("endurance") as lab:
        return 1 if lab is None else Endurance(lab, lab.page, minutes).run()
