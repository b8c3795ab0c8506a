"""The order in memory of copies."""

from __future__ import annotations

from ag_visual.arrays.backend import Array


def order_of_copy(array: Array) -> str:
    """NumPy's `order` for a copy: "C" of expanded memory, else "K", which keeps the array's own.

    (With "K" an expanded dimension, whose stride is 0, would change fastest: rows of a copy of
    `x.expand(n, -1)` would not lie one behind the other.)
    """
    if 0 not in array.strides:
        return "K"
    pairs = zip(array.strides, array.shape, strict=True)
    return "C" if any(stride == 0 and n > 1 for stride, n in pairs) else "K"
