"""A node of torch run to look at its numbers: by itself, outside of any backward.

A node of C++ that is called so runs none of its hooks, keeps what it saved and writes to nothing.
One that runs code of the program's (custom Functions, what hooks have packed) is never called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._C import DisableTorchFunction
from torch.utils._python_dispatch import _disable_current_modes

from ag_visual.bridge.arrays import array_of, tensor_of
from ag_visual.bridge.grad_mode import without_grad
from ag_visual.bridge.saved import read_saved


def reason_against(node: Any) -> str:
    """Why a node is not called to look, a sentence; empty where it can be."""
    name = node.name()
    if node.freed is not None:
        return f"{name} gave its saved tensors back: it has run already."
    with DisableTorchFunction():
        function = node.function()
        if function is None:
            return f"No living tensor leads to {name} any more."
        packed = [each.name for each in read_saved(function) if each.kind == "packed"]
    if packed:
        return f"{name} saved {packed[0]} through hooks of yours, which are not run."
    # Functions of Python and of C++ extensions; a copy of a slice may have one of them inside.
    if node.computes or name.endswith("CopySlices") or "CppNode" in name:
        return f"{name} may run code of yours: it is not run twice to look."
    return ""


def handed(node: Any, grads: Sequence[Any]) -> list[Any]:
    """The gradients that a node gives to its inputs for these, as torch's engine hands them on.

    grads: an array for each output, or None; in return an array for each input, or None. Raises
    LookupError where nothing leads to torch's own node, and what that raises.
    """
    with DisableTorchFunction(), _disable_current_modes():
        return without_grad(_handed, node, grads)  # type: ignore[no-any-return]


def _handed(node: Any, grads: Sequence[Any]) -> list[Any]:
    function = node.function()
    if function is None:
        raise LookupError(f"no living tensor leads to {node.name()} any more")
    given = [
        None if grad is None else tensor_of(grad, meta).reshape(meta.shape)
        for grad, meta in zip(grads, function._input_metadata, strict=True)
    ]
    results = function(*given)
    if not isinstance(results, tuple):
        results = (results,)
    found: list[Any] = []
    for (below, number), result in zip(function.next_functions, results, strict=True):
        if below is None or result is None:
            found.append(None)
            continue
        meta = below._input_metadata[number]
        if result.shape != meta.shape:  # what was broadcast is summed
            result = result.sum_to_size(meta.shape)
        found.append(array_of(result.to(meta.dtype)))
    return found
