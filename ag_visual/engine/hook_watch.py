"""What a hook was given and what it gave back, as one event; only while somebody records.

Statistics of the gradients are taken before the call, for a hook may write into them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from math import inf as INFINITY
from typing import Any, Final

import numpy
from numpy import vdot

from ag_visual.core.hooks import HookTable, told_as
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.log import HOOK

COMPARED: Final = 2**20
"""Elements up to which the gradient after a hook is compared with the one before."""

MESSAGE: Final = 300


def norm2(value: Any) -> float:
    """Sum of squares of a gradient, -1.0 where there is none."""
    if value is None:
        return -1.0
    array = getattr(value, "_array", value)
    if type(array) is numpy.ndarray:
        return squares(array)
    return float((abs(array) ** 2).sum())


def squares(g: Any) -> float:
    """Sum of squares of a NumPy gradient; infinite or NaN only if an element is."""
    kind = g.dtype.kind
    if kind == "c":
        total = float(vdot(g, g).real)
    else:
        if g.itemsize == 2:  # bfloat16, which NumPy's dot does not know, and float16
            g = g.astype(numpy.float32)
        flat = g.ravel()
        total = float(flat.dot(flat))
    if total < INFINITY:
        return total
    # Squares leave the range of a dtype long before its numbers do.
    if not numpy.isfinite(g).all():
        return total
    wide = g.astype(numpy.complex128 if kind == "c" else numpy.float64)
    return min(float(vdot(wide, wide).real), sys.float_info.max)


Stats = tuple[float, float, float, int, int]
"""Sum of squares (-1: no gradient), smallest and largest finite element, NaNs, infinities."""

# One object, so that two tuples that hold it are equal.
_NAN: Final = float("nan")
_NOTHING: Final[Stats] = (-1.0, _NAN, _NAN, 0, 0)


def _array(value: Any) -> Any:
    return getattr(value, "_array", value)


def stats(values: Sequence[Any]) -> Stats:
    """Statistics of all gradients together; of complex ones, of their sizes."""
    total, low, high, nan, inf = -1.0, INFINITY, -INFINITY, 0, 0
    for value in values:
        if value is None:
            continue
        array = _array(value)
        squared = norm2(array)
        total = max(total, 0.0) + squared
        if not array.size:
            continue
        if array.dtype.kind == "c":
            array = abs(array)
        elif array.itemsize == 2:
            array = array.astype("float32")  # bfloat16 knows neither isnan nor isfinite
        if not squared < INFINITY:
            nans = array != array
            some = int(nans.sum())
            finite = array[~nans & (abs(array) < INFINITY)]
            nan, inf = nan + some, inf + int(array.size) - some - int(finite.size)
            array = finite
        if array.size:
            low, high = min(low, float(array.min())), max(high, float(array.max()))
    if total < 0:
        return _NOTHING
    return (total, low, high, nan, inf) if low <= high else (total, _NAN, _NAN, nan, inf)


def _scaled(before: Sequence[Any], after: Sequence[Any]) -> float | None:
    """The one number by which all gradients were multiplied; None where there is none."""
    factor: float | None = None
    for old, new in zip(before, after, strict=True):
        if old is None or new is None:
            if old is not new:
                return None
            continue
        a, b = _array(old), _array(new)
        if a.size > COMPARED:
            return None
        wide = "complex128" if a.dtype.kind == "c" else "float64"
        exact = 8 * (2.0**-8 if a.itemsize == 2 else float(numpy.finfo(a.dtype).eps))
        a, b = a.astype(wide), b.astype(wide)
        length = float((abs(a) ** 2).sum())
        if not 0 < length < INFINITY:
            return None
        ratio = complex((a.conj() * b).sum()) / length
        if ratio.imag or not bool((abs(b - ratio.real * a) <= exact * abs(ratio) * abs(a)).all()):
            return None
        if factor is not None and abs(ratio.real - factor) > exact * abs(factor):
            return None
        factor = ratio.real
    return factor


def _equal(before: Sequence[Any], after: Sequence[Any]) -> bool:
    pairs = zip(before, after, strict=True)
    return all(
        old is new
        or (
            old is not None
            and new is not None
            and _array(old).size <= COMPARED
            and bool((_array(old) == _array(new)).all())
        )
        for old, new in pairs
    )


def _differ(a: Stats, b: Stats) -> bool:
    """Whether two gradients cannot be the same; a sum of squares that is NaN tells nothing."""
    return a[1:] != b[1:] or (a[0] != b[0] and not (a[0] != a[0] and b[0] != b[0]))


class Watch:
    """One call of a hook while it is recorded."""

    __slots__ = ("before", "given", "head", "sink")

    def __init__(
        self,
        node: Any,
        task: Any,
        kind: str,
        number: int,
        table: HookTable,
        key: int,
        hook: Callable[..., Any],
        grads: Sequence[Any],
    ) -> None:
        self.sink = instrument.sink
        kind, name = told_as(kind, hook)
        place = table.places.get(key) or (None, 0)
        self.head = (node.seq, task.id, kind, name, number, key, *place)
        self.given = tuple(grads)
        self.before = stats(grads)

    def ended(self, result: Any, grads: Sequence[Any]) -> None:
        """The hook returned `result`, and `grads` is what goes on."""
        after = stats(grads)
        effect, factor = "none", 1.0
        if result is not None or any(a is not b for a, b in zip(self.given, grads, strict=True)):
            same = all(
                a is b or (a is not None and b is not None and _array(a) is _array(b))
                for a, b in zip(self.given, grads, strict=True)
            )
            if not same:
                effect = "equal" if _equal(self.given, grads) else "replaced"
                scale = _scaled(self.given, grads) if effect == "replaced" else None
                if scale is not None:
                    effect, factor = "scaled", scale
            else:
                effect = "same"
        if effect in ("none", "same") and _differ(after, self.before):
            effect = "in place"
        self._tell(after, effect, factor, "")

    def failed(self, error: BaseException) -> None:
        """The hook, or the check of what it returned, raised."""
        text = f"{type(error).__name__}: {error}"
        self._tell(_NOTHING, "raised", 1.0, text[:MESSAGE])

    def _tell(self, after: Stats, effect: str, factor: float, text: str) -> None:
        if self.sink is not None:
            now, thread = perf_counter_ns(), threading.get_ident()
            facts = (effect, factor, text, *self.before, *after)
            self.sink.emit((HOOK, now, thread, *self.head, *facts))


def told_retained(node: Any, number: int, g: Any, task: Any) -> None:
    """retain_grad kept a gradient: told as a hook that changes nothing."""
    sink = instrument.sink
    if sink is not None:
        found = stats((g,))
        place = node.hooks.retained.get(number) or (None, 0)
        head = (node.seq, task.id, "retain_grad", "retain_grad", number, -1, *place)
        now, thread = perf_counter_ns(), threading.get_ident()
        sink.emit((HOOK, now, thread, *head, "kept", 1.0, "", *found, *found))
