"""A card for a node: what its op computes, and the derivative that its backward computes.

The derivative is read off the op's rule as it runs on what this node saved (see derivation); where
that was freed, on a sample of the op.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ag_visual.autograd.function_node import BackwardCFunction
from ag_visual.autograd.given import argument_name
from ag_visual.core.node import Node
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops
from ag_visual.events.live import LiveNode
from ag_visual.observe.formulas import notation
from ag_visual.observe.formulas.derivation import MOST_ELEMENTS, Derivation, derive, elements_of
from ag_visual.observe.formulas.local import op_of
from ag_visual.observe.formulas.notation import (
    Math,
    Typesetter,
    display_name,
    linear,
    operator,
    row,
)
from ag_visual.observe.formulas.op_samples import op_by_node, ops_by_node, sample_derivation
from ag_visual.observe.formulas.sample_sizes import without_sizes
from ag_visual.observe.formulas.sentences import described
from ag_visual.observe.formulas.terms import Named, Term, canonical, formula_of, plain, symbol
from ag_visual.observe.record.node_view import NotThereError

LONG: Final = 26
"""Steps in one line of a formula; more are named and told below it."""

MOST_LINES: Final = 10


def card(node: LiveNode) -> dict[str, Any]:
    """An `OpCard` record. Never raises for what a node is or has lost: the card says it."""
    if isinstance(node, OpNode):
        try:
            if elements_of(node) <= MOST_ELEMENTS:
                return _op_card(node.op, derive(node), "")
            note = (
                "The tensors are too large to compute it here: the formula is of a small example."
            )
        except NotThereError as error:
            note = str(error)
        except RuntimeError as error:
            note = str(error).partition("\n")[0]
        return sample_card(node.op) | {"note": note}
    return _other_card(node)


@functools.cache
def _sample_card(op: Op) -> dict[str, Any]:
    found = sample_derivation(op) or Derivation(op, sampled=True)
    larger = _of_larger(op, found)
    made = _op_card(op, found, "")
    counted = any(isinstance(value, Named) for value in found.arguments.values())
    made["derivatives"] = [
        without_sizes(one, larger.get(one["input"]), counted) for one in made["derivatives"]
    ]
    return made


def _of_larger(op: Op, found: Derivation) -> dict[str, dict[str, Any]]:
    """The derivatives of a sample whose inputs are all larger, by input; none where it has none."""
    # An op may say anything to arguments that do not fit: its sample has one size then.
    with contextlib.suppress(Exception):
        larger = sample_derivation(op, larger=True)
        if larger and all(
            larger.inputs[name][0] != shape or max(shape, default=1) < 2
            for name, (shape, _) in found.inputs.items()
        ):
            return {name: _derivative(larger, name) for name in larger.gradients}
    return {}


def sample_card(op: Op) -> dict[str, Any]:
    """The card of an op, apart from any node."""
    return dict(_sample_card(op))


def card_by_name(name: str) -> dict[str, Any]:
    """The card for a node of that class name, of which there is nothing else."""
    op = op_by_node(name)
    if op is not None:
        return sample_card(op) | {"note": _one_of_several(op)}
    if name == "torch::autograd::AccumulateGrad":
        return dict(LEAF_CARD)
    return _card_of_unknown(name)


def _one_of_several(op: Op) -> str:
    """Which form of an operation it is, where nodes of another form have the same name."""
    others = [
        each.name
        for each in ops_by_node(op.node_name)
        if each is not op and each.public_name == op.public_name
    ]
    if not others:
        return ""
    return f"This is {op.name}: nodes of {', '.join(others)} have the same name, and another rule."


def _op_card(op: Op, found: Derivation, note: str) -> dict[str, Any]:
    forward = forward_math(op)
    given = {
        name: value
        for name, value in found.arguments.items()
        if not isinstance(value, Term) or not isinstance(value.value, Tensor)
    }
    return {
        "op": op.public_name,
        "says": described(op),
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
        "params": list(op.params),
        "edges": [f"{name}[]" if name in op.lists else name for name in op.diff_inputs],
        "numbers": True,
        "note": note,
    }


def _short(value: Any) -> str:
    text = notation.number_text(value) if type(value) is float else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


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
        shown = [symbol(p) for p in op.arguments if p in op.values and p not in op.not_exposed]
        term = Term(op.public_name, None, (*given, *(shown if len(shown) <= 2 else ())))
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
        return _record(
            name, row(partial_of(name), operator("="), notation.words("not defined")), term
        )
    plainer = canonical(term)
    edge = "" if found.sampled else _edge_says(term, found.inputs.get(name))
    letters = _letters(plainer)
    if len(letters) > MOST_LINES:
        return _too_long(found, name, plainer, edge)
    typesetter = Typesetter({key: letter for key, (letter, _) in letters.items()})
    top = typesetter.within_named(plainer)
    lines = [
        row(letter, operator("="), typesetter.within_named(part))
        for letter, part in letters.values()
    ]
    lines += _by_index(plainer, typesetter)
    return _record(name, row(partial_of(name), operator("="), top), edge, lines)


def _record(name: str, math: Math, says: str = "", where: Sequence[Math] = ()) -> dict[str, Any]:
    """A `CardDerivative` record: of which input, the formula, and the lines below it."""
    text = "; ".join([linear(math), *(f"where {linear(line)}" for line in where)])
    return {"input": name, "math": math, "where": list(where), "says": says, "text": text}


def _too_long(found: Derivation, name: str, term: Term, edge: str) -> dict[str, Any]:
    """A derivative of more steps than anybody reads: what it takes, and which steps it is of."""
    used = [Term("name", None, name=used) for used in _names(term)]
    call = Term(f"{display_name(found.op.name)}_backward", None, tuple(used))
    whole = row(partial_of(name), operator("="), Typesetter().line(call))
    steps = dict.fromkeys(display_name(part.head) for part in _steps(term))
    listed = ", ".join([step for step in steps if step not in ("name", "value")][:8])
    count = "many" if found.sampled else len(list(_steps(term)))
    says = f"It is computed in {count} steps, with {listed} and others. {edge}"
    return _record(name, whole, says.strip())


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
        called = symbol(display_name(op.name))
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
        return f"Every element of the input gets this gradient, which fills {_shape(wanted[0])}."
    listed = " and ".join(str(d) for d in dims)
    plural = "s" if len(dims) > 1 else ""
    return (
        "The input was broadcast, so each of its elements took part several times: "
        f"their gradients are added up, along dim{plural} {listed}."
    )


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
    return f"a tensor of shape {list(shape)}" if shape else "a scalar"


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


def _other_card(node: LiveNode) -> dict[str, Any]:
    """Nodes that are not ops here: leaves, custom Functions, copies of slices, other engines'."""
    if node.leaf:
        return dict(LEAF_CARD)
    if isinstance(node, BackwardCFunction):
        return _function_card(node)
    if isinstance(node, Node):
        return _card_of_unknown(node.name())
    op = op_of(node)
    return (card_by_name(node.name()) if op is None else sample_card(op)) | {"note": OF_ANOTHER}


