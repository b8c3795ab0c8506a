"""torch.func: functions of functions. So far the call of a module with other parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.nn.module import Module
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


__all__ = ["functional_call"]
__dir__ = _only(__all__, __name__)

__getattr__ = _absent.asked(__name__, "func")
