"""What users call to watch their own code: record, debugger, save_recording, load_recording.

Works the same in a script, a notebook and a test; only pausing needs an Inspector to end it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from ag_visual.core.node import Node
from ag_visual.core.tensor import Tensor
from ag_visual.observe.bundle import bundle_text
from ag_visual.observe.export import Recording, load_recording, to_html, write_atomically
from ag_visual.session.session import Session, current

__all__ = ["debugger", "load_recording", "record", "save_recording"]

NO_CONTROL: Final = (
    "Nothing could end a pause here: no Jupyter kernel takes commands while a cell runs. "
    "Record instead (with ag.record()), then look through the recording."
)

Stop = str | int | Node | Tensor | None


class record:  # used as torch's own context managers are
    """Record the block: every node, gradient norm, in-place write and hook call in it.

    every=n records each n-th backward (and the forward before it). fresh=False keeps what was
    recorded before. The object is the recording's handle, during the block and after it.

    >>> import ag_visual as ag
    >>> with ag.record() as recorded:
    ...     x = ag.tensor(3.0, requires_grad=True)
    ...     (x * x).backward()
    >>> recorded.recording.rows("nodes")
    1
    """

    def __init__(self, *, every: int = 1, fresh: bool = True) -> None:
        if every < 1:
            raise ValueError(f"every should be 1 or more, but is {every}")
        self._every = every
        self._fresh = fresh
        self._outer = False
        self._kept: Recording | None = None

    def __enter__(self) -> record:
        session = current()
        self._outer = session.recorder.on
        if not self._outer:
            if self._fresh:
                session.clear()
            session.start("block" if self._every == 1 else "every", self._every)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = current()
        if not self._outer:
            session.stop()
        self._kept = session.recording(values=True)

    @property
    def recording(self) -> Recording:
        """What was recorded: so far inside the block, all of it after."""
        return self._kept or current().recording(values=True)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recording: a standalone page for a name in .html, else for load_recording."""
        return save_recording(path, self.recording)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.recording._repr_mimebundle_(**kwargs)


def save_recording(
    path: str | os.PathLike[str],
    recording: Recording | None = None,
    *,
    values: bool = True,
    source: bool = True,
) -> Path:
    """Write a recording (without one: all that is kept now) and return the path.

    A name in .html gives a standalone page that needs no kernel and no network; any other name a
    compact file for `load_recording`. values=False leaves out all numbers of tensors, source=False
    the text of your code. Raises OSError where the place cannot be written.
    """
    found = recording or current().recording(values=values, source=source)
    if Path(path).suffix.lower() in (".html", ".htm"):
        return write_atomically(path, to_html(found, bundle_text()).encode())
    return found.save(path)


class debugger:
    """Stop before nodes that a backward in this block runs, for the Inspector to step on from.

    stop: a node's class name ("ReluBackward0"), its number, the node or tensor itself, or a list
    of these; without it every backward stops before its first node. patience: seconds without any
    Inspector after which a stopped backward goes on by itself. Outside of a Jupyter kernel it
    warns and stops nowhere.
    """

    def __init__(
        self, stop: Stop | Iterable[Stop] = None, *, patience: float | None = None
    ) -> None:
        self._stops = [_stop_at(one) for one in _listed(stop)]
        self._first = stop is None
        self._patience = patience
        self._set: list[Any] = []
        self._started = False
        self._before = 0.0

    def __enter__(self) -> debugger:
        session = current()
        if not session.control:
            warnings.warn(NO_CONTROL, UserWarning, stacklevel=2)
            return self
        gate = session.gate
        if not session.recorder.on:
            session.start()
            self._started = True
        self._before, gate.patience = gate.patience, self._patience or gate.patience
        self._set = [gate.add(**stop) for stop in self._stops]
        if self._first:
            gate.ask_pause()
        session.changed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = current()
        gate = session.gate
        if not session.control:
            return
        for breakpoint_ in self._set:
            gate.remove(seq=breakpoint_.seq, name=breakpoint_.name)
        if self._first:
            gate.pause_next = False
            gate.arm()
        gate.patience = self._before
        if self._started:
            session.stop()
        session.changed()


def _listed(stop: Stop | Iterable[Stop]) -> list[Stop]:
    if stop is None:
        return []
    if isinstance(stop, str | int | Node | Tensor):
        return [stop]
    return list(stop)


def _stop_at(stop: Stop) -> dict[str, Any]:
    if isinstance(stop, str):
        return {"name": stop}
    if isinstance(stop, Tensor):
        edge = stop.gradient_edge()
        if edge is None:
            raise ValueError(
                f"cannot stop at a tensor of shape {list(stop.shape)} that has no graph"
            )
        return {"seq": edge[0].seq}
    if isinstance(stop, Node):
        return {"seq": stop.seq}
    if isinstance(stop, int) and not isinstance(stop, bool):
        return {"seq": stop}
    raise TypeError(
        "stop should be a node's name, its number, a node or a tensor, but got "
        f"{type(stop).__name__}"
    )


def session() -> Session:
    """The session of this process, for hosts that embed the Inspector."""
    return current()
