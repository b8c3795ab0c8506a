"""A backward of torch's engine as readers know one (`events.live.LiveBackward`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from ag_visual.bridge.arrays import array_of, tensor_of
from ag_visual.bridge.node import FREED, KEY, TorchNode, read_saved
from ag_visual.events import instrument, live
from ag_visual.events.log import run_record
from ag_visual.events.memory import CallSite

NOWHERE: Any = (None, 0)


Running = tuple[TorchNode, Any, int]
"""A node that runs, what arrived at it (`arrays.Measured`; None: nobody records), since when."""


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
    """One backward under way. functions: torch's own node of each that it may run."""

    __slots__ = (
        *("__weakref__", "counts", "create_graph", "current", "failed", "figures", "functions"),
        *("id", "order", "over", "parent", "call_site", "retain", "running", "starts", "thread"),
        "total",
    )

    def __init__(
        self,
        roots: Sequence[TorchNode],
        functions: dict[TorchNode, Any],
        *,
        call_site: CallSite,
        retain: bool,
        create_graph: bool,
        parent: Backward | None,
        failed: Callable[[Exception], None],
    ) -> None:
        self.id = next(live.tasks)
        self.thread = get_ident()
        self.order = 0
        self.total = len(functions)
        self.parent = parent
        self.starts = [(node, 0) for node in roots]
        self.functions = functions
        self.counts = dict.fromkeys(functions, 1)
        self.call_site = call_site
        self.retain = retain
        self.create_graph = create_graph
        self.current: TorchNode | None = None  # the node that runs, or ran last
        self.running: dict[int, Running] = {}  # of each thread
        self.figures: list[tuple[TorchNode, Any]] | None = None
        self.failed = failed
        self.over = False

    @property
    def roots(self) -> tuple[TorchNode, ...]:
        """The nodes that it begins with."""
        return tuple(node for node, _ in self.starts)

    def hook(self) -> list[TorchNode]:
        """Be called before each node. Returns those that had no hook yet."""
        fresh = []
        for node, function in self.functions.items():
            if node.handle is None:
                node.handle = function.register_prehook(node.before_run)
                fresh.append(node)
        return fresh

    def ran(self, last: Running, ended: int) -> None:
        """A node has run."""
        node, arrived, started = last
        order = self.order
        self.order = order + 1
        sink = instrument.sink
        if sink is None or arrived is None:
            return
        size = 0 if arrived[1] is None else len(arrived[0])
        sink.run((run_record(node.seq, self.id, order, started, ended, size), *arrived))
        if self.figures is not None:
            self.figures.append((node, arrived))

    def gated(self, gate: Any, node: TorchNode, grads: Any) -> Any:
        """Ask who may stop here; the gradients that go on where they were changed, else None."""
        arrays = [None if grad is None else array_of(grad) for grad in grads]
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

    def end(self, *, failed: bool, whole: bool) -> None:
        """It is over. whole: all nodes gave back what they saved."""
        self.over = True
        ended = perf_counter_ns()
        for last in sorted(self.running.values(), key=itemgetter(2)):
            if not failed or self._came_to_its_end(last[0]):
                self.ran(last, ended)
        self.running = {}
        if not self.retain:
            for node, function in self.functions.items():
                if not node.leaf and (whole or (node.saved and not read_saved(function))):
                    node.freed = self.call_site or NOWHERE
        self.functions = {}

    def _came_to_its_end(self, node: TorchNode) -> bool:
        """Whether it was not the last node that failed, but what came after, as far as one sees."""
        if node.computes or (self.retain and node.saved):
            return False
        return not node.saved or not read_saved(self.functions[node])
