"""A JupyterLab server of its own, and a notebook in a page, as the browser tests use them.

Nothing of the person's own configuration is read or written: every Jupyter folder is temporary.
When ag_visual is imported from a checkout, that checkout's built front end is served; otherwise the
installed one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import psutil
from playwright.sync_api import Locator, Page, ViewportSize

import ag_visual

from .. import ipython

CHECKOUT = Path(__file__).resolve().parents[2]
EXTENSION = "ag-visual-inspector"
PATIENCE = 90.0
"""Seconds after which something counts as never happening: several times what the slowest takes."""
CELL_SECONDS = 600.0
"""The same for a cell that computes, and for a server that starts."""
VIEWPORT: ViewportSize = {"width": 1560, "height": 900}
THEMES = ("JupyterLab Dark", "JupyterLab Light")
MOMENTS = 20
"""Pictures that are taken of a page until two of them agree."""
WANTED = SimpleNamespace(pictures=True)
"""Whether pictures are taken that no test looks at; `conftest` sets it."""


def free_port() -> int:
    """A port below those that the system gives away by itself: it is still free a moment later."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


Command = Callable[["Server"], list[str]]


def jupyterlab(server: Server) -> list[str]:
    """The command line of a plain JupyterLab."""
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *(f"--ServerApp.port={server.port}", "--ServerApp.port_retries=0"),
        f"--ServerApp.root_dir={server.root}",
    ]


