"""A card for a node: what its op computes, and the derivative that its backward computes.

The derivative is read off the op's rule as it runs on what this node saved (see terms); where that
was freed, on a sample of the op. Nothing here is recorded: it runs without grad mode.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ag_visual.autograd.function_node import BackwardCFunction
from ag_visual.autograd.given import argument_name
from ag_visual.core import modes, saved
from ag_visual.core.node import AccumulateGrad, Node
from ag_visual.core.packed import Packed
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.observe import notation
from ag_visual.observe.notation import Math, Typesetter, linear, operator, row, spoken
from ag_visual.observe.terms import (
    Term,
    canonical,
    face,
    formula_of,
    input_term,
    labelled,
    plain,
    symbol,
    trace,
)
from ag_visual.ops import generic
from ag_visual.ops.generic import OpNode
from ag_visual.ops.record import Op, Sample
from ag_visual.ops.table import functions, ops

MOST_ELEMENTS: Final = 2_000_000
"""A node with more elements than this is explained on a sample, not with its own numbers."""

LONG: Final = 26
"""Steps in one line of a formula; more are named and told below it."""

MOST_LINES: Final = 10


class NotThereError(LookupError):
    """What a rule would ask for is not there, or not as it was saved; the text says why."""


def saved_value(node: Node, name: str) -> Any:
    """A saved field as it is: None where nothing was saved. Raises NotThereError.

    Unlike the backward it tells nobody what it finds, and calls no hook.
    """
    value = getattr(node, f"s_{name}")
    then = getattr(node, f"t_{name}")
    if value is None and node.freed is not None and then is not saved.NOTHING:
        raise NotThereError(
            f"Saved values were freed by this backward: {name} is gone. Pause before the node, "
            "or call backward(retain_graph=True)."
        )
    if isinstance(value, tuple):
        stamps = then or (None,) * len(value)
        return tuple(_still(name, v, t) for v, t in zip(value, stamps, strict=True))
    owner = getattr(node, f"o_{name}", None)
    if owner is not None and value is not None and not isinstance(value, Packed):
        _refuse_written(name, owner[0], then)
    return _still(name, value, then)


def _still(name: str, value: Any, then: Any) -> Any:
    if isinstance(value, Packed):
        raise NotThereError(
            f"A saved-tensor hook packed {name}: only the backward itself unpacks it."
        )
    storage = getattr(value, "_storage", None)
    if storage is not None and then:
        _refuse_written(name, storage, then)
    return value


def _refuse_written(name: str, storage: Any, then: Any) -> None:
    if storage.stamp != then:
        raise NotThereError(
            f"{name} was overwritten since it was saved (version {then[0]} then, "
            f"{storage.stamp[0]} now): its numbers are not those of the forward."
        )


@dataclass(slots=True)
class Derivation:
    """The gradients of an op's inputs as terms, by input; a text where there is none."""

    op: Op
    gradients: dict[str, Term | str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)
    sampled: bool = False


# What a rule is given -----------------------------------------------------------------------------


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
    if isinstance(value, Tensor) or value is None or isinstance(value, generic.NUMBERS):
        return value
    array = getattr(value, "_array", value)
    return from_array(array) if hasattr(array, "dtype") else value


def gradients_as_terms(node: OpNode, grads: Sequence[Any]) -> dict[str, Any]:
    """`g` and `gs` of a rule: the incoming gradients by name, None where none came."""
    several = node.outs is not None
    found = [
        None if g is None else Term("name", g, name=f"grad[{i}]" if several else "grad")
        for i, g in enumerate(grads)
    ]
    if node.op.holomorphic and node.dtype.kind == "c":
        found = [None if g is None else face.conj(g) for g in found]
    return {"g": found if several else found[0], "gs": found}


def ones_like(node: Node) -> list[Any]:
    """A gradient of ones for each output."""
    return [from_array(np.ones(shape, dtype=dtype)) for shape, dtype in _outs(node)]


def _outs(node: Node) -> Sequence[Any]:
    return node.outs or ((node.shape, node.dtype),)


def derive(node: OpNode, grads: Sequence[Any] | None = None) -> Derivation:
    """The gradients of a node's inputs from those that arrive (ones, without any)."""
    previous = modes.set_grad(False)
    try:
        known = known_of_node(node, ones_like(node) if grads is None else grads)
        return _derived(node, known)
    finally:
        modes.set_grad(previous)


