"""The numbers of one node in its formula: one element of one input's gradient, step by step.

Follows an element back through the derivative: through pointwise steps to the same place, through
rearrangements to where it came from, through sums and products of matrices to their terms. What
has no such path is shown by its value alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from ag_visual.arrays.backend import backend_of, is_array, on_host
from ag_visual.arrays.coo import Coo
from ag_visual.core import modes
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import vmap
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.table import moved, ops, traced
from ag_visual.events.live import LiveNode, many_at_once, whole, written_out
from ag_visual.observe.formulas import cards, derivation, notation
from ag_visual.observe.formulas.cards import partial_of
from ag_visual.observe.formulas.derivation import Derivation
from ag_visual.observe.formulas.notation import Math, Typesetter, linear, operator, row
from ag_visual.observe.formulas.terms import OPERATORS, Term, canonical, plain
from ag_visual.observe.record.node_view import NotThereError

TERMS: Final = 3
"""Summands that are written out; the rest is counted."""

Index = tuple[int, ...]


class NoNumbersError(LookupError):
    """The card of a node has no numbers; the text says why."""


@modes.without_grad
def numbers(
    node: Any,
    grads: Sequence[Any] | None,
    *,
    input: str | None = None,
    at: int | None = None,
    source: str = "kept",
) -> dict[str, Any]:
    """A `CardNumbers` record: one element of the gradient of an input, with what made it.

    grads: the gradients that arrive, one for each output (or None: ones); input: whose gradient
    (default: the first that has one); at: the flat index of its element (default: the one with
    the largest size); source: where `grads` come from. Raises NoNumbersError.
    """
    if not isinstance(node, OpNode):
        raise NoNumbersError(f"{node.name()} has no formula to put numbers into")
    if derivation.elements_of(node) > derivation.MOST_ELEMENTS:
        raise NoNumbersError(
            f"{node.name()} works on more than {derivation.MOST_ELEMENTS:,} elements: too many here"
        )
    many = many_at_once(node, grads or ())
    if many:
        raise NoNumbersError(many)
    try:
        found = derivation.derive(node, None if grads is None else list(map(_tensor, grads)))
    except (NotThereError, RuntimeError) as error:
        raise NoNumbersError(str(error)) from None
    return _step(found, input, at, "ones" if grads is None else source)


def kept_gradients(node: LiveNode) -> tuple[list[Any] | None, str]:
    """The gradients that arrived at a node where retain_grad() kept all of them, else None."""
    grads = [whole(grad) for grad in node.kept_gradients()]
    return (None, "ones") if any(g is None for g in grads) else (grads, "kept")


def _tensor(value: Any) -> Any:
    if value is None or isinstance(value, Tensor):
        return value
    return _as_tensor(written_out(value))


def _as_tensor(value: Any) -> Tensor:
    """An array of any library where it is; a number on the host."""
    return from_array(value if is_array(value) else np.asarray(value))


def _step(found: Derivation, input: str | None, at: int | None, source: str) -> dict[str, Any]:
    known = {name: term for name, term in found.gradients.items() if isinstance(term, Term)}
    if not known:
        raise NoNumbersError("no input of this node gets a gradient")
    if input is None:
        input = next(iter(known))
    if input not in known:
        raise NoNumbersError(f"{input!r} gets no gradient here; these do: {', '.join(known)}")
    term = _fitted(canonical(known[input]), found.inputs[input])
    if type(term.array) is Coo:
        raise NoNumbersError(f"the gradient of {input} is sparse: it has no formula by elements")
    array = on_host(term.array)
    if array.size == 0:
        raise NoNumbersError(f"{input} has no elements")
    if at is None:
        sizes = np.abs(array.astype(complex if array.dtype.kind == "c" else float))
        at = int(np.argmax(np.nan_to_num(sizes, nan=np.inf)))
    if not 0 <= at < array.size:
        raise NoNumbersError(f"{input} has no element {at}: it has {array.size}")
    index = tuple(int(i) for i in np.unravel_index(at, array.shape))
    path = _Path()
    filled = path.fill(term, index)
    result = array[index].item()
    left = partial_of(input)
    if index:
        left = notation.element("msub", left, _index_math(index))
    parts = [left, operator("="), Typesetter().line(filled)]
    constant = filled.head == "since" and isinstance(filled.args[0], Term)
    if (filled.args[0] if constant else filled).head != "value":
        parts += [operator("="), notation.number(result)]
    line = row(*parts)
    return {
        "input": input,
        "inputs": list(known),
        "at": at,
        "index": list(index),
        "shape": [int(n) for n in array.shape],
        "source": source,
        "math": line,
        "text": linear(line),
        "used": path.used[:8],
        "result": notation.number_text(result) if not isinstance(result, complex) else str(result),
    }


def _index_math(index: Index) -> Math:
    return row(*notation._separated([notation.leaf("mn", str(i)) for i in index]))


def _fitted(term: Term, wanted: tuple[Index, Any]) -> Term:
    """What the edge makes of it: summed over what was broadcast or spread, real for real inputs."""
    shape, dtype = wanted
    have = _shape(term)
    value = term.value if isinstance(term.value, Tensor) else _as_tensor(term.array)
    if have != shape:
        head = "sum_to_size" if cards.summed_dims(have, shape) else "expand"
        value = getattr(traced, head)(value, shape)
        term = Term(head, value, (term, shape))
    if value._array.dtype.kind == "c" != dtype.kind:
        term = Term("real", traced.real(value), (term,))
    return term


class _Path:
    """Replaces the leaves of a formula by the numbers at one place, and notes what was used."""

    def __init__(self) -> None:
        self.used: list[dict[str, str]] = []

    def fill(self, term: Any, index: Index) -> Any:
        if not isinstance(term, Term):
            return plain(term)
        index = _within(term, index)
        head = term.head
        if head == "name":
            return self._leaf(term, index)
        if notation.is_identity(head) and term.args:
            return self.fill(term.args[0], index)
        if notation.sign_of(head) == notation.CASES:
            return self._chosen(term, index)
        if _sums(head) and isinstance(term.args[0], Term):
            return self._sum(term, index)
        if notation.sign_of(head) == "@":
            return self._product(term, index)
        if _pointwise(head) and any(True for _ in term.terms):
            args = tuple(self.fill(arg, index) for arg in term.args)
            return Term(head, None, args, named={k: plain(v) for k, v in term.named.items()})
        origin = _moved(term, index)
        if origin is not None:
            return self.fill(term.args[0], origin)
        return _value(term, index)

    def _leaf(self, term: Term, index: Index) -> Term:
        found = _value(term, index)
        place = f"[{', '.join(map(str, index))}]" if index else ""
        entry = {"name": f"{term.name}{place}", "text": linear(notation.number(found.value))}
        if entry not in self.used:
            self.used.append(entry)
        return found

    def _chosen(self, term: Term, index: Index) -> Any:
        condition, then, otherwise = term.args
        if not isinstance(condition, Term):
            return self.fill(then if condition else otherwise, index)
        holds = bool(_value(condition, _within(condition, index)).value)
        chosen = then if holds else otherwise
        filled = self.fill(chosen, index) if isinstance(chosen, Term) else Term("value", chosen)
        return Term("since", None, (filled, self.fill(condition, index), holds))

    def _sum(self, term: Term, index: Index) -> Term:
        below = term.args[0]
        places = list(itertools.islice(_summed(term, index), TERMS + 1))
        count = math.prod(_shape(below)) // max(math.prod(_shape(term)), 1)
        if count <= 1 and places:
            return self.fill(below, places[0])  # type: ignore[no-any-return]
        shown = places if count == TERMS + 1 else places[:TERMS]
        return _listed([self.fill(below, place) for place in shown], count)

    def _product(self, term: Term, index: Index) -> Term:
        left, right = term.args
        length = plain(left)._array.shape[-1]
        deep = plain(right)._array.ndim
        across = index[-1:] if deep > 1 else ()
        rows = index[: len(index) - len(across)]
        parts = []
        for k in range(min(length, TERMS if length > TERMS + 1 else length)):
            one = self.fill(left, (*rows, k))
            before = () if deep < 2 else rows[: max(len(rows) - 1, 0)]
            other = self.fill(right, (*before, k, *across))
            parts.append(Term("mul", None, (one, other)))
        return _listed(parts, length)


def _listed(parts: list[Any], count: int) -> Term:
    if len(parts) == 1 and count == 1:
        return parts[0]  # type: ignore[no-any-return]
    if count > len(parts):
        parts.append(f"… ({count - len(parts)} more)")
    return Term("listed", None, tuple(parts))


def _shape(term: Term) -> tuple[int, ...]:
    return tuple(getattr(term.array, "shape", ()))


def _within(term: Term, index: Index) -> Index:
    """The place of an index of the result in an operand that may be broadcast to it."""
    shape = _shape(term)
    index = index[len(index) - len(shape) :] if len(shape) <= len(index) else index
    return tuple(0 if n == 1 else i for i, n in zip(index, shape, strict=False))


def _value(term: Term, index: Index) -> Term:
    array = term.array if is_array(term.array) else np.asarray(term.array)
    return Term("value", array[index].item() if array.ndim else array.item())


def _pointwise(head: str) -> bool:
    if head in OPERATORS:
        return notation.sign_of(head) != "@" and head != "getitem"
    # A composite is what the ops are that it chooses from.
    own = [ops[head]] if head in ops else [op for op in ops.values() if op.public_name == head]
    return any(vmap.rule_of(op) is vmap.elementwise for op in own)


def _sums(head: str) -> bool:
    return head == "sum_to_size" or (ops[head].public_name if head in ops else head) == "sum"


def _moved(term: Term, index: Index) -> Index | None:
    """Where an element of a rearrangement came from, or None where it did not come from one."""
    if term.head not in moved:
        return None
    below = term.args[0] if term.args else None
    if not isinstance(below, Term) or not isinstance(below.value, Tensor):
        return None
    shape = below.value._array.shape
    if below.array.dtype.kind != term.array.dtype.kind:  # pairs of reals as complex numbers
        return None
    places = from_array(backend_of(below.array).from_numpy(_numbered(shape)))
    named = {key: plain(value) for key, value in term.named.items()}
    found = getattr(traced, term.head)(places, *plain(term.args[1:]), **named)._array
    if found.shape != term.array.shape:
        return None
    return tuple(int(i) for i in np.unravel_index(int(found[index]), shape))


def _numbered(shape: Index) -> Any:
    return np.arange(math.prod(shape), dtype=np.float64).reshape(shape)


def _summed(term: Term, index: Index) -> Iterator[Index]:
    """The places that a sum adds up for one of its elements."""
    have = _shape(term.args[0])
    if term.head == "sum_to_size":
        free = set(cards.summed_dims(have, _shape(term)))
        at = [0] * (len(have) - len(index)) + list(index)
    else:
        free = _dims(term, len(have))
        keeps = len(_shape(term)) == len(have)
        at, rest = [], iter(index)
        for dim in range(len(have)):
            at.append(next(rest) if keeps or dim not in free else 0)
    ranges = [range(n) if dim in free else (at[dim],) for dim, n in enumerate(have)]
    return itertools.product(*ranges)


def _dims(term: Term, rank: int) -> set[int]:
    if not rank:
        return set()
    dims = term.args[1] if len(term.args) > 1 else term.named.get("dim")
    if dims is None or dims == ():
        return set(range(rank))
    return {int(d) % rank for d in (dims if isinstance(dims, tuple) else (dims,))}
