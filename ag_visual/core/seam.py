"""The only way out for events: module variables that an observer sets and that cost one load.

Read them as `seam.sink` (never `from seam import sink`), once per operation. Events are plain
tuples of ints, strings, shapes and weak references; their first field is one of the kinds below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NODE, LEAF, EXEC, BEGIN, END, WRITE, HOOK, CALL = range(8)

Event = tuple[Any, ...]
# The kind first; t in perf_counter_ns; dtype is the array library's. Flat tuples where there are
# several of something: a container per event is what recording costs most.
#   NODE  t, thread, seq, class, code, lasti, edges (seq or -1, number, ...), shape, dtype, outputs,
#         saved (name, storage, version, shape, dtype, is own output, ...), weak reference to it
#   LEAF  t, thread, seq, shape, dtype, storage, weak reference to the leaf tensor
#   EXEC  t0, t1, thread, seq, task, order, |g|^2 (nan possible, -1: no gradient), is non-finite
#   BEGIN t, thread, task, code, lasti, seqs of the roots, nodes to run, retain
#   END   t, thread, task, name of the error or ''
#   WRITE t, thread, storage, version, writes, op, code, lasti, shape, dtype
#   HOOK  t, thread, seq, task, kind, hook's name, output, handle's id (-1: none), code and lasti of
#         where it was added, effect, factor, error; before and after: |g|^2, min, max, NaNs, infs
#   CALL  t, thread, call, call around it (0: none, -1: this call ends), name in it, class: a module

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
