"""`foreach`: one pass over all parameters of a group instead of a step of each.

The rules are those of the loop. They go element by element, so that many small parameters can be
changed as one array, and a large one in parts that stay in the cache with what is computed of them;
both give what the loop gives, bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

from ag_visual.core import modes
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import InferenceTensor, Tensor, before_write, wrote
from ag_visual.dispatch.table import raw_numpy
from ag_visual.events import instrument

# Parameters of fewer elements are joined to about so many. A larger one goes part by part: measured
# on Adam, 1,000,000 float32 take 3.2 ms as a whole, 2.2 ms in parts.
SMALL = 1 << 14
PART = 1 << 16

Arrays = tuple[Any, ...]  # the parameter, its gradient, and its state's arrays


def decayed(p: Any, g: Any, group: dict[str, Any]) -> Any:
    """What all rules do first: the sign of the gradient, and weight decay."""
    if group["maximize"]:
        g = -g
    decay = group.get("weight_decay")
    if decay:
        if not group.get("decoupled_weight_decay"):
            return g + decay * p
        p *= 1 - group["lr"] * decay
    return g


def fits(p: Tensor, grad: Tensor, each: bool) -> bool:
    """Whether this parameter can be changed with others: real, dense, in the main memory.

    each: whatever its size; else those of middle size, which gain nothing, are left out.
    """
    plain, array, g = p._plain, p._array, grad._array
    return (
        plain is not None  # float32 or float64
        and plain is grad._plain
        and type(array) is numpy.ndarray is type(g)
        and array.shape == g.shape
        and (each or not SMALL <= array.size <= PART)
        and type(p) is not InferenceTensor
    )


def step_together(optimizer: Any, group: dict[str, Any], given: list[Any], call_site: Any) -> None:
    """One step of the parameters of a group: pairs of one and its gradient, all of which fit.

    call_site: the line in the user's code, for what the storages remember.
    """
    if not optimizer.keeps and not group.get("momentum"):
        _step_without_state(optimizer, group, given, call_site)
        return
    if len({id(p._storage) for p, _ in given}) < len(given):  # they look into one another
        for p, grad in given:
            optimizer._change(p, grad, group, call_site)
        return
    kinds: dict[Any, list[Arrays]] = {}
    states, numbers, label = optimizer.state, optimizer.numbers, optimizer._label
    observed = instrument.sink is not None
    for p, grad in given:
        state = states.get(p)
        if not state:
            if not optimizer.keeps:  # the rule makes its state of the gradient
                optimizer._change(p, grad, group, call_site)
                continue
            state = optimizer._begun(p, group)
        if modes.special:
            before_write(p)
        array = p._array
        n, known, held = 0.0, [], []
        for name, value in state.items():
            if name == "step":
                steps = value._array
                steps += 1
                n = steps.item()
            elif name in numbers:
                known.append(value._array)
            else:
                held.append(value._array)
        # Counted first: an interrupt must not leave a write that nobody knows of.
        if observed:
            wrote(p, label)
        else:
            p._storage.wrote(label, call_site, array)
        for value in state.values():
            store = value._store
            (value._storage if store is FRESH else store).wrote(label, call_site, value._array)
        entry = (array, grad._array, *held, *known)
        key = array.dtype, n, tuple(state), tuple([x.item() for x in known])
        kinds.setdefault(key, []).append(entry)
    for (_, n, names, _), entries in kinds.items():
        order = [name for name in names if name != "step" and name not in numbers]
        _Rule(optimizer, group, n, order, [x for x in names if x in numbers]).change(entries)


def _step_without_state(
    optimizer: Any, group: dict[str, Any], given: list[Any], call_site: Any
) -> None:
    """The same for a rule that keeps nothing: to join parameters would cost what it saves."""
    label, observed, special = optimizer._label, instrument.sink is not None, modes.special
    update, same = optimizer.update, not (group["maximize"] or group.get("weight_decay"))
    for p, grad in given:
        if special:
            before_write(p)
        array, g = p._array, grad._array
        if observed:
            wrote(p, label)
        else:
            store = p._store
            (p._storage if store is FRESH else store).wrote(label, call_site, array)
        update(raw_numpy, array, g if same else decayed(array, g, group), {}, group, 0.0)


class _Rule:
    """A rule with the options of a group, for parameters that are at one step."""

    def __init__(
        self, optimizer: Any, group: dict[str, Any], n: float, names: list[str], numbers: list[str]
    ) -> None:
        self.optimizer, self.group, self.n = optimizer, group, n
        self.names, self.numbers = names, numbers
        self.known: dict[str, Any] = {}  # what the rule's numbers are before this step

    def change(self, entries: list[Arrays]) -> None:
        """Change the arrays of these parameters."""
        count = len(self.names) + 2
        self.known = dict(zip(self.numbers, entries[0][count:], strict=True))
        after: dict[str, Any] = {}
        small: list[Arrays] = []
        size = 0
        for entry in entries:
            arrays = entry[:count]
            many = arrays[0].size
            if many < SMALL and self.names and len(entries) > 1:
                small.append(arrays)
                size += many
                if size >= SMALL:
                    after = self._joined(small)
                    small, size = [], 0
            elif many > PART and all(x.flags.c_contiguous for x in arrays):
                for part in _parts(arrays):
                    after = self._run(part)
            else:
                after = self._run(arrays)
        if small:
            after = self._joined(small)
        for entry in entries if after else ():
            for array, value in zip(entry[count:], after.values(), strict=True):
                array[...] = value

    def _run(self, arrays: Arrays) -> dict[str, Any]:
        """The rule on one array of each kind; its numbers after it."""
        p, g, *held = arrays
        numbers = {name: value.copy() for name, value in self.known.items()}
        state = {**dict(zip(self.names, held, strict=True)), **numbers}
        optimizer = self.optimizer
        g = decayed(p, g, self.group)
        optimizer.update(raw_numpy, p, g, state, self.group, self.n)
        return numbers

    def _joined(self, entries: list[Arrays]) -> dict[str, Any]:
        """The same on several parameters one after the other in memory."""
        if len(entries) == 1:
            return self._run(entries[0])
        rows = list(zip(*entries, strict=True))
        whole = [numpy.concatenate([x.reshape(-1) for x in row]) for row in rows]
        numbers = self._run(tuple(whole))
        del rows[1], whole[1]  # gradients stay as they are
        for row, flat in zip(rows, whole, strict=True):
            end = 0
            for array in row:
                begin, end = end, end + array.size
                array[...] = flat[begin:end].reshape(array.shape)
        return numbers


def _parts(arrays: Arrays) -> Iterable[Arrays]:
    """Views of the same elements of each, so many at a time."""
    flat = [x.reshape(-1) for x in arrays]
    for begin in range(0, flat[0].size, PART):
        yield tuple([x[begin : begin + PART] for x in flat])
