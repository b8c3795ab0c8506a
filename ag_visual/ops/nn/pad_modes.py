"""Padding by reflection and by repetition, an op for each number of dimensions as in torch."""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.record import LINEAR, ErrorSample, Sample
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap import folded

Pads = tuple[int, ...]


def _sides(padding: Pads) -> list[tuple[int, int, int]]:
    """(axis from the end, before, after) of each padded dimension, the last one first."""
    return [(-1 - i, padding[2 * i], padding[2 * i + 1]) for i in range(len(padding) // 2)]


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    return (..., part, *(slice(None),) * (-axis - 1))


def _check(self, padding: Pads, reflects: bool) -> None:
    rank = len(padding) // 2
    if 0 in self.shape[self.ndim > rank + 1 :]:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(self.shape)}"
        )
    for number, (axis, before, after) in enumerate(_sides(padding)):
        n = self.shape[axis]
        if reflects and max(before, after) >= n:
            raise RuntimeError(
                f"Argument #{4 + 2 * number}: Padding size should be less than the corresponding "
                f"input dimension, but got: padding ({before}, {after}) at dimension "
                f"{self.ndim + axis} of input {list(self.shape)}"
            )
    found = [n + b + a for n, (_, b, a) in zip(self.shape[::-1], _sides(padding), strict=False)]
    if min(found) < 1:
        axes = "DHW"[-rank:]
        have = ", ".join(f"{a}: {n}" for a, n in zip(axes, self.shape[-rank:], strict=True))
        made = " ".join(f"{a}: {n}" for a, n in zip(axes, reversed(found), strict=True))
        raise RuntimeError(f"input ({have}) is too small. Calculated output {made}")


def _places(n: int, before: int, after: int, reflects: bool) -> list[int]:
    """Which element each place repeats."""
    places = range(-before, n + after)
    if reflects:
        return [n - 1 - abs(n - 1 - abs(i)) for i in places]
    return [min(max(i, 0), n - 1) for i in places]


def _padded(xp, self, padding: Pads, reflects: bool):
    _check(self, padding, reflects)
    for axis, before, after in _sides(padding):
        index = _places(self.shape[axis], before, after, reflects)
        self = xp.take(self, xp.asarray(index, dtype=xp.int64), axis=self.ndim + axis)
    return self


def _back(xp, g, size, padding: Pads, reflects: bool):
    """What was repeated is added where it came from, one dimension after the other."""
    for axis, before, after in reversed(_sides(padding)):
        n, total = size[axis], g.shape[axis]
        shape = list(g.shape)
        shape[axis] = n
        result = xp.zeros(tuple(shape), g.dtype)
        # The input's own places, as far as negative padding has not cut them off.
        first, last = max(-before, 0), n - max(-after, 0)
        start = max(before, 0)
        if last > first:
            own = slice(start, start + last - first)
            result[_along(axis, slice(first, last))] = g[_along(axis, own)]
        for side in (slice(0, max(before, 0)), slice(total - max(after, 0), total)):
            count = side.stop - side.start
            if not count:
                continue
            edge, at_end = g[_along(axis, side)], side.start > 0 or before <= 0
            if reflects:
                there = slice(n - 1 - count, n - 1) if at_end else slice(1, count + 1)
                result[_along(axis, there)] += edge[_along(axis, slice(None, None, -1))]
            else:
                there = slice(n - 1, n) if at_end else slice(0, 1)
                result[_along(axis, there)] += edge.sum(axis=axis, keepdims=True)
        g = result
    return g


def _declare(name: str, title: str, rank: int, reflects: bool) -> None:
    key = f"{name}_pad{rank}d"

    def rule(F, g, self_shape, padding):
        return getattr(F, f"{key}_back")(g, tuple(self_shape)[-rank:], padding)

    shape = (2, 3, 4, 3)[-rank - 1 :]
    sides = ((1, 2, 2, 1, 0, 1)[: 2 * rank], (-1, 2, 1, -2, 1, 1)[: 2 * rank])

    def back_samples(make):
        for padding in sides:
            grown = [n + b + a for n, (_, b, a) in zip(shape[::-1], _sides(padding), strict=False)]
            yield Sample((make((shape[0], *grown[::-1])), shape[1:], padding))

    shared: dict[str, Any] = {"holomorphic": False, "public": False}
    op(
        key,
        lambda xp, self, padding: _padded(xp, self, padding, reflects),
        vjp={"self": rule},
        jvp=LINEAR,
        node=f"{title}Pad{rank}DBackward0",
        autocast="" if reflects and rank == 3 else "cpu float32",  # torch lists no other
        batch=folded("self", least=rank + 2),
        also_saves=("self",),
        fused=("self",),
        doc=f"Margins filled with the elements {'mirrored there' if reflects else 'at the edge'}.",
        samples=lambda make: (Sample((make(shape), padding)) for padding in sides),
        errors=lambda make: [
            ErrorSample(
                (make(shape), (9 if reflects else -9, 0) * rank),
                RuntimeError,
                "Argument #4: Padding size" if reflects else "is too small",
            )
        ],
        **shared,
    )
    op(
        f"{key}_back",
        lambda xp, grad_output, size, padding: _back(xp, grad_output, size, padding, reflects),
        vjp={"grad_output": lambda F, g, padding: getattr(F, key)(g, padding)},
        jvp=LINEAR,
        node=f"{title}Pad{rank}DBackwardBackward0",
        batch=folded("grad_output", least=rank + 2),
        oracle=False,
        samples=back_samples,
        **shared,
    )


for _rank in (1, 2, 3):
    _declare("reflection", "Reflection", _rank, True)
    _declare("replication", "Replication", _rank, False)
