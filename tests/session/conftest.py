"""A real ipykernel with a client that plays the page: comm, acknowledgements, control requests."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipykernel
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from ag_visual.observe.wire import schema

from .. import ipython
from .waiting import PATIENCE

ROOT = Path(__file__).parents[2]


class Kernel:
    """A running kernel and what a page would know of it."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager()
        self.manager.kernel_cmd = [
            sys.executable,
            *("-m", "ipykernel_launcher", "-f", "{connection_file}"),
        ]
        ipython.prepare(folder)
        environment = dict(os.environ, PYTHONPATH=str(ROOT), IPYTHONDIR=str(folder))
        self.manager.start_kernel(env=environment, cwd=str(folder))
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)
        self.batches: list[tuple[dict[str, Any], list[bytes]]] = []
        self.output: list[str] = []
        self.errors: list[str] = []
        self.announced = 0
        self.acknowledging = True
        self._replies: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, dict[str, Any]] = {}  # of requests over a comm, by their number
        self.ended: set[str] = set()
        self._comm = ""

    # Asking -------------------------------------------------------------------------------------

    def start(self, code: str, cell: str | None = None) -> str:
        """Begin to run a cell (with this id); its message id."""
        if cell is None:
            return self.client.execute(code)
        content = {"code": code, "silent": False, "store_history": True, "stop_on_error": False}
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell})
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(self, code: str, cell: str | None = None) -> None:
        """Run a cell to its end."""
        self.finish(self.start(code, cell))

    def finish(self, message_id: str) -> None:
        self.until(lambda: message_id in self.ended)

    def subshell(self) -> str | None:
        """A new subshell's id; None where the kernel has none."""
        if ipykernel.version_info < (7,):
            return None
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=PATIENCE)
            if reply["header"]["msg_type"] == "create_subshell_reply":
                return str(reply["content"]["subshell_id"])

    def open_page(self, page: str = "page", subshell: str | None = None) -> None:
        self._comm = f"comm-{page}"
        content = {
            "comm_id": self._comm,
            "target_name": schema.COMM_TARGET,
            "data": {"v": schema.VERSION, "page": page},
        }
        message = self.client.session.msg("comm_open", content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def open_requests(self) -> None:
        content = {"comm_id": "requests", "target_name": schema.REQUESTS_TARGET, "data": {}}
        self.client.shell_channel.send(self.client.session.msg("comm_open", content))

    def write(self, command: str, **args: Any) -> str:
        """Send a request over its comm; its number."""
        message = self.client.session.msg("comm_msg")
        number = message["header"]["msg_id"]
        message["content"] = {
            "comm_id": "requests",
            "data": {"id": number, "command": command, **args},
        }
        self.client.shell_channel.send(message)
        return str(number)

    def close_page(self) -> None:
        content = {"comm_id": self._comm, "data": {}}
        self.client.shell_channel.send(self.client.session.msg("comm_close", content))

    def send(self, command: str, *, metadata: dict[str, Any] | None = None, **args: Any) -> str:
        """Send a request without waiting; its message id."""
        content = {"id": command, "command": command, **args}
        message = self.client.session.msg(schema.REQUEST_TYPE, content, metadata=metadata)
        self.client.control_channel.send(message)
        return str(message["header"]["msg_id"])

    def ask(self, command: str, **args: Any) -> dict[str, Any]:
        """The reply to a request."""
        sent = self.send(command, **args)
        self.until(lambda: sent in self._replies)
        return self._replies[sent]

    def result(self, command: str, **args: Any) -> Any:
        reply = self.ask(command, **args)
        assert reply["ok"], reply
        return reply["result"]

    # Listening ----------------------------------------------------------------------------------

    def until(self, true: Callable[[], Any]) -> None:
        """Listen until something is true."""
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, f"not within {PATIENCE} s; {self.errors} {self.output}"
            self._listen()

    def _listen(self) -> None:
        with contextlib.suppress(queue.Empty):
            self._published(self.client.get_iopub_msg(timeout=0.02))
        try:
            message = self.client.get_control_msg(timeout=0.005)
        except queue.Empty:
            return
        if message["header"]["msg_type"] == schema.REPLY_TYPE:
            self._replies[message["parent_header"]["msg_id"]] = message["content"]

    def _published(self, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "comm_msg" and content["comm_id"] == self._comm:
            data = content["data"]
            if "batch" in data:
                self.batches.append((data, message["buffers"]))
            if "reply" in data:
                self.answers[data["reply"]["id"]] = data["reply"]
            elif self.acknowledging:
                self.send("ack", batch=data.get("batch", 0), page=self._comm.removeprefix("comm-"))
        elif kind == "stream":
            self.output.append(content["text"])
        elif kind == "error":
            self.errors.append(f"{content['ename']}: {content['evalue']}")
        elif kind == schema.ANNOUNCE_TYPE:
            self.announced += 1
        elif kind == "status" and content["execution_state"] == "idle":
            self.ended.add(message["parent_header"].get("msg_id", ""))

    @property
    def state(self) -> dict[str, Any]:
        """The state that the last batch told."""
        return self.batches[-1][0]["state"] if self.batches else {}

    @property
    def paused(self) -> dict[str, Any] | None:
        return self.state.get("paused")

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A fresh kernel that has imported ag_visual."""
    found = Kernel(tmp_path)
    try:
        found.run("import ag_visual as ag")
        yield found
    finally:
        found.stop()
