"""Factorisations that array namespaces lack, by LAPACK through SciPy, matrix after matrix.

Layer 1. Each function takes `xp` and arrays of that library, with any batch dimensions in front.
Libraries other than NumPy go through the host (`Backend.on_host`). Inputs are never written;
results are fresh arrays. Pivots are LAPACK's: int32, counted from 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array, of_namespace

_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}
Host = numpy.ndarray[Any, Any]


def _routine(name: str, like: Host) -> Any:
    """LAPACK's routine for the dtype of an array."""
    from scipy.linalg import lapack  # 40 ms: only for those who need it

    return getattr(lapack, _PREFIX[like.dtype.char] + name)


def _flat(array: Host, dims: int) -> Host:
    """The batch dimensions made one."""
    count = math.prod(array.shape[: array.ndim - dims])
    return array.reshape(count, *array.shape[array.ndim - dims :])


def _together(*arrays: tuple[Host, int]) -> tuple[tuple[int, ...], list[Host]]:
    """Arrays broadcast to one batch: its shape, and each with its batch made one dimension."""
    batches = {a.shape[: a.ndim - dims] for a, dims in arrays}
    if len(batches) == 1:
        return batches.pop(), [_flat(a, dims) for a, dims in arrays]
    batch = numpy.broadcast_shapes(*batches)
    return batch, [
        _flat(numpy.broadcast_to(a, (*batch, *a.shape[a.ndim - dims :])), dims)
        for a, dims in arrays
    ]


# LU -----------------------------------------------------------------------------------------------


def lu_factor(xp: Any, a: Array) -> tuple[Array, Array, Array]:
    """L and U in one matrix, the row swaps, and where U has its first zero (0: nowhere)."""
    return of_namespace(xp).on_host(_lu_factor, a)  # type: ignore[no-any-return]


def _lu_factor(a: Host) -> tuple[Host, Host, Host]:
    *batch, m, n = a.shape
    k = min(m, n)
    lu = numpy.empty(a.shape, a.dtype)
    pivots = numpy.empty((*batch, k), numpy.int32)
    info = numpy.zeros(batch, numpy.int32)
    run = fast.kernel("lu_factor", lu) if max(m, n) <= _FEW and fast.wanted(numpy, a.size) else None
    if run is not None:
        lu[...] = a
        run(_flat(lu, 2), _flat(pivots, 1), info.reshape(-1))
    elif lu.size and info.size > _MANY * k:
        _eliminate(_flat(a, 2), _flat(lu, 2), _flat(pivots, 1), info.reshape(-1))
    elif lu.size:
        getrf = _routine("getrf", a)
        parts = (_flat(x, d) for x, d in ((a, 2), (lu, 2), (pivots, 1), (info, 0)))
        for i, (one, out, swaps) in enumerate(zip(*list(parts)[:3], strict=True)):
            out[...], found, failed = getrf(one)
            swaps[...] = found + 1
            info.reshape(-1)[i] = failed
    return lu, pivots, info


# Up to so many rows and columns matrices are factored by the compiled kernels.
_FEW = 16


def _eliminate(a: Host, lu: Host, pivots: Host, info: Host) -> None:
    """Elimination with partial pivoting, one column of all matrices at a time.

    The same place of all matrices is a row of memory: rows of so few numbers as a matrix has cost
    more to begin than to compute.
    """
    all_ = numpy.array(a.transpose(1, 2, 0), order="C")
    for i in range(pivots.shape[1]):
        column = all_[i:, i]
        size = abs(column.real) + abs(column.imag) if column.dtype.kind == "c" else abs(column)
        best = size.argmax(0)
        pivots[:, i] = best + (i + 1)
        _swap(all_, best, i)
        pivot = all_[i, i]
        zero = pivot == 0
        if numpy.count_nonzero(zero):
            info[(info == 0) & zero] = i + 1
            pivot = numpy.where(zero, 1, pivot)
        below = all_[i + 1 :, i]
        below /= pivot
        all_[i + 1 :, i + 1 :] -= below[:, None] * all_[i, i + 1 :]
    lu[...] = all_.transpose(2, 0, 1)


def _swap(rows: Host, best: Host, i: int) -> None:
    """Exchange row i with row i + best, of (rows, ..., matrices)."""
    # (A method `any` takes four times as long for so few.)
    left = numpy.count_nonzero(best)
    for r in range(i + 1, len(rows)):
        if not left:
            return
        here = best == r - i
        found = numpy.count_nonzero(here)
        left -= found
        if found:
            upper = numpy.where(here, rows[r], rows[i])
            numpy.copyto(rows[r], rows[i], where=here)
            rows[i] = upper


