"""InplaceFunction and NestedIOFunction: kept for code of the 0.4 era."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ag_visual.autograd.custom_function import Function
from ag_visual.core.tensor import Tensor


class InplaceFunction(Function):
    """A Function with an `inplace` flag (kept for code of the 0.4 era)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _flatten(value: Any, found: list[Tensor]) -> Any:
    """The structure of nested tuples, lists and dicts, their tensors collected in `found`."""
    if isinstance(value, Tensor):
        found.append(value)
        return _LEAF
    if isinstance(value, (tuple, list)):
        return type(value)(_flatten(v, found) for v in value)
    if isinstance(value, dict):
        return {k: _flatten(v, found) for k, v in value.items()}
    return value


_LEAF = object()


def _unflatten(structure: Any, values: Iterator[Any]) -> Any:
    if structure is _LEAF:
        return next(values)
    if isinstance(structure, (tuple, list)):
        return type(structure)(_unflatten(s, values) for s in structure)
    if isinstance(structure, dict):
        return {k: _unflatten(s, values) for k, s in structure.items()}
    return structure


def _gradients(structure: Any, value: Any, found: list[Any]) -> None:
    """Collect the gradient (or None) of each tensor of nested inputs; None stands for a branch."""
    if structure is _LEAF:
        found.append(value)
    elif isinstance(structure, (tuple, list)):
        values = [None] * len(structure) if value is None else value
        for s, v in zip(structure, values, strict=True):
            _gradients(s, v, found)
    elif isinstance(structure, dict):
        for key, s in structure.items():
            _gradients(s, None if value is None else value[key], found)


class NestedIOFunction(Function):
    """A Function whose inputs and outputs may be nested (kept for code of the 0.4 era).

    Subclasses define `forward_extended(ctx, *nested)` and `backward_extended(ctx, *nested_grads)`
    as static methods and are called with `apply_nested`.
    """

    @classmethod
    def apply_nested(cls, *args: Any) -> Any:
        """Call the function on arguments that may be nested tuples, lists and dicts of tensors."""
        found: list[Tensor] = []
        structure = _flatten(args, found)
        box: list[Any] = []
        flat = cls.apply(structure, box, *found)
        flat = flat if isinstance(flat, tuple) else (flat,)
        return _unflatten(box[0], iter(flat))

    @staticmethod
    def forward(ctx: Any, structure: Any, box: list[Any], *flat: Any) -> Any:
        cls = ctx._forward_cls
        ctx.nested_inputs = structure
        result = cls.forward_extended(ctx, *_unflatten(structure, iter(flat)))
        found: list[Tensor] = []
        box.append(_flatten(result, found))
        ctx.nested_outputs = box[0]
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        cls = ctx._forward_cls
        nested = _unflatten(ctx.nested_outputs, iter(grads))
        given = nested if isinstance(nested, (tuple, list)) else (nested,)
        result = cls.backward_extended(ctx, *given)
        found: list[Any] = []
        _gradients(ctx.nested_inputs, result if isinstance(result, tuple) else (result,), found)
        return (None, None, *found)

    @staticmethod
    def forward_extended(ctx: Any, *args: Any) -> Any:
        """User-defined forward on nested inputs; override it."""
        raise NotImplementedError("forward_extended is not implemented")

    @staticmethod
    def backward_extended(ctx: Any, *grads: Any) -> Any:
        """User-defined backward on nested gradients; override it."""
        raise NotImplementedError("backward_extended is not implemented")
