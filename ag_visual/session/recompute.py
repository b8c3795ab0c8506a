"""What a node computed, as a function that can be run again on changed inputs, in double precision.

An op's inputs are what the node saved, leaves, or what the nodes below it can tell or compute
again; one on which no gradient depends may be anything. A custom Function's are those it was given,
while they live. Nothing of the node is touched: arrays are copied, `backward` gets a copy of ctx.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ag_visual.arrays.backend import backend_for, backend_of
from ag_visual.autograd.function import Function
from ag_visual.autograd.function_node import BackwardCFunction, FunctionCtx
from ag_visual.autograd.given import argument_name
from ag_visual.core.node import AccumulateGrad, Node
from ag_visual.core.tensor import from_array
from ag_visual.dispatch import validate_grad, vmap
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import LINEAR, Op
from ag_visual.dispatch.table import raw
from ag_visual.events.live import LiveNode, many_at_once
from ag_visual.observe.record import node_view
from ag_visual.observe.record.node_view import edges_by_name, meta_of
from ag_visual.ops.tensor.random import no_gradient

DEEPEST: Final = 200
"""Nodes below a node that are computed again at most to find one of its inputs."""

SIZES: Final = frozenset({"size", "sizes", "input_sizes"})
"""Arguments that are the shape of the result."""


class CannotCheckError(LookupError):
    """A node whose forward cannot be run again; the text says why and what would help."""


def saved_value(node: Node, name: str) -> Any:
    """A saved field (see node_view). Raises CannotCheckError where it is not there."""
    try:
        return node_view.saved_value(node, name)
    except node_view.NotThereError as error:
        raise CannotCheckError(str(error)) from None


@dataclass(slots=True)
class Again:
    """A node's forward and backward on double-precision arrays.

    inputs: the arrays by name, of which `wanted` have a gradient. run(inputs) gives the outputs,
    back(gs) the gradients by input. made_up: inputs that nobody knows and no gradient depends on.
    """

    node: LiveNode
    inputs: dict[str, Any]
    wanted: tuple[str, ...]
    run: Callable[[dict[str, Any]], list[Any]]
    back: Callable[[list[Any]], dict[str, Any]]
    linear: bool = False
    made_up: list[str] = field(default_factory=list)
    size: int = 8  # bytes of a number of the node's output, of one part of a complex one


def again(node: Node) -> Again:
    """How to run a node again. Raises CannotCheckError."""
    many = many_at_once(node)
    if many:
        raise CannotCheckError(many)
    if isinstance(node, OpNode):
        return _of_op(node)
    if isinstance(node, BackwardCFunction):
        return _of_function(node)
    if isinstance(node, AccumulateGrad):
        raise CannotCheckError(
            "a leaf only adds the gradient that arrives to its .grad: there is nothing to check"
        )
    raise CannotCheckError(
        f"{node.name()} carries a gradient on for the ops around it and has no forward of its own; "
        "check the nodes beside it"
    )


def wide(value: Any) -> Any:
    """A copy in double precision, of what has floating-point numbers."""
    array = getattr(value, "_array", value)
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind in ("f", "V"):
        return array.astype(np.float64)
    if kind == "c":
        return array.astype(np.complex128)
    return array.copy() if hasattr(array, "copy") and kind else array


# Ops ----------------------------------------------------------------------------------------------


def _of_op(node: OpNode) -> Again:
    op = node.op
    check_slope(op)
    kept = {name: saved_value(node, name) for name in op.saves}
    arguments = _arguments_of(node)
    made_up: list[str] = []
    values = _inputs_of(node, kept, made_up)
    backend = next((backend_of(a) for a in _arrays(values.values())), None)
    inputs: dict[str, Any] = {}
    for name, value in values.items():
        if name in op.lists:
            inputs.update({f"{name}[{i}]": wide(v) for i, v in enumerate(value)})
        else:
            inputs[name] = wide(value)
    xp: Any = np if backend is None else backend.xp

    def run(given: dict[str, Any]) -> list[Any]:
        by_name = dict(arguments)
        for name in values:
            if name in op.lists:
                count = len(values[name])
                by_name[name] = tuple(given[f"{name}[{i}]"] for i in range(count))
            else:
                by_name[name] = given[name]
        outputs, chosen = computed(op, xp, by_name)
        return [xp.asarray(outputs[i]) for i in chosen]

    widened = {
        name: tuple(map(wide, v)) if isinstance(v, tuple) else wide(v) for name, v in kept.items()
    }

    def back(gs: list[Any]) -> dict[str, Any]:
        turned = op.holomorphic and node.dtype.kind == "c"
        given = [xp.conj(g) for g in gs] if turned else list(gs)
        with np.errstate(all="ignore"):
            found = node._run(raw(xp), given if node.outs else given[0], lambda _, n: widened[n])
        names = [name for name, _ in edges_by_name(node)]
        result: dict[str, Any] = {}
        for name, edge, g in zip(names, node.next, found, strict=False):
            if edge is not None and g is not None:
                shape, dtype = meta_of(edge)
                g = xp.conj(g) if turned else g
                result[name] = validate_grad.fit(xp, xp.asarray(g), shape, _double(dtype))
        return result

    _checkcomputed(node, op, xp, inputs, values, arguments, kept)
    wanted = tuple(name for name, edge in edges_by_name(node) if edge is not None)
    return Again(node, inputs, wanted, run, back, op.jvp == LINEAR, made_up, _size(node))


def check_slope(op: Op) -> None:
    """Whether its rule is meant to be the slope of what it computes. Raises CannotCheckError."""
    if op.vjp and all(rule is no_gradient for rule in op.vjp.values()):
        raise CannotCheckError(
            "it draws random numbers, which count as constants: its gradient is zero by definition"
        )


def computed(op: Op, xp: Any, by_name: dict[str, Any]) -> tuple[list[Any], Sequence[int]]:
    """All results of an op, and which of them a gradient may come to. Raises CannotCheckError."""
    try:
        with np.errstate(all="ignore"):
            found = op.invoke(xp, by_name)
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        raise CannotCheckError(f"{op.public_name} does not run again: {error}") from None
    results = list(found) if op.multi or len(op.outputs) > 1 else [found]
    return results, range(len(results)) if op.multi else op.differentiable


def _size(node: Node) -> int:
    return int(node.dtype.itemsize) // (2 if node.dtype.kind == "c" else 1)


def _double(dtype: Any) -> Any:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _arrays(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        for item in value if isinstance(value, tuple) else (value,):
            array = getattr(item, "_array", item)
            if hasattr(array, "dtype"):
                yield array


def _arguments_of(node: OpNode) -> dict[str, Any]:
    """The op's arguments: those it kept; others follow from the shapes or change no gradient."""
    op = node.op
    found = {name: getattr(node, f"a_{name}") for name in op.values}
    for name in op.arguments:
        if name not in found:
            found[name] = argument_of(node, op, name, node.shape, node.dtype.kind == "c")
    return found