def _leaf_card() -> dict[str, Any]:
    variable, arriving = notation.leaf("mi", "variable.grad"), notation.leaf("mi", "grad")
    forward = row(variable, operator("←"), variable, operator("+"), arriving)
    says = "The end of the chain: what arrives is added to the variable's own gradient."
    return _card("leaf", says, forward, [])


OF_ANOTHER: Final = (
    "Another engine made this node and tells no formula: this is that of the op of the same name."
)

UNKNOWN_SAYS: Final = "This node has no formula of its own: it hands gradients on."


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


FUNCTION_SAYS: Final = "A custom Function: the gradient is what its own backward computes."


def _function_card(node: BackwardCFunction) -> dict[str, Any]:
    cls = node._forward_cls
    names = [argument_name(cls, position) for position in node._positions]
    backward = _called(f"{cls.__name__}.backward", [notation.leaf("mi", "grad")])
    several = sum(below is not None for below, _ in node.next_functions) > 1
    derivatives = []
    for i, (name, (below, _)) in enumerate(zip(names, node.next_functions, strict=False)):
        if below is None:
            continue
        right = (
            notation.element("msub", backward, notation.leaf("mn", str(i))) if several else backward
        )
        math_ = row(partial_of(name), operator("="), right)
        derivatives.append(_record(name, math_))
    own = vars(cls).get("__doc__")
    doc = " ".join(own.strip().partition("\n\n")[0].split()) if own else ""
    forward = _forward_of(cls.__name__, [notation.name(n) for n in names])
    return _card(cls.__name__, doc or FUNCTION_SAYS, forward, derivatives) | {"edges": names}


def _forward_of(name: str, inputs: list[Math]) -> Math:
    call = _called(f"{name}.forward", notation._separated(inputs))
    return row(notation.leaf("mi", "result"), operator("="), call)


def _called(name: str, inputs: Sequence[Math]) -> Math:
    return row(notation.leaf("mi", name), operator("("), *inputs, operator(")"))


def without_own_text(card: dict[str, Any]) -> dict[str, Any]:
    """A card without what a custom Function says: its docstring, and names of its arguments."""
    of_table = card.get("numbers", True) and any(
        op.public_name == card["op"] for op in ops.values()
    )
    if of_table or card["says"] in (LEAF_CARD["says"], UNKNOWN_SAYS):
        return card
    # Which of its arguments there were is told by their names alone: no derivative is left.
    return _card(card["op"], FUNCTION_SAYS, _forward_of(card["op"], [operator("…")]), [])
