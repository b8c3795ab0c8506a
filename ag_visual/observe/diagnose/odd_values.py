"""What a graph saved that its ops cannot use, looked for as a backward begins: later it is freed.

Ops whose result or derivative is not finite at some numbers (log at 0) are looked at each time,
and what the backward was called of; all others, and the leaves, where what lies near the loss is
not finite, once for each row of such backwards.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ag_visual.arrays.quiet import quietly
from ag_visual.events.live import LiveBackward, LiveNode

LARGEST: Final = 1 << 20
"""Elements of the largest tensor that is looked at."""
VALUE: Final = ""
"""The name of what is no saved tensor: a leaf's values, what the backward was called of."""
MOST: Final = 64
"""Saved tensors that are told of one backward, those made first."""
NEAR: Final = 8
"""Nodes from the loss on that are looked at to see whether it is finite."""
_KINDS: Final = 1024
"""Kinds of nodes that are remembered: programs may make new ones all the time."""
_F32: Final = np.dtype(np.float32)
_F64: Final = np.dtype(np.float64)
_NOWHERE: Final = object()
_FEW: Final = 16
"""Elements up to which to ask each of Python's numbers takes less than to ask the array."""
_ELEMENTS: Final = 1 << 24
"""Elements looked at in a graph whose loss is not finite."""


OWN: Final = 1
"""The node's own output, the values of a leaf, or what the backward was called of."""
DATA: Final = 2
"""An input to which no gradient goes: nothing in the graph made it."""


class Odd(NamedTuple):
    """Counts of one saved tensor; name VALUE: of a leaf's values, or of what a root gave. flags:
    OWN, DATA. beyond: 1 or more, or -1 or less. Of what is raised to a power, zeros and negative
    numbers are counted where its exponent does not take them.
    """

    seq: int
    name: str
    flags: int
    elements: int
    nan: int
    inf: int
    zero: int
    negative: int
    beyond: int


def _positive(array: Any) -> bool:
    return bool(array.min() > 0 and array.max() < np.inf)


def _nonzero(array: Any) -> bool:
    return bool(array.all() and _finite(array))


def _not_negative(array: Any) -> bool:
    return bool(array.min() >= 0 and array.max() < np.inf)


def _inside(array: Any) -> bool:
    return bool(np.abs(array).max() < 1)


def _finite(array: Any) -> bool:
    if array.dtype is _F32 or array.dtype is _F64:
        flat = array.ravel("K")
        if flat.dot(flat) < np.inf:  # in one call; squares leave the range before their numbers
            return True
    return bool(np.isfinite(array).all())


_SAVED: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    **dict.fromkeys(("LogBackward0", "Log2Backward0", "Log10Backward0"), ("self", _positive)),
    "PowBackward0": ("self", _nonzero),  # or what its exponent asks for
    **dict.fromkeys(("AcosBackward0", "AsinBackward0", "AtanhBackward0"), ("self", _inside)),
    "SqrtBackward0": ("result", _positive),
    "RsqrtBackward0": ("result", _finite),
    "ReciprocalBackward0": ("result", _finite),
    "DivBackward0": ("other", _nonzero),
    "ExpBackward0": ("result", _finite),
    "LinalgVectorNormBackward0": ("result", _nonzero),
    "NormBackward0": ("result", _nonzero),
    "NormBackward1": ("result", _nonzero),
}
"""Node -> what it saves that tells of numbers at the edge of its op, and when none are there."""


_GIVE: Final = {"LogBackward0", "Log2Backward0", "Log10Backward0", "DivBackward0"}
"""What these give is not finite there: the others have such a derivative, or save it."""


class _Edge(NamedTuple):
    """What tells of the edge of an op: the saved tensor, the test, whether the op gives it on."""

    name: str
    fine: Callable[[Any], bool]
    given: bool


