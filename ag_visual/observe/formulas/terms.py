"""Formulas read off the rules themselves: a rule runs on terms that remember how they came about.

A `Term` is an input of a rule or a step of it, with its value; `trace` runs a function of ops on
terms. What comes out is what the backward computes, because it is the rule that computed it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.rules import requests_of
from ag_visual.dispatch.table import operators, ops, symbols as symbols_of_ops, traced

CONSTANTS: Final = {
    math.pi: "pi",
    math.pi / 180: "pi / 180",
    180 / math.pi: "180 / pi",
    math.log(2): "log(2)",
    math.log(10): "log(10)",
    2 / math.sqrt(math.pi): "2 / sqrt(pi)",
    math.sqrt(math.pi) / 2: "sqrt(pi) / 2",
    math.sqrt(2 / math.pi): "sqrt(2 / pi)",
    math.sqrt(2): "sqrt(2)",
    math.sqrt(0.5): "1 / sqrt(2)",
    math.sqrt(2 * math.pi): "sqrt(2 * pi)",
    1 / math.sqrt(2 * math.pi): "1 / sqrt(2 * pi)",
}
"""Numbers that a formula says by name."""


class Named(int):
    """An integer argument that a formula calls by its name, also where it is one more or less."""

    label: str

    def __add__(self, other: Any) -> Any:
        return self._moved(int(self) + other, other)

    def __sub__(self, other: Any) -> Any:
        return self._moved(int(self) - other, -other)

    def _moved(self, found: Any, by: Any) -> Any:
        if type(by) is not int or not by or self.label.count(" ") > 1:
            return found
        return labelled(f"{self.label} {'+' if by > 0 else '−'} {abs(by)}", found)


class NamedTuple(tuple[Any, ...]):
    """Sizes or dimensions that a formula calls by their name."""

    label: str


def labelled(label: str, value: Any) -> Any:
    """A plain argument with its name, where it is a number or a sequence of these."""
    if type(value) is int:
        found: Any = Named(value)
    elif isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        found = NamedTuple(value)
    else:
        return value
    found.label = label
    return found


def label_of(value: Any) -> str:
    return value.label if isinstance(value, (Named, NamedTuple)) else ""


_WIDE: Final = 8
"""Bytes of an element that a symbol stands for."""


class Term:
    """An input (`head` is "name"), a number ("number"), or an operation on `args`."""

    __slots__ = ("args", "head", "name", "named", "value")

    def __init__(
        self,
        head: str,
        value: Any,
        args: tuple[Any, ...] = (),
        name: str = "",
        named: dict[str, Any] | None = None,
    ) -> None:
        self.head = head
        self.value = value
        self.args = args
        self.name = name
        self.named = named or {}

    @property
    def array(self) -> Any:
        """The value as an array, or the number it is."""
        return getattr(self.value, "_array", self.value)

    @property
    def terms(self) -> Iterator[Term]:
        """What it was made of."""
        for arg in (*self.args, *self.named.values()):
            for item in arg if isinstance(arg, (tuple, list)) else (arg,):
                if isinstance(item, Term):
                    yield item

    def __repr__(self) -> str:
        return f"<{self.head} {self.name or len(self.args)}>"

    def __bool__(self) -> bool:
        if self.value is None:
            raise TypeError(f"{self!r} has no value: what follows depends on it")
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return (Term("getitem", part, (self, i)) for i, part in enumerate(self.value))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "itemsize" and self.value is None:
            return _WIDE  # kernels take another way for 16-bit floats, which is no other formula
        found = getattr(self.value, name)
        if not callable(found) or isinstance(found, type):
            return found
        return lambda *args, **kwargs: _applied(name, found, (self, *args), kwargs, method=True)


def _operator(special: str, name: str, function: Callable[..., Any]) -> None:
    """Give terms an operator, from both sides; `name` is what the formula calls the step."""

    def operate(*operands: Any) -> Term:
        if any(isinstance(o, Term) and o.value is None for o in operands):
            return Term(name, None, operands)
        return Term(name, function(*(plain(o) for o in operands)), operands)

    setattr(Term, f"__{special}__", operate)
    if hasattr(Tensor, f"__r{special}__"):
        setattr(Term, f"__r{special}__", lambda self, other: operate(other, self))


OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(operator, f"__{special}__") for special, name in operators.items()
}
for _special, _name in operators.items():
    _operator(_special, _name, OPERATORS[_name])


def plain(value: Any) -> Any:
    """The value behind a term, also inside of sequences."""
    if isinstance(value, Term):
        return value.value
    if isinstance(value, Named):
        return int(value)
    if type(value) in (tuple, list, NamedTuple):
        kind = list if type(value) is list else tuple
        return kind(plain(item) for item in value)
    return value


class Face:
    """The op namespace on terms. Fused backward ops are spelled out where a formula is known."""

    xp = None
    traced = True
    unobserved = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = ops.get(name)
        if found is not None and name.endswith("_backward") and formula_of(found) is not None:
            return lambda *args, **kwargs: _spelled_out(found, args, kwargs)
        function = getattr(traced, name)
        return lambda *args, **kwargs: _applied(name, function, args, kwargs)


def _spelled_out(op: Op, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The formula of a fused backward op in place of its name."""
    bound = op.signature.bind(*args, **named)
    bound.apply_defaults()
    try:
        if callable(op.formula):
            return trace(op.formula, bound.arguments)
        return computed(formula_of(op), bound.arguments)
    except _UNREADABLE:
        return _applied(op.name, getattr(traced, op.name), args, named)