def argument_of(node: LiveNode, op: Op, name: str, shape: Iterable[int], is_complex: bool) -> Any:
    """An argument that the node did not keep, as no gradient depends on it."""
    if name in SIZES:
        return tuple(shape)
    if name == "dtype":
        return np.dtype(np.complex128 if is_complex else np.float64)
    if name == "value":
        return 0.0
    default = op.signature.parameters[name].default
    if default is inspect.Parameter.empty:
        raise CannotCheckError(
            f"{node.name()} did not keep its argument {name!r}, so {op.public_name} cannot be "
            "run again"
        )
    return default


def _inputs_of(node: OpNode, kept: dict[str, Any], made_up: list[str]) -> dict[str, Any]:
    """Values of all tensor inputs by name, as they are known."""
    op = node.op
    below = dict(edges_by_name(node))
    wanted = {label.partition("[")[0] for label, edge in below.items() if edge is not None}
    asked = requests_of(op, wanted)
    free = not asked.intersection(op.outputs)
    values: dict[str, Any] = {}
    for name in op.inputs:
        edge = below.get(name)
        values[name] = _input(node, name, edge, kept.get(name), free and name not in asked, made_up)
    for name in op.lists:
        if kept.get(name) is not None:
            values[name] = kept[name]
            continue
        shapes = getattr(node, f"h_{name}_shape", None)
        count = sum(1 for label in below if label.startswith(f"{name}["))
        values[name] = tuple(
            _input(
                node,
                f"{name}[{i}]",
                below.get(f"{name}[{i}]"),
                None,
                free and name not in asked,
                made_up,
                None if shapes is None else shapes[i],
            )
            for i in range(count)
        )
    return values