def _derived(node: OpNode, known: dict[str, Any]) -> Derivation:
    op = node.op
    found = Derivation(op, arguments={n: known[n] for n in op.values})
    places = list(_places(op, node.next))
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
            below, number, shape, dtype = edge
            found.inputs[name] = (shape, dtype) if shape is not None else below.outs[number]
    if op.holomorphic and node.dtype.kind == "c":
        for name, term in found.gradients.items():
            if isinstance(term, Term):
                found.gradients[name] = face.conj(term)
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


def _places(op: Op, edges: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The node's edges with the names of the inputs they belong to."""
    lists = [name for name in op.lists if name in op.differentiated]
    if not lists:
        return zip(op.differentiated, edges, strict=False)
    before = op.differentiated.index(lists[0])
    more = len(edges) - len(op.differentiated) + 1
    names: list[str] = []
    for name in op.differentiated:
        names += [f"{name}[{i}]" for i in range(more)] if name == lists[0] else [name]
    assert before >= 0
    return zip(names, edges, strict=False)


# Where a node cannot say it, its op's own sample does --------------------------------------------


class _Maker:
    """`make(shape, low=, high=)` for samples: the same numbers each time."""

    def __init__(self, name: str) -> None:
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def __call__(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> Any:
        return np.asarray(self.random.uniform(low, high, shape))


class _Call(OpNode):
    """Stands in for a node of a sample call; it has no number and is in no graph."""

    __slots__ = ("op",)


def sample_derivation(op: Op) -> Derivation | None:
    """The same from the op's first sample that has elements, or None where it has none."""
    previous = modes.set_grad(False)
    try:
        for sample in op.samples(_Maker(op.name)) if op.samples else ():
            found = _of_sample(op, sample)
            if found is not None:
                return found
    finally:
        modes.set_grad(previous)
    return None


def _of_sample(op: Op, sample: Sample) -> Derivation | None:
    bound = op.signature.bind(*sample.args, **sample.kwargs)
    bound.apply_defaults()
    values = {name: _tensors(value) for name, value in bound.arguments.items()}
    inputs = [v for n in (*op.inputs, *op.lists) for v in _several(values[n])]
    arrays = [v for v in inputs if isinstance(v, Tensor)]
    if not arrays or any(v._array.size < 2 and v._array.ndim for v in arrays):
        return None
    call = record_call(op, values)
    node = call.node
    known = call.known | gradients_as_terms(node, ones_like(node))
    found = _derived(node, known)
    found.sampled = True
    for rule in op.rules:
        if found.gradients.keys().isdisjoint(rule.inputs):
            try:  # inputs that no sample differentiates: their rule refuses
                trace(rule.function, known | {"needs": (True,) * len(rule.inputs)})
            except NotImplementedError as error:
                found.gradients.update(dict.fromkeys(rule.inputs, str(error)))
    return found


@dataclass(slots=True)
class CallRecord:
    """A call of an op that made no node: what its rules may ask for, by name, and its results."""

    node: Any
    known: dict[str, Any]
    outputs: list[Any]


def record_call(op: Op, values: dict[str, Any]) -> CallRecord:
    """Run an op's kernel, and gather what its rules ask for as terms."""
    backend, arrays = generic.arrays_of(op, values)
    arguments = generic._arguments(op, values, arrays)
    results = generic._compute(op, backend, arrays, arguments)
    several = op.multi or len(op.outputs) > 1
    outputs = [from_array(np.asarray(r)) for r in (results if several else [results])]
    known: dict[str, Any] = {}
    for name in op.saves:
        if name in op.outputs:
            known[name] = input_term(name, outputs[op.outputs.index(name)])
        else:
            known[name] = input_term(name, _whole(values[name]))
    for name in op.values:
        known[name] = input_term(name, arguments[name])
    for name in op.shapes:
        owner, _, what = name.rpartition("_")
        known[name] = labelled(name.replace("_", " "), generic._fact(values[owner], what))
    node = _Call()
    node.op = op
    differentiable = range(len(outputs)) if op.multi else op.differentiable
    metas = [(outputs[i]._array.shape, outputs[i]._array.dtype) for i in differentiable]
    node.shape, node.dtype = metas[0]
    node.outs = tuple(metas) if op.multi or len(metas) > 1 else None
    given = [v for n in op.differentiated for v in _several(values[n])]
    edges: Any = tuple(
        (None, 0, v._array.shape, v._array.dtype)
        if isinstance(v, Tensor) and v._array.dtype.kind in "fc"
        else None
        for v in given
    )
    node.next = edges
    return CallRecord(node, known, outputs)


def _tensors(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return from_array(np.asarray(value))
    if isinstance(value, (tuple, list)) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(_tensors(v) for v in value)
    return value


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)


def _whole(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# The card -----------------------------------------------------------------------------------------


def card(node: Node) -> dict[str, Any]:
    """An `OpCard` record. Never raises for what a node is or has lost: the card says it."""
    if isinstance(node, OpNode):
        try:
            if elements_of(node) <= MOST_ELEMENTS:
                return _op_card(node.op, derive(node), "")
            note = "It is too large to be computed here, so the formula is of a small sample."
        except NotThereError as error:
            note = str(error)
        except RuntimeError as error:
            note = str(error).partition("\n")[0]
        return sample_card(node.op) | {"note": note}
    return _other_card(node)


def elements_of(node: Node) -> int:
    """Elements of the largest tensor that a node's backward works on."""
    counts = [math.prod(shape) for shape, _ in _outs(node)]
    counts += [math.prod(edge[2]) for edge in node.next if edge is not None and edge[2]]
    return max(counts, default=0)


@functools.cache
def _sample_card(op: Op) -> dict[str, Any]:
    found = sample_derivation(op)
    return _op_card(op, found or Derivation(op, sampled=True), "")


def sample_card(op: Op) -> dict[str, Any]:
    """The card of an op, apart from any node."""
    return dict(_sample_card(op))


def card_by_name(name: str) -> dict[str, Any]:
    """The card for a node of that class name, of which there is nothing else."""
    for op in ops.values():
        if op.rules and op.node_name == name:
            return sample_card(op)
    if name == "torch::autograd::AccumulateGrad":
        return dict(LEAF_CARD)
    return _card_of_unknown(name)


def _op_card(op: Op, found: Derivation, note: str) -> dict[str, Any]:
    forward = forward_math(op)
    given = {
        name: value
        for name, value in found.arguments.items()
        if not isinstance(value, Term) or not isinstance(value.value, Tensor)
    }
    return {
        "op": op.called,
        "says": says(op),
        "forward": forward,
        "text": linear(forward),
        "derivatives": [_derivative(found, name) for name in found.gradients],
        "given": []
        if found.sampled
        else [
            {"name": name, "text": _short(plain(value))}
            for name, value in given.items()
            if value is not None
        ],
        "numbers": True,
        "note": note,
    }


def _short(value: Any) -> str:
    text = notation.number_text(value) if type(value) is float else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def says(op: Op) -> str:
    """The first sentence of an op's docstring, or of the public function's that it is part of."""
    public = functions.get(op.called) or functions.get(op.called.replace(".", "_"))
    text = op.doc or getattr(public, "__doc__", None) or ""
    if not text and op.name.endswith("_backward"):
        text = f"What {op.name.removesuffix('_backward')} hands back, as an op of its own."
    first = " ".join(text.strip().partition("\n\n")[0].replace("`", "").split())
    return first if len(first) <= 240 else first[:240] + "..."


def forward_math(op: Op) -> Math:
    """`result = ...`: as declared, or what the op's reference or kernel says, or a call of it."""
    left = notation.name(op.outputs[0])
    if isinstance(op.formula, str):
        declared, equal, right = op.formula.partition(" = ")
        if equal:
            left = Typesetter().line(notation.parse(declared))
        return row(left, operator("="), Typesetter().line(notation.parse(right or declared)))
    term = formula_of(op)
    if term is None:
        given = [symbol(p) for p in op.params if p in op.inputs or p in op.lists]
        shown = [symbol(p) for p in op.arguments if p in op.values and p not in op.hidden]
        term = Term(op.called, None, (*given, *(shown if len(shown) <= 2 else ())))
    return row(left, operator("="), Typesetter().line(term))


def partial_of(name: str) -> Math:
    """dL/d(name), as a fraction."""
    return notation.element(
        "mfrac",
        row(operator("∂"), notation.leaf("mi", "L")),
        row(operator("∂"), notation.name(name)),
    )


def _derivative(found: Derivation, name: str) -> dict[str, Any]:
    term = found.gradients[name]
    if isinstance(term, str):
        math_ = row(partial_of(name), operator("="), notation.words("not defined"))
        return {"input": name, "math": math_, "where": [], "says": term, "text": linear(math_)}
    plainer = canonical(term)
    edge = _edge_says(term, found.inputs.get(name))
    letters = _letters(plainer)
    if len(letters) > MOST_LINES:
        return _too_long(found.op, name, plainer, edge)
    typesetter = Typesetter({key: letter for key, (letter, _) in letters.items()})
    top = typesetter.within_named(plainer)
    lines = [
        row(letter, operator("="), typesetter.within_named(part))
        for letter, part in letters.values()
    ]
    lines += _by_index(plainer, typesetter)
    whole = row(partial_of(name), operator("="), top)
    text = "; ".join([linear(whole), *(f"where {linear(line)}" for line in lines)])
    return {"input": name, "math": whole, "where": lines, "says": edge, "text": text}


def _too_long(op: Op, name: str, term: Term, edge: str) -> dict[str, Any]:
    """A derivative of more steps than anybody reads: what it takes, and which steps it is of."""
    used = [Term("name", None, name=used) for used in _names(term)]
    call = Term(f"{spoken(op.name)}_backward", None, tuple(used))
    whole = row(partial_of(name), operator("="), Typesetter().line(call))
    steps = dict.fromkeys(spoken(part.head) for part in _steps(term))
    listed = ", ".join([step for step in steps if step not in ("name", "value")][:8])
    says = f"It is computed in {len(list(_steps(term)))} steps, with {listed} and others. {edge}"
    return {
        "input": name,
        "math": whole,
        "where": [],
        "says": says.strip(),
        "text": linear(whole),
    }


def _steps(term: Term) -> Iterator[Term]:
    """Every step of a formula, once, from what it is made of to itself."""
    seen: set[int] = set()

    def visit(part: Term) -> Iterator[Term]:
        if id(part) not in seen:
            seen.add(id(part))
            for below in part.terms:
                yield from visit(below)
            yield part

    return visit(term)


def _names(term: Term) -> list[str]:
    return list(dict.fromkeys(part.name for part in _steps(term) if part.head == "name"))


def _by_index(term: Term, typesetter: Typesetter) -> list[Math]:
    """What steps without a closed form say by index: `conv_for_input(...)[n, k, q] = ...`."""
    lines = []
    for part in _steps(term):
        op = ops.get(part.head)
        if op is None or op.public or not isinstance(op.formula, str):
            continue
        left, _, right = op.formula.partition(" = ")
        bound = op.signature.bind(*part.args, **part.named).arguments
        known = {name: value for name, value in bound.items() if isinstance(value, Term)}
        called = symbol(notation.SYMBOLS.get(op.name) or spoken(op.name))
        head = typesetter.line(notation.parse(left, {op.outputs[0]: called}))
        lines.append(row(head, operator("="), typesetter.line(notation.parse(right, known))))
    return lines


def _edge_says(term: Term, wanted: tuple[tuple[int, ...], Any] | None) -> str:
    """What the edge does with a rule's result before it reaches the input."""
    have = getattr(term.array, "shape", ())
    if wanted is None or have == wanted[0]:
        return ""
    dims = summed_dims(have, wanted[0])
    if not dims:
        return f"Every element of the input gets it: it is spread to {_shape(wanted[0])}."
    listed = ", ".join(str(d) for d in dims)
    return f"The input was broadcast: this is summed over dim {listed}."


def summed_dims(have: tuple[int, ...], want: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of a gradient over which an edge sums."""
    extra = max(len(have) - len(want), 0)
    stretched = [
        i + extra
        for i, size in enumerate(want[len(want) - (len(have) - extra) :])
        if size == 1 and have[i + extra] != 1
    ]
    return (*range(extra), *stretched)


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(n) for n in shape) or "a scalar"


def _letters(term: Term) -> dict[int, tuple[Math, Term]]:
    """Letters for the parts of a long formula: what occurs twice, then what makes lines long."""
    uses: dict[int, int] = {}
    sizes: dict[int, int] = {}
    order: list[Term] = []

    def visit(part: Term) -> int:
        key = id(part)
        uses[key] = uses.get(key, 0) + 1
        if key not in sizes:
            sizes[key] = 1
            sizes[key] += sum(visit(below) for below in part.terms)
            order.append(part)
        return sizes[key]

    total = visit(term)
    chosen: list[Term] = []
    if total > 9:
        chosen = [p for p in order if uses[id(p)] > 1 and sizes[id(p)] >= 3 and p is not term]
    lengths: dict[int, int] = {}
    taken = {id(p) for p in chosen}
    for part in order:
        length = 1 + sum(1 if id(b) in taken else lengths[id(b)] for b in part.terms)
        if length > LONG:
            biggest = max(
                (b for b in part.terms if id(b) not in taken),
                key=lambda b: lengths[id(b)],
                default=None,
            )
            if biggest is not None and lengths[id(biggest)] > 2:
                taken.add(id(biggest))
                chosen.append(biggest)
                length -= lengths[id(biggest)] - 1
        lengths[id(part)] = length
    places = {id(p): i for i, p in enumerate(order)}
    chosen.sort(key=lambda p: -places[id(p)])
    return {
        id(p): (notation.element("msub", notation.leaf("mi", "u"), notation.leaf("mn", str(i))), p)
        for i, p in enumerate(chosen, 1)
    }


def _other_card(node: Node) -> dict[str, Any]:
    """Nodes that are no ops: leaves, custom Functions, copies of slices."""
    if isinstance(node, AccumulateGrad):
        return dict(LEAF_CARD)
    if isinstance(node, BackwardCFunction):
        return _function_card(node)
    return _card_of_unknown(node.name())


def _leaf_card() -> dict[str, Any]:
    variable, arriving = notation.leaf("mi", "variable.grad"), notation.leaf("mi", "grad")
    forward = row(variable, operator("←"), variable, operator("+"), arriving)
    says = "The end of the chain: the gradient that arrives is added to the variable's own."
    return _card("leaf", says, forward, [])


UNKNOWN_SAYS: Final = (
    "This node is no op of the table: it carries gradients on for the ops around it."
)


def _card_of_unknown(name: str) -> dict[str, Any]:
    inner = operator("("), notation.leaf("mi", "grad"), operator(")")
    return _card(name, UNKNOWN_SAYS, row(notation.leaf("mi", name), *inner), [])


def _card(op: str, says: str, forward: Math, derivatives: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "op": op,
        "says": says,
        "forward": forward,
        "text": linear(forward),
        "derivatives": derivatives,
        "given": [],
        "numbers": False,
        "note": "",
    }


LEAF_CARD: Final = _leaf_card()


FUNCTION_SAYS: Final = "A custom Function: its own backward computes the gradient."


def _function_card(node: BackwardCFunction) -> dict[str, Any]:
    cls = node._forward_cls
    names = [argument_name(cls, position) for position in node._positions]
    backward = _called(f"{cls.__name__}.backward", [notation.leaf("mi", "grad")])
    several = sum(edge is not None for edge in node.next) > 1
    derivatives = []
    for i, (name, edge) in enumerate(zip(names, node.next, strict=False)):
        if edge is None:
            continue
        right = (
            notation.element("msub", backward, notation.leaf("mn", str(i))) if several else backward
        )
        math_ = row(partial_of(name), operator("="), right)
        derivatives.append(
            {"input": name, "math": math_, "where": [], "says": "", "text": linear(math_)}
        )
    own = vars(cls).get("__doc__")
    doc = " ".join(own.strip().partition("\n\n")[0].split()) if own else ""
    forward = _forward_of(cls.__name__, [notation.name(n) for n in names])
    return _card(cls.__name__, doc or FUNCTION_SAYS, forward, derivatives)


def _forward_of(name: str, inputs: list[Math]) -> Math:
    call = _called(f"{name}.forward", notation._separated(inputs))
    return row(notation.leaf("mi", "result"), operator("="), call)


def _called(name: str, inputs: Sequence[Math]) -> Math:
    return row(notation.leaf("mi", name), operator("("), *inputs, operator(")"))


def without_own_text(card: dict[str, Any]) -> dict[str, Any]:
    """A card without what a custom Function says: its docstring, and names of its arguments."""
    of_table = card.get("numbers", True) and any(op.called == card["op"] for op in ops.values())
    if of_table or card["says"] in (LEAF_CARD["says"], UNKNOWN_SAYS):
        return card
    # Which of its arguments there were is told by their names alone: no derivative is left.
    return _card(card["op"], FUNCTION_SAYS, _forward_of(card["op"], [operator("…")]), [])


def as_terms(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call as terms, by name."""
    return {name: input_term(name, value) for name, value in values.items()}
