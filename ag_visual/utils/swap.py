"""swap_tensors: two Tensor objects exchange all that they are."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any, NoReturn

from ag_visual.core.tensor import Tensor


def _poisoned(grad_outputs: Any) -> NoReturn:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen "
        "when you try to run backward on a tensor that was swapped: swap tensors before the "
        "forward pass, or after the backward pass."
    )


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange values, gradient, attributes and class of two tensors; each stays the same object.

    A backward pass through a graph from before, which needs one of them, raises RuntimeError.

    Raises:
        RuntimeError: one has a weak reference, or their classes have other slots.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots, others = (set(copyreg._slotnames(type(t))) for t in (t1, t2))  # type: ignore[attr-defined]
    if slots != others:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for tensor in (t1, t2):
        leaf = tensor._leaf
        node = None if leaf is None or leaf.accumulator is None else leaf.accumulator()
        if node is not None:
            node.register_prehook(_poisoned)
            leaf.accumulator = None  # type: ignore[union-attr]
        # A graph that saved this tensor finds another in its place: its check tells.
        tensor._storage.wrote("swap_tensors", None, tensor._array)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__  # type: ignore[assignment]
    for name in ("__dict__", *slots):
        missing = object()
        first, second = (getattr(t, name, missing) for t in (t1, t2))
        for tensor, value in ((t1, second), (t2, first)):
            if value is not missing:
                setattr(tensor, name, value)
            elif hasattr(tensor, name):
                delattr(tensor, name)
