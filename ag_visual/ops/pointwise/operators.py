"""Python's operators of tensors, and other names of pointwise functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.codegen.forward import operator
from ag_visual.dispatch.table import alias, functions, ops

# Arithmetic ---------------------------------------------------------------------------------------


for _name, *_others in (
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("neg", "negative"),
    ("abs", "absolute"),
    ("asin", "arcsin"),
    ("acos", "arccos"),
    ("atan", "arctan"),
    ("asinh", "arcsinh"),
    ("acosh", "arccosh"),
    ("atanh", "arctanh"),
    ("atan2", "arctan2"),
    ("clamp", "clip"),
    ("trunc", "fix"),
    ("ne", "not_equal"),
    ("lt", "less"),
    ("le", "less_equal"),
    ("gt", "greater"),
    ("ge", "greater_equal"),
):
    alias(_name, *_others)

_KNOWN = (Tensor, *NUMBERS)


def _foreign(function: Callable[..., Any]) -> Callable[..., Any]:
    """A composite as an operator: NotImplemented for operands it does not know."""

    def operate(self: Any, other: Any) -> Any:
        return function(self, other) if isinstance(other, _KNOWN) else NotImplemented

    return operate


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def operate(self: Any, other: Any) -> Any:
        return function(other, self) if isinstance(other, _KNOWN) else NotImplemented

    return operate


_number_minus = operator(ops["rsub_number"])


def _invert(self: Tensor) -> Any:
    if self.dtype.category > 1:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors, not on "
            f"{self.dtype}"
        )
    return functions["bitwise_not"](self)


def _rsub_operator(self: Any, other: Any) -> Any:
    # Python itself comes here with numbers alone.
    return (
        ops["rsub_tensor"].call(self, other)
        if type(other) is Tensor
        else _number_minus(self, other)
    )


def _rtruediv(self: Any, other: Any) -> Any:
    """other / self, as torch records it: reciprocal, then a product."""
    return functions["reciprocal"](self) * other if isinstance(other, _KNOWN) else NotImplemented


for _dunder_name, _record in {
    "add": "add",
    "radd": "add",
    "sub": "sub",
    "mul": "mul",
    "rmul": "mul",
    "truediv": "true_divide",
    "div": "true_divide",
    "floordiv": "floor_divide",
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "and": "bitwise_and",
    "rand": "bitwise_and",
    "or": "bitwise_or",
    "ror": "bitwise_or",
    "xor": "bitwise_xor",
    "rxor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}.items():
    setattr(Tensor, f"__{_dunder_name}__", operator(ops[_record]))
for _dunder_name, _function in {
    "pow": _foreign(functions["pow"]),
    "rpow": _reflected(functions["pow"]),
    "mod": _foreign(functions["remainder"]),
    "rmod": _reflected(functions["remainder"]),
    "rfloordiv": _reflected(functions["floor_divide"]),
    "rlshift": _reflected(functions["bitwise_left_shift"]),
    "rrshift": _reflected(functions["bitwise_right_shift"]),
    "rsub": _rsub_operator,
    "rtruediv": _rtruediv,
    "rdiv": _rtruediv,
    "neg": functions["neg"],
    "pos": functions["positive"],
    "abs": functions["abs"],
    "invert": _invert,
    "iadd": functions["add_"],
    "isub": functions["sub_"],
    "imul": functions["mul_"],
    "itruediv": functions["div_"],
    "idiv": functions["div_"],
    "ifloordiv": functions["floor_divide_"],
    "imod": functions["remainder_"],
    "ipow": functions["pow_"],
    "iand": functions["bitwise_and_"],
    "ior": functions["bitwise_or_"],
    "ixor": functions["bitwise_xor_"],
    "ilshift": functions["bitwise_left_shift_"],
    "irshift": functions["bitwise_right_shift_"],
}.items():
    setattr(Tensor, f"__{_dunder_name}__", _function)
