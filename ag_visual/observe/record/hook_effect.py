"""What a hook did to the gradients: given before its call, gone on with after it, as one event.

Statistics of the gradients are taken before the call, for a hook may write into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf as INFINITY
from threading import get_ident
from typing import Any, Final

import numpy

from ag_visual.engine.norms import norm2
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import gradient_array, written_out
from ag_visual.events.log import HOOK, EventLog, HookField

COMPARED: Final = 2**20
"""Elements up to which the gradient after a hook is compared with the one before."""

MESSAGE: Final = 300


Stats = tuple[float, float, float, int, int]
"""Sum of squares (-1: no gradient), smallest and largest finite element, NaNs, infinities."""

# One object, so that two tuples that hold it are equal.
_NAN: Final = float("nan")
_NOTHING: Final[Stats] = (-1.0, _NAN, _NAN, 0, 0)


def stats(values: Sequence[Any]) -> Stats:
    """Statistics of all gradients together; of complex ones, of their sizes."""
    total, low, high, nan, inf = -1.0, INFINITY, -INFINITY, 0, 0
    for value in values:
        if value is None:
            continue
        array = gradient_array(value)
        squared = norm2(array)
        total = max(total, 0.0) + squared
        array = written_out(array)
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
        a, b = gradient_array(old), gradient_array(new)
        if a.size > COMPARED:
            return None
        a, b = written_out(a), written_out(b)
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


def _elements(gradient: Any) -> Any:
    return written_out(gradient_array(gradient))


def _equal(before: Sequence[Any], after: Sequence[Any]) -> bool:
    pairs = zip(before, after, strict=True)
    return all(
        old is new
        or (
            old is not None
            and new is not None
            and gradient_array(old).size <= COMPARED
            and bool((_elements(old) == _elements(new)).all())
        )
        for old, new in pairs
    )


def _differ(a: Stats, b: Stats) -> bool:
    """Whether two gradients cannot be the same; a sum of squares that is NaN tells nothing."""
    return a[1:] != b[1:] or (a[0] != b[0] and not (a[0] != a[0] and b[0] != b[0]))


class HookEffect:
    """One call of a hook while it is recorded: made before it, emitted when it is over."""

    __slots__ = ("before", "given", "head", "sink")

    def __init__(
        self, sink: EventLog, seq: int, task: int, hook: HookField, grads: Sequence[Any]
    ) -> None:
        self.sink = sink
        key = -1 if hook.key is None else hook.key
        self.head = (
            seq,
            task,
            hook.kind,
            hook.name,
            hook.number,
            key,
            *(hook.call_site or (None, 0)),
        )
        self.given = tuple(grads)
        self.before = stats(grads)

    def ended(self, result: Any, grads: Sequence[Any]) -> None:
        """The hook returned `result`, and `grads` is what goes on."""
        after = stats(grads)
        effect, factor = "none", 1.0
        pairs = list(zip(self.given, grads, strict=True))
        if result is not None or any(a is not b for a, b in pairs):
            effect = "same"
            if any(gradient_array(a) is not gradient_array(b) for a, b in pairs):
                effect = "equal" if _equal(self.given, grads) else "replaced"
                scale = _scaled(self.given, grads) if effect == "replaced" else None
                if scale is not None:
                    effect, factor = "scaled", scale
        if effect in ("none", "same") and _differ(after, self.before):
            effect = "in place"
        self._emit(after, effect, factor, "")

    def failed(self, error: BaseException) -> None:
        """The hook, or the check of what it returned, raised."""
        text = f"{type(error).__name__}: {error}"
        self._emit(_NOTHING, "raised", 1.0, text[:MESSAGE])

    def kept(self) -> None:
        """It was retain_grad, which changes nothing."""
        self._emit(self.before, "kept", 1.0, "")

    def _emit(self, after: Stats, effect: str, factor: float, text: str) -> None:
        now, thread = perf_counter_ns(), get_ident()
        facts = (effect, factor, text, *self.before, *after)
        self.sink.emit((HOOK, now, thread, *self.head, *facts))
