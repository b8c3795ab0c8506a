"""Finding the nodes of a graph of torch's that nobody has looked at yet."""

from __future__ import annotations

import operator
import weakref
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ag_visual.bridge.node import Birth, TorchNode
from ag_visual.bridge.saved import KEY, Last

Root = tuple[Any, "weakref.ref[Any] | None"]
"""torch's node that a graph ends in, and the tensor that it made."""

MOST_UNWIRED: Final = 4096
"""Nodes that are held until somebody asks for one from below: who records asks soon."""

New = tuple[int, Any, Birth | None, Any, Any]
"""A node of torch's that has no record: its sequence number, itself, birth, edges, metadata."""

NO_BIRTH: Final[Birth] = (None, 0, 0, 0, 0, 0, None, None, None)


def discover(
    roots: Sequence[Root],
    others: Sequence[Root],
    thread: int,
    numbers: dict[int, list[tuple[str, int]]] | None = None,
    births: Mapping[int, Birth] = MappingProxyType({}),
) -> tuple[list[TorchNode], dict[TorchNode, Any]]:
    """Find the new nodes below `roots` and below others.

    Returns the new ones in the order in which torch made them, and all nodes below `roots`, each
    with torch's own. thread: of those of which nobody saw the operation. numbers: names and
    numbers of new ones are added to it, by torch's sequence number. births: those that are in no
    metadata, by torch's sequence number.
    """
    order: list[New] = []
    known: dict[Any, Any] = {}
    seen: set[Any] = {None}
    pending = [function for function, _ in roots]
    # The last ones first: most of the others are found below them.
    later = [function for function, _ in others]
    reached: list[Any] = []  # all below `roots`
    walking_roots, all_born = True, True
    while pending or walking_roots:
        if not pending:
            pending, walking_roots = later, False
            continue
        function = pending.pop()
        if function in seen:
            continue
        seen.add(function)
        if walking_roots:
            reached.append(function)
        metadata = function.metadata
        birth = metadata.get(KEY)
        if type(birth) is TorchNode:
            known[function] = birth
            if not walking_roots:
                continue
            below = function.next_functions
        else:
            below = function.next_functions
            rank = function._sequence_nr()
            if birth is None and rank != _LEAF_RANK:
                birth = births.get(rank)
                all_born = all_born and birth is not None
            order.append((rank, function, birth, below, metadata))
        for following, _ in below:
            if following not in seen:
                pending.append(following)
    order.sort(key=_rank)
    if not all_born:
        order = _inherited(order)
    leaves = bisect_left(order, _LEAF_RANK, key=_rank)
    new, unwired, broken = [], [], []
    last = Last()
    for _, function, birth, below, metadata in (*order[leaves:], *order[:leaves]):
        node = TorchNode(function, metadata, birth or NO_BIRTH, thread, last)
        known[function] = metadata[KEY] = node
        new.append(node)
        if below:
            try:
                wired = []
                for edge in below:  # no comprehension: it would be a call for each node
                    under, at = edge
                    wired.append(edge if under is None else (known[under], at))
                node.next_functions = tuple(wired)
            except KeyError:  # threads have numbered nodes side by side
                unwired.append((node, below))
        if node.breaks is not None:
            broken.append(node)
    known[None] = None
    for node, below in unwired:
        node.next_functions = tuple([(known[under], at) for under, at in below])
    for node in broken:
        node.find_makers()
    TorchNode.unwired.extend(new)
    if len(TorchNode.unwired) > MOST_UNWIRED:
        TorchNode.wire_back()
    if numbers is not None:
        for rank, function, *_ in order[:leaves]:
            node = known[function]
            numbers.setdefault(rank, []).append((node.name(), node.seq))
    for function, tensor in (*roots, *others):
        if tensor is not None:
            known[function].made_tensor(tensor)
    return new, {known[function]: function for function in reached}


def _inherited(order: list[New]) -> list[New]:
    """The same, nodes without a birth with that of the operation that made a node above them, too.

    The shape and the dtype are those of the node above.
    """
    births = {function: birth for _, function, birth, *_ in order}
    ranks = {function: rank for rank, function, *_ in order}
    for _, function, _, below, _ in reversed(order):
        birth = births[function]
        if birth is None or birth[0] is None:
            continue
        for under, _ in below:
            if births.get(under, NO_BIRTH) is None and birth[4] <= ranks[under] < _LEAF_RANK:
                births[under] = *birth[:6], None, None, None
    return [(rank, each, births[each], below, data) for rank, each, _, below, data in order]


_LEAF_RANK: Final = 2**64 - 1
_rank: Final = operator.itemgetter(0)
"""torch's sequence number, and that of all leaves."""