class _Edges:
    """By the kind of a node: a graph has many nodes and few kinds."""

    def __init__(self) -> None:
        self._known: dict[Any, _Edge | None] = {}
        self._without: set[Any] = set()  # known kinds that have none

    def none_of(self, nodes: Iterable[LiveNode]) -> bool:
        """Whether it is known that none of these nodes has one: squares have none."""
        if {node.kind for node in nodes} <= self._without:
            return True
        known, without = self._known, self._without
        for node in nodes:
            if node.kind not in without:
                edge = known.get(node.kind)
                if edge is None or not _is_power(edge) or _power(node) is not None:
                    return False
        return True

    def of(self, nodes: Iterable[LiveNode]) -> dict[Any, _Edge | None]:
        """Those of the kinds of these nodes."""
        kinds, known = {node.kind for node in nodes}, self._known
        if not kinds <= known.keys():
            if len(known) > _KINDS:
                known.clear()
                self._without.clear()
            for node in nodes:
                if node.kind not in known:
                    name = node.name()
                    found = _SAVED.get(name)
                    known[node.kind] = found and _Edge(*found, name in _GIVE)
                    if found is None:
                        self._without.add(node.kind)
        return {kind: known[kind] for kind in kinds}


class OddValues:
    """Looks through the graphs of backwards that begin, one after the other."""

    def __init__(self) -> None:
        # The code that called the last one, where its loss was not finite: a cell that runs again
        # is another code.
        self._odd: Any = None
        self._edges = _Edges()

    def new_in(self, task: LiveBackward) -> bool:
        """Whether its loss is not finite, and that of the one before of the same code was."""
        if quietly(_near_finite, task, self._edges.of(task.counts), task.results()):
            self._odd = None
            return False
        return _code_of(task) is not self._odd

    def none_in(self, task: LiveBackward) -> bool:
        """Whether it is seen at once that nothing is odd, as in most backwards."""
        if not self._edges.none_of(task.counts) or not _few_and_finite(task.results()):
            return False
        self._odd = None
        return True

    def of(self, task: LiveBackward) -> list[Odd]:
        """What its nodes saved that is odd, those made first."""
        return [] if self.none_in(task) else quietly(self._of, task)

    def _of(self, task: LiveBackward) -> list[Odd]:
        edges, results = self._edges.of(task.counts), task.results()
        code = None if _near_finite(task, edges, results) else _code_of(task)
        if code is not None and code is not self._odd:
            found = _all_of(task.counts, edges)
        elif any(edges.values()):
            found = [
                row
                for node in task.counts
                if (edge := edges[node.kind]) is not None
                for row in _of_node(node, edge)
            ]
        else:
            found = []
        self._odd = code
        found.sort(key=_seq)
        return [*found[:MOST], *_odd_results(task, results)]


_seq: Final = operator.attrgetter("seq")


def _code_of(task: LiveBackward) -> Any:
    return (task.call_site or (_NOWHERE,))[0]


def _few_and_finite(results: Sequence[Any]) -> bool:
    """Whether what a backward was called of is a few finite numbers, as most losses are."""
    for result in results:
        if type(result) is not np.ndarray or not 0 < result.size <= _FEW:
            return False
        kind = result.dtype
        if kind is not _F32 and kind is not _F64:
            return False
        if result.size == 1:
            if not math.isfinite(result.item()):
                return False
        elif not all(map(math.isfinite, result.ravel().tolist())):
            return False
    return len(results) > 0


def _arrays(node: LiveNode) -> list[tuple[str, bool, Any]]:
    """Saved arrays of floating point numbers that are looked at without much ado."""
    try:
        found = node.saved_arrays(LARGEST)
    except (LookupError, RuntimeError):  # gone, or without values: inside of a transform
        return []
    return [each for each in found if _plain(each[2])] if found else found