class Server:
    """JupyterLab in a child process, on a free port, with its files under `home`."""

    def __init__(self, home: Path, *, command: Command | None = None) -> None:
        self.home = home
        self.python_path: list[str] = []  # what kernels need to import what is under test
        self.root = home / "work"
        self.root.mkdir(parents=True)
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                (command or jupyterlab)(self),
                env=self.environment(),
                cwd=self.root,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self.wait_until_up()
        except BaseException:
            self.stop()
            raise

    def environment(self) -> dict[str, str]:
        """The child's environment: temporary folders, and the checkout where that is under test."""
        own = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        environment = dict(os.environ, **{key: str(self.home / at) for key, at in own.items()})
        environment["JUPYTER_TOKEN"] = self.token
        # Tests of other things see what they record, and nothing else.
        environment["AG_VISUAL_WATCH"] = "off"
        ipython.prepare(self.home / "ipython")
        (self.home / "config").mkdir()
        exposed = {"LabApp": {"expose_app_in_browser": True}}
        (self.home / "config" / "jupyter_lab_config.json").write_text(json.dumps(exposed))
        settings = self.home / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        quiet = {"fetchNews": "false", "checkForUpdates": False}
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
        if CHECKOUT in Path(ag_visual.__file__).resolve().parents:
            built = CHECKOUT / "extension" / "dist" / "labextension"
            assert built.exists(), (
                f"{built} is missing: build it with `npm run build` in extension/"
            )
            served = self.home / "share" / "labextensions"
            served.mkdir(parents=True)
            (served / EXTENSION).symlink_to(built, target_is_directory=True)
            environment["JUPYTER_PATH"] = str(self.home / "share")
            environment["PYTHONPATH"] = str(CHECKOUT)
            self.python_path = [str(CHECKOUT)]
        return environment

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + CELL_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended at once:\n{self.tail()}")
            try:
                with urllib.request.urlopen(f"{self.url}/api?token={self.token}", timeout=20):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"JupyterLab did not start within {CELL_SECONDS} s:\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def api(self, method: str, path: str, root: str = "api") -> Any:
        request = urllib.request.Request(
            f"{self.url}/{root}/{path}",
            method=method,
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def end_sessions(self) -> None:
        """Shut all kernels down, so that the next test begins with an idle machine."""
        deadline = time.monotonic() + PATIENCE
        while True:
            # A page that has just been left may have begun a session that is listed later.
            for kind in ("sessions", "kernels"):
                for one in self.api("GET", kind):
                    with contextlib.suppress(urllib.error.HTTPError):  # it ended by itself
                        self.api("DELETE", f"{kind}/{one['id']}")
            if not self.api("GET", "kernels"):
                return
            assert time.monotonic() < deadline, f"kernels do not end:\n{self.tail()}"

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Lab:
    """One page with JupyterLab in it; notebooks are driven through its own commands."""

    def __init__(self, server: Server, page: Page, screenshots: Path) -> None:
        self.server = server
        self.page = page
        self.screenshots = screenshots
        self.workspace = ""
        self.theme = ""

    def open(
        self,
        name: str,
        cells: list[str],
        *,
        theme: str = "JupyterLab Light",
        kernel: str = "python3",
    ) -> Lab:
        """Write a notebook with these code cells, open it and wait for its kernel."""
        self.write(name, cells, kernel=kernel)
        self.load()
        self.dress(theme)
        if kernel != "python3":  # told to the server after the page was loaded
            self.page.evaluate("() => window.jupyterapp.serviceManager.kernelspecs.refreshSpecs()")
        self.open_path(name)
        return self

    def dress(self, theme: str) -> None:
        """Show all of JupyterLab in this theme."""
        if theme != self.theme:
            self.command("apputils:change-theme", theme=theme)
            self.theme = theme
            # The command ends before the theme is there, and a new theme hides all for a frame.
            self.page.evaluate(
                """async theme => {
                    const shown = () =>
                        document.body.dataset.jpThemeName === theme
                        && window.jupyterapp.shell.isVisible;
                    while (!shown()) await new Promise(requestAnimationFrame);
                }""",
                theme,
            )

    def write(
        self,
        name: str,
        cells: list[str],
        metadata: dict[str, Any] | None = None,
        *,
        kernel: str = "python3",
    ) -> None:
        """Write a notebook file where the server serves it; kernel: the name of its spec."""
        path = self.server.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        spec = {"kernelspec": {"name": kernel, "display_name": kernel}}
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata=spec | (metadata or {}),
        )
        nbformat.write(notebook, path)

    @property
    def loaded(self) -> bool:
        return self.workspace != ""

    def load(self) -> None:
        """JupyterLab with nothing open, in a workspace of this page's own."""
        if self.loaded:
            return
        workspace = f"{self.server.url}/lab/workspaces/{secrets.token_hex(4)}"
        self.page.goto(f"{workspace}?token={self.server.token}")
        self.started()
        self.workspace = workspace

    def clear(self) -> list[str]:
        """Put away all that a test opened; what does not go."""
        self.page.set_viewport_size(VIEWPORT)
        self.page.emulate_media(reduced_motion="null", color_scheme="null")
        self.page.mouse.move(0, 0)
        self.page.evaluate(CLEAR)
        self.dress("JupyterLab Light")
        left: list[str] = []

        def nothing() -> bool:
            left[:] = self.page.evaluate(STANDS)
            return not left

        with contextlib.suppress(AssertionError):
            self.wait_until(nothing, "an empty page")
        return left

    def reload(self) -> None:
        """Reload the page, as a person does; the layout and the kernels are found again."""
        self.wait_until(self.layout_saved, "the layout to be written")
        self.page.goto(self.workspace)
        self.started()

    def layout_saved(self) -> bool:
        """Whether the server knows of the notebooks and Inspectors that stand in the page, and no
        other ones: the layout of the test before may be what is written.
        """
        shown: list[str] = self.page.evaluate(
            f"""() => ['main', 'right']
                .flatMap(area => [...window.jupyterapp.shell.widgets(area)])
                .filter(w => w.context || w.id.startsWith('{EXTENSION}'))
                .map(w => w.context ? `notebook:${{w.context.path}}` : w.id)"""
        )
        try:
            kept = self.server.api("GET", self.workspace.rpartition("/")[2], "lab/api/workspaces")
        except urllib.error.HTTPError:  # nothing was written yet
            return False
        layout = json.dumps(kept["data"].get("layout-restorer:data", {}))
        written = set(re.findall(rf'"((?:notebook|{EXTENSION}[a-z-]*):[^"]*)"', layout))
        notebooks = {name for name in shown if name.startswith("notebook:")}
        return notebooks <= written and len(written) == len(set(shown))

    def started(self) -> None:
        self.page.wait_for_function("() => window.jupyterapp !== undefined")
        self.page.evaluate("async () => { await window.jupyterapp.restored }")

    def command(self, name: str, /, **arguments: Any) -> None:
        """Execute a JupyterLab command and wait until it is done."""
        self.page.evaluate(
            "async ([name, args]) => { await window.jupyterapp.commands.execute(name, args) }",
            [name, arguments],
        )

    def open_path(self, path: str) -> None:
        self.page.evaluate(
            """async path => {
                const app = window.jupyterapp;
                const options = {path, factory: 'Notebook'};
                const widget = await app.commands.execute('docmanager:open', options);
                await widget.revealed;
                await widget.context.ready;
                await widget.sessionContext.ready;
                await widget.sessionContext.session.kernel.info;
                app.shell.activateById(widget.id);
            }""",
            path,
        )

    def kernel_ready(self) -> None:
        """Wait for the kernel of the notebook that is shown."""
        self.page.evaluate(
            f"""async () => {{
                let notebook;
                while (!(notebook = {NOTEBOOK})) await new Promise(requestAnimationFrame);
                const context = notebook.sessionContext;
                await context.ready;
                await context.session.kernel.info;
            }}"""
        )

    def cells(self) -> int:
        total: int = self.page.evaluate(f"() => {NOTEBOOK}.content.widgets.length")
        return total

    def code_cells(self) -> list[int]:
        found: list[int] = self.page.evaluate(
            f"""() => {NOTEBOOK}.content.widgets
                .map((cell, index) => cell.model.type === 'code' ? index : -1)
                .filter(index => index >= 0)"""
        )
        return found

    def source(self, cell: int) -> str:
        text: str = self.page.evaluate(
            f"index => {NOTEBOOK}.content.widgets[index].model.sharedModel.getSource()", cell
        )
        return text

    def start(self, cell: int) -> None:
        """Begin to run a cell of the current notebook and return at once."""
        self.page.evaluate(
            f"""index => {{
                const app = window.jupyterapp;
                const notebook = {NOTEBOOK};
                notebook.content.activeCellIndex = index;
                notebook.content.mode = 'command';
                app.shell.activateById(notebook.id);
                window.ended = false;
                const own = window.started = {{}};
                const ended = () => {{ window.ended ||= window.started === own; }};
                app.commands.execute('notebook:run-cell').then(ended, ended);
            }}""",
            cell,
        )

    def run(self, cell: int) -> str:
        """Run a cell to its end; its outputs as one text."""
        self.start(cell)
        self.ended(cell)
        return self.output(cell)

    def ended(self, cell: int) -> None:
        """Wait for the end of a cell that was started."""
        ended = lambda: self.page.evaluate("window.ended")  # noqa: E731
        self.wait_until(ended, f"cell {cell} to end", patience=CELL_SECONDS)

    def execute(self, code: str) -> None:
        """Have the kernel run what no cell shows."""
        done = self.page.evaluate(
            f"""async code => {{
                const {{kernel}} = {NOTEBOOK}.sessionContext.session;
                const asked = kernel.requestExecute({{code, store_history: false}});
                return (await asked.done).content.status;
            }}""",
            code,
        )
        assert done == "ok", code

    def count_clicks(self) -> None:
        """From now on `clicks` counts, in a page in which another test may have counted."""
        self.page.evaluate(
            """() => {
                removeEventListener('click', window.count ?? null, true);
                window.clicks = 0;
                window.count = () => { window.clicks += 1; };
                addEventListener('click', window.count, true);
            }"""
        )

    @property
    def clicks(self) -> int:
        """How often anything was clicked since `count_clicks`."""
        count: int = self.page.evaluate("() => window.clicks")
        return count

    def run_all(self) -> list[str]:
        return [self.run(index) for index in self.code_cells()]

    def output(self, cell: int) -> str:
        outputs: list[dict[str, Any]] = self.page.evaluate(
            f"index => {NOTEBOOK}.content.widgets[index].model.outputs.toJSON()", cell
        )
        return "".join(text_of(output) for output in outputs)

    def wait_until(
        self, condition: Callable[[], object], what: str, *, patience: float = PATIENCE
    ) -> None:
        """Wait for something that is not in the page's DOM."""
        wait_until(self.page, condition, what, patience=patience)

    def inspector(self) -> Locator:
        """The Inspector's panel, opened beside the notebook if it is not there yet."""
        panel = self.page.locator(".ag-inspector-panel:not(.ag-mod-pinned)")
        if panel.count() == 0:
            self.command("ag-visual:open-inspector")
        panel.wait_for(state="visible")
        return panel

    def model(self, expression: str) -> Any:
        """A value of the Inspector that is shown: `inspector` its handle, `model` its model."""
        return self.page.evaluate(
            f"""() => {{
                const {{shell}} = window.jupyterapp;
                const widgets = ['main', 'right'].flatMap(area => [...shell.widgets(area)]);
                const {{inspector}} = widgets.find(widget => widget.id === '{EXTENSION}');
                const {{model}} = inspector;
                return {expression};
            }}"""
        )

    def send(self, command: str, **arguments: Any) -> None:
        """Ask the kernel as the panel does, without waiting for the reply."""
        self.page.evaluate(
            f"""([command, args]) => {{
                const {{shell}} = window.jupyterapp;
                const widgets = ['main', 'right'].flatMap(area => [...shell.widgets(area)]);
                const {{controller}} = widgets.find(widget => widget.id === '{EXTENSION}');
                const asked = controller.request(command, args);
                window.reply = asked.catch(error => error.message);
            }}""",
            [command, arguments],
        )

    def reply(self) -> Any:
        """What the kernel answered, or the sentence that it refused with."""
        return self.page.evaluate("() => window.reply")

    def frames(self) -> None:
        """Wait until the page has drawn twice: what was begun before is on screen."""
        self.page.evaluate(
            """() => new Promise(done => {
                requestAnimationFrame(() => requestAnimationFrame(() => done()));
            })"""
        )

    def focused(self, ancestor: str) -> bool:
        """Whether what has the focus stands inside of such an element."""
        inside: bool = self.page.evaluate(
            "selector => document.activeElement.closest(selector) !== null", ancestor
        )
        return inside

    def nodes(self) -> list[str]:
        """Names of the nodes that the Inspector shows, the root first."""
        names: list[str] = self.model("Array.from(model.graph.seqs, seq => model.titleOf(seq))")
        return names

    def select(self, text: str) -> None:
        """Find a node as a person does."""
        search = self.inspector().get_by_role("textbox", name="Find node")
        search.fill(text)
        search.press("Enter")

    def edit(self, cell: int, source: str) -> None:
        self.page.evaluate(
            f"""([index, source]) => {{
                {NOTEBOOK}.content.widgets[index].model.sharedModel.setSource(source);
            }}""",
            [cell, source],
        )

    def restart(self) -> None:
        """Restart the notebook's kernel without the question whether one is sure."""
        self.page.evaluate(
            f"async () => {{ await {NOTEBOOK}.sessionContext.session.kernel.restart(); }}"
        )

    def unseen(self, code: str) -> None:
        """Run this in the notebook's kernel, of which nothing is left in the notebook."""
        self.page.evaluate(
            f"""async code => {{
                const {{kernel}} = {NOTEBOOK}.sessionContext.session;
                await kernel.requestExecute({{code, silent: true}}).done;
            }}""",
            code,
        )

    def shut_down_kernel(self) -> None:
        """End the kernel as *Shut Down Kernel* in the menu does."""
        self.page.evaluate(f"async () => {{ await {NOTEBOOK}.sessionContext.shutdown(); }}")

    def start_kernel(self) -> None:
        """Choose a kernel for a notebook that has none."""
        chosen = f"{NOTEBOOK}.sessionContext.changeKernel({{name: 'python3'}})"
        self.page.evaluate(f"async () => {{ await {chosen}; }}")
        self.kernel_ready()

    def rename(self, name: str) -> None:
        """Give the notebook another name in its folder."""
        self.page.evaluate(f"async name => {{ await {NOTEBOOK}.context.rename(name); }}", name)

    def close_inspector(self) -> None:
        """Close the panel by its tab."""
        self.page.evaluate(
            f"""() => {{
                const {{shell}} = window.jupyterapp;
                const widgets = ['main', 'right'].flatMap(area => [...shell.widgets(area)]);
                widgets.find(widget => widget.id === '{EXTENSION}').close();
            }}"""
        )

    def kill_kernel(self) -> None:
        """End the kernel's process as the system does when memory runs out."""
        [session] = self.server.api("GET", "sessions")
        [kernel] = [
            process
            for process in psutil.Process(self.server.process.pid).children(recursive=True)
            if any(session["kernel"]["id"] in word for word in words_of(process))
        ]
        kernel.kill()

    def screenshot(self, name: str) -> Path:
        """Take a picture of the page once nothing moves in it."""
        return picture(self.page, self.screenshots / f"{name}.png")

    def themes(self) -> Iterator[str]:
        """`dark` and `light`, while JupyterLab is shown so: what stands there changes its look.

        Where JupyterLab leaves the focus is not asked: it is put back.
        """
        focused = self.page.evaluate_handle("document.activeElement")
        for theme in THEMES:
            self.dress(theme)
            yield theme.split()[-1].lower()
        focused.evaluate("element => element.isConnected && element.focus({preventScroll: true})")

    def pictures(self, name: str) -> None:
        """Take a picture in each theme."""
        if WANTED.pictures:
            for theme in self.themes():
                self.screenshot(f"{name}_{theme}")


