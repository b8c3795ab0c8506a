"""segment_reduce: sums, means, products and extremes of consecutive parts of a dimension."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F

_NAMES = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
_NAMES |= {"amax": "amax", "amin": "amin"}
_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Reduce consecutive segments of `axis`: 'sum', 'mean', 'max', 'min' or 'prod'.

    lengths: those of the segments, of shape `(*data.shape[:axis], segments)`; offsets: where they
    begin, and the end. initial: what a segment begins with; an empty one has it, else 0, NaN,
    -inf, inf or 1. unsafe: lengths are not checked.

    Raises:
        RuntimeError: neither lengths nor offsets, lengths that do not add up, an unknown name.
    """
    how = _NAMES.get(reduce)
    if how is None:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    given: Any = lengths if lengths is not None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not data.dtype.is_floating_point:
        name = type(data).__name__ if data.dtype.is_complex else data.dtype.scalar_name
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{name}'")
    if axis != given.dim() - 1:
        named = "lengths" if lengths is not None else "offsets"
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {named} but got {axis}."
        )
    sizes = given if lengths is not None else given.diff()
    if lengths is not None and not unsafe:
        if bool((sizes < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if bool((sizes.sum(-1) != data.shape[axis]).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    return _reduced(data, how, sizes, axis, initial)


def _reduced(data: Any, how: str, sizes: Any, axis: int, initial: Any) -> Any:
    rows, parts = math.prod(data.shape[:axis]), sizes.shape[-1]
    rest = data.shape[axis + 1 :]
    flat = sizes.reshape(rows, parts)
    # The place of each element among all segments of all rows; what is beyond them is left out.
    begins = F["arange"](rows, device=data.device).unsqueeze(1) * data.shape[axis]
    ends = begins + flat.cumsum(1)
    starts = ends - flat
    places = F["arange"](rows * data.shape[axis], device=data.device)
    owner = F["searchsorted"](ends.reshape(-1), places, right=True).clamp(max=rows * parts - 1)
    inside = (places >= starts.reshape(-1)[owner]) & (places < ends.reshape(-1)[owner])
    values = data.reshape(rows * data.shape[axis], *rest)
    if not bool(inside.all()):
        values, owner = values[inside], owner[inside]
    extreme = how in ("amax", "amin")
    first = _EMPTY[how] if initial is None or extreme else initial
    start = data.new_full((rows * parts, *rest), first)
    if how in ("sum", "mean"):
        found = start.index_add(0, owner, values)
    else:
        index = owner.reshape(-1, *[1] * len(rest)).expand(values.shape)
        found = start.scatter_reduce(0, index, values, how, include_self=not extreme)
    if extreme and initial is not None:
        # An element that equals the initial value has the gradient.
        kept = found >= initial if how == "amax" else found <= initial
        found = F["where"](kept, found, initial)
    if how == "mean":
        count = flat.reshape(-1, *[1] * len(rest))
        empty = math.nan if initial is None else initial
        found = F["where"](count > 0, found / count.clamp(min=1), empty)
    return found.reshape(*data.shape[:axis], parts, *rest)
