"""Numbers and rows that are read or added where an index says; it is in the dimension.

Layer 1. `compiled/__init__.py` says what kernels are given.
"""

from __future__ import annotations

from ag_visual.arrays.kernels.compiled.making import summing


@summing
def add_rows(target, index, rows):
    """target[index[i]] += rows[i], in this order."""
    width = target.shape[1]
    if width == 1:
        for i in range(index.size):
            target[index[i], 0] += rows[i, 0]
    else:
        for i in range(index.size):
            at = index[i]
            for j in range(width):
                target[at, j] += rows[i, j]


@summing
def gather(x, index, out):
    """out[a, i, b] = x[a, index[a, i, b], b]"""
    for a in range(index.shape[0]):
        for i in range(index.shape[1]):
            for b in range(index.shape[2]):
                out[a, i, b] = x[a, index[a, i, b], b]


@summing
def scatter_add(target, index, source):
    """target[a, index[a, i, b], b] += source[a, i, b], in this order."""
    for a in range(index.shape[0]):
        for i in range(index.shape[1]):
            for b in range(index.shape[2]):
                target[a, index[a, i, b], b] += source[a, i, b]


TAKES = {add_rows: "m n m", gather: "t x t", scatter_add: "t x t"}
