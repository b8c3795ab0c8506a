"""Calling hooks in torch's order and checking what they return.

For one node: tensor hooks, then capture and retain_grad, then pre-hooks, the node, post-hooks.
Hooks always see Tensors; `wrap` and `bare` translate when the engine runs on arrays.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from math import inf as INFINITY
from typing import Any

import numpy
from numpy import vdot

from ..core import seam
from ..core.blame import type_name
from ..core.hooks import hook_name
from ..core.tensor import Tensor, from_array


def wrap(value: Any) -> Any:
    """An array as a Tensor for user code."""
    return value if value is None or isinstance(value, Tensor) else from_array(value)


def norm2(value: Any) -> float:
    """Sum of squares of a gradient, -1.0 where there is none."""
    if value is None:
        return -1.0
    array = getattr(value, "_array", value)
    if type(array) is numpy.ndarray:
        return squares(array)
    return float((abs(array) ** 2).sum())


def squares(g: Any) -> float:
    """Sum of squares of a NumPy gradient; infinite or NaN only if an element is."""
    kind = g.dtype.kind
    if kind == "c":
        total = float(vdot(g, g).real)
    else:
        if g.itemsize == 2:  # bfloat16, which NumPy's dot does not know, and float16
            g = g.astype(numpy.float32)
        flat = g if g.ndim == 1 else g.ravel()
        total = float(flat.dot(flat))
    if total < INFINITY:
        return total
    # Squares leave the range of a dtype long before its numbers do.
    if not numpy.isfinite(g).all():
        return total
    wide = g.astype(numpy.complex128 if kind == "c" else numpy.float64)
    return min(float(vdot(wide, wide).real), sys.float_info.max)


def report(
    node: Any, task: Any, kind: str, hook: Callable[..., Any], before: Any, after: Any
) -> None:
    sink = seam.sink
    if sink is not None:
        sink.tell(
            (
                seam.HOOK,
                time.perf_counter_ns(),
                threading.get_ident(),
                node.seq,
                task.id,
                kind,
                hook_name(hook),
                norm2(before),
                norm2(after),
            )
        )


def checked(result: Any, before: Any, hook: Callable[..., Any]) -> Any:
    """A gradient that a hook gave, which must keep type, dtype and shape."""
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    old, new = before._array, result._array
    if old.dtype != new.dtype:
        was, got = type_name(old).split(" ")[0], type_name(new).split(" ")[0]
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has changed the type of value (was {was} got {got})"
        )
    if old.shape != new.shape:
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has changed the size of value (was {list(old.shape)} got "
            f"{list(new.shape)})"
        )
    return result


def tensor_hooks(hooks: dict[int, Callable[..., Any]], g: Any, node: Any, task: Any) -> Any:
    """Run the hooks of one tensor on its gradient (a Tensor, or None)."""
    for hook in list(hooks.values()):
        result = hook(g)
        if result is not None:
            checked(result, g, hook)
        report(node, task, "tensor", hook, g, g if result is None else result)
        if result is not None:
            g = result
    return g


def _replaced(result: Any, before: tuple[Any, ...], hook: Callable[..., Any]) -> tuple[Any, ...]:
    """The gradients that a node's hook gave in place of those before."""
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(before):
        raise RuntimeError(
            f"hook '{hook_name(hook)}' has returned an incorrect number of values (got "
            f"{len(result)}, but expected {len(before)})"
        )
    for new, old in zip(result, before, strict=True):
        if new is not None:
            checked(new, old, hook)
    return result


def pre_hooks(node: Any, grads: list[Any], task: Any) -> list[Any]:
    """Run a node's pre-hooks on the gradients of its outputs (Tensors or None)."""
    values = tuple(grads)
    for hook in list(node.hooks.pre.values()):
        before = values[0]
        result = hook(values)
        if result is not None:
            values = _replaced(result, values, hook)
        report(node, task, "pre", hook, before, values[0])
    return list(values)


def post_hooks(node: Any, inputs: list[Any], outputs: list[Any], task: Any) -> list[Any]:
    """Run a node's hooks on the gradients of its inputs, given those of its outputs."""
    values = tuple(inputs)
    given = tuple(outputs)
    for hook in list(node.hooks.post.values()):
        before = values[0] if values else None
        result = hook(values, given)
        if result is not None:
            values = _replaced(result, values, hook)
        report(node, task, "post", hook, before, values[0] if values else None)
    return list(values)


def retain(node: Any, number: int, g: Any, task: Any) -> None:
    """Keep the gradient of an output in its tensor's .grad, as retain_grad asked for."""
    ref = node.hooks.retain.get(number)
    tensor = None if ref is None else ref()
    if tensor is None:
        return
    old = tensor._grad
    tensor._grad = from_array(g._array.copy()) if not g._rg else g
    if old is not None:
        tensor._grad = from_array(old._array + g._array) if not g._rg else old + g
    report(node, task, "retain_grad", tensor.retain_grad, g, g)
