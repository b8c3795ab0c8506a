"""`compare`: what differs between two backward graphs, as facts, as text and as a picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from ag_visual.core.node import Node
from ag_visual.core.tensor import Tensor
from ag_visual.display.names import names_of
from ag_visual.display.show import Picture, graph_recording
from ag_visual.observe.compare.differences import Comparison, compare_recordings
from ag_visual.observe.export.export import Recording, load_recording
from ag_visual.observe.record.leaf_names import Scope, scopes_of
from ag_visual.session.api import record

Comparable = Tensor | Node | Recording | record | str | os.PathLike[str] | Iterable[Tensor | Node]


def compare(
    a: Comparable,
    b: Comparable | None = None,
    *,
    steps: tuple[int | None, int | None] = (None, None),
    values: bool = True,
) -> Comparison:
    """What differs between two backward graphs: a is the one before, b the one after.

    Each is a recording (or what `record` gave, or the name of a recording's file), or a loss whose
    graph is looked at as it stands. steps: which backward pass of each recording, counted from 1
    or from -1 backwards; None is the last. Without b, two passes of the one recording. values=False
    leaves the numbers of tensors out. Raises ValueError for a recording without a graph and
    IndexError for a step that it has not. Each side is called by the name of its recording, else by
    that of its variable or file.

    The result prints as text, shows both graphs side by side in a notebook, and is a sequence of
    differences, those that say most first.

    >>> import ag_visual as ag
    >>> w = ag.tensor([1.0, -2.0], requires_grad=True)
    >>> found = ag.compare((w * 2).relu().sum(), (w * 2).tanh().sum())
    >>> found.nodes["changed"], found.nodes["equal"]
    (1, 2)
    >>> found.differences[0].title
    'ReluBackward0 -> TanhBackward0'
    """
    scopes = list(scopes_of(sys._getframe(1)))
    first = _recording(a, values, scopes)
    return compare_recordings(first, first if b is None else _recording(b, values, scopes), steps)


def _recording(what: Comparable, values: bool, scopes: list[Scope]) -> Recording:
    """The recording that is meant; where it has no name, that of its variable or file."""
    if isinstance(what, str | os.PathLike):
        found = load_recording(what)
        return found if found.name else found.named(os.path.basename(os.fspath(what)))
    if isinstance(what, Recording):
        found = what
    elif isinstance(what, record):
        found = what.recording
    else:
        found = graph_recording(what, values=values)
    return found if found.name else found.named(", ".join(names_of([what], scopes)))


def side_by_side(comparison: Comparison) -> Recording:
    """One recording that opens as the comparison, in a cell's output, a page or a file."""
    a, b = comparison.recordings
    beside = {"recording": None if a is b else a.record, "tasks": list(comparison.tasks)}
    return Recording(b.record | {"beside": beside})


def _show(comparison: Comparison) -> Any:
    bundle = Picture(side_by_side(comparison))._repr_mimebundle_()
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    return data | {"text/plain": repr(comparison)}, metadata


def _save(comparison: Comparison, path: str | os.PathLike[str]) -> Any:
    return Picture(side_by_side(comparison)).save(path)


Comparison.renderer = staticmethod(_show)
Comparison.writer = staticmethod(_save)
