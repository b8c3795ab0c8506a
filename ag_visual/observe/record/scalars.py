"""Every number of a tiny graph: values, gradients, and local derivatives between the numbers.

`numbers_of` looks at living nodes, `fill` lets a gradient of 1 run through what it found, and a
`ScalarLog` keeps what a running backward handed on. Large graphs are refused with the reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from ag_visual.arrays.quiet import quietly
from ag_visual.core.diagnosis.variable_names import tensors_in
from ag_visual.core.node import Node
from ag_visual.core.source import resolve
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import Op
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import (
    LiveBackward,
    LiveNode,
    Runnable,
    engine_of,
    engines,
    gradient_array,
    lanes,
    written_out,
)
from ag_visual.observe.formulas.local import (
    NUMBERS,
    Floats,
    Place,
    count,
    drawn,
    handed,
    host,
    op_of,
    reason_against,
    runs,
    saved_value,
    size_of,
    slopes,
    value_of,
)
from ag_visual.observe.record.allowance import Allowance
from ag_visual.observe.record.leaf_names import Scope
from ag_visual.observe.record.node_view import meta_of, outputs_of
from ag_visual.observe.record.recorder import Recorder

MOST_NODES: Final = 120
"""Nodes of one graph that are looked at number by number."""

MOST_KEPT: Final = 1200
"""Nodes of which a log keeps the numbers; the oldest go first."""

PATIENCE: Final = 1.0
"""Seconds of the processor that a debugger's block spends on looking; after that, only where a
backward stops."""

NOT_KEPT: Final[dict[str, Any]] = {
    "nodes": [],
    "seq": None,
    "why": "The numbers of this pass were not kept. Run it again with the panel open, record with "
    "torch.record(scalars=True), or stop in it.",
}

OF_ANOTHER: Final[dict[str, Any]] = {
    "nodes": [],
    "seq": None,
    "why": "Another engine made this graph, and its nodes are not run to look: local derivatives "
    "are known of graphs of this package alone.",
}

SECONDS_WATCHED: Final = 0.25
"""The same for backwards that a panel only watches: at first, then a twentieth of the time."""

Numbers = dict[str, Any]


def too_large(nodes: Sequence[LiveNode]) -> tuple[int | None, str]:
    """The node because of which this graph is not drawn number by number, and a sentence."""
    if len(nodes) > MOST_NODES:
        return None, (
            f"This graph has {len(nodes)} nodes; numbers are drawn one by one up to {MOST_NODES}. "
            "Take a smaller network."
        )
    for node in nodes:
        size = size_of(node)
        if size > NUMBERS:
            site = None if node.call_site is None else resolve(*node.call_site)
            where = f" ({site.where})" if site is not None else ""
            shape = "×".join(str(n) for n in node.output_meta[0][0]) or "a single number"
            leaf = node.leaf
            name = f"A leaf of shape {shape}" if leaf else f"{node.name()}{where}"
            more = "" if leaf else f" in what goes in and out (its output is {shape})"
            return node.seq, (
                f"{name} has {size} numbers{more}; "
                f"numbers are drawn one by one up to {NUMBERS} a node."
            )
    return None, ""


def listed(values: Floats | None) -> list[float | None] | None:
    """Numbers for JSON: row by row, None in place of what is not finite."""
    if values is None:
        return None
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values).ravel()]


def numbers_of(
    nodes: Iterable[Node | Runnable], scopes: Iterable[Scope] = ()
) -> dict[int, Numbers]:
    """A `Numbers` record (without gradients) of each living node, by node number.

    scopes: variables that name the nodes' outputs and hold their values. The nodes should be all
    of a graph, none of them larger than `NUMBERS`.
    """
    ordered = sorted(nodes, key=lambda node: node.seq)
    # Leaves may be younger than what uses them: their values do not depend on order.
    ordered.sort(key=lambda node: not node.leaf)
    known, labels = _variables(ordered, scopes)
    _saved_inputs(ordered, known)
    found = {}
    for node in ordered:
        why = reason_against(node)
        tables: list[Floats | None] | None = None
        if not why:
            try:
                tables = slopes(node)
            except Exception as error:  # the rule's own, with its own text
                why = f"{node.name()} cannot be run to look: {error}"
        if (node.seq, 0) not in known:
            value = value_of(node, known, tables)
            if value is not None:
                known[node.seq, 0] = value
        found[node.seq] = _record(node, known, labels, tables, why)
    return found


def _variables(
    nodes: Sequence[LiveNode], scopes: Iterable[Scope]
) -> tuple[dict[Place, Floats], dict[Place, str]]:
    """Values and names of outputs that variables hold."""
    wanted = {node.seq for node in nodes}
    known: dict[Place, Floats] = {}
    labels: dict[Place, str] = {}
    for node in nodes:
        if node.leaf:
            _know(known, (node.seq, 0), node.value())
    leaves: dict[int, int] = {id(node.variable): node.seq for node in nodes if node.leaf}
    types = Tensor, *[engine.tensor_type for engine in engines]
    for scope in scopes:
        for name, tensor in tensors_in(scope, types=types):
            engine = engine_of(tensor)
            if id(tensor) in leaves:
                labels.setdefault((leaves[id(tensor)], 0), name)
            if engine is not None:
                place = engine.place_of(tensor)
            else:
                # A leaf without an accumulator is not to get one by being looked at.
                edge = None if tensor._edge is None else tensor.gradient_edge()
                place = (edge[0], edge[1]) if edge else None
            if place is not None and place[0] is not None and place[0].seq in wanted:
                at = place[0].seq, place[1]
                labels.setdefault(at, name)
                _know(known, at, tensor._array if engine is None else engine.array_of(tensor))
    return known, labels


def _know(known: dict[Place, Floats], place: Place, array: Any) -> None:
    """Keep a value where none is known yet and it can be drawn."""
    value = None if place in known or lanes(array) else drawn(array)
    if value is not None:
        known[place] = value


def _saved_inputs(nodes: Sequence[LiveNode], known: dict[Place, Floats]) -> None:
    """Values that nodes saved: of their own output, and of their inputs."""
    for node in nodes:
        op = op_of(node)
        if not isinstance(node, Node):
            _saved_elsewhere(node, op, known)
            continue
        if op is None:
            continue
        for name in node.saved_names:
            place: Place | None = None
            shape: tuple[int, ...] | None = None
            if name in op.outputs:
                place = node.seq, op.outputs.index(name)
                shape = outputs_of(node)[place[1]][0] if place[1] < len(outputs_of(node)) else ()
            elif name in op.diff_inputs and not op.lists:
                edge = node.next[op.diff_inputs.index(name)]
                if edge is not None:
                    place, shape = (edge[0].seq, edge[1]), meta_of(edge)[0]
            if place is None or place in known:
                continue
            value = saved_value(node, name)
            if hasattr(value, "shape") and tuple(value.shape) == shape:
                _know(known, place, value)


def _saved_elsewhere(node: LiveNode, op: Op | None, known: dict[Place, Floats]) -> None:
    """The same of a node of another engine: inputs by their names in the op of the same name."""
    below = node.next_functions
    inputs = op.diff_inputs if op is not None and len(op.diff_inputs) == len(below) else ()
    for name, own, array in node.saved_arrays(NUMBERS):
        place: tuple[Any, int] = (node, 0) if own else (None, 0)
        if not own and name in inputs and op is not None and not op.lists:
            place = below[inputs.index(name)]
        maker, number = place
        if maker is not None and maker.output_meta[number][0] == tuple(array.shape):
            _know(known, (maker.seq, number), array)


def _record(
    node: LiveNode,
    known: dict[Place, Floats],
    labels: dict[Place, str],
    tables: Sequence[Floats | None] | None,
    why: str,
) -> Numbers:
    return {
        "seq": node.seq,
        "name": node.name(),
        "label": labels.get((node.seq, 0), ""),
        "outputs": [
            {
                "shape": [int(n) for n in shape],
                "values": listed(known.get((node.seq, number))),
                "gradient": None,
            }
            for number, (shape, _) in enumerate(node.output_meta)
        ],
        "inputs": [
            {
                "seq": None if below is None else below.seq,
                "index": int(index),
                "shape": [] if below is None else [int(n) for n in below.output_meta[index][0]],
                "slopes": listed(tables[i]) if tables is not None else None,
                "gives": None,
            }
            for i, (below, index) in enumerate(node.next_functions)
        ],
        "why": why,
    }


def arrive(numbers: Numbers, grads: Sequence[Any]) -> None:
    """Fill in the gradients that came to a node, and with its slopes those that it hands on."""
    row = 0
    flat = []
    for output, g in zip(numbers["outputs"], grads, strict=True):
        size = count([tuple(output["shape"])])
        # What comes for many lanes at once has no number for each element here.
        one = g is not None and not lanes(getattr(g, "_array", g))
        values = drawn(written_out(gradient_array(g))) if one else None
        output["gradient"] = listed(values)
        flat.append(np.zeros(size) if values is None else values.ravel())
        row += size
    whole = np.concatenate(flat) if flat else np.zeros(0)
    for one in numbers["inputs"]:
        if one["slopes"] is None or all(o["gradient"] is None for o in numbers["outputs"]):
            one["gives"] = None
            continue
        table = np.array([np.nan if s is None else s for s in one["slopes"]])
        table = table.reshape(row, -1) if row else table.reshape(0, 0)
        # 0 times infinity is what the rule itself would say, too.
        one["gives"] = listed(quietly(np.matmul, whole, table))


def arrived_at(numbers: Numbers, grads: Sequence[Any]) -> Numbers:
    """A copy of a record with these gradients filled in (see `arrive`)."""
    filled = numbers | {key: [dict(one) for one in numbers[key]] for key in ("outputs", "inputs")}
    arrive(filled, grads)
    return filled


def fill(found: dict[int, Numbers], root: LiveNode) -> None:
    """Let a gradient of 1 run from a root with a single number through all that was found."""
    if found.get(root.seq) is None or count([shape for shape, _ in root.output_meta]) != 1:
        return
    sums: dict[Place, Floats] = {(root.seq, 0): np.ones(1)}
    for seq in sorted(found, reverse=True):
        numbers = found[seq]
        if numbers["inputs"]:
            _pass_on(numbers, sums)
    for numbers in found.values():
        if not numbers["inputs"]:
            arrive(numbers, _shaped(numbers, sums))


def _shaped(numbers: Numbers, sums: dict[Place, Floats]) -> list[Any]:
    return [sums.get((numbers["seq"], i)) for i in range(len(numbers["outputs"]))]


def _pass_on(numbers: Numbers, sums: dict[Place, Floats]) -> None:
    arrive(numbers, _shaped(numbers, sums))
    for one in numbers["inputs"]:
        if one["seq"] is not None and one["gives"] is not None:
            place = one["seq"], one["index"]
            given = np.array([np.nan if g is None else g for g in one["gives"]])
            sums[place] = sums[place] + given if place in sums else given


def beyond(node: Node | Runnable, grads: Sequence[Any], most: int = NUMBERS) -> Numbers:
    """A `Numbers` record of one node of any size: the gradient it will hand on, cut to `most`.

    Without values and local derivatives, which a large node has too many of.
    """
    why = reason_against(node)
    numbers = _record(node, {}, {}, None, why)
    arrays = [written_out(gradient_array(g)) for g in grads]
    for output, g in zip(numbers["outputs"], arrays, strict=True):
        values = None if g is None else drawn(g)
        output["gradient"] = None if values is None else listed(values.ravel()[:most])
    if not why:
        for one, result in zip(numbers["inputs"], handed(node, arrays), strict=True):
            one["gives"] = (
                None if result is None else listed(host(written_out(result)).ravel()[:most])
            )
    return numbers


def of_living(nodes: Sequence[Node | Runnable], scopes: Iterable[Scope] = ()) -> dict[str, Any]:
    """A `Scalars` record of a graph that stands, with a gradient of 1 at its youngest node."""
    seq, why = too_large(nodes)
    if why or not nodes:
        return {"nodes": [], "seq": seq, "why": why}
    found = numbers_of(nodes, scopes)
    fill(found, max(nodes, key=lambda node: (not node.leaf, node.seq)))
    return {"nodes": list(found.values()), "seq": None, "why": ""}


class ScalarLog:
    """The numbers of small graphs, taken down as their backward ran.

    Any thread may read `found`: a record in it is never written to, another takes its place.
    """

    def __init__(self) -> None:
        self.wanted = 0  # blocks that want it
        self.always = 0  # those of them that want it however long it takes
        self.asked = False  # somebody wants numbers of graphs that stand, too
        self.found: dict[int, Numbers] = {}
        self._spent = 0.0
        self.tasks: set[int] = set()  # backwards that are followed
        self.allowance = Allowance(SECONDS_WATCHED)  # for backwards that nobody asked it for
        self.allowance.grows = True
        self._lock = threading.Lock()

    @property
    def on(self) -> bool:
        return self.wanted > 0 and (self.always > 0 or self._spent < PATIENCE)

    def want(self, *, always: bool = False) -> None:
        """A block begins that wants the numbers; `let` ends it."""
        self._spent = 0.0
        self.wanted += 1
        self.always += always
        self.asked |= always

    def let(self, *, always: bool = False) -> None:
        self.wanted -= 1
        self.always -= always

    def began(self, task: LiveBackward, scopes: Iterable[Scope]) -> bool:
        """A backward begins: look at its graph while all of it lives. Whether it is followed."""
        nodes = list(task.counts)
        if too_large(nodes)[1]:
            return False
        start = time.thread_time()
        found = numbers_of(nodes, scopes)
        with self._lock:
            for seq in found.keys() & self.found.keys():
                del self.found[seq]  # what is newest stands last
            self.found.update(found)
            while len(self.found) > MOST_KEPT:
                del self.found[next(iter(self.found))]
        self.tasks.add(task.id)
        spent = time.thread_time() - start
        self._spent += spent
        # What arrives at each node is worked out as well, when it does.
        self.allowance.spend(2e9 * spent)
        return True

    def may_watch(self) -> bool:
        """Whether a backward that nobody asked it for may be followed now."""
        return self.allowance.any_left(perf_counter_ns())

    def arrived(self, node: LiveNode, grads: Sequence[Any]) -> None:
        """The gradients with which a node is about to run."""
        with self._lock:
            numbers = self.found.get(node.seq)
            if numbers is not None:
                self.found[node.seq] = arrived_at(numbers, grads)

    def ended(self, task: LiveBackward) -> bool:
        """A backward ended; whether none is followed any more."""
        self.tasks.discard(task.id)
        return not self.tasks

    def clear(self) -> None:
        """Forget all numbers."""
        with self._lock:
            self.found = {}
        self.asked = self.always > 0

    def graph(
        self, seqs: Sequence[int], recorder: Recorder, scopes: Iterable[Scope]
    ) -> dict[str, Any]:
        """A `Scalars` record of these nodes: what was taken down, and what still lives."""
        with self._lock:
            known = {seq: self.found[seq] for seq in seqs if seq in self.found}
        if known and len(known) == len(seqs):
            return {"nodes": list(known.values()), "seq": None, "why": ""}
        living: list[Any] = [node for seq in seqs if runs(node := recorder.node(seq))]
        if not living and not known:
            others = any(recorder.node(seq) is not None for seq in seqs)
            return dict(OF_ANOTHER if others else NOT_KEPT)
        if not any(seq in known for seq in seqs) and len(living) == len(seqs):
            found = of_living(living, scopes)
            return found if found["why"] or _has_slopes(found["nodes"]) else dict(NOT_KEPT)
        seq, why = too_large(living)
        if why:
            return {"nodes": [], "seq": seq, "why": why}
        rest = numbers_of([node for node in living if node.seq not in known], scopes)
        nodes = [*known.values(), *rest.values()]
        return {"nodes": nodes, "seq": None, "why": ""} if _has_slopes(nodes) else dict(NOT_KEPT)

    def record(self, recorder: Recorder, scopes: Iterable[Scope]) -> dict[str, Any]:
        """A `Scalars` record for a file: what was taken down, else the graph that still lives.

        The latter only where numbers were asked for: it runs each rule once for every element.
        """
        with self._lock:
            nodes = list(self.found.values())
        if nodes:
            return {"nodes": nodes, "seq": None, "why": ""}
        if not self.asked:
            return dict(NOT_KEPT)
        recorder.drain()  # the newest nodes count as alive only then
        return self.graph([int(seq) for seq in recorder.alive()], recorder, scopes)


def _has_slopes(nodes: Iterable[Numbers]) -> bool:
    return any(one["slopes"] is not None for numbers in nodes for one in numbers["inputs"])
