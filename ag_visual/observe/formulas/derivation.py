"""What a node's rules are given, and the gradients of its inputs that they make of it, as terms.

The rules run on what this node saved (see terms). Nothing here is recorded: it runs without grad
mode, emits no event, and calls no hook.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ag_visual.arrays.backend import backend_for
from ag_visual.core import modes
from ag_visual.core.level import Wrapper
from ag_visual.core.node import Node
from ag_visual.core.saved import OwnValue
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.dispatch import arguments
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import Op
from ag_visual.events.live import LiveNode, first_lane
from ag_visual.observe.formulas.terms import Term, input_term, labelled, namespace, trace
from ag_visual.observe.record.node_view import (
    around,
    edges_by_name,
    meta_of,
    outputs_of,
    saved_value,
)

MOST_ELEMENTS: Final = 2_000_000
"""A node with more elements than this is explained on a sample, not with its own numbers."""


@dataclass(slots=True)
class Derivation:
    """The gradients of an op's inputs as terms, by input; a text where there is none."""

    op: Op
    gradients: dict[str, Term | str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)
    sampled: bool = False


def elements_of(node: LiveNode) -> int:
    """Elements of the largest tensor that a node's backward works on."""
    return max(math.prod(shape) for shape, _ in around(node))


def known_of_node(node: OpNode, grads: Sequence[Any]) -> dict[str, Any]:
    """Values by request: terms for saved tensors and incoming gradients. Raises NotThereError."""
    op = node.op
    known: dict[str, Any] = {}
    for name in op.saves:
        known[name] = input_term(name, _tensor_of(saved_value(node, name)))
    for name in op.values:
        known[name] = input_term(name, getattr(node, f"a_{name}"))
    for name in op.shapes:
        known[name] = labelled(name.replace("_", " "), getattr(node, f"h_{name}"))
    return known | gradients_as_terms(node, grads)


def _tensor_of(value: Any) -> Any:
    """A saved field as a rule sees it: arrays and own outputs are tensors."""
    if isinstance(value, tuple):
        return tuple(map(_tensor_of, value))
    plain = isinstance(value, Tensor) and not isinstance(value, Wrapper) and not modes.duals
    if plain or value is None or isinstance(value, arguments.NUMBERS):
        return value
    array = value.array if isinstance(value, OwnValue) else getattr(value, "_array", value)
    # Its numbers without level and tangent; what a vmap holds, as one slice shows it.
    return from_array(first_lane(array)) if hasattr(array, "dtype") else value


def gradients_as_terms(node: OpNode, grads: Sequence[Any]) -> dict[str, Any]:
    """`g` and `gs` of a rule: the incoming gradients by name, None where none came."""
    several = node.outs is not None
    found = [
        None if g is None else Term("name", g, name=f"grad[{i}]" if several else "grad")
        for i, g in enumerate(grads)
    ]
    if node.op.holomorphic and node.dtype.kind == "c":
        found = [None if g is None else namespace.conj(g) for g in found]
    return {"g": found if several else found[0], "gs": found}


def ones_like(node: Node, where: Device) -> list[Any]:
    """A gradient of ones for each output, on a device."""
    backend = backend_for(where)
    with backend.on(where.index):
        return [
            from_array(backend.xp.ones(shape, dtype=dtype)) for shape, dtype in outputs_of(node)
        ]


@modes.without_grad
def derive(node: OpNode, grads: Sequence[Any] | None = None) -> Derivation:
    """The gradients of a node's inputs from those that arrive (ones, without any)."""
    if grads is None:
        grads = ones_like(node, node._input_metadata[0].device)
    known = known_of_node(node, grads)
    return derived(node, known)


def derived(node: OpNode, known: dict[str, Any]) -> Derivation:
    """The same from what its rules may ask for, by name."""
    op = node.op
    found = Derivation(op, arguments={n: known[n] for n in op.values})
    places = edges_by_name(node)
    wanted = {name for name, edge in places if edge is not None}
    for rule in op.rules:
        known["needs"] = tuple(any(n.partition("[")[0] == i for n in wanted) for i in rule.inputs)
        if not any(known["needs"]):
            continue
        try:
            result = trace(rule.function, known)
        except NotImplementedError as error:
            found.gradients.update(dict.fromkeys(rule.inputs, str(error)))
            continue
        results = result if rule.joint else (result,)
        for name, value in zip(rule.inputs, results, strict=True):
            _put(found, name, value, wanted)
    for name, edge in places:
        if edge is not None:
            found.inputs[name] = meta_of(edge)
    if op.holomorphic and node.dtype.kind == "c":
        for name, term in found.gradients.items():
            if isinstance(term, Term):
                found.gradients[name] = namespace.conj(term)
    return found


def _put(found: Derivation, name: str, value: Any, wanted: set[str]) -> None:
    if name in found.op.lists:
        for i, part in enumerate(value):
            if part is not None and f"{name}[{i}]" in wanted:
                found.gradients[f"{name}[{i}]"] = _as_term(part)
    elif value is not None and name in wanted:
        found.gradients[name] = _as_term(value)


def _as_term(value: Any) -> Term:
    return value if isinstance(value, Term) else Term("value", value)