class Symbols:
    """NumPy's namespace on terms without values: what references of ops are read with."""

    pi = math.pi
    e = math.e
    inf = math.inf
    nan = math.nan

    def __getattr__(self, name: str) -> Callable[..., Term]:
        if name.startswith("__"):
            raise AttributeError(name)
        known = NUMPY_NAMES.get(name, name)
        return lambda *args, **named: Term(known, None, args, named=named)


NUMPY_NAMES: Final = {
    **{op.kernel: op.name for op in ops.values() if isinstance(op.kernel, str) and op.public},
    **{alias: op.name for op in ops.values() for alias in op.aliases},
    "clip": "clamp",
    "conjugate": "conj",
    "power": "pow",
}
"""Ops by the functions of NumPy that are their kernels, or that references write for them."""


namespace: Final = Face()
symbols: Final = Symbols()

_UNREADABLE: Final = (AttributeError, TypeError, ValueError, IndexError, KeyError, RuntimeError)
"""What code does on terms that asks for more than a formula has."""


@functools.cache
def formula_of(op: Op) -> Any:
    """The result of an op as a term of its parameters, or None where nothing says it.

    Its `formula` where that is a function, else its reference or its kernel, where these are plain
    expressions of ops.
    """
    given: dict[str, Any] = {p: symbol(p) for p in op.params}
    if callable(op.formula):
        with contextlib.suppress(*_UNREADABLE):
            return trace(op.formula, given)
        defaults = {p: op.signature.parameters[p].default for p in op.arguments}
        with contextlib.suppress(*_UNREADABLE):
            return trace(op.formula, given | defaults)
    for function in (op.reference, op.kernel):
        if callable(function):
            with contextlib.suppress(*_UNREADABLE):
                found = function(symbols, *given.values())
                if isinstance(found, Term) and _known(found):
                    return found
    return None


def _known(term: Term) -> bool:
    """Is every step of it an op (and no piece of an array)?"""
    if term.head == "getitem" or term.named:
        return False
    if term.head != "name" and term.head not in OPERATORS and not hasattr(traced, term.head):
        return False
    return all(_known(part) for part in term.terms)