def requests_of(op: Op, wanted: set[str]) -> set[str]:
    """What the rules of these inputs ask for."""
    running = [rule for rule in op.rules if wanted.intersection(rule.inputs)]
    return {request for rule in running for request in rule.requests}


def _input(
    node: OpNode,
    name: str,
    edge: Any,
    value: Any,
    free: bool,
    made_up: list[str],
    shape: tuple[int, ...] | None = None,
) -> Any:
    op = node.op
    if value is not None:
        return value
    if edge is not None:
        found = _known_below(edge, DEEPEST)
        if found is not None:
            return found
        shape = meta_of(edge)[0]
    elif name in op.optional:
        return None
    elif shape is None:
        shape = getattr(node, f"h_{name}_shape", None)
    if shape is None and vmap.rule_of(op) is vmap.elementwise:
        shape = node.shape
    if free and shape is not None:
        made_up.append(name)
        random = np.random.default_rng(len(made_up))
        backend = backend_for(node._input_metadata[0].device)
        return backend.from_numpy(np.asarray(random.uniform(0.5, 1.5, shape)))
    raise CannotCheckError(
        f"{node.name()} did not save {name}, and no node below it knows its value: make {name} a "
        "leaf, or check while the graph below is alive"
    )


def _known_below(edge: Any, depth: int) -> Any:
    """The tensor that flowed along an edge: a leaf, a saved result, or computed again."""
    below, number = edge[:2]
    if isinstance(below, AccumulateGrad):
        return below.variable._array
    if not isinstance(below, OpNode) or depth <= 0:
        return None
    op = below.op
    for name in op.saves:
        owner = getattr(below, f"o_{name}", None)
        if owner is not None and owner[2] is True and owner[1] == number:
            value = getattr(below, f"s_{name}")
            if value is not None and owner[0].snapshot == getattr(below, f"t_{name}"):
                return value
    try:
        kept = {name: saved_value(below, name) for name in op.saves}
        values: dict[str, Any] = {}
        for name, lower in dict(edges_by_name(below)).items():
            if kept.get(name) is None and lower is not None:
                values[name] = _known_below(lower, depth - 1)
                if values[name] is None:
                    return None
        if any(name in op.lists for name in op.diff_inputs):
            return None
        for name in op.inputs:
            if values.get(name) is None:
                values[name] = kept.get(name)
            if values[name] is None and name not in op.optional:
                return None
        arguments = _arguments_of(below)
        backend = next(backend_of(a) for a in _arrays(values.values()))
        widened = {name: wide(value) for name, value in values.items()}
        results, chosen = computed(op, backend.xp, widened | arguments)
    except (CannotCheckError, StopIteration):
        return None
    return results[chosen[number]]


def _checkcomputed(
    node: OpNode,
    op: Op,
    xp: Any,
    inputs: dict[str, Any],
    values: dict[str, Any],
    arguments: dict[str, Any],
    kept: dict[str, Any],
) -> None:
    """Does the op give again what it gave? Where outputs were saved they must agree."""
    by_name = dict(arguments)
    for name, value in values.items():
        by_name[name] = tuple(map(wide, value)) if name in op.lists else wide(value)
    results, chosen = computed(op, xp, by_name)
    expected = [tuple(meta[0]) for meta in node.outs or ((node.shape, node.dtype),)]
    check_shapes(node, op, [results[i] for i in chosen], expected)
    check_saved(op, xp, results, kept, node.dtype.itemsize)


