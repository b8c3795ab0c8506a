"""Calling hooks in torch's order and checking what they return.

For one node: tensor hooks, then capture and retain_grad, then pre-hooks, the node, post-hooks.
Hooks always see Tensors; `wrap` and `bare` translate when the engine runs on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from ag_visual.arrays.coo import Coo
from ag_visual.core.diagnosis.errors import type_name
from ag_visual.core.hooks import HookTable, hook_name
from ag_visual.core.level import Batched
from ag_visual.core.sparse import whole
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.memory_overlap import repeats
from ag_visual.dispatch.table import traced
from ag_visual.events import instrument
from ag_visual.events.log import HookCall, HookField


def wrap(value: Any) -> Any:
    """An array as a Tensor for user code, which may write into it where torch's may be written."""
    if value is None or isinstance(value, Tensor):
        return value
    if type(value) is not ndarray:
        return whole(value, from_array)
    flags = value.flags
    if not (flags.c_contiguous and flags.writeable) and repeats(value) == flags.writeable:
        # An edge's expansion, which torch has written out, or an array that may not be written.
        value = value.copy()
    return from_array(value)


def checked(result: Any, before: Any, hook: Callable[..., Any]) -> Any:
    """A gradient that a hook gave, which must keep type, dtype and shape."""
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    old, new = before._array, result._array
    if old.dtype != new.dtype or isinstance(old, Coo) is not isinstance(new, Coo):
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


def _watched(node: Any, task: Any, hook: HookField, grads: Sequence[Any]) -> HookCall | None:
    """A hook is about to get these gradients; what follows its call, where somebody does."""
    sink = instrument.sink
    if sink is None or sink.around_hook is None:
        return None
    return sink.around_hook(sink, node.seq, task.id, hook, grads)


def tensor_hooks(hooks: HookTable, g: Any, node: Any, task: Any, number: int = 0) -> Any:
    """Run the hooks of one tensor on its gradient (a Tensor, or None)."""
    for key, hook in list(hooks.items()):
        watch = None
        if instrument.sink is not None:
            watch = _watched(node, task, hooks.field("tensor", key, hook, number), (g,))
        try:
            result = hook(g)
            if result is not None:
                checked(result, g, hook)
        except BaseException as error:
            if watch is not None:
                watch.failed(error)
            raise
        if result is not None:
            g = result
        if watch is not None:
            watch.ended(result, (g,))
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


def node_hooks(kind: str, node: Any, grads: list[Any], task: Any, *given: Any) -> list[Any]:
    """Run a node's hooks on gradients, which are Tensors or None.

    kind: "pre", on those of its outputs; "post", on those of its inputs, `given` those of its
    outputs.
    """
    values = tuple(grads)
    table = node.hooks.pre if kind == "pre" else node.hooks.post
    for key, hook in list(table.items()):
        watch = None
        if instrument.sink is not None:
            watch = _watched(node, task, table.field(kind, key, hook), values)
        try:
            result = hook(values, *given)
            if result is not None:
                values = _replaced(result, values, hook)
        except BaseException as error:
            if watch is not None:
                watch.failed(error)
            raise
        if watch is not None:
            watch.ended(result, values)
    return list(values)


def post_accumulate_hooks(node: Any, task: Any) -> None:
    """Run the hooks of a leaf that wait for its `.grad`."""
    variable = node.variable
    table = variable._leaf.post_accumulate
    for key, hook in list(table.items()):
        grads = (variable._grad,)
        watch = None
        if instrument.sink is not None:
            watch = _watched(node, task, table.field("post_accumulate", key, hook), grads)
        try:
            if hook(variable) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        except BaseException as error:
            if watch is not None:
                watch.failed(error)
            raise
        if watch is not None:
            # Whatever it gave to .grad, it did so itself: a hook of this kind returns nothing.
            watch.ended(None, (variable._grad,))


def retain(node: Any, number: int, g: Any, task: Any) -> None:
    """Keep the gradient of an output in its tensor's .grad, as retain_grad asked for."""
    ref = node.hooks.retain.get(number)
    tensor = None if ref is None else ref()
    if tensor is None:
        return
    if type(g) is Batched and type(tensor) is not Batched:
        return  # the slices belong to a vmap inside of which this tensor is not
    old = tensor._grad
    tensor._grad = traced.clone(g, "C") if old is None else traced.add(old, g)
    if instrument.sink is not None:
        hook = HookField(
            "retain_grad", "retain_grad", number, None, node.hooks.retained.get(number)
        )
        call = _watched(node, task, hook, (g,))
        if call is not None:
            call.kept()
