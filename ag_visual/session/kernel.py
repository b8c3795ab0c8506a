"""This process as a Jupyter kernel: requests over the control channel, events over a comm.

`attach()` runs at `import ag_visual`; outside of a kernel it does nothing and imports nothing.
Control handlers are semi-private in ipykernel: where they are missing, pages are told that
commands cannot reach a busy kernel, and their requests come over a second comm.
"""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from ag_visual.observe.wire import schema

if TYPE_CHECKING:
    from ag_visual.session.cells import Cells
    from ag_visual.session.session import Session

WATCH: Final = "AG_VISUAL_WATCH"
"""With `off` in this variable of the environment nothing is recorded that nobody asked for."""

_attached: set[int] = set()


def attach(shell: Any = None) -> bool:
    """Listen to pages if this process is a Jupyter kernel. True when it is one.

    In an IPython shell without a kernel (or one that is given) only cells and magics are set up.
    """
    ipython = sys.modules.get("IPython")
    if shell is None and ipython is not None:
        shell = ipython.get_ipython()
    if shell is None:
        return False
    kernel = getattr(shell, "kernel", None)
    if id(shell) not in _attached:
        _attached.add(id(shell))
        cells = _attach_shell(shell)
        if kernel is not None and hasattr(kernel, "session"):
            _attach_kernel(shell, kernel, cells)
    return kernel is not None


def _attach_shell(shell: Any) -> Cells:
    from ag_visual.session.cells import watch_cells
    from ag_visual.session.magics import register_magics
    from ag_visual.session.tracebacks import shorten

    register_magics(shell)
    shorten(shell)
    return watch_cells(shell)


def _attach_kernel(shell: Any, kernel: Any, cells: Cells) -> None:
    from ag_visual.session.session import current

    session = current()
    # Also before a page is there: a cell that imports this package may call backward() at once.
    session.watch_newest(os.environ.get(WATCH) != "off")
    session.namespace = lambda: shell.user_ns
    _report_problems_of_cells(session, shell, cells)
    loop = getattr(kernel, "io_loop", None)
    if loop is not None:
        session.when_idle = loop.add_callback
    session.announce = _printed
    session.control = _take_control(session, kernel)
    _send_replies_through_stream(kernel)
    _give_way(session, shell, kernel)
    if session.when_idle is not None:
        _know_cells(session, shell)
    manager = getattr(kernel, "comm_manager", None)
    if manager is not None:
        manager.register_target(schema.COMM_TARGET, _open)
        manager.register_target(schema.REQUESTS_TARGET, _open_requests)
        _announce(kernel, session.id)


def _report_problems_of_cells(session: Session, shell: Any, cells: Cells) -> None:
    """In which cell a problem occurs, and which cells run through."""

    def after(result: Any) -> None:
        session.cell_ended(getattr(result.info, "cell_id", None), bool(result.success))

    session.found.cell = lambda: cells.cell.cell_id if cells.cell is not None else None
    shell.events.register("post_run_cell", after)


def _printed(text: str) -> None:
    """Say it in the output of the running cell."""
    print(f"ag_visual: {text}", flush=True)


def _announce(kernel: Any, session: str) -> None:
    """Announce to waiting pages that the kernel listens now."""
    kernel.session.send(
        kernel.iopub_socket,
        schema.ANNOUNCE_TYPE,
        {"v": schema.VERSION, "session": session},
        parent=kernel.get_parent(),
        ident=kernel._topic(schema.ANNOUNCE_TYPE),
    )


def _take_control(session: Any, kernel: Any) -> bool:
    """Answer our own message type on the control channel, which a running cell does not hold up."""
    handlers = getattr(kernel, "control_handlers", None)
    if not isinstance(handlers, dict) or getattr(kernel, "control_thread", None) is None:
        return False
    import asyncio

    from ag_visual.session.commands import handle

    async def on_request(stream: Any, ident: Any, parent: Any) -> None:
        loop = asyncio.get_running_loop()

        def send(content: dict[str, Any]) -> None:
            kernel.session.send(stream, schema.REPLY_TYPE, content, parent, ident)

        def reply(content: dict[str, Any]) -> None:
            # ZeroMQ sockets belong to one thread: replies leave from the control thread's loop.
            loop.call_soon_threadsafe(send, content)

        handle(session, parent.get("content"), reply)

    handlers[schema.REQUEST_TYPE] = on_request
    _leave_status_out(kernel)
    return True