def lu_solve(xp: Any, lu: Array, pivots: Array, b: Array, transpose: int = 0) -> Array:
    """X with A X = B from A's factors; transpose: 1 for A^T, 2 for A^H."""
    return of_namespace(xp).on_host(_lu_solve(transpose), lu, pivots, b)


def _lu_solve(transpose: int) -> Callable[..., Host]:
    def solve(lu: Host, pivots: Host, b: Host) -> Host:
        # Not by LAPACK's getrs, for which SciPy's OpenBLAS wakes threads: 8 ms for a 4 x 4 matrix.
        batch, (lu, pivots, b) = _together((lu, 2), (pivots, 1), (b, 2))
        fits = lu.shape[-1] <= _FEW and transpose < 2 and fast.wanted(numpy, lu.size)
        run = fast.compiled("lu_solve", lu.dtype) if fits and b.dtype == lu.dtype else None
        if run is not None:
            x = numpy.array(b, order="C")
            factors, swaps = (numpy.require(each, requirements="CW") for each in (lu, pivots))
            run(factors, swaps, x, transpose == 1)
            return x.reshape(*batch, *x.shape[1:])
        if _is_small(lu, b):
            x = _factors_solved(lu, pivots, b, transpose)
            return x.reshape(*batch, *x.shape[1:])
        order = _order(pivots, lu.shape[-1])
        every = numpy.arange(len(lu))[:, None]
        if transpose == 0:
            y = _solved(lu, b[every, order], upper=False, unit=True)
            x = _solved(lu, y, upper=True)
        else:
            a = (lu if transpose == 1 else lu.conj()).swapaxes(-1, -2)
            y = _solved(a, b, upper=False)
            y = _solved(a, y, upper=True, unit=True)
            x = numpy.empty_like(y)
            x[every, order] = y
        return x.reshape(*batch, *x.shape[1:])

    return solve


def _factors_solved(lu: Host, pivots: Host, b: Host, transpose: int) -> Host:
    """`_lu_solve` of many small systems, with the same place of all matrices as a row of memory."""
    factors, x = (numpy.array(y.transpose(1, 2, 0), order="C") for y in (lu, b))
    n = len(factors)
    swaps = pivots.T - numpy.arange(1, n + 1, dtype=pivots.dtype)[:, None]
    if transpose:
        factors = factors.swapaxes(0, 1)
        if transpose == 2:
            factors = factors.conj()
        _substitute(factors, x, upper=False)
        _substitute(factors, x, upper=True, unit=True)
    for i in reversed(range(n - 1)) if transpose else range(n - 1):
        _swap(x, swaps[i], i)
    if not transpose:
        _substitute(factors, x, upper=False, unit=True)
        _substitute(factors, x, upper=True)
    return numpy.array(x.transpose(2, 0, 1), order="C")


def _order(pivots: Host, m: int) -> Host:
    """The rows of A in the order in which L U has them, for each matrix of a flat batch."""
    count, k = pivots.shape
    if count <= _MANY * k:
        return numpy.array([_swapped(each, m) for each in pivots.tolist()], int).reshape(count, m)
    order = numpy.repeat(numpy.arange(m), count).reshape(m, count)
    for i in range(k):
        _swap(order, pivots[:, i] - (i + 1), i)
    return order.T


def _swapped(pivots: list[int], m: int) -> list[int]:
    order = list(range(m))
    for i, pivot in enumerate(pivots):
        order[i], order[pivot - 1] = order[pivot - 1], order[i]
    return order


def permutation(xp: Any, pivots: Array, m: int, dtype: Any) -> Array:
    """The matrix P of A = P L U from LAPACK's row swaps."""
    return of_namespace(xp).on_host(_permutation(m, dtype), pivots)


def _permutation(m: int, dtype: Any) -> Callable[..., Host]:
    def spread(pivots: Host) -> Host:
        flat = _flat(pivots, 1)
        matrix = numpy.zeros((len(flat), m, m), dtype)
        matrix[numpy.arange(len(flat))[:, None], _order(flat, m), numpy.arange(m)] = 1
        return matrix.reshape(*pivots.shape[:-1], m, m)

    return spread


# Triangular systems -------------------------------------------------------------------------------


def solve_triangular(
    xp: Any, a: Array, b: Array, *, upper: bool, unit: bool = False, left: bool = True
) -> Array:
    """X with A X = B (X A = B unless left) for triangular A; a zero on its diagonal gives inf."""
    return of_namespace(xp).on_host(_solve_triangular(upper, unit, left), a, b)


