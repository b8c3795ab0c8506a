"""A backward of torch's engine as readers know one (`events.live.LiveBackward`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter, itemgetter
from threading import Lock, get_ident
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from ag_visual.bridge.arrays import array_or_none, dtypes, tensor_of
from ag_visual.bridge.arrival import Arrivals, take_out
from ag_visual.bridge.node import FREED, TorchNode
from ag_visual.bridge.saved import KEY, read_saved
from ag_visual.events import live
from ag_visual.events.log import EventLog, run_record
from ag_visual.events.memory import CallSite

NOWHERE: Any = (None, 0)


Run = tuple[TorchNode, int, int, Any, Any, int]
"""A node that runs or ran: the node, when torch came to it, the thread, its `arrays.Figures`, when
it began."""

START: Final = 5


class Unrecorded:
    """A backward of which only errors are explained: where it was called, for what it frees."""

    __slots__ = ("functions", "call_site", "roots")

    def __init__(self, roots: list[Any], call_site: CallSite) -> None:
        self.roots = roots
        self.call_site = call_site
        # torch lets go of nodes as it runs them, unless a tensor holds the graph: held until then.
        self.functions = list(dict.fromkeys(function for function, _ in roots))
        seen = set(self.functions)
        for function in self.functions:  # it grows
            for below, _ in function.next_functions:
                if below is not None and below not in seen:
                    seen.add(below)
                    self.functions.append(below)

    def frees(self, *, some: bool) -> None:
        """It ran to its end and kept nothing. some: it may not have run all nodes."""
        call_site = self.call_site or NOWHERE
        for function in self.functions:
            metadata = function.metadata
            if some and read_saved(function):
                continue
            metadata[FREED] = call_site
            node = metadata.get(KEY)
            if type(node) is TorchNode:
                node.freed = call_site


class Backward:
    """One backward under way. nodes: those that it may run, by torch's own.

    While it runs it only notes what arrived where and when; records are made of that by who takes
    them (`emit_runs`).
    """

    __slots__ = (
        *(
            "__weakref__",
            "_ended",
            "_failing",
            "_functions",
            "_lock",
            "_open",
            "_ordered",
            "_emitted",
        ),
        *(
            "call_site",
            "create_graph",
            "error",
            "failed",
            "given",
            "id",
            "leaves",
            "log",
            "over",
        ),
        *(
            "modeless",
            "needed",
            "nodes",
            "parent",
            "put",
            "retain",
            "runs",
            "root_edges",
            "thread",
            "total",
            "unrun",
        ),
    )

    def __init__(
        self,
        roots: Sequence[TorchNode],
        nodes: dict[Any, TorchNode],
        *,
        call_site: CallSite,
        retain: bool,
        create_graph: bool,
        parent: Backward | None,
        failed: Callable[[Exception], None],
        part: bool = False,
    ) -> None:
        """part: the gradients of certain inputs alone are wanted."""
        self.id = next(live.tasks)
        self.thread = get_ident()
        self.total = len(nodes)
        self.parent = parent
        self.root_edges = [(node, 0) for node in roots]
        self.nodes = nodes
        self._functions: dict[TorchNode, Any] | None = None
        self.call_site = call_site
        self.retain = retain
        self.create_graph = create_graph
        self.failed = failed
        self.over = False
        self.error = ""
        self.needed: tuple[()] | None = () if part else None
        self.unrun: set[TorchNode] = set()  # those that torch does not run
        self.modeless = 0  # a thread in which no function mode is on while it runs
        self.leaves: list[Any] = []  # the figures of leaves
        self.given: Any = (
            None  # node, what identifies its gradient, figures of it: the last large one
        )
        self.runs: list[Run] = []
        self.put = self.runs.append
        self.log: EventLog | None = None  # where runs from `_emitted` on are to be recorded
        self._emitted = 0
        self._ordered = 0  # runs that were recorded or left out, of which each has its number
        self._open: dict[int, Run] = {}  # of each thread, the one that was not recorded yet
        self._failing: set[TorchNode] = set()
        self._ended = 0
        self._lock = Lock()

    @property
    def roots(self) -> tuple[TorchNode, ...]:
        """The nodes that it begins with."""
        return tuple(node for node, _ in self.root_edges)

    def results(self) -> list[Any]:
        """The arrays of the tensors that it was called of, where they are at hand."""
        return [node.result() for node, _ in self.root_edges]

    @property
    def counts(self) -> Collection[TorchNode]:
        """All nodes that it may reach."""
        return self.nodes.values()

    @property
    def functions(self) -> dict[TorchNode, Any]:
        """torch's own node of each."""
        found = self._functions
        if found is None:
            found = self._functions = dict(zip(self.nodes.values(), self.nodes, strict=True))
        return found

    @property
    def order(self) -> int:
        """Nodes that have run, with the one that runs."""
        return len(self.runs)

    @property
    def current(self) -> TorchNode | None:
        """The node that runs, or ran last."""
        runs = self.runs
        return runs[-1][0] if runs else None

    def hook(self, arrivals: Arrivals, captured: Sequence[TorchNode]) -> None:
        """Be called before each node. captured: those whose gradients are asked for (inputs=)."""
        unrun = self.unrun = self._unrun(captured) if captured else set()
        carrier, put = arrivals.carrier, arrivals.put
        for function, node in self.nodes.items():
            if unrun and node in unrun:
                continue
            node.task = self
            if node.hook is carrier:
                continue
            if node.simple:
                node.hook = carrier
                function._register_hook_dict(carrier)
            else:
                put(node, function)

    def _unrun(self, captured: Sequence[TorchNode]) -> set[TorchNode]:
        """Those of which torch takes what arrives, and runs them not: they lead to no other one."""
        asked = set(captured)
        leads: set[TorchNode] = set()
        before = -1
        while len(leads) > before:  # twice, but where threads have numbered nodes side by side
            before = len(leads)
            for node in sorted(self.counts, key=attrgetter("seq")):
                if any(below in asked or below in leads for below, _ in node.next_functions):
                    leads.add(node)
        return asked - leads

    def unhook(self, freed: CallSite = None) -> None:
        """Be called no more; the backward around it is again, where it runs the same nodes.

        freed: where the backward was called that has freed all nodes.
        """
        parent = self.parent
        around = {} if parent is None else parent.functions
        for node in self.counts:
            if freed is not None and not node.leaf:
                node.freed = freed
            if node.task is self:
                node.task = parent if node in around else None
                if not node.simple and node.task is None:
                    take_out(node)

    def catch_up(self, now: int) -> None:
        """Record what has run in this thread: before the next node it may stop for long."""
        if self.log is None:
            return
        self.emit_runs(self.log)
        with self._lock:
            last = self._open.pop(get_ident(), None)
            if last is not None:
                self._emit(self.log, last, now)

    def gated(self, gate: Any, node: TorchNode, grads: Any) -> Any:
        """Ask who may stop here; the gradients that go on where they were changed, else None."""
        arrays = [array_or_none(grad) for grad in grads]
        given = list(arrays)
        changed = gate(self, node, given)
        if all(new is old for new, old in zip(changed, arrays, strict=True)):
            return None
        return tuple(
            [
                grad if new is old else tensor_of(new, grad)
                for grad, new, old in zip(grads, changed, arrays, strict=True)
            ]
        )

    def end(self, error: str, *, whole: bool) -> None:
        """It is over. error: the name of the one that ended it, or ''. whole: all nodes gave back
        what they saved.
        """
        self.error = error
        if error and not self.over:
            last = {run[2]: run[0] for run in self.runs}
            self._failing = {node for node in last.values() if not self._came_to_its_end(node)}
        self._ended = perf_counter_ns()
        self.over = True
        call_site = None if self.retain else self.call_site or NOWHERE
        if call_site is not None and not whole:
            for function, node in self.nodes.items():
                if node.saved and not read_saved(function):
                    node.freed = call_site
        self.unhook(call_site if whole else None)
        self.nodes, self._functions = {}, None
        self.root_edges = []

    def _came_to_its_end(self, node: TorchNode) -> bool:
        """Whether it was not the last node that failed, but what came after, as far as one sees."""
        if node.computes or (self.retain and node.saved):
            return False
        return not node.saved or not read_saved(self.functions[node])

    # events.log.LateRuns -------------------------------------------------------------------------

    def emit_from_now_on(self, log: EventLog | None) -> None:
        """Runs from now on are recorded there, or nowhere."""
        if self.log is not None:
            self.emit_runs(self.log)
        self.log = log
        if log is not None:
            log.late_runs.append(self)

    @property
    def pending(self) -> int:
        """How many runs it has no record of yet."""
        return len(self.runs) - self._emitted

    def emit_runs(self, log: EventLog) -> bool:
        """Record into this log the runs that have ended; whether others are to come."""
        if log is not self.log:
            return False
        with self._lock:
            over = self.over
            later = self.runs[self._emitted :]
            self._emitted += len(later)
            running = self._open
            for run in later:
                before = running.get(run[2])
                if before is not None:
                    self._emit(log, before, run[1])
                running[run[2]] = run
            if over:
                for run in sorted(running.values(), key=itemgetter(START)):
                    if run[0] not in self._failing:
                        self._emit(log, run, self._ended)
                self._open, self.runs, self._emitted = {}, [], 0
            return not over

    def _emit(self, log: EventLog, run: Run, ended: int) -> None:
        """Record a run."""
        node, _, _, value, dtype, began = run
        order = self._ordered
        self._ordered = order + 1
        if dtype is not None:
            kind = dtypes[dtype]
            value = np.asarray(value, kind).tobytes()
            log.run((run_record(node.seq, self.id, order, began, ended, len(value)), value, kind))
        elif value is not None:
            log.run((run_record(node.seq, self.id, order, began, ended, 0), value, None))
