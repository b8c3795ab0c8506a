"""Instrumentation hooks: module variables that an observer sets and that cost one load.

Read them as `instrument.sink` (never `from instrument import sink`), once per operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ag_visual.events.log import EventLog
    from ag_visual.events.spans import SpanLog

# Where events go while somebody records.
sink: EventLog | None = None

# Called by a reader before it takes what the log holds: an engine that writes late writes now.
behind: Callable[[], None] | None = None

# Where spans go while somebody profiles. Ops of the table write theirs by code that the reader puts
# around them (ag_visual.profiler.wrappers): here is nothing to ask while nobody does.
spans: SpanLog | None = None

# Asked before each node runs: gate(task, node, gradients) -> gradients. May block, may raise.
gate: Callable[[Any, Any, list[Any]], list[Any]] | None = None

# Called once per backward, in its thread, before the first and after the last node: begin(task),
# end(task). Unlike BEGIN and END events they see the user's frames, and work without a sink.
begin: Callable[[Any], None] | None = None
end: Callable[[Any], None] | None = None

# Called with each whole Jacobian that the program computed (`jacobians.Jacobian`), at its end.
jacobian: Callable[[Any], None] | None = None

# Called when a level of forward mode is about to take the tangents of its tensors away:
# losing_tangents(since), a number below those of all nodes that were made while it was open.
losing_tangents: Callable[[int], None] | None = None

# Called with each profile that begins, and again when it has ended (`profiler.live.Live`).
profiled: Callable[[Any], None] | None = None

# Called once for each structured autograd error or warning: problem(exception, fields).
problem: Callable[[BaseException, dict[str, Any]], None] | None = None