def _solve_triangular(upper: bool, unit: bool, left: bool) -> Callable[..., Host]:
    def solve(a: Host, b: Host) -> Host:
        batch, (a, b) = _together((a, 2), (b, 2))
        if left:
            x = _solved(a, b, upper, unit)
        else:
            # X A = B is A^T X^T = B^T.
            x = _solved(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, unit).swapaxes(-1, -2)
        return x.reshape(*batch, *x.shape[1:])

    return solve


def _solved(a: Host, b: Host, upper: bool, unit: bool = False) -> Host:
    """X with A X = B for each triangular matrix of a flat batch."""
    count, n = a.shape[:2]
    x = numpy.empty(b.shape, b.dtype)
    if not x.size:
        return x
    if count > _MANY * n:
        return _substituted(a, b, x, upper, unit)
    from scipy.linalg import blas

    trsm = getattr(blas, _PREFIX[a.dtype.char] + "trsm")
    for i, (one, right) in enumerate(zip(a, b, strict=True)):
        # BLAS counts along columns: it is given the transposed system where rows are contiguous.
        if one.flags.f_contiguous:
            x[i] = trsm(1.0, one, right, lower=not upper, diag=unit)
        else:
            x[i] = trsm(1.0, one.T, right.T, side=1, lower=upper, diag=unit).T
    return x


# From how many matrices for each of their rows on one row of all at a time is faster than BLAS.
_MANY = 4


def _substituted(a: Host, b: Host, x: Host, upper: bool, unit: bool) -> Host:
    """Forward (backward, if upper) substitution, one row of all matrices at a time."""
    n = a.shape[-1]
    if n <= _SMALL and x.shape[-1] <= _SMALL:
        all_, found = (numpy.array(y.transpose(1, 2, 0), order="C") for y in (a, b))
        _substitute(all_, found, upper, unit)
        x[...] = found.transpose(2, 0, 1)
        return x
    for i in reversed(range(n)) if upper else range(n):
        done = slice(i + 1, n) if upper else slice(0, i)
        row = b[:, i] - numpy.matmul(a[:, i, None, done], x[:, done])[:, 0]
        x[:, i] = row if unit else row / a[:, i, i, None]
    return x


# Up to so many rows and columns the sums of products are worth no call of BLAS for each matrix.
_SMALL = 8


def _is_small(a: Host, b: Host) -> bool:
    """Whether these are so many and so small systems that a row of all at a time is faster."""
    n = a.shape[-1]
    return bool(b.size) and n <= _SMALL and b.shape[-1] <= _SMALL and len(a) > _MANY * n


def _substitute(a: Host, x: Host, upper: bool, unit: bool = False) -> None:
    """Substitution in place: a is (rows, columns, matrices), x (rows, right sides, matrices).

    A column of the matrix at a time, from all rows that are left.
    """
    n = len(a)
    for i in reversed(range(n)) if upper else range(n):
        if not unit:
            x[i] /= a[i, i]
        rest = slice(0, i) if upper else slice(i + 1, n)
        if i != (0 if upper else n - 1):
            x[rest] -= a[rest, i, None] * x[i]


# Cholesky -----------------------------------------------------------------------------------------


def cholesky(xp: Any, a: Array) -> tuple[Array, Array]:
    """The lower factor of Hermitian matrices, and the order of the first minor that is not > 0."""
    backend = of_namespace(xp)
    if a.size == 0:
        return xp.zeros(a.shape, a.dtype), xp.zeros(a.shape[:-2], xp.int32)
    try:
        with backend.raising():
            return xp.linalg.cholesky(a), xp.zeros(a.shape[:-2], xp.int32)
    except numpy.linalg.LinAlgError:
        return backend.on_host(_cholesky, a)  # type: ignore[no-any-return]


def _cholesky(a: Host) -> tuple[Host, Host]:
    lower = numpy.empty(a.shape, a.dtype)
    info = numpy.zeros(a.shape[:-2], numpy.int32)
    potrf = _routine("potrf", a)
    for i, (one, out) in enumerate(zip(_flat(a, 2), _flat(lower, 2), strict=True)):
        factor, info.reshape(-1)[i] = potrf(one, lower=True, clean=True)
        out[...] = numpy.tril(factor)
    return lower, info


# QR and Householder -------------------------------------------------------------------------------


def geqrf(xp: Any, a: Array) -> tuple[Array, Array]:
    """R and the Householder vectors in one matrix, and their factors."""
    return of_namespace(xp).on_host(_geqrf, a)  # type: ignore[no-any-return]


def _geqrf(a: Host) -> tuple[Host, Host]:
    *batch, m, n = a.shape
    found, tau = numpy.empty(a.shape, a.dtype), numpy.empty((*batch, min(m, n)), a.dtype)
    if found.size:
        routine = _routine("geqrf", a)
        for one, out, factors in zip(_flat(a, 2), _flat(found, 2), _flat(tau, 1), strict=True):
            out[...], factors[...] = routine(one)[:2]
    return found, tau


