"""Dimension numbers: negative ones made positive, wrong ones refused with torch's texts.

Used by the op files and by nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index as as_index
from typing import Any, SupportsIndex

from ag_visual.dispatch.interpreted import flat


def wrap(dim: SupportsIndex, ndim: int) -> int:
    """The dimension counted from the front; a 0-d tensor takes 0 and -1."""
    span = ndim or 1
    if type(dim) is not int:
        try:
            dim = as_index(dim)
        except TypeError:
            raise TypeError(f"a dimension must be int, not {type(dim).__name__}") from None
    if not -span <= dim < span:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got "
            f"{dim})"
        )
    return dim + span if dim < 0 else dim


def wrap_all(dims: Iterable[SupportsIndex], ndim: int) -> tuple[int, ...]:
    """Several dimensions, none of them twice."""
    found = tuple(wrap(d, ndim) for d in dims)
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def sizes_of(name: str, sizes: Any) -> tuple[int, ...]:
    """Sizes or dimensions given as arguments or as one sequence, as ints."""
    given = flat(sizes)
    try:
        return tuple(as_index(n) for n in given)
    except TypeError:
        bad = next((s for s in given if not hasattr(s, "__index__")), None)
        raise TypeError(
            f"{name}(): sizes and dimensions must be ints, got {type(bad).__name__}: {bad!r}"
        ) from None


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of them broadcast to."""
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        for at in range(-len(shape), 0):
            n = shape[at]
            if n == 1 or n == result[at]:
                continue
            if result[at] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({result[at]}) must match the size of tensor b ({n}) "
                    f"at non-singleton dimension {len(result) + at}: shapes "
                    f"{', '.join(str(list(s)) for s in shapes)} do not broadcast"
                )
            result[at] = n
    return tuple(result)
