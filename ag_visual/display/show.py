"""`show`: a graph or a recording as something that a notebook draws.

One object, three faces: an anywidget where widgets are installed, else a frame with the standalone
page, and a text for readers without either.
"""

from __future__ import annotations

import html
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from ag_visual.core import source
from ag_visual.core.node import Node
from ag_visual.core.tensor import Tensor
from ag_visual.display.names import names_of
from ag_visual.observe.export.bundle import BundleMissingError, bundle_text
from ag_visual.observe.export.dot import listed, roots_of
from ag_visual.observe.export.export import Recording, take, to_html
from ag_visual.observe.record.leaf_names import scopes_of
from ag_visual.observe.record.lesson import Lesson
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.record.scalars import NOT_KEPT
from ag_visual.session.api import record
from ag_visual.session.session import current, package_version

HEIGHT: Final = 520
"""Pixels of what does not follow the size of its graph."""

GONE: Final = (
    "The graph of this picture is gone, or backward ran through it. Show it with "
    "show(loss, scalars=True): its numbers are kept then."
)


def show(
    what: Tensor | Node | Recording | record | Iterable[Tensor | Node] | None = None,
    *,
    height: int | None = None,
    values: bool = True,
    scalars: bool = False,
    lesson: Lesson | None = None,
) -> Picture:
    """The backward graph of a tensor (or several), or a recording, for a cell's output.

    The graph is drawn as it stands when `show` is called, with what its nodes have saved;
    values=False leaves all numbers out. scalars=True draws every number of a tiny network, with
    the local derivatives between them; without it they are computed when a reader asks for them or
    the picture is saved, as long as the graph is there. lesson: how the Inspector is set up (see
    `lesson`). Once a recorded or paused backward runs through the graph, the output follows it live
    and steps on from a pause, where the front end can reach a kernel that runs a cell; elsewhere it
    stays a picture and says why. Without an argument: a live Inspector of all that this kernel does
    from now on.
    height in pixels; without one the output has 320 at first and grows with the graph, up to 640.
    Raises RuntimeError for a tensor without a graph, ValueError for scalars=True
    without values.

    >>> import ag_visual as ag
    >>> x = ag.tensor(3.0, requires_grad=True)
    >>> ag.show(x * x)
    <picture of 2 nodes: MulBackward0, AccumulateGrad>
    """
    if scalars and not values:
        raise ValueError("scalars=True draws the numbers that values=False leaves out")
    if what is None:
        found, live = current().recording(values=values), True
    elif isinstance(what, record):
        found, live = what.recording, False
    elif isinstance(what, Recording):
        found, live = what, False
    else:
        recorder, taken = _taken(what, values)
        picture = Picture(_set_up(taken, scalars, lesson), height)
        picture.graph = recorder if values else None
        if scalars:
            picture.numbers()
        picture.follow()
        return picture
    return Picture(_set_up(found, scalars, lesson), height, live=live)


def _set_up(recording: Recording, scalars: bool, lesson: Lesson | None) -> Recording:
    """The recording with a lesson in it, where there is one."""
    if not scalars and lesson is None:
        return recording
    given = lesson or Lesson()
    shown = replace(given, scalars=scalars or given.scalars)
    return Recording(recording.record | {"lesson": shown.json()})


def graph_recording(
    outputs: Tensor | Node | Iterable[Tensor | Node], *, values: bool = True
) -> Recording:
    """The graph below the outputs as a recording of its own, apart from the session's."""
    return _taken(outputs, values)[1]


def _taken(
    outputs: Tensor | Node | Iterable[Tensor | Node], values: bool
) -> tuple[Recorder, Recording]:
    recorder = Recorder()
    scopes = list(scopes_of(source.outside(sys._getframe(1))))
    for scope in scopes:
        recorder.labels.learn_scope(scope)
    given = listed(outputs)
    recorder.add_graph(list(roots_of(given)))
    taken = take(recorder, session="show", values=values, version=package_version(), scopes=scopes)
    return recorder, Recording(taken.record | {"of": names_of(given, scopes)})


class Picture:
    """A recording to look at in a notebook; `save` writes it as a page."""

    def __init__(
        self, recording: Recording, height: int | None = None, *, live: bool = False
    ) -> None:
        self.recording = recording
        self.height = height
        self.live = live
        self.graph: Recorder | None = None
        """Where the nodes of a graph are found that is shown as it stands, if they still live."""
        self._widget: Any = None
        self._seqs: frozenset[int] = frozenset()

    def numbers(self) -> dict[str, Any] | None:
        """A `Scalars` record of what is shown: as recorded, else computed now; None without values.

        Once it is there, the recording holds it.
        """
        known: dict[str, Any] | None = self.recording.record.get("scalars")
        if known is not None or self.graph is None:
            return known
        session = current()
        seqs = [int(seq) for seq in self.graph.alive()]
        scopes = [*scopes_of(source.outside(sys._getframe(1))), *session.scopes()]
        found = session.numbers.graph(seqs, self.graph, scopes)
        if found["why"] == NOT_KEPT["why"]:
            return {**found, "why": GONE}
        self.recording = Recording(self.recording.record | {"scalars": found})
        return found

    def follow(self) -> None:
        """Go live in the page when a backward that is watched runs through this graph."""
        nodes = self.recording.tables.get("nodes")
        self._seqs = frozenset(int(seq) for seq in nodes["seq"]) if nodes else frozenset()
        current().followers.add(self)

    def began(self, task: Any) -> None:
        """A backward begins that is recorded or may stop: perhaps through this graph."""
        if any(root.seq in self._seqs for root in task.roots):
            current().followers.discard(self)
            self.live = True
            if self._widget is not None:
                self._widget.live = True

    def __repr__(self) -> str:
        names = Counter(self._names())
        shown = ", ".join(f"{n} {name}" if n > 1 else name for name, n in names.most_common(6))
        more = f" and {len(names) - 6} other kinds" if len(names) > 6 else ""
        total = sum(names.values())
        return f"<picture of {total} node{'' if total == 1 else 's'}: {shown}{more}>"

    def _names(self) -> list[str]:
        tables, strings = self.recording.tables, self.recording.strings
        names = [strings[i] for i in tables["nodes"]["name"]] if "nodes" in tables else []
        return names + ["AccumulateGrad"] * self.recording.rows("leaves")

    def save(self, path: Any) -> Any:
        """Write the picture: a standalone page for a name in .html, else a recording file."""
        from ag_visual.session.api import save_recording

        self.numbers()
        return save_recording(path, self.recording)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        text = {"text/plain": repr(self)}
        try:
            bundle_text()
        except BundleMissingError as error:
            return {"text/plain": f"{text['text/plain']}\nIt cannot be drawn: {error}"}
        if self._widget is None:
            try:
                from ag_visual.display.widget import inspector_widget
            except ImportError:
                return text | {"text/html": self._frame()}
            self._widget = inspector_widget(self.recording, self.height, live=self.live)
            self._widget.picture = self
        bundle = self._widget._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, **text}, metadata

    def _frame(self) -> str:
        self.numbers()
        page = to_html(self.recording, bundle_text(), "ag_visual")
        height = self.height or HEIGHT
        return (
            f'<iframe sandbox="allow-scripts" style="width: 100%; height: {height}px; '
            f'border: 0" srcdoc="{html.escape(page)}"></iframe>'
        )


def _show_recording(recording: Recording) -> Any:
    return Picture(recording)._repr_mimebundle_()


Recording.renderer = staticmethod(_show_recording)
