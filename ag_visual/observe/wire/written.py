"""How an expression of the user's code reads: what it calls, on what, with which arguments.

From its text alone: a page can say "self is `torch.sin(x)`" of any node whose line it knows.
"""

from __future__ import annotations

import ast
import functools
from typing import Any, Final

from ag_visual.core.diagnosis.source_rewrite import parsed

MOST: Final = 8
"""Arguments that are told of one call."""

LONGEST: Final = 500
"""Characters of an expression that is looked at."""

_OPERATORS: Final[dict[type, str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.Mod: "remainder",
    ast.USub: "neg",
}


@functools.lru_cache(maxsize=2048)
def written(text: str, line: str) -> dict[str, Any] | None:
    """A `Written` record of an expression on a line; None where it calls nothing or is not code."""
    if len(text) > LONGEST or len(line) > 4 * LONGEST:
        return None
    tree = parsed(text)
    if tree is None or len(tree.body) != 1:
        return None
    found = _of_statement(text, tree.body[0])
    return found and found | {"target": found["target"] or _target(text, line)}


def _record(how: str, call: str, on: str = "", args: list[str] | None = None) -> dict[str, Any]:
    return {
        "how": how,
        "call": call,
        "on": on,
        "args": (args or [])[:MOST],
        "named": [],
        "target": "",
    }


def _of_statement(text: str, part: ast.stmt) -> dict[str, Any] | None:
    def said(node: ast.expr) -> str:
        return " ".join((ast.get_source_segment(text, node) or "").split())

    match part:
        case ast.AugAssign(target, op, value) if type(op) in _OPERATORS:
            own = said(target)
            found = _record("operator", _OPERATORS[type(op)], args=[own, said(value)])
            return found | {"target": own}
        case ast.Expr(ast.BinOp(left, op, right)) if type(op) in _OPERATORS:
            return _record("operator", _OPERATORS[type(op)], args=[said(left), said(right)])
        case ast.Expr(ast.UnaryOp(op, operand)) if type(op) in _OPERATORS:
            return _record("operator", _OPERATORS[type(op)], args=[said(operand)])
        case ast.Expr(ast.Subscript(value, at)):
            return _record("operator", "getitem", args=[said(value), said(at)])
        case ast.Expr(ast.Attribute(value, name)):
            return _record("attribute", name, on=said(value))
        case ast.Expr(ast.Call(function, args, keywords)):
            given = [said(arg) for arg in args]
            if any(isinstance(arg, ast.Starred) for arg in args):
                given = []  # nobody knows which argument is which
            match function:
                case ast.Attribute(value, name):
                    found = _record("call", name, said(value), given)
                case ast.Name(name):
                    found = _record("call", name, args=given)
                case _:
                    return None
            named = [{"name": k.arg, "text": said(k.value)} for k in keywords if k.arg]
            return found | {"named": named[:MOST]}
    return None


def _target(text: str, line: str) -> str:
    """The variable that the whole expression is given to; empty where it is part of more."""
    tree = parsed(line)
    match tree and tree.body:
        case [ast.Assign([ast.Name(name)], value)] | [ast.AnnAssign(ast.Name(name), _, value)]:
            own = value and ast.get_source_segment(line, value)
            return name if own and own.strip("() ") == text.strip("() ") else ""
    return ""
