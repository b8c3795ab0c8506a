"""Formulas on paper: terms and declared formulas typeset as trees of MathML elements, or one line.

A declared formula (`formula=` of an op) is a Python expression over its parameters, ops and
`Sum(k, x[i, k])`: what it says of subscripts and sums is for reading, the rest can be computed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ag_visual.dispatch.table import operators, ops, symbols
from ag_visual.observe.formulas.terms import CONSTANTS, Term, label_of, symbol

Math = dict[str, Any]
"""{tag, text} or {tag, children}: an element of MathML Core."""

SUM, PRODUCT, SIGN, POWER, ATOM = range(1, 6)
_COMPARED: Final = 0

INFIX: Final = {
    **dict.fromkeys(("+", "−"), SUM),
    **dict.fromkeys(("·", "@", "mod"), PRODUCT),
    **dict.fromkeys(("=", "≠", "<", "≤", ">", "≥", "and", "or"), _COMPARED),
}
"""How strongly signs between two operands bind."""
_QUOTIENT, _TRANSPOSED, _UNSEEN = "/", "ᵀ", "self"
CASES, _NEGATIVE = "{", "−"
_ATTRIBUTES: Final = frozenset({"T", "mT"})


def sign_of(head: str) -> str:
    """How the declaration of an op writes it, if it says so."""
    return symbols.get(head, _TRANSPOSED if head in _ATTRIBUTES else "")


def is_identity(head: str) -> bool:
    """Whether it changes nothing that a formula is about."""
    return sign_of(head) == _UNSEEN


def leaf(tag: str, text: str) -> Math:
    return {"tag": tag, "text": text}


def element(tag: str, *children: Math) -> Math:
    return {"tag": tag, "children": list(children)}


def row(*children: Math) -> Math:
    """Children beside each other, rows among them dissolved."""
    flat: list[Math] = []
    for child in children:
        flat.extend(child["children"] if child["tag"] == "mrow" else [child])
    return flat[0] if len(flat) == 1 else element("mrow", *flat)


def operator(text: str) -> Math:
    return leaf("mo", text)


def words(text: str) -> Math:
    return leaf("mtext", text)


def number(value: Any) -> Math:
    """A number with four significant digits, as the panel writes them."""
    if isinstance(value, bool):
        return words("true" if value else "false")
    if isinstance(value, complex):
        sign = "−" if value.imag < 0 else "+"
        parts = [number(value.real), operator(sign), number(abs(value.imag)), leaf("mi", "i")]
        return element("mrow", operator("("), *parts, operator(")"))
    text = number_text(value)
    if text.startswith("−"):
        return element("mrow", operator("−"), leaf("mn", text[1:]))
    return leaf("mn", text)


def number_text(value: Any) -> str:
    """−0.25, 3, 1.2 × 10⁻⁷ as −0.25, 3, 1.2e−7: four digits that count."""
    if isinstance(value, int):
        return str(value).replace("-", "−")
    text = f"{float(value):.4g}"
    mantissa, _, exponent = text.partition("e")
    if exponent:
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("inf", "∞").replace("nan", "NaN").replace("-", "−")


def name(text: str) -> Math:
    """An identifier: `weight`, or `indices[0]` with the number below it."""
    base, bracket, index = text.partition("[")
    found = leaf("mi", base)
    return element("msub", found, leaf("mn", index.rstrip("]"))) if bracket else found


class Typesetter:
    """Terms to elements. `named` gives terms that have a letter; `leaf_of` may replace leaves."""

    def __init__(
        self,
        named: dict[int, Math] | None = None,
        leaf_of: Callable[[Term], Math | None] | None = None,
    ) -> None:
        self.named = named or {}
        self.leaf_of = leaf_of or (lambda term: None)

    def line(self, term: Any) -> Math:
        return self.set(term)[0]

    def within_named(self, term: Term) -> Math:
        """A term spelled out although it has a letter: the right side of its own line."""
        named = self.named
        self.named = {key: letter for key, letter in named.items() if key != id(term)}
        try:
            return self.line(term)
        finally:
            self.named = named

    def within(self, term: Any, least: int) -> Math:
        """The term, in parentheses where it binds less than `least`."""
        return _bound(self.set(term), least)

    def set(self, term: Any) -> tuple[Math, int]:
        """An element and how strongly it binds."""
        if not isinstance(term, Term):
            return self._plain(term)
        if id(term) in self.named:
            return self.named[id(term)], ATOM
        replaced = self.leaf_of(term)
        if replaced is not None:
            negative = replaced["tag"] == "mrow" and replaced["children"][0].get("text") == "−"
            return replaced, SIGN if negative else ATOM
        args = term.args
        sign = sign_of(term.head)
        method = _OWN.get(term.head) or _LAYOUTS.get(sign)
        if method is not None:
            return method(self, term)
        if sign == _NEGATIVE and len(args) == 1:
            return row(operator("−"), self.within(args[0], PRODUCT)), SIGN
        if sign in INFIX and len(args) == 2:
            return self._infix(term)
        if sign == _QUOTIENT and len(args) == 2:
            return element("mfrac", self.line(args[0]), self.line(args[1])), ATOM
        if sign == _TRANSPOSED and (len(args) == 1 or _last_two(args[1:])):
            return self._power_of(args[0], leaf("mi", "T"))
        if sign == _UNSEEN and args:
            return self.set(args[0])
        return self._call(term), ATOM

    def _plain(self, value: Any) -> tuple[Math, int]:
        label = label_of(value)
        if label:
            return _labelled(label)
        if isinstance(value, float) and abs(value) in CONSTANTS:
            found, strength = self.set(parse(CONSTANTS[abs(value)]))
            return (row(operator("−"), found), SIGN) if value < 0 else (found, strength)
        if isinstance(value, (int, float, complex)):
            negative = not isinstance(value, complex) and value < 0
            return number(value), SIGN if negative else ATOM
        if value is None:
            return words("none"), ATOM
        if isinstance(value, (tuple, list)):
            inner = _separated([self.line(v) for v in value])
            return row(operator("("), *inner, operator(")")), ATOM
        return words(str(value)), ATOM

    def _name(self, term: Term) -> tuple[Math, int]:
        return name(term.name), ATOM

    def _infix(self, term: Term) -> tuple[Math, int]:
        sign = sign_of(term.head)
        strength = INFIX[sign]
        left, right = term.args
        after = strength + 1 if sign in ("−", "mod") or not strength else strength
        negated = _negated(right) if sign == "+" else None
        if negated is not None:
            sign, right, after = "−", negated, PRODUCT
        # Each side is set once: twice would double the work with each level of nesting.
        before, behind = self.set(left), self.set(right)
        if negated is None and strength in (SUM, PRODUCT) and behind[1] == SIGN:
            after = POWER
        parts = _bound(before, strength or SUM), operator(sign), _bound(behind, after)
        return row(*parts), SIGN if strength == PRODUCT and before[1] == SIGN else strength

    def _mul(self, term: Term) -> tuple[Math, int]:
        left, right = term.args
        if left is right:
            return self._power_of(left, leaf("mn", "2"))
        if type(left) in (int, float) and left == 1:
            return self.set(right)
        if type(right) in (int, float) and right == 1:
            return self.set(left)
        return self._infix(term)

    def _pow(self, term: Term) -> tuple[Math, int]:
        base, exponent = term.args
        if type(exponent) in (int, float) and exponent == 1:
            return self.set(base)
        return self._power_of(base, self.line(exponent))

    def _power_of(self, base: Any, exponent: Math) -> tuple[Math, int]:
        inner, strength = self.set(base)
        if strength < ATOM:
            inner = row(operator("("), inner, operator(")"))
        return element("msup", inner, exponent), POWER

    def _exp(self, term: Term) -> tuple[Math, int]:
        return element("msup", leaf("mi", "e"), self.line(term.args[0])), POWER

    def _exp2(self, term: Term) -> tuple[Math, int]:
        return element("msup", leaf("mn", "2"), self.line(term.args[0])), POWER

    def _sqrt(self, term: Term) -> tuple[Math, int]:
        return element("msqrt", self.line(term.args[0])), ATOM

    def _rsqrt(self, term: Term) -> tuple[Math, int]:
        return element("mfrac", leaf("mn", "1"), self._sqrt(term)[0]), ATOM

    def _reciprocal(self, term: Term) -> tuple[Math, int]:
        return element("mfrac", leaf("mn", "1"), self.line(term.args[0])), ATOM

    def _abs(self, term: Term) -> tuple[Math, int]:
        return row(operator("|"), self.line(term.args[0]), operator("|")), ATOM

    def _conj(self, term: Term) -> tuple[Math, int]:
        return element("mover", self.line(term.args[0]), operator("‾")), ATOM

    def _zero(self, term: Term) -> tuple[Math, int]:
        return leaf("mn", "0"), ATOM

    def _not(self, term: Term) -> tuple[Math, int]:
        return row(words("not "), self.within(term.args[0], ATOM)), _COMPARED

    def _cases(self, term: Term) -> tuple[Math, int]:
        """Cases under each other; further ones in the last place are one more line each."""
        lines = []
        rest: Any = term
        while isinstance(rest, Term) and sign_of(rest.head) == CASES and id(rest) not in self.named:
            condition, chosen, rest = rest.args
            lines.append((self.line(chosen), row(words("if "), self.line(condition))))
        lines.append((self.line(rest), words("otherwise")))
        cells = [
            element("mtr", element("mtd", value), element("mtd", reason)) for value, reason in lines
        ]
        return element("mrow", operator("{"), element("mtable", *cells)), ATOM

    def _item(self, term: Term) -> tuple[Math, int]:
        whole, at = term.args
        return element("msub", self.within(whole, ATOM), leaf("mn", str(at))), ATOM

    def _getitem(self, term: Term) -> tuple[Math, int]:
        return element("msub", self.within(term.args[0], ATOM), words("part")), ATOM

    def _subscript(self, term: Term) -> tuple[Math, int]:
        at = [self.line(a) for a in term.args[1:]]
        return element("msub", self.within(term.args[0], ATOM), row(*_separated(at))), ATOM

    def _listed(self, term: Term) -> tuple[Math, int]:
        """Summands one after the other; a text at the end says how many more there are."""
        parts: list[Math] = []
        for arg in term.args:
            found = (words(arg), ATOM) if isinstance(arg, str) else self.set(arg)
            summand = _bound(found, POWER if parts and found[1] == SIGN else PRODUCT)
            parts += [operator("+"), summand] if parts else [summand]
        return row(*parts), SUM

    def _since(self, term: Term) -> tuple[Math, int]:
        """The case that holds, and why."""
        chosen, condition, holds = term.args
        opposite = None if holds else _opposite(condition)
        why = self.line(condition if opposite is None else opposite)
        denied = opposite is None and not holds
        reason = [words("not ("), why, words(")")] if denied else [why]
        return row(self.within(chosen, ATOM), words(" since "), *reason), _COMPARED

    def _value(self, term: Term) -> tuple[Math, int]:
        found = number(term.value)
        return found, ATOM if found["tag"] == "mn" or isinstance(term.value, complex) else SIGN

    def _big(self, term: Term) -> tuple[Math, int]:
        """Sum(k, x): a sign with its variable below."""
        *variables, body = term.args
        below = row(*_separated([self.line(v) for v in variables]))
        sign = element("munder", operator(term.name), below)
        return row(sign, self.within(body, PRODUCT)), PRODUCT

    def _sum(self, term: Term) -> tuple[Math, int]:
        sign = operator("∑")
        dims = term.args[1] if len(term.args) > 1 else term.named.get("dim")
        if isinstance(dims, Term):
            sign = element("munder", sign, self.line(dims))
        elif isinstance(dims, (int, tuple)) and dims != ():
            listed = dims if isinstance(dims, tuple) else (dims,)
            text = label_of(dims) or f"dim {', '.join(str(int(d)) for d in listed)}"
            sign = element("munder", sign, words(text))
        return row(sign, self.within(term.args[0], PRODUCT)), PRODUCT

    def _call(self, term: Term) -> Math:
        op = ops.get(term.head)
        places = op.params if op is not None else ()
        shown = [
            arg
            for i, arg in enumerate(term.args)
            if type(arg) is not int or i >= len(places) or not places[i].startswith("dim")
        ]
        if op is not None and isinstance(op.formula, str):  # said by index, below the line
            return self._function(term.head, [arg for arg in shown if isinstance(arg, Term)])
        return self._function(term.head, (*shown, *term.named.values()))

    def _function(self, head: str, args: Iterable[Any]) -> Math:
        shown = [a for a in args if _worth_showing(a)]
        text = display_name(head)
        inner = _separated([self.line(a) for a in shown])
        return row(leaf("mi", text), operator("("), *inner, operator(")"))


_OWN: Final[dict[str, Callable[[Typesetter, Term], tuple[Math, int]]]] = {
    "big": Typesetter._big,
    "getitem": Typesetter._getitem,
    "item": Typesetter._item,
    "listed": Typesetter._listed,
    "name": Typesetter._name,
    "since": Typesetter._since,
    "subscript": Typesetter._subscript,
    "value": Typesetter._value,
}
"""The steps of formulas that are no ops."""
_LAYOUTS: Final = {
    "·": Typesetter._mul,
    "^": Typesetter._pow,
    "e^": Typesetter._exp,
    "2^": Typesetter._exp2,
    "√": Typesetter._sqrt,
    "1/√": Typesetter._rsqrt,
    "1/": Typesetter._reciprocal,
    "|": Typesetter._abs,
    "‾": Typesetter._conj,
    "0": Typesetter._zero,
    "not": Typesetter._not,
    "∑": Typesetter._sum,
    "[]": Typesetter._subscript,
    CASES: Typesetter._cases,
}
"""Ops that are set in a way of their own, by the symbol of their declaration."""
_NO_NAMES: Final = frozenset({*INFIX, *_LAYOUTS, _QUOTIENT, _TRANSPOSED, _UNSEEN, _NEGATIVE})


def display_name(head: str) -> str:
    """The name that an op has in formulas: its own, without what only tells overloads apart."""
    sign = sign_of(head)
    if sign and sign not in _NO_NAMES:
        return sign
    if head in ops:
        head = ops[head].public_name
    text = head.rpartition(".")[2].lstrip("_").removeprefix("linalg_").removeprefix("special_")
    for ending in ("_of", "_dim", "_dims", "_all", "_number", "_tensor", "_values", "_kernel"):
        text = text.removesuffix(ending)
    return text


def _labelled(label: str) -> tuple[Math, int]:
    """An argument by its name; `exponent − 1` as the difference that it is."""
    for sign in ("+", "−"):
        base, found, by = label.partition(f" {sign} ")
        if found:
            return row(_labelled(base)[0], operator(sign), leaf("mn", by)), SUM
    return words(label) if " " in label else name(label), ATOM


def _last_two(dims: tuple[Any, ...]) -> bool:
    return all(type(d) is int for d in dims) and sorted(dims) == [-2, -1]


def _worth_showing(arg: Any) -> bool:
    if isinstance(arg, Term):
        return True
    if isinstance(arg, (tuple, list)):
        return bool(label_of(arg)) or any(isinstance(a, Term) for a in arg)
    return isinstance(arg, (int, float, complex)) and not isinstance(arg, bool)


def _bound(found: tuple[Math, int], least: int) -> Math:
    """What was set, in parentheses where it binds less than `least`."""
    math, strength = found
    return math if strength >= least else row(operator("("), math, operator(")"))


def _negated(term: Any) -> Any:
    if isinstance(term, Term) and sign_of(term.head) == _NEGATIVE and len(term.args) == 1:
        return term.args[0]
    return None


def _separated(parts: Sequence[Math]) -> list[Math]:
    found: list[Math] = []
    for i, part in enumerate(parts):
        found += [operator(","), part] if i else [part]
    return found


def linear(math: Math) -> str:
    """A formula in one line of text, for readers without a picture of it."""
    tag, children = math["tag"], math.get("children", ())
    if tag == "mrow":
        return _line(children)
    if not children:
        text = str(math.get("text", ""))
        return f" {text} " if tag == "mo" and text in _SPACED else text
    parts = [linear(child) for child in children]
    grouped = [p if _simple(c) else f"({p})" for p, c in zip(parts, children, strict=True)]
    if tag == "mfrac":
        return f"{grouped[0]} / {grouped[1]}"
    if tag == "msup":
        return f"{parts[0]}^{grouped[1]}" if parts[1] != "T" else f"{parts[0]}ᵀ"
    if tag == "msub":
        return f"{parts[0]}[{parts[1]}]"
    if tag == "munder":
        return f"{parts[0]}_({parts[1]}) "
    if tag == "mover":
        return f"conj({parts[0]})"
    if tag == "msqrt":
        return f"sqrt({parts[0]})"
    if tag == "mtable":
        return "; ".join(parts) + "}"
    if tag == "mtr":
        return " ".join(parts)
    return "".join(parts)


def _line(children: Sequence[Math]) -> str:
    """A row; a minus is a sign where nothing stands before it that it could be taken from."""
    text = ""
    for i, child in enumerate(children):
        before = children[i - 1] if i else operator("(")
        signed = before["tag"] == "mo" and before["text"] not in (")", "|")
        minus = child["tag"] == "mo" and child["text"] == "−"
        text += "−" if minus and signed else ", " if child.get("text") == "," else linear(child)
    return text


_OPPOSITES: Final = {"≤": ">", "<": "≥", ">": "≤", "≥": "<", "=": "≠", "≠": "="}
_COMPARISONS: Final = {sign: name for name, sign in symbols.items() if sign in _OPPOSITES}


def _opposite(condition: Any) -> Term | None:
    """The comparison that holds where this one of numbers does not; None beside a NaN."""
    if not isinstance(condition, Term) or sign_of(condition.head) not in _OPPOSITES:
        return None
    compared = [arg.value if isinstance(arg, Term) else arg for arg in condition.args]
    if not all(isinstance(each, (int, float)) and each == each for each in compared):
        return None
    return Term(_COMPARISONS[_OPPOSITES[sign_of(condition.head)]], None, condition.args)


_SPACED: Final = frozenset(
    {"+", "·", "@", "=", "≠", "<", "≤", ">", "≥", "and", "or", "mod", "−", "←"}
)


def _simple(math: Math) -> bool:
    return math["tag"] in ("mi", "mn", "msub", "mtext")


# Declared formulas --------------------------------------------------------------------------------


_OPERATORS: Final[dict[type, str]] = {
    kind: operators[name]
    for name, kind in {
        "add": ast.Add,
        "sub": ast.Sub,
        "mul": ast.Mult,
        "truediv": ast.Div,
        "pow": ast.Pow,
        "matmul": ast.MatMult,
        "mod": ast.Mod,
        "and": ast.BitAnd,
        "or": ast.BitOr,
        "eq": ast.Eq,
        "ne": ast.NotEq,
        "lt": ast.Lt,
        "le": ast.LtE,
        "gt": ast.Gt,
        "ge": ast.GtE,
        "neg": ast.USub,
        "invert": ast.Invert,
    }.items()
}
"""The op of each of Python's operators, as its syntax tree names them."""
BIG: Final = {"Sum": "∑", "Product": "∏", "Max": "max", "Min": "min"}