def check_shapes(
    node: LiveNode, op: Op, results: Sequence[Any], expected: Sequence[tuple[int, ...]]
) -> None:
    """Raise CannotCheckError where results have other shapes than the node's."""
    shapes = [tuple(getattr(result, "shape", ())) for result in results]
    if shapes != list(expected):
        raise CannotCheckError(
            f"{op.public_name}, run again on what is known, gives shape {shapes[0]} and not "
            f"{expected[0]}: {node.name()} did not keep all its arguments"
        )


def check_saved(op: Op, xp: Any, results: Sequence[Any], kept: dict[str, Any], size: int) -> None:
    """Raise CannotCheckError where results are not those that were saved, in numbers of so many
    bytes.
    """
    for name in op.outputs:
        if kept.get(name) is None:
            continue
        then = wide(kept[name])
        now = xp.asarray(results[op.outputs.index(name)])
        scale = float(abs(then).max()) if then.size else 0.0
        loose = 1e-2 if size <= 2 else 1e-3
        if now.shape != then.shape or not bool(
            xp.allclose(now, then, rtol=loose, atol=loose * (scale or 1.0), equal_nan=True)
        ):
            raise CannotCheckError(
                f"{op.public_name}, run again, gives another {name} than the one that was saved: "
                "it draws random numbers, or its input changed since"
            )


# Custom Functions ---------------------------------------------------------------------------------


class _ForwardCtx(FunctionCtx):
    """The ctx of a forward that is run again: it keeps what it is told, for nobody."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs


def _of_function(node: BackwardCFunction) -> Again:
    cls: type[Function] = node._forward_cls
    given = _given_to(node)
    _ = saved_value(node, "saved_tensors") if node._saves else None
    inputs: dict[str, Any] = {}
    names: dict[int, str] = {}
    plain = [None if i in node._positions else value for i, value in enumerate(given)]
    for position in node._positions:
        names[position] = argument_name(cls, position)
        inputs[names[position]] = wide(given[position])
    separate = cls._separate()
    carries = [not fixed for fixed in node._fixed]

    def run(changed: dict[str, Any]) -> list[Any]:
        args = copy.deepcopy(plain)  # forward may append to a list
        for position, name in names.items():
            args[position] = from_array(changed[name].copy())
        if separate:
            output = cls.forward(*args)
        else:
            output = cls.forward(_ForwardCtx(node.needs_input_grad), *args)
        outputs = list(output) if isinstance(output, tuple) else [output]
        return [o._array if flows else None for o, flows in zip(outputs, carries, strict=True)]

    def back(gs: list[Any]) -> dict[str, Any]:
        shadow = copy.copy(node)
        tensors = [
            None if g is None or meta is None else from_array(g.astype(meta[1]))
            for g, meta in zip(gs, node._metas, strict=True)
        ]
        found = shadow._run(tensors)
        result: dict[str, Any] = {}
        for position, edge, g in zip(node._positions, node.next, found, strict=True):
            if edge is not None:
                shape, dtype = meta_of(edge)
                xp = backend_of(inputs[names[position]]).xp
                value = xp.zeros(shape) if g is None else g._array
                result[names[position]] = validate_grad.fit(xp, value, shape, _double(dtype))
        return result

    wanted = tuple(
        names[position]
        for position, edge in zip(node._positions, node.next, strict=True)
        if edge is not None
    )
    return Again(node, inputs, wanted, run, back, size=_size(node))


def _given_to(node: BackwardCFunction) -> Sequence[Any]:
    """What forward was called with, while all of it lives and is unchanged."""
    found = []
    for position, kept in enumerate(node._given):
        name = argument_name(node._forward_cls, position)
        if kept.kind:
            raise CannotCheckError(
                f"argument {name!r} of {node._forward_cls.__name__} is an object of your program "
                f"({kept.kind}): forward would run on it many times, and might change it; check a "
                "Function that is given tensors and plain values"
            )
        if kept.gone:
            raise CannotCheckError(
                f"argument {name!r} of {node._forward_cls.__name__} is gone: nothing else holds it "
                "any more; keep a variable that holds it, or save it with ctx.save_for_backward"
            )
        if kept.written:
            raise CannotCheckError(
                f"argument {name!r} of {node._forward_cls.__name__} was overwritten since: its "
                "forward cannot be run again on the same numbers"
            )
        found.append(kept.value)
    return found
