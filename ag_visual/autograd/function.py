"""torch.autograd.function: custom Functions and what belongs to them.

Source: https://pytorch.org/docs/2.8/autograd.html#function
"""

from __future__ import annotations

from ag_visual.autograd.custom_function import Function, FunctionMeta, once_differentiable
from ag_visual.autograd.function_node import BackwardCFunction, FunctionCtx
from ag_visual.autograd.nested_io import InplaceFunction, NestedIOFunction
from ag_visual.names import only as _only

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
