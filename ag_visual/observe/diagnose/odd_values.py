"""What a graph saved that its ops cannot use, looked for as a backward begins: later it is freed.

Ops whose result or derivative is not finite at some numbers (log at 0) are looked at each time;
all others where what lies near the loss is not finite, once for each row of such backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from ag_visual.arrays.quiet import quietly
from ag_visual.events.live import LiveBackward, LiveNode, whole

LARGEST: Final = 1 << 20
"""Elements of the largest tensor that is looked at."""
MOST: Final = 64
"""Saved tensors that are told of one backward, those made first."""
NEAR: Final = 8
"""Nodes from the loss on that are looked at to see whether it is finite."""
_NOWHERE: Final = object()
_ELEMENTS: Final = 1 << 24
"""Elements looked at in a graph whose loss is not finite."""


class Odd(NamedTuple):
    """Counts of one saved tensor. beyond: 1 or more, or -1 or less."""

    seq: int
    name: str
    own: bool
    elements: int
    nan: int
    inf: int
    zero: int
    negative: int
    beyond: int


def _positive(array: Any) -> bool:
    return bool(array.min() > 0 and array.max() < np.inf)


def _nonzero(array: Any) -> bool:
    return bool(array.all() and np.isfinite(array).all())


def _not_negative(array: Any) -> bool:
    return bool(array.min() >= 0 and array.max() < np.inf)


def _inside(array: Any) -> bool:
    return bool(np.abs(array).max() < 1)


def _finite(array: Any) -> bool:
    return bool(np.isfinite(array).all())


_EDGES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
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


class OddValues:
    """Looks through the graphs of backwards that begin, one after the other."""

    def __init__(self) -> None:
        # The code that called the last one, where its loss was not finite: a cell that runs again
        # is another code.
        self._odd: Any = None

    def new_in(self, task: LiveBackward) -> bool:
        """Whether its loss is not finite, and that of the one before of the same code was."""
        if _near_finite(task):
            self._odd = None
            return False
        return _code_of(task) is not self._odd

    def of(self, task: LiveBackward) -> list[Odd]:
        """What its nodes saved that is odd, those made first."""
        code = None if _near_finite(task) else _code_of(task)
        if code is not None and code is not self._odd:
            found = _all_of(task.counts)
        else:
            found = [
                row
                for node in task.counts
                if (edge := _EDGES.get(node.name())) is not None
                for row in _of_node(node, edge[0], edge[1])
            ]
        self._odd = code
        found.sort(key=lambda row: row.seq)
        return found[:MOST]


def _code_of(task: LiveBackward) -> Any:
    return (task.call_site or (_NOWHERE,))[0]


def _array(node: LiveNode, name: str) -> Any:
    """A saved array of floating point numbers that is looked at without much ado; or None."""
    try:
        array = whole(node.saved_array(name))
    except (LookupError, RuntimeError):  # gone, or without values: inside of a transform
        return None
    plain = type(array) is np.ndarray and array.dtype.kind not in "biuSV"
    return array if plain and 0 < array.size <= LARGEST else None


def _of_node(node: LiveNode, name: str, fine: Callable[[Any], bool]) -> Iterator[Odd]:
    if name == "self" and fine is _nonzero:
        power = _power(node)
        if power is None:
            return
        fine = power
    shape = node.output_meta[0][0]
    array = _array(node, name) if np.prod(shape, dtype=np.float64) <= LARGEST else None
    if array is not None and not _is(fine, array):
        yield _counted(node.seq, name, name == "result", array)


def _is(fine: Callable[[Any], bool], array: Any) -> bool:
    """Whether nothing is odd; complex numbers have no order."""
    return bool(quietly(_finite if array.dtype.kind == "c" else fine, array))


def _power(node: LiveNode) -> Callable[[Any], bool] | None:
    """What a power needs, by its exponent; None: it takes all numbers."""
    for field in node.saved_fields():
        if field.name == "exponent" and isinstance(field.value, int | float):
            whole_number = float(field.value).is_integer()
            if field.value < 1:
                return _nonzero if whole_number else _positive
            return None if whole_number else _not_negative
    return None


def _counted(seq: int, name: str, own: bool, array: Any) -> Odd:
    count = np.count_nonzero
    nan, inf = int(count(np.isnan(array))), int(count(np.isinf(array)))
    zero = int(array.size - count(array))
    if array.dtype.kind == "c":
        return Odd(seq, name, own, int(array.size), nan, inf, zero, 0, 0)
    below, beyond = int(count(array < 0)), int(count(np.abs(array) >= 1))
    return Odd(seq, name, own, int(array.size), nan, inf, zero, below, beyond)


def _tensors(node: LiveNode) -> Iterator[tuple[str, bool, Any]]:
    for field in node.saved_fields():
        size = np.prod(field.shape or (), dtype=np.float64)
        if field.kind == "tensor" and not field.freed and size <= LARGEST:
            array = _array(node, field.name)
            if array is not None:
                yield field.name, field.own_output, array


def _near_finite(task: LiveBackward) -> bool:
    """Whether what the nodes next to the roots saved, and gave by that, is finite.

    Below a node that saved a value of the graph nothing is looked at: a pass pays for one or two.
    """
    pending = [edge[0] for edge in task.starts]
    seen = set(pending)
    for node in pending:  # it grows
        if node.leaf:
            continue
        edge = _EDGES.get(node.name())
        edges = node.next_functions
        known = False
        for name, own, array in _tensors(node):
            given = edge is not None and edge[0] == name and node.name() in _GIVE
            if not (_is(edge[1], array) if edge is not None and given else _finite(array)):
                return False
            # Of two factors the one that is saved may be a constant.
            known = known or own or (name == "self" and edges[0][0] is not None)
        for below, _ in () if known else edges:
            if below is not None and below not in seen and len(pending) < NEAR:
                seen.add(below)
                pending.append(below)
    return True


def _all_of(nodes: Iterable[LiveNode]) -> list[Odd]:
    """Every saved tensor with a number that is not finite, and those at the edges of ops."""
    found: list[Odd] = []
    left = _ELEMENTS
    for node in sorted(nodes, key=lambda node: node.seq):
        if node.leaf:
            continue
        edge = _EDGES.get(node.name())
        for name, own, array in _tensors(node):
            left -= array.size
            if left < 0:
                return found
            fine = edge[1] if edge is not None and edge[0] == name else _finite
            if not _is(fine, array):
                found.append(_counted(node.seq, name, own, array))
    return found
