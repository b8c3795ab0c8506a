"""Modules as functions of their parameters: `functional_call`, `stack_module_state`.

Source: https://pytorch.org/docs/2.8/func.api.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced
from ag_visual.nn.module import Module
from ag_visual.nn.normalization import _BatchNorm
from ag_visual.nn.utils.stateless import call_with

Tensors = Mapping[str, Any]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with these tensors in the places of its parameters and buffers.

    The tensors are named as in `named_parameters()` and `named_buffers()`; gradients flow to them,
    and the module is as it was afterwards. args: a tuple, or the one argument. tie_weights: a
    parameter with several names is replaced under all of them. strict: RuntimeError unless all
    names of the module are given and no other.

    >>> import ag_visual as ag
    >>> layer = ag.nn.Linear(2, 1, bias=False)
    >>> weight = ag.tensor([[1., 2.]], requires_grad=True)
    >>> ag.func.functional_call(layer, {"weight": weight}, ag.ones(1, 2))
    tensor([[3.]], grad_fn=<MmBackward0>)
    """
    return call_with(
        module,
        parameter_and_buffer_dicts,
        args,
        kwargs,
        tie_weights=tie_weights,
        strict=strict,
    )


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of several modules of one class, each stacked along a new dimension 0.

    They are what `functional_call` takes, mapped over by `vmap`: an ensemble in one call. The
    stacked parameters are leaves, which require grad where those of the modules do.
    RuntimeError for no module, modules of several classes, some in training mode and some not.

    >>> import ag_visual as ag
    >>> models = [ag.nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = ag.func.stack_module_state(models)
    >>> parameters["weight"].shape
    torch.Size([3, 1, 2])
    """
    if not len(models):
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    stacked = {name: _stacked(name, [p[name] for p in parameters]) for name in parameters[0]}
    return stacked, {name: _stacked(name, [b[name] for b in buffers]) for name in buffers[0]}


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch norm in a module, itself included, do without running statistics; returns it.

    What `vmap` refuses in training, as all slices would write them: each batch is normalised by its
    own statistics then, in evaluation, too.

    >>> import ag_visual as ag
    >>> ag.func.replace_all_batch_norm_modules_(ag.nn.BatchNorm1d(3)).running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def _stacked(name: str, tensors: list[Tensor]) -> Tensor:
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result: Tensor = traced.stack([t.detach() for t in tensors])
    return result.requires_grad_(wanted.pop())


__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]
