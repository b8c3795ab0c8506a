"""Gradients that the reader changes during a pause. Never in place: they may be shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo
from ag_visual.core.tensor import Tensor
from ag_visual.events.live import written_out
from ag_visual.session.breakpoints import norm_of

WAYS: Final = ("scale", "zero", "fill", "clip", "element")


class EditError(ValueError):
    """A gradient that cannot be changed, or not like this; the text says why."""


def edited(
    grads: Sequence[Any],
    how: str,
    value: float | None = None,
    *,
    at: int | None = None,
    index: int | None = None,
) -> list[Any]:
    """The gradients with the one at `index` changed; without it, the first one that arrived.

    how: 'scale' by value, 'zero', 'fill' with value, 'clip' its 2-norm to value, or put value at
    the 'element' with the flat index `at`. Raises EditError.
    """
    if how not in WAYS:
        raise EditError(f"how should be one of {', '.join(WAYS)}, but is {how!r}")
    if how != "zero" and value is None:
        raise EditError(f"{how} needs a value")
    place = _place(grads, index)
    found = grads[place]
    if isinstance(found, Tensor):
        raise EditError(
            "with create_graph=True a gradient is part of a graph: change it in a hook instead "
            "(tensor.register_hook), which is differentiated, too"
        )
    changed = list(grads)
    changed[place] = _changed(found, how, 0.0 if value is None else value, at)
    return changed


def _place(grads: Sequence[Any], index: int | None) -> int:
    arrived = [i for i, g in enumerate(grads) if g is not None]
    if not arrived:
        raise EditError("no gradient arrives at this node: there is nothing to change")
    if index is None:
        return arrived[0]
    if index not in arrived:
        raise EditError(f"no gradient arrives at output {index}; those at {arrived} have one")
    return index


def _changed(array: Any, how: str, value: float, at: int | None) -> Any:
    if type(array) is Coo:
        return _of_sparse(array, how, value)
    xp = backend_of(array).xp
    if how == "scale":
        return (array * value).astype(array.dtype)
    if how == "clip":
        norm = norm_of([array])
        return array if norm <= value else (array * (value / norm)).astype(array.dtype)
    if how == "element":
        if at is None or not 0 <= at < array.size:
            raise EditError(f"there is no element {at}: the gradient has {array.size}")
        changed = xp.array(array, copy=True)
        changed[np.unravel_index(at, array.shape)] = value
        return changed
    return xp.full(array.shape, 0.0 if how == "zero" else value, dtype=array.dtype)


def _of_sparse(array: Coo, how: str, value: float) -> Coo:
    """The same positions with other values."""
    if how == "zero":
        return array.nothing()
    if how not in ("scale", "clip"):
        raise EditError("a sparse gradient can be scaled, clipped or made zero, not filled")
    if how == "clip":
        norm = norm_of([written_out(array)])
        value = min(1.0, value / norm) if norm else 1.0
    return (array * value).astype(array.dtype)
