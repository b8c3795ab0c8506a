"""What a node of another engine computed, as a function that can be run again: see `recompute`.

Its forward is that of this package's op of the same name, on what the node saved, leaves hold or
nodes below tell; its backward is the other engine's own rule (`events.live.Runnable`), in the dtype
that it has there. So the check compares two engines: a rule of one with a kernel of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ag_visual.arrays.backend import on_host
from ag_visual.dispatch import vmap
from ag_visual.dispatch.record import LINEAR, Op
from ag_visual.events.live import Runnable
from ag_visual.observe.formulas.local import op_of
from ag_visual.observe.record.node_view import named_edges
from ag_visual.session.recompute import (
    DEEPEST,
    SIZES,
    Again,
    CannotCheckError,
    argument_of,
    check_saved,
    check_shapes,
    check_slope,
    computed,
    requests_of,
    wide,
)

_MOST: Final = 1 << 20  # elements of a saved tensor that is read
_WRAPPED: Final = 1 << 63  # from here on torch tells a negative number as an unsigned one


def again_live(node: Runnable) -> Again:
    """How to run it again. Raises CannotCheckError."""
    if node.leaf:
        raise CannotCheckError(
            "a leaf only adds the gradient that arrives to its .grad: there is nothing to check"
        )
    if reason := node.reason_against():
        raise CannotCheckError(reason.rstrip("."))
    op = op_of(node)
    if op is None:
        raise CannotCheckError(
            f"this package has no op whose node is called {node.name()}, so there is no forward to "
            "run again"
        )
    check_slope(op)
    made_up: list[str] = []
    arguments = _arguments(node, op)
    values = _values(node, op, made_up)
    inputs: dict[str, Any] = {}
    for name, value in values.items():
        if name in op.lists:
            inputs.update({f"{name}[{i}]": wide(each) for i, each in enumerate(value)})
        else:
            inputs[name] = wide(value)

    def by_name(given: dict[str, Any]) -> dict[str, Any]:
        found = dict(arguments)
        for name, value in values.items():
            if name in op.lists:
                found[name] = tuple(given[f"{name}[{i}]"] for i in range(len(value)))
            else:
                found[name] = given[name]
        return found

    results, chosen = _computed(op, by_name(inputs))
    outputs = node.output_meta
    expected = [shape for shape, _ in outputs]
    check_shapes(node, op, [results[i] for i in chosen], [expected[i] for i in chosen])
    saved = {name: value for name, own, value in node.saved_arrays(_MOST) if own}
    check_saved(op, np, results, saved, min(_item(dtype) for _, dtype in outputs))
    edges = named_edges(op, node.next_functions)

    def run(given: dict[str, Any]) -> list[Any]:
        results, chosen = _computed(op, by_name(given))
        return [np.asarray(results[i]) for i in chosen]

    def back(gs: list[Any]) -> dict[str, Any]:
        grads: list[Any] = [None] * len(outputs)
        for i, g in zip(chosen, gs, strict=True):
            grads[i] = g
        found = node.handed(grads)
        return {
            name: wide(on_host(g))
            for (name, (below, _)), g in zip(edges, found, strict=True)
            if below is not None and g is not None
        }

    wanted = tuple(name for name, (below, _) in edges if below is not None)
    return Again(node, inputs, wanted, run, back, op.jvp == LINEAR, made_up, _item(outputs[0][1]))


def _item(dtype: str) -> int:
    """Bytes of a number, or of one part of a complex one."""
    return {"complex128": 8, "complex64": 4, "bfloat16": 2}.get(dtype) or np.dtype(dtype).itemsize


def _computed(op: Op, values: dict[str, Any]) -> tuple[list[Any], Sequence[int]]:
    """All results of an op, and which of them a gradient may come to. Raises CannotCheckError."""
    if op.normalize is not None:
        try:
            done = op.normalize(*(values[name] for name in op.params))
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            raise CannotCheckError(f"{op.public_name} does not run again: {error}") from None
        values = values | dict(zip(op.arguments, done, strict=True))
    return computed(op, np, values)


def _arguments(node: Runnable, op: Op) -> dict[str, Any]:
    """The op's arguments: those that change a gradient are among what the node keeps."""
    kept = {each.name: each.value for each in node.saved_fields() if each.kind == "value"}
    found = {}
    for name in op.arguments:
        if name in kept and name not in SIZES and name != "dtype":
            found[name] = _signed(kept[name])
        elif name in op.values and op.signature.parameters[name].default is not None:
            raise CannotCheckError(
                f"{node.name()} does not tell its {name!r}, so {op.public_name} cannot be run again"
            )
        else:
            shape, dtype = node.output_meta[0]
            found[name] = argument_of(node, op, name, shape, dtype.startswith("complex"))
    return found


