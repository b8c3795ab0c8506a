"""Sparse inputs: gradcheck changes the elements of dense tensors of which they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.autograd.gradcheck.problem import is_differentiable
from ag_visual.core.sparse import SparseTensor
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.sparse import assembled, on_positions
from ag_visual.layouts import strided


def check_dense(outputs: tuple[Tensor, ...]) -> None:
    """Raise ValueError for an output that is sparse."""
    if any(getattr(output, "layout", strided) is not strided for output in outputs):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call "
            "to_dense(masked_grad=...) on the output of fn for gradcheck."
        )


def of_dense(
    func: Callable[..., Any], given: tuple[Any, ...], masked: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of dense tensors in place of one whose inputs are sparse.

    masked: of the elements that they name; else of all, which a changed element then joins.
    """
    places = [i for i, x in enumerate(given) if type(x) is SparseTensor and is_differentiable(x)]
    if not places:
        return func, given
    positions = {i: given[i]._array.coalesced() for i in places}
    dense = list(given)
    for i, where in positions.items():
        array = where.values.copy() if masked else where.dense()
        dense[i] = from_array(array, requires_grad=True)

    def of_these(*args: Any) -> Any:
        made = list(args)
        for i, where in positions.items():
            if masked:
                made[i] = assembled(where.indices, args[i], where.shape, True)
            else:
                made[i] = on_positions(args[i], where)
        return func(*made)

    return of_these, tuple(dense)
