"""Python's operators of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import entry
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.codegen.forward import forward
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import functions, operators, ops


def operator(op: Op) -> Callable[..., Any]:
    """The fast wrapper of an op as Python's operators want it."""
    return forward(op, reference=entry.operator(op))


_KNOWN = (Tensor, *NUMBERS)


def _foreign(function: Callable[..., Any]) -> Callable[..., Any]:
    """A composite as an operator: NotImplemented for operands it does not know."""

    def operate(self, other):
        return function(self, other) if isinstance(other, _KNOWN) else NotImplemented

    return operate


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def operate(self, other):
        return function(other, self) if isinstance(other, _KNOWN) else NotImplemented

    return operate


_number_minus = operator(ops["rsub_number"])


def _invert(self: Tensor):
    if self.dtype.category > 1:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors, not on "
            f"{self.dtype}"
        )
    return functions["bitwise_not"](self)


def _rsub_operator(self, other):
    # Python itself comes here with numbers alone.
    return (
        ops["rsub_tensor"].call(self, other)
        if isinstance(other, Tensor)
        else _number_minus(self, other)
    )


def _rtruediv(self, other):
    """other / self, as torch records it: reciprocal, then a product."""
    return functions["reciprocal"](self) * other if isinstance(other, _KNOWN) else NotImplemented


for _operator, _name in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}.items():
    operators[_operator] = _name
    _call = operator(ops[_name]) if _name in ops else _foreign(functions[_name])
    _swaps = _operator in ("add", "mul", "and", "or", "xor")
    setattr(Tensor, f"__{_operator}__", _call)
    setattr(Tensor, f"__r{_operator}__", _call if _swaps else _reflected(functions[_name]))
    setattr(Tensor, f"__i{_operator}__", functions[f"{_name}_"])
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    operators[_name] = _name
    setattr(Tensor, f"__{_name}__", operator(ops[_name]))
operators.update(neg="neg", pos="positive", abs="abs", invert="bitwise_not")
operators.update(matmul="matmul", getitem="getitem")  # declared with their functions
for _operator, _function in {
    "neg": functions["neg"],
    "pos": functions["positive"],
    "abs": functions["abs"],
    "invert": _invert,
    "rsub": _rsub_operator,
    "rtruediv": _rtruediv,
    "rdiv": _rtruediv,
    "div": operator(ops["true_divide"]),
    "itruediv": functions["div_"],
    "idiv": functions["div_"],
}.items():
    setattr(Tensor, f"__{_operator}__", _function)
