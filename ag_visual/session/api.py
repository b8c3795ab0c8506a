"""What users call to watch their own code: record, debugger, save_recording, load_recording.

Works the same in a script, a notebook and a test; only pausing needs an Inspector to end it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from ag_visual import files
from ag_visual.core import source
from ag_visual.core.node import Node
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.events.live import engine_of
from ag_visual.observe.export.bundle import bundle_text
from ag_visual.observe.export.export import Recording, load_recording, to_html
from ag_visual.observe.record.held_values import array_of
from ag_visual.observe.record.lesson import Lesson
from ag_visual.session.breakpoints import finite
from ag_visual.session.prompt import Prompt, interactive
from ag_visual.session.session import Session, current

__all__ = ["debugger", "load_recording", "record", "save_recording"]

NO_CONTROL: Final = (
    "Nothing could end a pause here: no Jupyter kernel takes commands while a cell runs. "
    "Record instead (with ag.record()), then look through the recording."
)

LONGEST_NAME: Final = 120

Stop = str | int | Node | Tensor | None


class record:  # used as torch's own context managers are
    """Record the block: every node, gradient norm, in-place write and hook call in it.

    every=n records each n-th backward (and the forward before it). fresh=False keeps what was
    recorded before. scalars=True keeps every number of graphs of at most 120 nodes with at most 64
    numbers each, too, with the local derivatives between them. name: what the recording is called
    in the Inspector's list of runs, in a comparison and as a page; at most 120 characters. The
    object is the recording's handle, during the block and after it.

    >>> import ag_visual as ag
    >>> with ag.record() as recorded:
    ...     x = ag.tensor(3.0, requires_grad=True)
    ...     (x * x).backward()
    >>> recorded.recording.rows("nodes")
    1
    """

    def __init__(
        self, *, every: int = 1, fresh: bool = True, scalars: bool = False, name: str = ""
    ) -> None:
        if every < 1:
            raise ValueError(f"every should be 1 or more, but is {every}")
        self._name = name_given(name)
        self._every = every
        self._fresh = fresh
        self._scalars = scalars
        self._outer = False
        self._kept: Recording | None = None

    def __enter__(self) -> record:
        session = current()
        self._outer = session.recorder.on
        try:
            if not self._outer:
                if self._fresh:
                    session.clear()
                session.name = self._name or session.name
                session.start("block" if self._every == 1 else "every", self._every)
            if self._scalars:
                session.numbers.want(always=True)
        except BaseException:  # an interrupt, before the block
            if not self._outer:
                session.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        session = current()
        try:
            if self._scalars:
                session.numbers.let(always=True)
        finally:
            if not self._outer:
                session.stop()
        self._kept = session.recording(values=True).named(self._name)
        # Within a recording that goes on, what came before the block is in it, and stays there.
        if self._name or not self._outer:
            session.runs.add(self._kept, goes_on=not self._fresh)
            session.changed()

    @property
    def recording(self) -> Recording:
        """What was recorded: so far inside the block, all of it after."""
        return self._kept or current().recording(values=True)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        values: bool = True,
        source: bool = True,
        lesson: Lesson | None = None,
    ) -> Path:
        """Write the recording as `save_recording` does: a page for a name in .html, else a file."""
        return save_recording(path, self.recording, values=values, source=source, lesson=lesson)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return self.recording._repr_mimebundle_(**kwargs)


def name_given(name: str) -> str:
    """The name of a recording on one line. Raises TypeError and ValueError for what is none."""
    if not isinstance(name, str):
        raise TypeError(f"name should be a str, but is {type(name).__name__}")
    line = " ".join(name.split())
    if len(line) > LONGEST_NAME:
        raise ValueError(f"name should have at most {LONGEST_NAME} characters, but has {len(line)}")
    return line


def save_recording(
    path: str | os.PathLike[str],
    recording: Recording | None = None,
    *,
    values: bool = True,
    source: bool = True,
    lesson: Lesson | None = None,
) -> Path:
    """Write a recording (without one: all that is kept now) and return the path.

    A name in .html gives a standalone page that needs no kernel and no network; any other name a
    compact file for `load_recording`. values=False leaves out all numbers of tensors but norms of
    gradients, source=False the text and names of your code. lesson: how the Inspector is set up for
    who opens it. Raises OSError where the place cannot be written.
    """
    if recording is None:
        found = current().recording(values=values, source=source)
    else:
        found = recording.without(values=not values, source=not source)
    if lesson is not None:
        found = Recording(found.record | {"lesson": lesson.json()})
    if Path(path).suffix.lower() in (".html", ".htm"):
        return files.write(path, to_html(found, bundle_text()).encode())
    return found.save(path)


class debugger:
    """Stop before nodes that a backward in this block runs.

    In a Jupyter kernel the Inspector steps on from there, in a terminal a prompt does (h shows its
    commands; ask: a function like `input` to use in its place).

    stop: a node's class name ("ReluBackward0"), its number, the node or tensor itself, or a list
    of these. Or a condition: norm_above, where the gradient's 2-norm is larger; nonfinite, where
    it holds a NaN or an infinity; shape, where it has this one, None for any length; line, nodes
    that this line of the calling file or cell made. Conditions hold together with a single stop.
    Without any of them every backward stops before its first node.

    patience: seconds without any Inspector after which a stopped backward goes on by itself.
    Where nobody could end a pause it warns and stops nowhere.

    >>> import ag_visual as ag
    >>> x = ag.tensor([3.0, 4.0], requires_grad=True)
    >>> answers = iter(["p", "scale 10", "c"])
    >>> with ag.debugger("MulBackward0", ask=lambda prompt: next(answers)):
    ...     (x * 2).sum().backward()  # doctest: +ELLIPSIS
    -- step 2 of 3: MulBackward0...
    >>> x.grad
    tensor([20., 20.])
    """

    def __init__(
        self,
        stop: Stop | Iterable[Stop] = None,
        *,
        norm_above: float | None = None,
        nonfinite: bool = False,
        shape: Iterable[int | None] | None = None,
        line: int | None = None,
        patience: float | None = None,
        ask: Callable[[str], str] | None = None,
    ) -> None:
        condition: dict[str, Any] = {}
        if norm_above is not None:
            condition["above"] = finite(norm_above)
        if nonfinite:
            condition["nonfinite"] = True
        if shape is not None:
            condition["shape"] = "×".join("*" if n is None else str(n) for n in shape)
        if line is not None:
            condition |= {"line": int(line), "place": _site_of_caller()}
        self._stops = [_stop_at(one) | condition for one in _listed(stop)]
        if not self._stops and condition:
            self._stops = [condition]
        self._first = not self._stops
        self._patience = patience
        self._ask = ask
        self._talks = False
        self._set: list[Any] = []
        self._known: set[int] = set()  # breakpoints of before: a prompt may set others
        self._started = False
        self._before = 0.0

    def __enter__(self) -> debugger:
        session = current()
        self._talks = self._ask is not None or (not session.control and interactive())
        if not session.control and not self._talks:
            warn(NO_CONTROL)
            return self
        gate = session.gate
        self._known = {b.id for b in gate.breakpoints}
        if self._talks:
            gate.prompt = Prompt(gate, _array_of_paused, self._ask)
        if not session.recorder.on:
            session.start()
            self._started = True
        self._before, gate.patience = gate.patience, self._patience or gate.patience
        self._set = [gate.add(**stop) for stop in self._stops]
        if self._first:
            gate.ask_pause()
        session.numbers.want()
        session.changed()
        return self

    def __exit__(self, *_: object) -> None:
        session = current()
        gate = session.gate
        if not session.control and not self._talks:
            return
        if self._talks:
            gate.prompt = None
            mine = {b.id for b in gate.breakpoints} - self._known
        else:
            mine = {b.id for b in self._set}
        for id in mine:
            gate.remove(id=id)
        if self._first:
            gate.pause_next = False
            gate.arm()
        gate.patience = self._before
        session.numbers.let()
        if self._started:
            session.stop()
        session.changed()


def _site_of_caller() -> str | None:
    """The cell or file whose code makes the debugger."""
    site = source.resolve_call_site(source.here())
    return site.cell_id or site.file or None


def _array_of_paused(which: str) -> Any:
    session = current()
    assert session.gate.paused is not None
    session.recorder.drain()
    return array_of(session.recorder, session.gate.paused.seq, which)


def _listed(stop: Any) -> list[Any]:
    if stop is None:
        return []
    if isinstance(stop, str | int | Node | Tensor) or engine_of(stop) is not None:
        return [stop]
    return list(stop)


def _stop_at(stop: Any) -> dict[str, Any]:
    if isinstance(stop, str):
        return {"name": stop}
    engine = engine_of(stop)
    if engine is not None or isinstance(stop, Tensor):
        node = _node_of(stop) if engine is None else engine.node_of(stop)
        if node is None:
            raise ValueError(
                f"cannot stop at a tensor of shape {list(stop.shape)} that has no graph"
            )
        return {"seq": node.seq}
    if isinstance(stop, Node):
        return {"seq": stop.seq}
    if isinstance(stop, int) and not isinstance(stop, bool):
        return {"seq": stop}
    raise TypeError(
        "stop should be a node's name, its number, a node or a tensor, but got "
        f"{type(stop).__name__}"
    )


def _node_of(tensor: Tensor) -> Node | None:
    edge = tensor.gradient_edge()
    return None if edge is None else edge[0]


def session() -> Session:
    """The session of this process, for hosts that embed the Inspector."""
    return current()