# Documents, Inspectors and what they keep in the browser; side bars are as JupyterLab begins.
CLEAR = """async () => {
    const {shell} = window.jupyterapp;
    const opened = {
        main: id => !id.startsWith('launcher'),
        right: id => id.startsWith('ag-visual'),
        down: id => id.startsWith('ag-visual')
    };
    for (const [area, own] of Object.entries(opened))
        for (const widget of [...shell.widgets(area)].filter(({id}) => own(id))) {
            await widget.sessionContext?.ready;
            widget.dispose();
        }
    shell.collapseRight();
    shell.expandLeft();
    localStorage.clear();
    sessionStorage.clear();
    for (const name of ['started', 'ended', 'reply']) delete window[name];
}"""
# A question of JupyterLab that a test leaves unanswered is answered by its first button.
STANDS = """() => {
    document.querySelector('.jp-Dialog-footer button')?.click();
    const widgets = [...window.jupyterapp.shell.widgets('main')];
    const elements = [...document.querySelectorAll(
        '.jp-Dialog, .lm-Menu, .ag-inspector-panel, .agv-root, .jp-Notebook, #jp-splash'
    )];
    return [
        ...widgets.map(({id}) => id).filter(id => !id.startsWith('launcher')),
        ...elements.map(one => `${one.className}: ${one.textContent.slice(0, 200)}`)
    ];
}"""
NOTEBOOK = (
    "[...window.jupyterapp.shell.widgets('main')].find(w => w.isVisible && w.content?.widgets)"
)


