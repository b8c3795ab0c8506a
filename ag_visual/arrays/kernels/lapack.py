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
    batch = numpy.broadcast_shapes(*(a.shape[: a.ndim - dims] for a, dims in arrays))
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
    if lu.size:
        getrf = _routine("getrf", a)
        parts = (_flat(x, d) for x, d in ((a, 2), (lu, 2), (pivots, 1), (info, 0)))
        for i, (one, out, swaps) in enumerate(zip(*list(parts)[:3], strict=True)):
            out[...], found, failed = getrf(one)
            swaps[...] = found + 1
            info.reshape(-1)[i] = failed
    return lu, pivots, info


def lu_solve(xp: Any, lu: Array, pivots: Array, b: Array, transpose: int = 0) -> Array:
    """X with A X = B from A's factors; transpose: 1 for A^T, 2 for A^H."""
    return of_namespace(xp).on_host(_lu_solve(transpose), lu, pivots, b)


def _lu_solve(transpose: int) -> Callable[..., Host]:
    def solve(lu: Host, pivots: Host, b: Host) -> Host:
        batch, (lu, pivots, b) = _together((lu, 2), (pivots, 1), (b, 2))
        x = numpy.empty((*batch, *b.shape[-2:]), b.dtype)
        if x.size:
            getrs = _routine("getrs", lu)
            for one, swaps, right, out in zip(lu, pivots, b, _flat(x, 2), strict=True):
                out[...] = getrs(one, swaps - 1, right, trans=transpose)[0]
        return x

    return solve


def permutation(xp: Any, pivots: Array, m: int, dtype: Any) -> Array:
    """The matrix P of A = P L U from LAPACK's row swaps."""
    return of_namespace(xp).on_host(_permutation(m, dtype), pivots)


def _permutation(m: int, dtype: Any) -> Callable[..., Host]:
    def spread(pivots: Host) -> Host:
        *batch, k = pivots.shape
        flat = _flat(pivots, 1)
        every = numpy.arange(len(flat))
        order = numpy.tile(numpy.arange(m), (len(flat), 1))
        for i in range(k):
            swapped = flat[:, i] - 1
            order[every, i], order[every, swapped] = order[every, swapped], order[every, i].copy()
        matrix = numpy.zeros((len(flat), m, m), dtype)
        matrix[every[:, None], order, numpy.arange(m)] = 1
        return matrix.reshape(*batch, m, m)

    return spread


# Triangular systems -------------------------------------------------------------------------------


def solve_triangular(
    xp: Any, a: Array, b: Array, *, upper: bool, unit: bool = False, left: bool = True
) -> Array:
    """X with A X = B (X A = B unless left) for triangular A; a zero on its diagonal gives inf."""
    return of_namespace(xp).on_host(_solve_triangular(upper, unit, left), a, b)


def _solve_triangular(upper: bool, unit: bool, left: bool) -> Callable[..., Host]:
    def solve(a: Host, b: Host) -> Host:
        from scipy.linalg import blas

        trsm = getattr(blas, _PREFIX[a.dtype.char] + "trsm")
        batch, (a, b) = _together((a, 2), (b, 2))
        x = numpy.empty((*batch, *b.shape[-2:]), b.dtype)
        if x.size:
            # Rows are BLAS's columns: it is given the transposed system, and copies nothing.
            for one, right, out in zip(a, b, _flat(x, 2), strict=True):
                out[...] = trsm(1.0, one.T, right.T, side=left, lower=upper, diag=unit).T
        return x

    return solve


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
            routine = _routine(f"{_ldl_name(ld, hermitian)}trs", ld)
            for one, swaps, right, out in zip(ld, pivots, b, _flat(x, 2), strict=True):
                out[...] = routine(one, swaps, right, lower=True)[0]
        return x

    return solve
