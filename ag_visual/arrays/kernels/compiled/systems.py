"""Many small systems of linear equations, one after the other.

Layer 1. `compiled/__init__.py` says what kernels are given. Each product is rounded: a fused one
leaves a rest where the matrix is singular.
"""

from __future__ import annotations

from ag_visual.arrays.kernels.compiled.making import exact


@exact
def _swap(x, i, other):
    for c in range(x.shape[1]):
        held = x[i, c]
        x[i, c] = x[other, c]
        x[other, c] = held


@exact
def _subtract(x, to, factor, i):
    """x[to] -= factor x[i]"""
    for c in range(x.shape[1]):
        x[to, c] -= factor * x[i, c]


@exact
def lu_factor(lu, pivots, info):
    """L and U in the place of each matrix, the row swaps from 1 on, and U's first zero (0: none).

    lu: (matrices, m, n). A NaN is the pivot before any number.
    """
    matrices, m, n = lu.shape
    one = lu.dtype.type(1)
    for at in range(matrices):
        a = lu[at]
        info[at] = 0
        for i in range(min(m, n)):
            best, size = i, abs(a[i, i])
            for r in range(i + 1, m):
                other = abs(a[r, i])
                if size == size and not other <= size:
                    best, size = r, other
            pivots[at, i] = best + 1
            _swap(a, i, best)
            pivot = a[i, i]
            if pivot == 0:
                pivot = one
                if info[at] == 0:
                    info[at] = i + 1
            for r in range(i + 1, m):
                factor = a[r, i] / pivot
                a[r, i] = factor
                for j in range(i + 1, n):
                    a[r, j] -= factor * a[i, j]


@exact
def lu_solve(lu, pivots, x, transpose):
    """X of A X = B, or of A^T X = B with transpose, in the place of each B.

    lu: (matrices, n, n); x: (matrices, n, columns).
    """
    matrices, n, columns = x.shape
    for at in range(matrices):
        a, b = lu[at], x[at]
        if transpose:
            for i in range(n):
                for c in range(columns):
                    b[i, c] /= a[i, i]
                for r in range(i + 1, n):
                    _subtract(b, r, a[i, r], i)
            for i in range(n - 1, -1, -1):
                for r in range(i):
                    _subtract(b, r, a[i, r], i)
            for i in range(n - 1, -1, -1):
                _swap(b, i, pivots[at, i] - 1)
        else:
            for i in range(n):
                _swap(b, i, pivots[at, i] - 1)
            for i in range(n):
                for r in range(i + 1, n):
                    _subtract(b, r, a[r, i], i)
            for i in range(n - 1, -1, -1):
                for c in range(columns):
                    b[i, c] /= a[i, i]
                for r in range(i):
                    _subtract(b, r, a[r, i], i)


TAKES = {lu_factor: "t k j", lu_solve: "t k t b"}
