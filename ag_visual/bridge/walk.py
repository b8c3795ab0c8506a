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
    found: dict[Any, New] = {}
    known: dict[Any, Any] = {None: None}
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
        if function in known or function in found:
            continue
        if walking_roots:
            reached.append(function)
        metadata = function.metadata
        below = function.next_functions
        birth = metadata.get(KEY)
        if type(birth) is TorchNode:
            known[function] = birth
            if not walking_roots:
                continue
        else:
            rank = function._sequence_nr()
            if birth is None:
                birth = births.get(rank)
                all_born = all_born and (birth is not None or rank == _LEAF_RANK)
            found[function] = rank, function, birth, below, metadata
        for following, _ in below:
            if following not in known:
                pending.append(following)
    order = sorted(found.values(), key=_rank)
    if not all_born:
        _inherit(order, found)
        order = sorted(found.values(), key=_rank)
    leaves = bisect_left(order, _LEAF_RANK, key=_rank)
    new, unwired = [], []
    broken = []
    last = Last()
    for _, function, birth, below, metadata in (*order[leaves:], *order[:leaves]):
        node = TorchNode(function, metadata, birth or NO_BIRTH, thread, last)
        known[function] = metadata[KEY] = node
        new.append(node)
        if below:
            try:
                _wire(node, below, known)
            except KeyError:  # threads have numbered nodes side by side
                unwired.append((node, below))
        if node.breaks is not None:
            broken.append(node)
    for node, below in unwired:
        _wire(node, below, known)
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


def _inherit(order: list[New], found: dict[Any, New]) -> None:
    """Give nodes without a birth that of the operation that made a node above them, too.

    The shape and the dtype are those of the node above.
    """
    for _, function, *_ in reversed(order):
        birth, below = found[function][2:4]
        if birth is None or birth[0] is None:
            continue
        for following, _ in below:
            under = found.get(following)
            if under is not None and under[2] is None and birth[4] <= under[0] < _LEAF_RANK:
                found[following] = *under[:2], (*birth[:6], None, None, None), *under[3:]


def _wire(node: TorchNode, below: Any, known: dict[Any, Any]) -> None:
    """Give a node its edges, which torch has as `below`."""
    wired = []
    for each, at in below:
        wired.append((known[each], at))  # no comprehension: it would be a call for each node
    node.next_functions = tuple(wired)


_LEAF_RANK: Final = 2**64 - 1
_rank: Final = operator.itemgetter(0)
"""torch's sequence number, and that of all leaves."""