def wait_until(
    page: Page, condition: Callable[[], object], what: str, *, patience: float = PATIENCE
) -> None:
    """Wait for something that is not in the page's DOM."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() >= deadline:
            stands = page.evaluate("() => document.activeElement.outerHTML.slice(0, 200)")
            raise AssertionError(f"waited {patience:g} s for {what}; the focus is on {stands}")
        page.wait_for_timeout(50)


def picture(page: Page, path: Path) -> Path:
    """Take a picture of a page once it stands still: glides and fades have ended, all is laid out.

    Where something always moves, one of the moments is taken; with --no-pictures, none.
    """
    return taken(page, path) if WANTED.pictures else path


def taken(page: Page, path: Path) -> Path:
    """The same, whatever was asked for: what a failed test left."""
    seen = page.screenshot(animations="disabled")
    for _ in range(MOMENTS):
        before, seen = seen, page.screenshot(animations="disabled")
        if seen == before:
            break
    path.write_bytes(seen)
    return path


def words_of(process: psutil.Process) -> list[str]:
    """The command line of a process; none where it has just ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def text_of(output: dict[str, Any]) -> str:
    kind = output["output_type"]
    if kind == "stream":
        return "".join(output["text"])
    if kind == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    return "".join(output.get("data", {}).get("text/plain", "")) + "\n"
