"""What a student types as an answer: numbers and small expressions such as 2*3, 1/4, -tanh(0.5)^2.

The same words as in the panel's Predict. Text is read into a tree, and the tree is worked out node
by node: nothing of it is run as a program. Imports nothing of the package.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Final

LONGEST: Final = 200
EMPTY: Final = "Type a number, or something like 2*3."

_CONSTANTS: Final = {"e": math.e, "pi": math.pi, "π": math.pi}
_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "abs": abs,
    "cos": math.cos,
    "cosh": math.cosh,
    "exp": math.exp,
    "ln": math.log,
    "log": math.log,
    "relu": lambda x: max(0.0, x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sin": math.sin,
    "sinh": math.sinh,
    "sqrt": math.sqrt,
    "tan": math.tan,
    "tanh": math.tanh,
}
_SIGNS: Final[dict[type[ast.AST], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
_WRITTEN: Final = str.maketrans(
    {"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "²": "**2", "^": "**"}
)


class _NotUnderstoodError(ValueError):
    def __init__(self, part: str) -> None:
        super().__init__(f"“{part.strip()[:40]}” is not understood. {EMPTY}")


def work(text: str) -> float:
    """The number that an expression stands for; ValueError with a sentence for a student."""
    if not text.strip():
        raise ValueError(EMPTY)
    if len(text) > LONGEST:
        raise ValueError("This is too long.")
    # 0,5 is a half where people write so; there are no lists here that a comma could part.
    plain = re.sub(r"(?<=\d),(?=\d)", ".", text.lower().strip()).translate(_WRITTEN)
    try:
        value = _worked(ast.parse(plain, mode="eval").body)
    except _NotUnderstoodError:
        raise
    except (SyntaxError, RecursionError, MemoryError):
        raise _NotUnderstoodError(text) from None
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError("This is not a finite number.") from None
    if not math.isfinite(value):
        raise ValueError("This is not a finite number.")
    return value


def _worked(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Name(id=name):
            raise _NotUnderstoodError(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worked(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _worked(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return _SIGNS[type(op)](_worked(left), _worked(right))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_worked(argument))
    raise _NotUnderstoodError(ast.unparse(node))
