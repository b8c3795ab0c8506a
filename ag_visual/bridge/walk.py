"""Finding the nodes of a graph of torch's that nobody has looked at yet."""

from __future__ import annotations

import operator
import weakref
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any, Final

from ag_visual.bridge.node import CODE, FIRST_RANK, SHAPE, Birth, TorchNode
from ag_visual.bridge.saved import KEY, Last
from ag_visual.events.node_record import sequence

Root = tuple[Any, "weakref.ref[Any] | None"]
"""torch's node that a graph ends in, and the tensor that it made."""

MOST_UNWIRED: Final = 4096
"""Nodes that are held until somebody asks for one from below: who records asks soon."""

Edges = Sequence[tuple[Any, int]]
New = tuple[int, Any, Any, Edges, Any]
"""A node of torch's: its sequence number, itself, its birth or None, edges, metadata."""


def discover(
    roots: Sequence[Root],
    others: Sequence[Root],
    thread: int,
    numbers: dict[int, list[tuple[str, int]]] | None = None,
    births: Mapping[int, Birth] = MappingProxyType({}),
) -> tuple[list[TorchNode], dict[Any, TorchNode]]:
    """Find the new nodes below `roots` and below others.

    Returns the new ones in the order in which torch made them, and all nodes below `roots`, by
    torch's own. thread: of those of which nobody saw the operation. numbers: names and
    numbers of new ones are added to it, by torch's sequence number. births: those that are in no
    metadata, by torch's sequence number.
    """
    # In many short steps, most of them in C, it takes half as long as in one loop with them all.
    known: dict[Any, Any] = {None: None}
    functions: list[Any] = []
    below_known: list[Edges] = []
    reached = 0  # how many are below `roots`
    # The last ones first: most of the others are found below them.
    for beginning, all_below in (roots, True), (others, False):
        for function, _ in reversed(beginning):
            if function in known:
                continue
            known[function] = None
            pending = [function]
            for function in pending:  # it grows
                edges: Edges = ()
                if all_below or type(function.metadata.get(KEY)) is not TorchNode:
                    edges = function.next_functions
                    for under, _ in edges:
                        if under not in known:
                            known[under] = None
                            pending.append(under)
                below_known.append(edges)
            functions += pending
        if all_below:
            reached = len(functions)
    data = [function.metadata for function in functions]
    ranks = [function._sequence_nr() for function in functions]
    found: list[Any] = [
        (data_of.get(KEY) if data_of else None) or births.get(rank)
        for data_of, rank in zip(data, ranks, strict=True)
    ]
    order: list[New] = list(zip(ranks, functions, found, below_known, data, strict=True))
    if TorchNode in map(type, found):
        known.update({each[1]: each[2] for each in order if type(each[2]) is TorchNode})
        order = [each for each in order if type(each[2]) is not TorchNode]
    order.sort(key=_rank)
    leaves = bisect_left(order, _LEAF_RANK, key=_rank)
    unborn = {each[1]: each[0] for each in order[:leaves] if each[2] is None}
    if unborn:
        order = _inherited(order, unborn)
    if leaves < len(order):
        order = [*order[leaves:], *order[:leaves]]
    last = Last()
    new, unwired, broken = [], [], []
    for (rank, function, birth, below, metadata), seq in zip(order, sequence, strict=False):
        known[function] = node = TorchNode()
        node.know(function, seq, metadata, birth or _no_birth(thread), last)
        if len(below) == 2:  # spelled out, as most nodes have one or two
            (one, at), second = below
            under = known[one]
            other, place = second
            if other is not None:
                beside = known[other]
                second = beside, place
                if beside is None:
                    unwired.append((node, below))
            node.next_functions = (under, at), second
            if under is None:
                unwired.append((node, below))
        elif len(below) == 1:
            ((one, at),) = below
            under = known[one]
            node.next_functions = ((under, at),)
            if under is None:
                unwired.append((node, below))
        else:
            node.next_functions = ()
            if below:
                unwired.append((node, below))
        metadata[KEY] = node
        new.append(node)
        if node.breaks is not None:
            broken.append(node)
        if numbers is not None and rank != _LEAF_RANK:
            numbers.setdefault(rank, []).append((node.name(), node.seq))
    # What threads numbered side by side may lead to a node with a higher number than its own.
    for node, below in unwired:
        node.next_functions = tuple([(known[under], at) for under, at in below])
    for node in broken:
        node.find_makers()
    TorchNode.unwired.extend(new)
    if len(TorchNode.unwired) > MOST_UNWIRED:
        TorchNode.wire_back()
    for function, tensor in (*roots, *others):
        if tensor is not None:
            known[function].made_tensor(tensor)
    if reached < len(functions):
        return new, {function: known[function] for function in functions[:reached]}
    del known[None]
    return new, known


def _no_birth(thread: int) -> Birth:
    """That of a node of which nobody saw the operation."""
    return None, 0, perf_counter_ns(), thread, 0, 0, None, None, None


def _inherited(order: list[New], unborn: dict[Any, int]) -> list[New]:
    """The same, nodes without a birth with that of the operation that made a node above them, too.

    unborn: their sequence numbers. The shape and the dtype are those of the node above.
    """
    births: dict[Any, Any] = {}
    for _, function, birth, below, _ in reversed(order):
        if not unborn:
            break
        birth = birth or births.get(function)
        if birth is not None and birth[CODE] is not None:
            for under, _ in below:
                if under in unborn and birth[FIRST_RANK] <= unborn[under]:
                    births[under] = *birth[:SHAPE], None, None, None
                    del unborn[under]
    return [(rank, one, birth or births.get(one), *rest) for rank, one, birth, *rest in order]


_LEAF_RANK: Final = 2**64 - 1
_rank: Final = operator.itemgetter(0)
"""torch's sequence number, and that of all leaves."""
