"""Finding the nodes of a graph of torch's that nobody has looked at yet."""

from __future__ import annotations

import operator
import weakref
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from ag_visual.bridge.node import Birth, TorchNode
from ag_visual.bridge.saved import KEY, Last

Root = tuple[Any, "weakref.ref[Any] | None"]
"""torch's node that a graph ends in, and the tensor that it made."""

MOST_UNWIRED: Final = 4096
"""Nodes that are held until somebody asks for one from below: who records asks soon."""

NO_BIRTH: Final[Birth] = (None, 0, 0, 0, 0, 0, None, None)


def discover(
    roots: Sequence[Root],
    others: Sequence[Root],
    thread: int,
    numbers: dict[int, list[tuple[str, int]]] | None = None,
) -> tuple[list[TorchNode], dict[TorchNode, Any]]:
    """Find the new nodes below `roots` and below others.

    Returns the new ones in the order in which torch made them, and all nodes below `roots`, each
    with torch's own. thread: of those of which nobody saw the operation. numbers: names and
    numbers of new ones are added to it, by torch's sequence number.
    """
    found: dict[Any, tuple[Birth, Any, Any]] = {}  # of new ones, with edges and metadata
    known: dict[Any, Any] = {None: None}
    pending = [(function, NO_BIRTH) for function, _ in roots]
    # The last ones first: most of the others are found below them.
    later = [(function, NO_BIRTH) for function, _ in others]
    reached: list[Any] = []  # all below `roots`
    walking_roots = True
    while pending or walking_roots:
        if not pending:
            pending, walking_roots = later, False
            continue
        function, around = pending.pop()
        if function in known:
            continue
        before = found.get(function)
        if before is not None:
            # Reached before from another operation: the one that made it may come later.
            birth, below, metadata = before
            if birth[0] is not None or not _made_in(function, around):
                continue
            birth = *around[:6], None, None
            found[function] = birth, below, metadata
        else:
            if walking_roots:
                reached.append(function)
            metadata = function.metadata
            birth = metadata.get(KEY)
            if type(birth) is TorchNode:
                known[function] = birth
                if not walking_roots:
                    continue
                birth, below = NO_BIRTH, function.next_functions
            else:
                if birth is None:
                    birth = NO_BIRTH
                    if _made_in(function, around):
                        birth = *around[:6], None, None  # shape and dtype are of the node above
                below = function.next_functions
                found[function] = birth, below, metadata
        for following, _ in below:
            if following not in known:
                pending.append((following, birth))
    order = sorted(found, key=_rank)
    leaves = bisect_left(order, _LEAF_RANK, key=_rank)
    order = order[leaves:] + order[:leaves]
    new, unwired = [], []
    broken = []
    last = Last()
    for function in order:
        birth, below, metadata = found[function]
        node = TorchNode(function, metadata, birth, thread, last)
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
        for function, node in zip(order, new, strict=True):
            if not node.leaf:
                numbers.setdefault(_rank(function), []).append((node.name(), node.seq))
    for function, tensor in (*roots, *others):
        if tensor is not None:
            known[function].made_tensor(tensor)
    return new, {known[function]: function for function in reached}


def _wire(node: TorchNode, below: Any, known: dict[Any, Any]) -> None:
    """Give a node its edges, which torch has as `below`."""
    wired = []
    for each, at in below:
        wired.append((known[each], at))  # no comprehension: it would be a call for each node
    node.next_functions = tuple(wired)


_LEAF_RANK: Final = 2**64 - 1
_rank: Final = operator.methodcaller("_sequence_nr")
"""torch's sequence number, and that of all leaves."""


def _made_in(function: Any, birth: Birth) -> bool:
    """Whether the operation that made a node above made this one, too."""
    return birth[0] is not None and birth[4] <= function._sequence_nr() < _LEAF_RANK
