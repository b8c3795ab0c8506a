"""Checks that index arrays stay inside a dimension: NumPy wraps negative ones, CuPy wraps all.

Layer 1. On a GPU each check waits for the device; a silent wrong read is worse.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import Array, of_namespace


def check_index(
    xp: Any, index: Array, size: int, dim: int, error: type[Exception] = IndexError, text: str = ""
) -> None:
    """Raise `error` unless 0 <= index < size everywhere; it names the first index outside.

    `text` goes in front. torch raises RuntimeError for gather and scatter, IndexError for lookups.
    """
    if index.size == 0:
        return
    if not of_namespace(xp).has_values:
        return
    if index.dtype == xp.int64:
        # As unsigned numbers, negative ones are larger than any size: one search finds both.
        if int(index.view(xp.uint64).max()) < size:
            return
    elif int(index.min()) >= 0 and int(index.max()) < size:
        return
    worst = first_outside(xp, index, size)
    message = f"index {worst} is out of bounds for dimension {dim} with size {size}"
    raise error(f"{text}: {message}" if text else message)


def first_outside(xp: Any, index: Array, size: int) -> int:
    """The first value, in memory order, that is outside [0, size)."""
    outside = (index < 0) | (index >= size)
    return int(index[outside][0])
