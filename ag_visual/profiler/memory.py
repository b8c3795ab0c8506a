"""The memory of tensors while somebody profiles: when each storage came and went, and what it is.

A storage is the array that owns the bytes. It is seen when an op has taken or given it, so that
what is allocated and freed inside of one op is not.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

from ag_visual.core.node import AccumulateGrad
from ag_visual.core.tensor import Tensor
from ag_visual.events.clock import perf_counter_ns
from ag_visual.profiler.columns import MEMORY, Columns

CATEGORIES = (
    *("other", "input", "temporary", "activation", "gradient", "optimiser state", "parameter"),
)
"""What a storage is: the last of those that were seen to be true of it."""
OTHER, INPUT, TEMPORARY, ACTIVATION, GRADIENT, STATE, PARAMETER = range(len(CATEGORIES))
_HELD = {"data": INPUT, "gradient": GRADIENT, "state": STATE, "parameter": PARAMETER}
_FIELDS = 5  # time, thread, storage, address, bytes


class Ledger:
    """Storages that were seen since somebody began to profile memory."""

    def __init__(self) -> None:
        self._events: list[int] = []
        self._put = self._events.extend
        self._before: list[int] = []
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._category: dict[int, int] = {}
        self._number = itertools.count(1)
        self._open = True

    def made(self, given: Any, results: Any, end: int) -> None:
        """An op took and gave these; what it gave anew was allocated by `end`."""
        for array, tensor in _arrays(given):
            self._see(array, _category(tensor, INPUT), None)
        for array, tensor in _arrays(results):
            self._see(array, _category(tensor, TEMPORARY), end)

    def arrived(self, gradients: Any) -> None:
        """A node is given these: those that no op has made are sums of the engine's."""
        for array, tensor in _arrays(gradients):
            self._see(array, _category(tensor, TEMPORARY), perf_counter_ns())

    def held(self, what: str, tensors: Iterable[Any], new: bool) -> None:
        """These are gradients of leaves, parameters, an optimizer's, or made of data.

        new: one that nobody has seen was allocated now, not before anybody looked.
        """
        for array, _ in _arrays(tuple(tensors)):
            self._see(array, _HELD[what], perf_counter_ns() if new else None)

    def close(self) -> None:
        self._open = False

    def _see(self, array: Any, category: int, time: int | None) -> None:
        """time: when it was allocated, if it is new; None: before anybody looked."""
        while type(array.base) is numpy.ndarray:
            array = array.base
        key = id(array)
        known = self._known.get(key)
        if known is None:
            number = next(self._number)
            try:
                gone = weakref.ref(array, lambda _: self._free(key, number, address, size))
            except TypeError:
                return
            address, size = int(array.__array_interface__["data"][0]), int(array.nbytes)
            self._known[key] = number, gone
            if time is None:
                self._before.extend((0, threading.get_ident(), number, address, size))
            else:
                self._put((time, threading.get_ident(), number, address, size))
        else:
            number = known[0]
            if category == TEMPORARY:
                return  # a view of it, or it was written
        if category > self._category.get(number, OTHER):
            self._category[number] = category

    def _free(self, key: int, number: int, address: int, size: int) -> None:
        self._known.pop(key, None)
        if self._open:
            self._put((perf_counter_ns(), threading.get_ident(), number, address, -size))

    def into(self, columns: Columns, named: Callable[[int], str]) -> None:
        """Give columns the memory of their time, and spans what was allocated and freed in them.

        named: the name of a thread by its identifier.
        """
        before = numpy.array(self._before, numpy.int64).reshape(-1, _FIELDS)
        events = numpy.array(self._events, numpy.int64).reshape(-1, _FIELDS)
        events = events[events[:, 0] <= columns.end]
        early = events[events[:, 0] < columns.start]
        gone = set(early[early[:, 4] < 0][:, 2].tolist())
        before = numpy.concatenate([before, early[early[:, 4] > 0]])
        before = before[[number not in gone for number in before[:, 2].tolist()]]
        before[:, 0] = columns.start
        events = events[events[:, 0] >= columns.start]
        events = events[numpy.argsort(events[:, 0], kind="stable")]
        rows = numpy.concatenate([before, events])
        memory = numpy.zeros(len(rows), MEMORY)
        for at, name in enumerate(("time", "", "storage", "address", "bytes")):
            if name:
                memory[name] = rows[:, at]
        threads = {ident: i for i, (ident, _) in enumerate(columns.threads)}
        idents = rows[:, 1].tolist()
        for ident in dict.fromkeys(idents):
            if ident not in threads:  # no span ran in it
                threads[ident] = len(threads)
                columns.threads.append((ident, named(ident)))
        memory["thread"] = [threads[ident] for ident in idents]
        memory["total"] = numpy.cumsum(rows[:, 4])
        memory["category"] = [self._category.get(i, OTHER) for i in rows[:, 2].tolist()]
        memory["span"] = -1
        memory["span"][len(before) :] = _spans_of(columns, memory[len(before) :])
        columns.memory = memory
        spans = columns.spans
        inside = memory["span"] >= 0
        own = numpy.zeros(len(spans), numpy.int64)
        numpy.add.at(own, memory["span"][inside], memory["bytes"][inside])
        spans["own_bytes"] = own
        running = numpy.concatenate([[0], numpy.cumsum(own)])
        spans["bytes"] = running[spans["last"]] - running[: len(spans)]


def _spans_of(columns: Columns, memory: Any) -> Any:
    """The innermost span of each event, -1: none."""
    spans = columns.spans
    found = numpy.full(len(memory), -1, numpy.int64)
    for thread in numpy.unique(spans["thread"]).tolist():
        rows = numpy.flatnonzero(spans["thread"] == thread)
        events = numpy.flatnonzero(memory["thread"] == thread)
        times = memory["time"][events]
        place = numpy.searchsorted(spans["start"][rows], times, side="right") - 1
        at = numpy.where(place >= 0, rows[place], -1)
        while True:
            ended = (at >= 0) & (spans["end"][at] < times)
            if not ended.any():
                break
            at = numpy.where(ended, spans["parent"][at], at)
        found[events] = at
    return found


def _arrays(values: Any) -> Iterator[tuple[Any, Any]]:
    """Each NumPy array of tensors, arrays and lists of them, and its tensor."""
    for value in values if isinstance(values, (tuple, list)) else (values,):
        if isinstance(value, Tensor):
            array = value._array
            if type(array) is numpy.ndarray:
                yield array, value
        elif type(value) is numpy.ndarray:
            yield value, None
        elif isinstance(value, (tuple, list)):
            yield from _arrays(value)


def _category(tensor: Any, otherwise: int) -> int:
    if tensor is None:
        return otherwise
    if not tensor._rg:
        return otherwise
    edge = tensor._edge
    if edge is None or type(edge[0]) is AccumulateGrad:
        return PARAMETER if otherwise == INPUT else ACTIVATION
    return ACTIVATION
