"""The only way out for events: module variables that an observer sets and that cost one load.

Read them as `seam.sink` (never `from seam import sink`), once per operation. Events are plain
tuples of ints, strings, shapes and weak references; their first field is one of the kinds below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NODE, LEAF, EXEC, BEGIN, END, WRITE, HOOK = range(7)

Event = tuple[Any, ...]

# Called with one event tuple. Hot: usually `deque.append`.
sink: Callable[[Event], None] | None = None

# Asked before each node runs: gate(task, node, gradients) -> gradients. May block, may raise.
gate: Callable[[Any, Any, list[Any]], list[Any]] | None = None

# Told once per backward, in its thread, before the first and after the last node: begin(task),
# end(task). Unlike BEGIN and END events they see the user's frames, and work without a sink.
begin: Callable[[Any], None] | None = None
end: Callable[[Any], None] | None = None

# Told once of each structured autograd error or warning: problem(exception, fields).
problem: Callable[[BaseException, dict[str, Any]], None] | None = None
