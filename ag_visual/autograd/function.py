"""torch.autograd.function: custom Functions and what belongs to them.

Source: https://pytorch.org/docs/2.8/autograd.html#function
"""

from __future__ import annotations

from ..names import only as _only
from .custom_function import (  # noqa: F401 - torch has the private ones here, too
    Function,
    FunctionMeta,
    _SingleLevelFunction,
    once_differentiable,
)
from .function_node import BackwardCFunction, FunctionCtx
from .nested_io import InplaceFunction, NestedIOFunction

_ContextMethodMixin = FunctionCtx
"""The name of FunctionCtx in torch 1."""

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
__dir__ = _only(__all__, __name__)