# Eigenvalues of general matrices ------------------------------------------------------------------


def eig(xp: Any, a: Array) -> tuple[Array, Array]:
    """Complex eigenvalues and normalised eigenvectors (columns)."""
    return of_namespace(xp).on_host(_eig, a)  # type: ignore[no-any-return]


def _eig(a: Host) -> tuple[Host, Host]:
    kind = numpy.result_type(a.dtype, numpy.complex64)
    values, vectors = numpy.linalg.eig(a)
    return values.astype(kind, copy=False), vectors.astype(kind, copy=False)


def eigvals(xp: Any, a: Array) -> Array:
    """Complex eigenvalues."""
    return of_namespace(xp).on_host(_eigvals, a)


def _eigvals(a: Host) -> Host:
    kind = numpy.result_type(a.dtype, numpy.complex64)
    return numpy.linalg.eigvals(a).astype(kind, copy=False)


# LDL ----------------------------------------------------------------------------------------------


def ldl_factor(xp: Any, a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Bunch and Kaufman's L D L^T (L D L^H if hermitian) of the lower triangle."""
    return of_namespace(xp).on_host(_ldl_factor(hermitian), a)  # type: ignore[no-any-return]


def _ldl_name(a: Host, hermitian: bool) -> str:
    return "he" if hermitian and a.dtype.kind == "c" else "sy"


def _ldl_factor(hermitian: bool) -> Callable[..., tuple[Host, Host, Host]]:
    def factor(a: Host) -> tuple[Host, Host, Host]:
        ld = numpy.empty(a.shape, a.dtype)
        pivots = numpy.empty(a.shape[:-1], numpy.int32)
        info = numpy.zeros(a.shape[:-2], numpy.int32)
        if ld.size:
            routine = _routine(f"{_ldl_name(a, hermitian)}trf", a)
            zipped = zip(_flat(a, 2), _flat(ld, 2), _flat(pivots, 1), strict=True)
            for i, (one, out, swaps) in enumerate(zipped):
                found, swaps[...], failed = routine(one, lower=True)
                out[...] = numpy.tril(found)
                info.reshape(-1)[i] = failed
        return ld, pivots, info

    return factor


def ldl_solve(xp: Any, ld: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """X with A X = B from the factors of `ldl_factor`."""
    return of_namespace(xp).on_host(_ldl_solve(hermitian), ld, pivots, b)


def _ldl_solve(hermitian: bool) -> Callable[..., Host]:
    def solve(ld: Host, pivots: Host, b: Host) -> Host:
        batch, (ld, pivots, b) = _together((ld, 2), (pivots, 1), (b, 2))
        x = numpy.empty((*batch, *b.shape[-2:]), b.dtype)
        if x.size:
            turned = numpy.conj if hermitian else numpy.asarray
            for one, swaps, right, out in zip(ld, pivots, b, _flat(x, 2), strict=True):
                out[...] = right
                _solve_ldl(one, swaps, out, turned)
        return x

    return solve


def _solve_ldl(ld: Host, pivots: Host, x: Host, turned: Callable[[Host], Host]) -> None:
    """Solve L D L^T X = B in place, block by block (LAPACK's ?sytrs, which SciPy has since 1.15).

    A pivot p > 0 swapped its row with row p - 1; a pair of -p is a block of D with two rows, whose
    second was swapped with row p - 1. turned: the conjugate of what is L^H, or as it is for L^T.
    """
    blocks = []
    k = 0
    while k < len(ld):
        rows = slice(k, k + (1 if pivots[k] > 0 else 2))
        swap = [rows.stop - 1, abs(int(pivots[k])) - 1]
        blocks.append((rows, swap))
        k = rows.stop
    for rows, swap in blocks:
        x[swap] = x[swap[::-1]]
        x[rows.stop :] -= ld[rows.stop :, rows] @ x[rows]
        _solve_block(ld[rows, rows], x[rows], turned)
    for rows, swap in reversed(blocks):
        x[rows] -= turned(ld[rows.stop :, rows]).T @ x[rows.stop :]
        x[swap] = x[swap[::-1]]


def _solve_block(d: Host, x: Host, turned: Callable[[Host], Host]) -> None:
    """Solve with a block of D in place; a singular one gives inf and nan, as LAPACK does."""
    if len(d) == 1:
        x /= d
        return
    below = d[1, 0]
    above = turned(below)
    first, second = d[0, 0] / above, d[1, 1] / below
    top, bottom = x[0] / above, x[1] / below
    x[0] = (second * top - bottom) / (first * second - 1)
    x[1] = (first * bottom - top) / (first * second - 1)
