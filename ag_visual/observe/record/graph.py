"""The backward graph as it stands: walking it without recursion, and emitting it as events.

Used where nobody recorded while the graph grew: show(loss), to_dot(loss), a recording that begins
in the middle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ag_visual.events.live import LiveNode
from ag_visual.events.log import EventLog


def walk(roots: Iterable[LiveNode], known: Collection[int] = ()) -> list[LiveNode]:
    """All nodes below `roots` in order of creation, not looking below those whose seq is known."""
    pending = [node for node in roots if node.seq not in known]
    found = {node.seq: node for node in pending}
    while pending:
        for node, _ in pending.pop().next_functions:
            if node is not None and node.seq not in found and node.seq not in known:
                found[node.seq] = node
                pending.append(node)
    return [found[seq] for seq in sorted(found)]


def emit_creations(nodes: Iterable[LiveNode], log: EventLog) -> None:
    """Log now what the creation of these nodes would have logged."""
    for node in nodes:
        node.emit_creation(log)