def parse(text: str, known: dict[str, Any] | None = None) -> Any:
    """A declared formula as a term without value; `known` are terms to put for names."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"cannot read the formula {text!r}: {error.msg}") from None
    return _read(tree, text, known or {})


def _read(tree: ast.expr, text: str, known: dict[str, Any]) -> Any:
    def read(part: ast.expr) -> Any:
        return _read(part, text, known)

    match tree:
        case ast.Name(id):
            return known[id] if id in known else symbol(id)
        case ast.Constant(value):
            return value
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return Term(_OPERATORS[type(op)], None, (read(left), read(right)))
        case ast.Compare(left, [op], [right]) if type(op) in _OPERATORS:
            return Term(_OPERATORS[type(op)], None, (read(left), read(right)))
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            return Term(_OPERATORS[type(op)], None, (read(operand),))
        case ast.Subscript(value, ast.Tuple(elts)):
            return Term("subscript", None, (read(value), *map(read, elts)))
        case ast.Subscript(value, at):
            return Term("subscript", None, (read(value), read(at)))
        case ast.Call(ast.Name(head), args, []) if head in BIG:
            return Term("big", None, tuple(map(read, args)), name=BIG[head])
        case ast.Call(ast.Name(head), args, keywords):
            named = {k.arg: read(k.value) for k in keywords if k.arg}
            return Term(head, None, tuple(map(read, args)), named=named)
    raise ValueError(f"cannot read {ast.unparse(tree)!r} in the formula {text!r}")
