"""Whole Jacobians that a program computed, as an observer is told of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ag_visual.events import instrument


class End(NamedTuple):
    """What the rows (outputs) or columns (inputs) of a block stand for.

    seq: of the node that made it, or of the leaf; None where there is none.
    """

    name: str
    shape: tuple[int, ...]
    seq: int | None


class Jacobian(NamedTuple):
    """blocks: of each output by each input, arrays of shape (*output, *input)."""

    kind: str  # jacrev, jacfwd, jacobian or hessian
    function: str
    rows: Sequence[End]
    columns: Sequence[End]
    blocks: Sequence[Sequence[Any]]


def seq_of(tensor: Any) -> int | None:
    """The number of the node that made a tensor, or of a leaf's; None where there is none."""
    edge = getattr(tensor, "_edge", None)
    if edge is not None:
        number: int = edge[0].seq
        return number
    leaf = getattr(tensor, "_leaf", None)
    node = None if leaf is None or leaf.accumulator is None else leaf.accumulator()
    return None if node is None else node.seq


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called; 'f' where it has no name of its own."""
    name = getattr(function, "__name__", "f")
    return "f" if name == "<lambda>" else str(name)


def names_of(function: Callable[..., Any], arguments: Sequence[int], sizes: Sequence[int]) -> Any:
    """Names of the leaves of chosen arguments, each of which has so many."""
    try:
        known = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        known = []
    found: list[str] = []
    for at, size in zip(arguments, sizes, strict=True):
        name = known[at] if 0 <= at < len(known) else f"input {at}"
        found += [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]
    return found


def emit(
    kind: str,
    function: Callable[..., Any],
    columns: Sequence[End],
    seqs: Sequence[int | None],
    blocks: Sequence[Sequence[Any]],
) -> None:
    """Tell who listens of a Jacobian. seqs: of the nodes of the outputs; blocks: of Tensors."""
    heard = instrument.jacobian
    if heard is None:
        return
    shapes = [row[0]._array.shape for row in blocks]
    shapes = [tuple(shape[: len(shape) - len(columns[0].shape)]) for shape in shapes]
    name = name_of(function)
    names = [f"{name}[{i}]" for i in range(len(shapes))] if len(shapes) > 1 else [name]
    if kind == "hessian" and len(columns) == len(shapes):
        # The outputs are the gradients of the inputs.
        names, seqs = [end.name for end in columns], [end.seq for end in columns]
    rows = [End(*row) for row in zip(names, shapes, seqs, strict=True)]
    heard(Jacobian(kind, name, rows, columns, [[x._array for x in row] for row in blocks]))