def _plain(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype.kind not in "biuSV" and array.size > 0


def _of_node(node: LiveNode, edge: _Edge) -> Iterator[Odd]:
    power = _is_power(edge)
    fine = _power(node) if power else edge.fine
    if fine is None:
        return
    for name, own, array in _arrays(node):
        if name == edge.name and not _is(fine, array):
            counts = _counted(node, name, own, array)
            yield _of_power(counts, fine) if power else counts


def _is_power(edge: _Edge) -> bool:
    return edge.name == "self" and edge.fine is _nonzero


def _of_power(counts: Odd, needed: Callable[[Any], bool]) -> Odd:
    """Without the numbers that the exponent takes: squares are of negative numbers, too."""
    zero = counts.zero if needed in (_positive, _nonzero) else 0
    negative = counts.negative if needed in (_positive, _not_negative) else 0
    return counts._replace(zero=zero, negative=negative)


def _is(fine: Callable[[Any], bool], array: Any) -> bool:
    """Whether nothing is odd; complex numbers have no order."""
    return (_finite if array.dtype.kind == "c" else fine)(array)


def _power(node: LiveNode) -> Callable[[Any], bool] | None:
    """What a power needs, by its exponent; None: it takes all numbers."""
    exponent = node.saved_number("exponent")
    if exponent is None:
        return None
    whole_number = float(exponent).is_integer()
    if exponent < 1:
        return _nonzero if whole_number else _positive
    return None if whole_number else _not_negative


def _counted(node: LiveNode, name: str, own: bool, array: Any) -> Odd:
    flags = OWN if own else 0 if node.saved_requires_grad(name) else DATA
    count = np.count_nonzero
    nan, inf = int(count(np.isnan(array))), int(count(np.isinf(array)))
    zero = int(array.size - count(array))
    if array.dtype.kind == "c":
        return Odd(node.seq, name, flags, int(array.size), nan, inf, zero, 0, 0)
    below, beyond = int(count(array < 0)), int(count(np.abs(array) >= 1))
    return Odd(node.seq, name, flags, int(array.size), nan, inf, zero, below, beyond)


def _odd_results(task: LiveBackward, results: Sequence[Any]) -> Iterator[Odd]:
    """What the backward was called of and is not finite."""
    for (node, *_), result in zip(task.root_edges, results, strict=False):
        if _plain(result) and result.size <= LARGEST and not _finite(result):
            yield _counted(node, VALUE, True, result)


def _values(leaf: LiveNode) -> list[tuple[str, bool, Any]]:
    """The same as `_arrays` of a leaf."""
    array = leaf.value()
    return [(VALUE, True, array)] if _plain(array) and array.size <= LARGEST else []


def _near_finite(
    task: LiveBackward, edge_of: dict[Any, _Edge | None], results: Sequence[Any]
) -> bool:
    """Whether what the roots gave is finite; where nobody knows that, what the nodes next to them
    saved, and gave by that.

    Below a node that saved a value of the graph nothing is looked at: a pass pays for one or two.
    """
    if results and all(_plain(result) and result.size <= LARGEST for result in results):
        return all(map(_finite, results))
    pending = [edge[0] for edge in task.root_edges]
    seen = set(pending)
    looked_at: dict[int, Any] = {}  # arrays by their ids, which are theirs as long as they live
    for node in pending:  # it grows
        if node.leaf:
            continue
        edge = edge_of[node.kind]
        known = False
        for name, own, array in _arrays(node):
            given = edge is not None and edge.given and edge.name == name
            if given or id(array) not in looked_at:
                if not (_is(edge.fine, array) if edge is not None and given else _finite(array)):
                    return False
                looked_at[id(array)] = array
            # Of two factors the one that is saved may be a constant.
            known = known or own or (name == "self" and node.next_functions[0][0] is not None)
        if known or len(pending) >= NEAR:
            continue
        for below, _ in node.next_functions:
            if below is not None and below not in seen and len(pending) < NEAR:
                seen.add(below)
                pending.append(below)
    return True


def _all_of(nodes: Iterable[LiveNode], edge_of: dict[Any, _Edge | None]) -> list[Odd]:
    """Every leaf and saved tensor with a number that is not finite, and those at the edges of
    ops.
    """
    found: list[Odd] = []
    left = _ELEMENTS
    for node in sorted(nodes, key=_seq):
        edge = edge_of[node.kind]
        for name, own, array in _values(node) if node.leaf else _arrays(node):
            left -= array.size
            if left < 0:
                return found
            fine: Callable[[Any], bool] = _finite
            power = False
            if edge is not None and edge.name == name:
                fine, power = edge.fine, _is_power(edge)
            if power:
                fine = _power(node) or _finite
            if not _is(fine, array):
                counts = _counted(node, name, own, array)
                found.append(_of_power(counts, fine) if power else counts)
    return found
