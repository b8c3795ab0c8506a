"""`ag-visual tour`: a notebook of the package in JupyterLab, or from top to bottom without one."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ag_visual import files
from ag_visual.cli.errors import CommandError
from ag_visual.session import notebooks
from ag_visual.session.notebooks import TOUR as NOTEBOOK

FIRST_PORT = 8888
CELL_SECONDS = 300
# The kernel of this environment comes before one of the same name in the user's folder.
PREFER_OWN_KERNEL = "JUPYTER_PREFER_ENV_PATH"
# import name -> what it is called on the package index
NEEDED = {
    "jupyterlab": "jupyterlab",
    "ipykernel": "ipykernel",
    "nbclient": "nbclient",
    "nbformat": "nbformat",
    "anywidget": "anywidget",
    "plotly": "plotly",
    "sklearn": "scikit-learn",
    "tqdm": "tqdm",
}
# What the last cell of the notebook publishes for this command.
RESULT = "application/vnd.ag-visual.tour+json"


def require(*modules: str) -> None:
    """Every optional package that the command needs is there, or the command ends saying which."""
    lacking = [NEEDED[name] for name in modules if importlib.util.find_spec(name) is None]
    if lacking:
        raise CommandError(
            f"the tour needs {', '.join(lacking)}, which the extra 'lab' brings. "
            'Install it with: pip install "ag-visual[lab]" (in a checkout: pip install ".[lab]")'
        )


def lesson(number: int) -> str:
    """The course's notebook with this number."""
    course = notebooks.course()
    if not 1 <= number <= len(course):
        raise CommandError(
            f"--teaching {number}: the course has lessons 1 to {len(course)}"
            if course
            else "the course's notebooks are missing: install ag-visual again"
        )
    return course[number - 1]["name"]


def prepare(folder: Path, name: str = NOTEBOOK, *, fresh: bool) -> Path:
    """Copies of all notebooks in `folder`, and the path of one; what a reader worked in is kept.

    fresh: this one begins anew.
    """
    try:
        notebooks.copy(folder, anew=name if fresh else "")
    except FileNotFoundError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(
            f"cannot write to {folder}: {error.strerror}. Choose another folder with --output DIR"
        ) from None
    return folder / name


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose_port(wanted: int | None) -> int:
    """The wanted port, or the first free one; a taken one ends the command."""
    if wanted is None:
        return next(filter(is_free, range(FIRST_PORT, FIRST_PORT + 100)), 0)
    if not 1 <= wanted <= 65535:
        raise CommandError(f"--port {wanted} is not a port: use a number from 1 to 65535")
    if not is_free(wanted):
        raise CommandError(
            f"port {wanted} is taken (another JupyterLab, perhaps). Choose another with --port N, "
            "or leave --port out and a free one is found"
        )
    return wanted


def has_display() -> bool:
    """Whether a browser could show itself here."""
    if sys.platform in ("win32", "darwin") or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def environment() -> dict[str, str]:
    """Variables for a child that finds its kernel in this environment."""
    return os.environ | {PREFER_OWN_KERNEL: "1"}


def interactive(folder: Path, name: str, port: int | None, *, browser: bool) -> int:
    """JupyterLab with a notebook open, until it is stopped."""
    require(*NEEDED)
    port = choose_port(port)
    notebook = prepare(folder, name, fresh=False).resolve()
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
    shown = browser and has_display()
    if browser and not shown:
        print(
            "There is no display here, so no browser is opened: use the address below in one that "
            "reaches this machine,\nor run the tour without a browser: ag-visual tour --headless",
            file=sys.stderr,
        )
    print(
        f"Notebook  {notebook}\n"
        f"Address   http://localhost:{port}/lab/tree/{name}?token={token}\n"
        "Stop JupyterLab with Ctrl-C.",
        file=sys.stderr,
        flush=True,
    )
    words = [
        *(sys.executable, "-m", "jupyterlab", str(notebook)),
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--log-level=WARN",
        *([] if shown else ["--no-browser"]),
        # Containers run as root; the server listens on this machine alone and asks for its token.
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
    return start(words, environment() | {"JUPYTER_TOKEN": token}, notebook.parent)


def start(words: list[str], variables: dict[str, str], folder: Path) -> int:
    """Become JupyterLab, so that Ctrl-C and other signals reach it and nobody else."""
    os.chdir(folder)
    if os.name != "nt":
        os.execve(words[0], words, variables)
    return subprocess.call(words, env=variables)


def headless(folder: Path, name: str) -> int:
    """Run a notebook from top to bottom and print what came of it."""
    require(*NEEDED)
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    path = prepare(folder, name, fresh=True)
    notebook = nbformat.read(path, as_version=4)
    began = time.monotonic()
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        on_cell_error=report_cell,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    variables = environment() | {"AG_VISUAL_HEADLESS": "1"}
    preferred = os.environ.get(PREFER_OWN_KERNEL)
    os.environ[PREFER_OWN_KERNEL] = "1"
    try:
        client.execute(env=variables)
    except CellExecutionError as error:
        raise CommandError(
            f"{name} failed: {error.ename}: {error.evalue}. As far as it came: {path}"
        ) from None
    except (CellTimeoutError, TimeoutError):
        raise CommandError(
            f"a cell of {name} ran for more than {CELL_SECONDS} s. As far as it came: {path}"
        ) from None
    except DeadKernelError:
        raise CommandError(f"the kernel died while it ran {name}") from None
    finally:
        files.write(path, nbformat.writes(notebook).encode())
        if preferred is None:
            del os.environ[PREFER_OWN_KERNEL]
    if name == NOTEBOOK:
        summarize(result_of(notebook), folder)
    print(f"executed        {path.resolve()} in {time.monotonic() - began:.1f} s")
    return 0


def report_cell(cell: Any, cell_index: int, execute_reply: Any) -> None:
    """Show the cell that failed, by the number that JupyterLab displays."""
    number = execute_reply["content"].get("execution_count")
    shown = "\n".join(f"    {line}" for line in cell.source.splitlines()[:12])
    print(f"cell In[{number}]:\n{shown}", file=sys.stderr)


def result_of(notebook: Any) -> dict[str, Any]:
    """What the notebook published about itself."""
    for cell in reversed(notebook.cells):
        for output in cell.get("outputs", ()):
            found = output.get("data", {}).get(RESULT)
            if found is not None:
                return json.loads(found) if isinstance(found, str) else dict(found)
    raise CommandError(f"the tour ran, but published no result ({RESULT})")


def summarize(result: dict[str, Any], folder: Path) -> None:
    """Print the tour's result; a recording that is not there is a failure."""
    recording = (folder / result["recording"]).resolve()
    if not recording.is_file():
        raise CommandError(f"the tour ran, but its recording is missing: {recording}")
    print(f"test accuracy   {result['accuracy']:.1%}")
    print(f"recorded nodes  {result['nodes']:,}")
    print(f"recorded events {result['events']:,}")
    print(f"recording       {recording}")
