"""Kernelspecs with other releases of ipykernel than the installed one, for the browser tests.

Each is an overlay: a folder with that release alone, put before the installed packages. They are
made once a run, all at the same time, in a few seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient

from .lab import CELL_SECONDS, Server

RELEASES = ("6.31", "7.0", "7.3", "7.4")
"""Those that treat messages to a busy kernel differently, first and last of each kind."""
PLAIN = "plain"
"""A kernel whose control messages are a closed set: kernels other than ipykernel are like that."""

WATCHING = "watching"

PLAIN_KERNEL = """\
from types import MappingProxyType

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp


class PlainKernel(IPythonKernel):
    def __init__(self, **options):
        super().__init__(**options)
        self.control_handlers = MappingProxyType(self.control_handlers)


IPKernelApp.launch_instance(kernel_class=PlainKernel)
"""


def spec_name(release: str) -> str:
    return f"ipykernel-{release}"


def make_releases(server: Server, folder: Path) -> None:
    """Install every release beside the others and tell the server; without an index, say so."""
    options = ("--quiet", "--no-deps", "--disable-pip-version-check", "--no-warn-script-location")
    installing = {
        release: subprocess.Popen(
            [
                *(sys.executable, "-m", "pip", "install", *options),
                *("--target", str(folder / release), f"ipykernel=={release}.*"),
                *("nest-asyncio", "nest-asyncio2"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for release in RELEASES
    }
    for release, process in installing.items():
        said, _ = process.communicate(timeout=CELL_SECONDS)
        if process.returncode:
            told = f"ipykernel {release} could not be installed beside the others:\n{said}"
            if os.environ.get("CI", "").lower() in ("1", "true"):
                pytest.fail(told)
            pytest.skip(told)
        launch = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
        write_spec(server, spec_name(release), launch, folder / release)


def make_plain(server: Server, folder: Path) -> None:
    """Tell the server of the kernel that takes no control messages of ours."""
    script = folder / "plain_kernel.py"
    script.write_text(PLAIN_KERNEL)
    write_spec(server, PLAIN, [str(script), "-f", "{connection_file}"])


def make_watching(server: Server) -> None:
    """A kernel that watches the newest backward pass, as kernels do outside of the tests."""
    if not (server.home / "data" / "kernels" / WATCHING).exists():
        launch = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
        write_spec(server, WATCHING, launch, AG_VISUAL_WATCH="newest")


def write_spec(
    server: Server, name: str, launch: list[str], overlay: Path | None = None, **variables: str
) -> None:
    path = [] if overlay is None else [str(overlay)]
    path += [*server.python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
    spec = {
        "argv": [sys.executable, *launch],
        "display_name": name,
        "language": "python",
        "env": {"PYTHONPATH": os.pathsep.join(path), **variables},
    }
    kernel = server.home / "data" / "kernels" / name
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(json.dumps(spec))


@contextmanager
def kept_awake(server: Server) -> Iterator[None]:
    """Ask every kernel of a server something again and again, in a thread.

    Until `import ag_visual` helps them, ipykernel 7.0 to 7.3 can overlook a request that comes
    while they answer another, those of JupyterLab's start included; the next one wakes them.
    """
    stop = threading.Event()

    def ask() -> None:
        clients: dict[Path, BlockingKernelClient] = {}
        while not stop.wait(2):
            files = set((server.home / "runtime").glob("kernel-*.json"))
            for gone in clients.keys() - files:
                clients.pop(gone).stop_channels()
            for file in files - clients.keys():
                client = BlockingKernelClient()
                try:
                    client.load_connection_file(str(file))
                except (OSError, ValueError):  # it is just being written, or gone
                    continue
                client.start_channels(iopub=False, stdin=False, hb=False, control=False)
                clients[file] = client
            for client in clients.values():
                client.kernel_info()
        for client in clients.values():
            client.stop_channels()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
