"""Every name of the documentation of torch.autograd 0.4 to 2.8, with its arguments.

Left out are what has its own tests: forward mode, the functional API, gradient checks, profiler.
The signatures are those of the documentation of 2.8; where torch is installed, it has them too.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

import ag_visual

from ..oracle import torch

# Name in torch, and the names of its arguments (those that may be left out with their default).
DOCUMENTED = """
autograd.backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, \
grad_variables=None, inputs=None)
autograd.grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, \
only_inputs=True, allow_unused=None, is_grads_batched=False, materialize_grads=False)
autograd.no_grad()
autograd.enable_grad()
autograd.set_grad_enabled(mode)
autograd.inference_mode(mode=True)
autograd.grad_mode.no_grad()
autograd.grad_mode.enable_grad()
autograd.grad_mode.set_grad_enabled(mode)
autograd.grad_mode.inference_mode(mode=True)
autograd.grad_mode.set_multithreading_enabled(mode)
autograd.detect_anomaly(check_nan=True)
autograd.set_detect_anomaly(mode, check_nan=True)
autograd.anomaly_mode.detect_anomaly(check_nan=True)
autograd.anomaly_mode.set_detect_anomaly(mode, check_nan=True)
autograd.Variable
autograd.variable.Variable
autograd.Function(*args, **kwargs)
autograd.Function.forward(*args, **kwargs)
autograd.Function.backward(ctx, *grad_outputs)
autograd.Function.jvp(ctx, *grad_inputs)
autograd.Function.vjp(ctx, *grad_outputs)
autograd.Function.setup_context(ctx, inputs, output)
autograd.Function.vmap(info, in_dims, *args)
autograd.Function.apply(*args, **kwargs)
autograd.Function.generate_vmap_rule
autograd.function.Function(*args, **kwargs)
autograd.function.FunctionCtx.mark_dirty(self, *args)
autograd.function.FunctionCtx.mark_non_differentiable(self, *args)
autograd.function.FunctionCtx.mark_shared_storage(self, *pairs)
autograd.function.FunctionCtx.save_for_backward(self, *tensors)
autograd.function.FunctionCtx.save_for_forward(self, *tensors)
autograd.function.FunctionCtx.set_materialize_grads(self, value)
autograd.function._ContextMethodMixin.mark_dirty(self, *args)
autograd.function._ContextMethodMixin.save_for_backward(self, *tensors)
autograd.function.BackwardCFunction.apply(self, *args)
autograd.function.InplaceFunction(inplace=False)
autograd.function.NestedIOFunction.forward_extended
autograd.function.NestedIOFunction.backward_extended
autograd.function.NestedIOFunction.mark_dirty
autograd.function.NestedIOFunction.mark_non_differentiable
autograd.function.NestedIOFunction.save_for_backward
autograd.function.once_differentiable(fn)
autograd.graph.Node.name(self)
autograd.graph.Node.metadata
autograd.graph.Node.next_functions
autograd.graph.Node.register_hook(self, fn)
autograd.graph.Node.register_prehook(self, fn)
autograd.graph.Node._sequence_nr(self)
autograd.graph.Node._input_metadata
autograd.graph.increment_version(tensor)
autograd.graph.saved_tensors_hooks(pack_hook, unpack_hook)
autograd.graph.save_on_cpu(pin_memory=False, device_type='cuda')
autograd.graph.disable_saved_tensors_hooks(error_message)
autograd.graph.register_multi_grad_hook(tensors, fn, *, mode='all')
autograd.graph.allow_mutation_on_saved_tensors()
autograd.graph.GradientEdge(node, output_nr)
autograd.graph.get_gradient_edge(tensor)
Tensor.grad
Tensor.requires_grad
Tensor.is_leaf
Tensor.grad_fn
Tensor.output_nr
Tensor.data
Tensor.retains_grad
Tensor._version
Tensor._base
Tensor.backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None)
Tensor.detach
Tensor.detach_
Tensor.requires_grad_
Tensor.register_hook(self, hook)
Tensor.register_post_accumulate_grad_hook(self, hook)
Tensor.retain_grad
Tensor._is_view
Tensor.is_inference
no_grad()
enable_grad()
set_grad_enabled(mode)
inference_mode(mode=True)
is_grad_enabled
is_inference_mode_enabled
is_inference
is_anomaly_enabled
is_anomaly_check_nan_enabled
utils.checkpoint.checkpoint(function, *args, use_reentrant=None, context_fn=..., \
determinism_check='default', debug=False, **kwargs)
utils.checkpoint.checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs)
utils.checkpoint.set_checkpoint_debug_enabled(enabled)
utils.checkpoint.set_checkpoint_early_stop(enable)
utils.checkpoint.noop_context_fn()
utils.checkpoint.CheckpointError
utils.hooks.RemovableHandle.remove(self)
""".split("\n")[1:-1]

# Arguments that 2.8 has by another name here: they are given by position.
_FREE = {"fn", "hook", "self", "name"}


def _found(module: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(module, part) and inspect.ismodule(module):
            importlib.import_module(f"{module.__name__}.{part}")
        module = getattr(module, part)
    return module


def _wanted(arguments: str) -> list[str]:
    return [a.strip() for a in arguments.rstrip(")").split(", ") if a.strip()]


def _missing(signature: inspect.Signature, wanted: list[str]) -> list[str]:
    """What of the documented arguments a signature lacks."""
    known = signature.parameters
    kinds = [p.kind for p in known.values()]
    absent = []
    for argument in wanted:
        name, _, default = argument.partition("=")
        if name in ("*", "self") or name in _FREE:
            continue
        if name.startswith("*"):
            kind = inspect.Parameter.VAR_KEYWORD if name[1] == "*" else None
            if (kind or inspect.Parameter.VAR_POSITIONAL) not in kinds:
                absent.append(argument)
        elif name not in known:
            absent.append(argument)
        elif default not in ("", "...") and repr(known[name].default) != default:
            absent.append(f"{argument} (is {known[name].default!r})")
    return absent


@pytest.mark.parametrize("line", DOCUMENTED, ids=lambda line: line.split("(")[0])
def test_documented_names_and_arguments(line: str) -> None:
    path, called, arguments = line.partition("(")
    mine = _found(ag_visual, path)
    if called:
        wanted = _wanted(arguments)
        assert not _missing(inspect.signature(mine), wanted)
        required = [
            p.name
            for p in inspect.signature(mine).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        given = [a for a in wanted if "=" not in a and not a.startswith("*")]
        assert len(required) <= len(given), f"needs {required}, the documentation gives {given}"
    assert _found(torch, path) is not None
    documented = inspect.getdoc(mine)
    assert documented or not callable(mine), f"{path} has no docstring"


def test_the_walk_notices_what_is_missing() -> None:
    signature = inspect.signature(ag_visual.autograd.grad)
    assert _missing(signature, ["outputs", "no_such"]) == ["no_such"]
    assert _missing(signature, ["create_graph=True"]) == ["create_graph=True (is False)"]
    assert _missing(signature, ["*args", "**kwargs"]) == ["*args", "**kwargs"]