def _signed(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_signed, value))
    return value - 2 * _WRAPPED if type(value) is int and value >= _WRAPPED else value


def _values(node: Runnable, op: Op, made_up: list[str]) -> dict[str, Any]:
    """Values of all tensor inputs by name, as they are known."""
    edges = named_edges(op, node.next_functions)
    if len(edges) != len(node.next_functions):
        raise CannotCheckError(
            f"{node.name()} has {len(node.next_functions)} inputs, and {op.public_name} of this "
            f"package {len(edges)}"
        )
    below = dict(edges)
    saved = {name: value for name, own, value in node.saved_arrays(_MOST) if not own}
    wanted = {name.partition("[")[0] for name, (lower, _) in edges if lower is not None}
    asked = requests_of(op, wanted)
    free = not asked.intersection(op.outputs)

    def known(name: str, of: str) -> Any:
        value = saved.get(name)
        lower, number = below.get(name, (None, 0))
        if value is None and lower is not None:
            value = _known_below(lower, number, DEEPEST)
        if value is not None:
            return value
        shape = None
        if lower is not None:
            shape = lower.output_meta[number][0]
        elif of in op.optional:
            return None
        elif vmap.rule_of(op) is vmap.elementwise:
            shape = node.output_meta[0][0]
        if shape is None or not free or of in asked:
            raise CannotCheckError(
                f"{node.name()} did not save {name}, and no node below it knows its value: make "
                f"{name} a leaf, or check while the graph below is alive"
            )
        made_up.append(name)
        random = np.random.default_rng(len(made_up))
        return np.asarray(random.uniform(0.5, 1.5, shape))

    values: dict[str, Any] = {name: known(name, name) for name in op.inputs}
    for name in op.lists:
        parts = [each for each in (*below, *saved) if each.startswith(f"{name}[")]
        values[name] = tuple(known(each, name) for each in dict.fromkeys(parts))
    return values


def _known_below(node: Any, number: int, depth: int) -> Any:
    """The array that flowed along an edge: a leaf, a saved result, or computed again."""
    if node.leaf:
        return node.value()
    op = op_of(node)
    if op is None or depth <= 0:
        return None
    saved = node.saved_arrays(_MOST)
    for name, own, value in saved:
        if own and name in op.outputs and op.outputs.index(name) == number:
            return value
    edges = named_edges(op, node.next_functions)
    if op.lists or len(edges) != len(node.next_functions):
        return None
    values: dict[str, Any] = {name: value for name, own, value in saved if not own}
    for name, (lower, at) in edges:
        if values.get(name) is None and lower is not None:
            values[name] = _known_below(lower, at, depth - 1)
    if any(values.get(name) is None for name in op.inputs if name not in op.optional):
        return None
    try:
        given = {name: wide(values.get(name)) for name in op.inputs}
        results, _ = _computed(op, given | _arguments(node, op))
    except CannotCheckError:
        return None
    found = np.asarray(results[number])
    return found if found.shape == tuple(node.output_meta[number][0]) else None
