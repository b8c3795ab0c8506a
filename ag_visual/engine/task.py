"""GraphTask: what one backward was asked for and how far it is, with torch's name for it.

Nothing here runs a node. A node waits for as many gradients as edges lead to it; of those that wait
for none the one made last runs first, and an AccumulateGrad at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from ag_visual.core import node as nodes
from ag_visual.core.node import AccumulateGrad
from ag_visual.engine.streams import Streams
from ag_visual.events import live


class GraphTask:
    """One run of backward: what it was asked for and how far it is."""

    id: int
    # What was asked for:
    root_edges: Sequence[Any]  # the edges it begins with
    tensors: Sequence[Any]  # whose gradients those are, as far as known; let go of as it begins
    grads: Sequence[Any]  # what arrives there
    retain: bool
    create_graph: bool
    traced: bool  # gradients are Tensors: a graph of them is recorded, or they belong to a level
    call_site: Any
    inputs: Sequence[Any] | None  # edges whose gradients are wanted; None: those of all leaves
    into_leaves: bool  # with inputs: accumulate, instead of only returning
    # Where it runs:
    thread: int
    parent: GraphTask | None
    depth: int  # how many backwards it is nested in on its thread's stack
    callbacks: list[Callable[[], None]] | None  # to call when it has ended
    before: bool  # the grad mode of who called it
    modes: dict[str, Any] | None  # what all modes were before a hook changed one
    # Which nodes it runs:
    needed: set[Any] | None  # the nodes that run; None: all of the graph
    captured: set[Any] | frozenset[Any]  # the nodes whose gradients are returned
    quiet: set[Any] | frozenset[Any]  # that run, although no input's gradient is wanted
    reached: set[Any] | None  # that a gradient is passed on to; None: all
    captures: dict[Any, list[Any]]  # what has arrived at the captured ones
    ranks: dict[Any, int] | None  # their order, where `_set_sequence_nr` changed it
    plain: bool  # nodes run in their own order, and of leaves alone gradients are returned
    total: int
    streams: Streams | None  # where some of its nodes may have been made in another stream
    # How far it is:
    order: int  # how many have run
    error: str  # the name of the error that it ended in
    counts: dict[Any, int]  # how many gradients each node still waits for
    buffers: dict[Any, Any]  # what has arrived at those that wait: a sum, or one for each output
    owned: set[Any]  # those whose buffer is a sum that was made here: one may add to it in place
    ready: list[tuple[int, Any, Any]]  # a heap: minus the rank, node, what has arrived
    leaves: list[Any]  # accumulators that are ready
    __slots__ = ("__weakref__", *__annotations__)

    # No __init__, as a class without one makes its objects faster: `run_backward` fills one in.

    @property
    def roots(self) -> tuple[Any, ...]:
        """The nodes it begins with."""
        return tuple(edge[0] for edge in self.root_edges)

    def results(self) -> list[Any]:
        """The arrays of the tensors that it was called of, while observers are told of it."""
        return [None if each is None else live.whole(each._array) for each in self.tensors]

    def call_back(self) -> None:
        """Call what was queued for the end, what that queues included."""
        for callback in self.callbacks or ():
            callback()

    def will_run(self, node: Any) -> bool:
        """Whether this backward runs a node."""
        if node.leaf and node in self.captured and node in self.counts:
            raise RuntimeError(
                "A leaf node was passed to _will_engine_execute_node but we are currently "
                "running autograd.grad(). This is currently not supported."
            )
        return node in self.counts and self.reaches(node)

    def reaches(self, node: Any) -> bool:
        """Whether a gradient is passed on to a node of the graph."""
        return self.reached is None or node in self.reached

    def rank(self, node: Any) -> Any:
        """Its place among those that are ready: the highest runs first."""
        return node.seq if self.ranks is None else self.ranks[node]

    def whole(self) -> bool:
        """Does this backward, and every one it is nested in, run its whole graph?"""
        task: GraphTask | None = self
        while task is not None:
            if task.needed is not None:
                return False
            task = task.parent
        return True

    def execution_order(self) -> list[Any]:
        """All nodes in the order in which this backward runs them."""
        counts = dependencies([(root, 0) for root in self.roots])
        ranks = ranks_of(counts) or {n: n.seq for n in counts}
        ready = [(-ranks[n], n) for n in dict.fromkeys(self.roots) if not counts[n] and not n.leaf]
        heapify(ready)
        leaves = [n for n in dict.fromkeys(self.roots) if not counts[n] and n.leaf]
        order: list[Any] = []
        while leaves or ready:
            node = leaves.pop(0) if leaves else heappop(ready)[1]
            if self.reaches(node):
                order.append(node)
            for edge in node.next:
                if edge is None:
                    continue
                following = edge[0]
                counts[following] -= 1
                if counts[following]:
                    continue
                if following.leaf:
                    leaves.append(following)
                else:
                    heappush(ready, (-ranks[following], following))
        return order


def dependencies(roots: Sequence[Any]) -> dict[Any, int]:
    """How many gradients each reachable node waits for."""
    counts: dict[Any, int] = {}
    # It grows while it is read: quicker than a stack, and the nodes hold its tuples anyway.
    waiting: list[Any] = []
    for edge in roots:  # (a comprehension is a call)
        node = edge[0]
        if node not in counts:
            counts[node] = 0
            waiting.append(node.next)
    for nexts in waiting:
        for edge in nexts:
            if edge is not None:
                node = edge[0]
                if node in counts:
                    counts[node] += 1
                else:
                    counts[node] = 1
                    waiting.append(node.next)
    return counts


_by_age = operator.attrgetter("seq")


def leading_to(ends: set[Any], counts: dict[Any, int]) -> set[Any]:
    """The nodes that must run so that each of `ends` gets its gradient."""
    needed: set[Any] = set()
    # Inputs have lower sequence numbers than what uses them; leaves lead nowhere.
    for node in sorted([n for n in counts if type(n) is not AccumulateGrad], key=_by_age):
        for edge in node.next:
            if edge is not None and (edge[0] in needed or edge[0] in ends):
                needed.add(node)
                break
    return needed


def ranks_of(counts: dict[Any, int]) -> dict[Any, int] | None:
    """The place of each node in the order of sequence numbers; None where that is their age's."""
    given = nodes.renumbered
    if given is None or not any(node in counts for node in given):
        return None
    order = sorted(counts, key=lambda node: (given.get(node, node.seq), node.seq))
    return {node: rank for rank, node in enumerate(order)}
