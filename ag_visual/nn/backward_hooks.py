"""Hooks that see the gradients of a module's inputs and outputs.

Inputs and outputs go through an identity whose node marks where the module begins and ends in the
graph (torch's BackwardHookFunction). The hook of the end's node keeps the gradients of the
outputs, that of the begin's node calls the user's hooks with both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.autograd.function import Function
from ag_visual.core import modes
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor

Gradients = tuple[Any, ...]


class BackwardHookFunction(Function):
    """The identity of several tensors."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHooks:
    """The backward hooks of one call of a module."""

    def __init__(
        self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]
    ) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: Gradients | None = None
        self.inputs: list[int] | None = None  # which arguments are tensors; None: no gradient
        self.outputs: list[int] = []
        self.input_count = self.output_count = 0

    def hooks_behind(self, method: str) -> list[Callable[..., Any]]:
        """The user's hooks that one of the methods below calls, when it is a node's hook."""
        if method == "_inputs_known":
            return list(self.hooks)
        return [*self.pre_hooks, *(self.hooks if self.inputs is None else ())]

    def around_inputs(self, args: Gradients) -> Gradients:
        """The arguments of forward, marked."""
        self.input_count = len(args)
        args, self.inputs, node = _marked(args)
        if node is not None:
            node.register_hook(self._inputs_known)
        return args

    def around_outputs(self, result: Any) -> Any:
        """What forward returned, marked."""
        if not isinstance(result, Tensor | tuple):
            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}"
            )
            return result
        several = isinstance(result, tuple)
        values = result if several else (result,)
        self.output_count = len(values)
        values, indices, node = _marked(values)
        if node is not None:
            self.outputs = indices or []
            node.register_hook(self._outputs_known)
        if not several:
            return values[0]
        # A named tuple stays one.
        return type(result)(*values) if hasattr(result, "_fields") else values

    def _outputs_known(self, _: Any, grad_outputs: Gradients) -> Any:
        known = _spread(self.outputs, grad_outputs, self.output_count)
        for hook in self.pre_hooks:
            known = _changed("pre hook", "grad_output", hook(self.module, known), known)
        self.grad_outputs = known
        if self.inputs is None and self.hooks:
            warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients: its grad_input holds None only."
            )
            nothing = (None,) * self.input_count
            for hook in self.hooks:
                answer = hook(self.module, nothing, known)
                if answer is not None and any(g is not None for g in answer):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
            self.grad_outputs = None
        return tuple(known[i] for i in self.outputs)

    def _inputs_known(self, grad_inputs: Gradients, _: Any) -> Any:
        if self.grad_outputs is None or self.inputs is None:
            return None  # a gradient that came here around the outputs: a double backward
        known = _spread(self.inputs, grad_inputs, self.input_count)
        for hook in self.hooks:
            given = hook(self.module, known, self.grad_outputs)
            known = _changed("hook", "grad_input", given, known)
        self.grad_outputs = None
        return tuple(known[i] for i in self.inputs)


def _marked(values: Gradients) -> tuple[Gradients, list[int] | None, Any]:
    """Values whose tensors went through the identity, which ones they are, and its node."""
    indices = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not modes.grad_enabled() or not any(values[i].requires_grad for i in indices):
        return values, None, None
    marked = BackwardHookFunction.apply(*(values[i] for i in indices))
    found = list(values)
    for i, tensor in zip(indices, marked, strict=True):
        found[i] = tensor
    node = next(t.grad_fn for t in marked if t.grad_fn is not None)
    return tuple(found), indices, node


def _spread(indices: list[int], gradients: Gradients, count: int) -> Gradients:
    found: list[Any] = [None] * count
    for i, g in zip(indices, gradients, strict=True):
        found[i] = g
    return tuple(found)


def _changed(kind: str, name: str, given: Any, known: Gradients) -> Gradients:
    """The gradients after a hook: what it returned in their place, if anything."""
    if given is None:
        return known
    changed = given if isinstance(given, tuple) else (given,)
    if len(changed) != len(known):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {name}, got {len(changed)}, but "
            f"expected {len(known)}"
        )
    return changed
