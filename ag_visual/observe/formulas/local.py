"""One node by its numbers: local derivatives, the gradient it hands on, its output's value.

Everything is computed on arrays, from what the node has saved and without letting go of it; no op
is called and nothing is recorded. `scalars` puts the nodes of a graph together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ag_visual.arrays.backend import backend_for, backend_of, on_host
from ag_visual.core import saved
from ag_visual.core.node import Node
from ag_visual.core.saved_packed import Packed
from ag_visual.dispatch import validate_grad
from ag_visual.dispatch.record import LINEAR, Op
from ag_visual.dispatch.table import raw
from ag_visual.engine.compute import conjugated
from ag_visual.events.live import LiveNode, Runnable, many_at_once
from ag_visual.observe.formulas.op_samples import ops_by_node
from ag_visual.observe.record.node_view import around, kept, meta_of, outputs_of

Floats = NDArray[np.float64]
Place = tuple[int, int]
"""Node number and which of its outputs."""

NUMBERS: Final = 64
"""Elements of a node's outputs and inputs together whose local derivatives are told."""


def count(shapes: Sequence[tuple[int, ...]]) -> int:
    """Elements of tensors with these shapes together."""
    return sum(int(np.prod(shape)) for shape in shapes)


def size_of(node: LiveNode) -> int:
    """Elements of a node's outputs, and of its inputs through which gradient flows."""
    return count([shape for shape, _ in around(node)])


def works_on_complex(node: LiveNode) -> bool:
    """Whether an output of a node is complex, or an input through which gradient flows."""
    return any(dtype.startswith("complex") for _, dtype in around(node))


def runs(node: Any) -> TypeGuard[Node | Runnable]:
    """Whether it is a node of an engine whose rules an observer may run: of this one, or another's
    `Runnable`.
    """
    return isinstance(node, Node) or hasattr(type(node), "handed")


def op_of(node: LiveNode) -> Op | None:
    """The op that made a node; of another engine's the op of the same name; None: none is known."""
    if isinstance(node, Node):
        return getattr(node, "op", None)
    known = ops_by_node(node.name())
    if len(known) > 1:  # of training and of evaluation: the one with the flags that it kept
        flags = {each.name: each.value for each in node.saved_fields() if type(each.value) is bool}
        for op in known:
            defaults = {name: each.default for name, each in op.signature.parameters.items()}
            if all(defaults.get(name, value) is value for name, value in flags.items()):
                return op
    return known[0] if known else None


def reason_against(node: Node | Runnable) -> str:
    """Why a node's rule is not run by an observer; empty when it can be."""
    if works_on_complex(node):
        return f"{node.name()} works on complex numbers, which are not drawn one by one."
    if node.leaf:
        return ""
    if not isinstance(node, Node):
        return node.reason_against()
    if getattr(node, "op", None) is None:
        return f"{node.name()} has no rule of this package's own: it is not run twice to look."
    many = many_at_once(node)
    if many:
        return f"{many}."
    if node.freed is not None:
        return f"{node.name()} gave its saved tensors back: it has run already."
    for name in node.saved_names:
        for value, then, storage in kept(node, name):
            if isinstance(value, Packed):
                return f"{node.name()} saved {name} through hooks of yours, which are not run."
            if storage is not None and storage.snapshot != then:
                return f"{name}, saved by {node.name()}, was overwritten since."
    return ""


def saved_value(node: Node, name: str) -> Any:
    """The saved array (or number), or None where there is none or it was overwritten since."""
    for _, then, storage in kept(node, name):
        if storage is not None and storage.snapshot != then:
            return None
    return saved.peek(node, name)


def host(array: Any) -> Floats:
    """An array of any library, or a number, as float64 in row-major order.

    Raises TypeError for complex numbers: their real part would be another number.
    """
    plain = on_host(array)
    if plain.dtype.kind == "c":
        raise TypeError("complex numbers are not drawn one by one")
    return np.asarray(plain, dtype=np.float64)


def drawn(array: Any) -> Floats | None:
    """The same, and None where the numbers are complex: they are not drawn."""
    dtype = getattr(array, "dtype", None)
    return None if dtype is not None and dtype.kind == "c" else host(array)