def _know_cells(session: Any, shell: Any) -> None:
    """Whether a cell runs: requests are served in a moment where none does. Of each cell the first
    backward is watched.
    """

    def before(info: Any) -> None:
        session.at_rest = False
        session.recorder.allowance.once_more()

    def after(result: Any) -> None:
        session.at_rest = True

    shell.events.register("pre_run_cell", before)
    shell.events.register("post_run_cell", after)


def _send_replies_through_stream(kernel: Any) -> None:
    """Keep ipykernel 7.0 to 7.3 from overlooking a request: a cell would stay at [*].

    They receive requests with a stream but send replies on the socket below it, which can swallow
    the sign that a request came meanwhile (mended in 7.4). What the Inspector asks of an idle
    kernel makes such a moment likelier, so replies take the stream here, too.
    """
    manager: Any = getattr(getattr(kernel, "shell_channel_thread", None), "manager", None)
    stream = getattr(kernel, "shell_stream", None)
    if stream is not None and hasattr(manager, "_shell_socket"):
        manager._shell_socket = stream


def _leave_status_out(kernel: Any) -> None:
    """No busy and idle around a request whose page waits for its reply alone.

    A cell that is paused would seem idle after each of them, and every one would have the page draw
    the signs of the kernel's status twice. An ipykernel without this method tells them, as ever.
    """
    publish = getattr(kernel, "_publish_status", None)
    if publish is None:
        return

    def publish_status(status: str, channel: str, *more: Any, **named: Any) -> None:
        if channel == "control":
            parent = kernel.get_parent("control")
            ours = parent.get("header", {}).get("msg_type") == schema.REQUEST_TYPE
            if ours and parent.get("metadata", {}).get(schema.REPLY_ONLY):
                return
        publish(status, channel, *more, **named)

    kernel._publish_status = publish_status


def _give_way(session: Any, shell: Any, kernel: Any) -> None:
    """Interrupt and shutdown always end a pause, whichever thread is paused."""

    def after_cell(result: Any) -> None:
        if isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt):
            session.gate.interrupt()

    shell.events.register("post_run_cell", after_cell)
    if session.when_idle is not None:
        session.when_idle(lambda: _hear_interrupts(session))
    handlers = getattr(kernel, "control_handlers", None)
    if not isinstance(handlers, dict):
        return
    shutdown = handlers.get("shutdown_request")
    if shutdown is not None:

        async def on_shutdown(stream: Any, ident: Any, parent: Any) -> None:
            session.close()
            await shutdown(stream, ident, parent)

        handlers["shutdown_request"] = on_shutdown


def _hear_interrupts(session: Any) -> None:
    """Interrupt between cells ends the pause of a thread that a cell left running.

    Between cells ipykernel ignores the signal; what a cell does on it is left alone.
    """
    at_rest = threading.current_thread() is threading.main_thread()
    if at_rest and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: session.gate.interrupt())


def _open(comm: Any, message: Any) -> None:
    """A page opened its event comm."""
    from ag_visual.session.session import current

    data = message["content"].get("data") or {}
    version = data.get("v")
    if version != schema.VERSION:
        comm.close(
            {
                "error": f"this ag_visual speaks format {schema.VERSION}, the page {version!r}: "
                "install one release in both places and reload the page"
            }
        )
        return
    session = current()
    # Batches leave from other threads, where ipykernel 7.0 knows no parent: take this message.
    context = contextvars.copy_context()

    def send(data: dict[str, Any], buffers: list[bytes]) -> None:
        # A copy: an answer and a batch may leave at once, and a context has one thread in it.
        context.copy().run(comm.send, data, buffers=buffers)

    page = session.open_page(str(data.get("page") or comm.comm_id), send)
    comm.on_close(lambda message: session.close_page(page))


def _open_requests(comm: Any, message: Any) -> None:
    """A page that has no control channel asks over this comm, on which nothing is ever sent."""
    from ag_visual.session.commands import handle
    from ag_visual.session.session import current

    def on_request(message: Any) -> None:
        content = message["content"].get("data")
        name = content.get("page") if isinstance(content, dict) else None

        def reply(answer: dict[str, Any]) -> None:
            for page in current().pages_named(name):
                page.reply(answer)

        handle(current(), content, reply)

    comm.on_msg(on_request)
