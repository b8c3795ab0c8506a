"""The values that a node holds: what it saved, its variable and gradients, and their tangents.

`which` names one: 'saved:<name>', 'variable' or 'grad'; before it 'tangent:' for the tangent in
forward mode, after it '@3' for lane 3 of what a vmap holds for all its lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ag_visual.events.live import LiveNode, lanes, whole
from ag_visual.observe.diagnose.dead_units import ROOM, with_dead_units
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.record.summaries import DEFAULT_LIMIT, EXACT, summarize
from ag_visual.observe.record.tangents import TANGENT, NotKeptError

__all__ = ["NotKeptError", "array_of", "values_of"]

_LANES: Final = 64
"""Bytes of an answer that the numbers of lanes take at most."""


def array_of(recorder: Recorder, seq: int, which: str) -> Any:
    """The array that `which` names. Raises NotKeptError."""
    what, lane = _parted(which)
    return _lane(_held(recorder, seq, what), lane)


def values_of(
    recorder: Recorder,
    seq: int,
    which: str,
    limit: int = DEFAULT_LIMIT,
    most: int = EXACT,
    arrived: Iterable[Any] = (),
) -> dict[str, Any]:
    """The `Values` record of what `which` names. Raises NotKeptError.

    limit, most: see `summarize`. arrived: the gradients that wait at this node, where it is paused.
    """
    what, lane = _parted(which)
    array = next((getattr(g, "_array", g) for g in arrived if g is not None), None)
    if array is None:
        try:
            array = _held(recorder, seq, what)
        except NotKeptError:
            kept = recorder.tangents.found.get((seq, what))
            if kept is None or lane is not None:
                raise
            return kept
    if not getattr(type(array), "has_values", True):
        raise NotKeptError("a tensor on device 'meta' has a shape and no values")
    node = recorder.node(seq)
    picked = _lane(array, lane)
    found = summarize(picked, limit - ROOM - _LANES, most)
    found = with_dead_units(node, what, picked, found)
    sizes = lanes(array)
    if sizes:
        found["lanes"] = [int(n) for n in sizes]
    if recorder.tangents.has(seq, what) or (node is not None and _tangent(node, what) is not None):
        found["tangent"] = True
    return found


def _parted(which: str) -> tuple[str, int | None]:
    """What is asked for, and which lane of it."""
    what, at, lane = which.rpartition("@")
    if not at:
        return which, None
    if not lane.isdecimal():
        raise NotKeptError(f"a lane should be a whole number, but is {lane!r}")
    return what, int(lane)


def _lane(array: Any, lane: int | None) -> Any:
    """One lane of what stands for the slices of an array; without a number all of it."""
    every, sizes = whole(array), lanes(array)
    if lane is None:
        return every
    count = math.prod(sizes) if sizes else 0
    if not 0 <= lane < count:
        raise NotKeptError(f"there is no lane {lane}: it has {count}")
    return every[tuple(int(i) for i in np.unravel_index(lane, sizes))]


def _held(recorder: Recorder, seq: int, what: str) -> Any:
    node = recorder.node(seq)
    if node is None:
        raise NotKeptError(
            f"node {seq} is gone, and its values with it: pause before they are freed"
        )
    if what.startswith(TANGENT):
        found = _tangent(node, what.removeprefix(TANGENT))
        if found is None:
            raise NotKeptError("it has no tangent: no level of forward mode is open that gave one")
        return found
    if what.startswith("saved:"):
        return _saved(node, what.removeprefix("saved:"))
    if what not in ("grad", "variable"):
        raise NotKeptError(f"which should be 'saved:<name>', 'grad' or 'variable', but is {what!r}")
    if not node.leaf:
        raise NotKeptError(
            f"{node.name()} keeps no gradient: pause before it, or call retain_grad() on its output"
            if what == "grad"
            else f"{node.name()} belongs to no variable: only AccumulateGrad does"
        )
    if what == "variable":
        value = node.value()
        if value is None:
            raise NotKeptError(f"the variable of node {seq} is gone, and its values with it")
        return value
    (grad,) = node.kept_gradients()
    if grad is None:
        raise NotKeptError("this leaf has no .grad yet: it comes when its AccumulateGrad has run")
    return grad


def _tangent(node: LiveNode, what: str) -> Any:
    """The array of the tangent of a value of a node, None where it has none."""
    if what == "variable":
        return node.tangent()
    name = what.removeprefix("saved:")
    return next((field.tangent for field in node.saved_fields() if field.name == name), None)


def _saved(node: LiveNode, name: str) -> Any:
    array = node.saved_array(name)
    if array is None or not hasattr(array, "shape"):
        names = [field.name for field in node.saved_fields() if field.kind != "value"]
        if node.freed is not None and name in names:
            raise NotKeptError(
                f"{node.name()} gave {name} back after its backward: pause before it"
            )
        raise NotKeptError(f"{node.name()} has no saved tensor {name!r}; it has {names}")
    return array