def handed(node: Node | Runnable, grads: Sequence[Any]) -> list[Any]:
    """The gradients that a node gives to its inputs for these, as arrays; None where none goes.

    Raises what the node's own rule raises.
    """
    arrived = [g for g in grads if g is not None]
    if node.leaf or not arrived:
        return [None] * len(node.next_functions)
    if not isinstance(node, Node):
        return node.handed(grads)
    xp = backend_of(arrived[0]).xp
    F = raw(xp)
    g = list(grads) if node.outs is not None else grads[0]
    if node.holomorphic and arrived[0].dtype.kind == "c":
        results = conjugated(F, node, g, None)
    else:
        results = node.raw(F, g)
    found: list[Any] = []
    for edge, result in zip(node.next, results, strict=True):
        if edge is None or result is None:
            found.append(None)
        else:
            found.append(validate_grad.fit(xp, result, *meta_of(edge)))
    return found


def slopes(node: Node | Runnable) -> list[Floats | None]:
    """The local derivatives of a node: for each input d output / d input, outputs in the rows.

    Found by handing in one gradient for each element of the outputs, 1 there and 0 elsewhere.
    None for an input that no gradient goes to.
    """
    outs: Sequence[tuple[tuple[int, ...], Any]]
    if isinstance(node, Node):
        outs, xp = outputs_of(node), backend_for(node._input_metadata[0].device).xp
    else:  # which takes float64 and gives it the dtype
        outs, xp = [(shape, np.float64) for shape, _ in node.output_meta], np
    rows = count([shape for shape, _ in outs])
    found: list[Floats | None] = [None] * len(node.next_functions)
    row = 0
    for number, (shape, dtype) in enumerate(outs):
        for at in range(count([shape])):
            one = np.zeros(count([shape]))
            one[at] = 1.0
            grads: list[Any] = [None] * len(outs)
            grads[number] = xp.asarray(one.reshape(shape)).astype(dtype)
            for i, result in enumerate(handed(node, grads)):
                if result is None:
                    continue
                values = host(result).ravel()
                table = found[i]
                if table is None:
                    table = found[i] = np.zeros((rows, values.size))
                table[row] = values
            row += 1
    return found


def value_of(
    node: Node | Runnable, known: dict[Place, Floats], tables: Sequence[Floats | None] | None
) -> Floats | None:
    """The value of a node's one output, from what is known of its inputs; None where it is not.

    known: values by place. tables: the node's local derivatives, with which a linear op is the sum
    of its inputs' shares; any other op is computed again where it kept all of its arguments.
    """
    op = op_of(node)
    if op is None or len(node.output_meta) > 1 or works_on_complex(node):
        return None
    if isinstance(node, Node) and node.outs is not None:
        return None
    inputs = [
        None if below is None else known.get((below.seq, number))
        for below, number in node.next_functions
    ]
    try:
        result = _linear(node, op, inputs, tables) if op.jvp == LINEAR else None
        if result is not None:
            return result
        return _again(node, op, inputs) if isinstance(node, Node) else _anew(node, op, inputs)
    except Exception:  # whatever a kernel says of arguments that are not what it was called with
        return None


def _linear(
    node: Node | Runnable,
    op: Op,
    inputs: Sequence[Floats | None],
    tables: Sequence[Floats | None] | None,
) -> Floats | None:
    if tables is None or any(below is None for below, _ in node.next_functions) or op.optional:
        return None
    if not op.lists and op.inputs != op.diff_inputs:
        return None
    shape = node.output_meta[0][0]
    total = np.zeros(count([shape]))
    for table, value in zip(tables, inputs, strict=True):
        if value is None or table is None:
            return None
        total += table @ value.ravel()
    return total.reshape(shape)


def _again(node: Node, op: Op, inputs: Sequence[Floats | None]) -> Floats | None:
    if op.lists or any(name not in node.value_names for name in op.arguments):
        return None
    given: dict[str, Any] = {name: getattr(node, f"a_{name}") for name in op.arguments}
    for name in op.inputs:
        value = saved_value(node, name) if name in node.saved_names else None
        value = None if value is None else host(value)
        if value is None and name in op.diff_inputs:
            value = inputs[op.diff_inputs.index(name)]
        if value is None:
            return None
        given[name] = value
    result = host(op.invoke(np, given))
    return result if result.shape == node.shape else None


def _anew(node: LiveNode, op: Op, inputs: Sequence[Floats | None]) -> Floats | None:
    """The same of a node of another engine, where the op of its name takes nothing but inputs."""
    if op.lists or op.arguments or op.inputs != op.diff_inputs or len(inputs) != len(op.inputs):
        return None
    if any(value is None for value in inputs):
        return None
    result = host(op.invoke(np, dict(zip(op.inputs, inputs, strict=True))))
    return result if result.shape == node.output_meta[0][0] else None
