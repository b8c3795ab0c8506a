"""This process as a Jupyter kernel: commands over the control channel, events over a comm.

`attach()` runs at `import ag_visual`; outside of a kernel it does nothing and imports nothing.
Control handlers are semi-private in ipykernel: where they are missing, pages are told that
commands cannot reach a busy kernel.
"""

from __future__ import annotations

import contextvars
import sys
from typing import Any

from ag_visual.observe import schema

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
        _attach_shell(shell)
        if kernel is not None and hasattr(kernel, "session"):
            _attach_kernel(shell, kernel)
    return kernel is not None


def _attach_shell(shell: Any) -> None:
    from ag_visual.session.cells import watch_cells
    from ag_visual.session.magics import register_magics

    watch_cells(shell)
    register_magics(shell)


def _attach_kernel(shell: Any, kernel: Any) -> None:
    from ag_visual.session.session import current

    session = current()
    session.watch()
    session.namespace = lambda: shell.user_ns
    loop = getattr(kernel, "io_loop", None)
    if loop is not None:
        session.when_idle = loop.add_callback
    session.announce = _printed
    session.control = _take_control(session, kernel)
    _give_way(session, shell, kernel)
    manager = getattr(kernel, "comm_manager", None)
    if manager is not None:
        manager.register_target(schema.COMM_TARGET, lambda comm, message: _open(comm, message))
        _announce(kernel, session.id)


def _printed(text: str) -> None:
    """Say it in the output of the running cell."""
    print(f"ag_visual: {text}", flush=True)


def _announce(kernel: Any, session: str) -> None:
    """Tell pages that wait that somebody listens now."""
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
    return True


def _give_way(session: Any, shell: Any, kernel: Any) -> None:
    """Interrupt and shutdown always end a pause, whichever thread is paused."""

    def after_cell(result: Any) -> None:
        if isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt):
            session.gate.interrupt()

    shell.events.register("post_run_cell", after_cell)
    handlers = getattr(kernel, "control_handlers", None)
    if not isinstance(handlers, dict):
        return
    shutdown = handlers.get("shutdown_request")
    if shutdown is not None:

        async def on_shutdown(stream: Any, ident: Any, parent: Any) -> None:
            session.close()
            await shutdown(stream, ident, parent)

        handlers["shutdown_request"] = on_shutdown


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
        context.run(comm.send, data, buffers=buffers)

    page = session.open_page(str(data.get("page") or comm.comm_id), send)
    comm.on_close(lambda message: session.close_page(page))