def computed(formula: Any, values: dict[str, Any]) -> Any:
    """A formula with values in place of its names, computed on the ops' namespace."""
    if isinstance(formula, (tuple, list)):
        return type(formula)(computed(item, values) for item in formula)
    if not isinstance(formula, Term):
        return formula
    if formula.head == "name":
        return values[formula.name]
    args = [computed(arg, values) for arg in formula.args]
    if formula.head in OPERATORS:
        return OPERATORS[formula.head](*args)
    named = {key: computed(value, values) for key, value in formula.named.items()}
    return getattr(namespace, formula.head)(*args, **named)


def _applied(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
    *,
    method: bool = False,
) -> Any:
    given = args[1:] if method else args
    if any(isinstance(a, Term) and a.value is None for a in (*args, *named.values())):
        return Term(name, None, args, named=named)
    value = function(*plain(tuple(given)), **{k: plain(v) for k, v in named.items()})
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        whole = Term(name, value, args, named=named)
        return tuple(Term("item", v, (whole, i)) for i, v in enumerate(value))
    if not isinstance(value, (Tensor, int, float, complex)):
        return value
    return Term(name, value, args, named=named)


def input_term(name: str, value: Any) -> Any:
    """A named input of a rule: tensors and numbers become terms, lists of them lists of terms."""
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return tuple(
            v if v is None else Term("name", v, name=f"{name}[{i}]") for i, v in enumerate(value)
        )
    if isinstance(value, Tensor) or type(value) in (float, complex):
        return Term("name", value, name=name)
    return labelled(name, value)


def symbol(name: str) -> Term:
    """A name without a value."""
    return Term("name", None, name=name)


def trace(function: Callable[..., Any], known: dict[str, Any]) -> Any:
    """What a rule returns (a term, or several) on inputs by name: F need not be among them."""
    return function(*[namespace if n == "F" else known[n] for n in requests_of(function)])


# One term for what is computed twice, and nothing that changes nothing ----------------------------


def canonical(term: Any, seen: dict[Any, Term] | None = None) -> Any:
    """The same formula with equal steps made one, and without `x * 1`, `x + 0`, `x * 0`."""
    return _canonical(term, {} if seen is None else seen, {})


def _canonical(term: Any, seen: dict[Any, Term], done: dict[int, Any]) -> Any:
    if isinstance(term, (tuple, list)) and not isinstance(term, NamedTuple):
        return type(term)(_canonical(item, seen, done) for item in term)
    if not isinstance(term, Term):
        return term
    if id(term) in done:
        return done[id(term)]
    args = tuple(_canonical(arg, seen, done) for arg in term.args)
    named = {key: _canonical(value, seen, done) for key, value in term.named.items()}
    found = _simpler(term.head, args)
    if found is None:
        if term.head in ("name", "value"):
            key: Any = (term.head, term.name, id(term.value))
        else:
            key = (term.head, _key(args), _key(tuple(named.items())))
        found = seen.get(key)
        if found is None:
            found = seen[key] = Term(term.head, term.value, args, term.name, named)
    done[id(term)] = found
    return found


def _key(value: Any) -> Any:
    if isinstance(value, Term):
        return ("term", id(value))
    if isinstance(value, (tuple, list)):
        return tuple(_key(item) for item in value)
    return (type(value).__name__, repr(value), label_of(value))


def _simpler(head: str, args: tuple[Any, ...]) -> Any:
    """A step that is one of its own operands, in value and shape."""
    sign = symbols_of_ops.get(head)
    if len(args) != 2 or sign not in ("·", "/", "+", "−"):
        return None
    for number, other in (args, args[::-1]):
        if type(number) not in (int, float) or not isinstance(other, Term):
            continue
        last = other is args[0]
        if number == (1 if sign in ("·", "/") else 0) and (last or sign in ("·", "+")):
            return other
        if sign == "·" and number == -1:
            return Term(
                operators["neg"], other.value if other.value is None else -other.value, (other,)
            )
        if sign == "·" and number == 0:
            return Term("zeros_of", 0.0 if other.value is None else other.value * 0, (other,))
        if sign == "+" and symbols_of_ops.get(other.head) == "0":
            return Term("value", number)
    return None
