"""LU decompositions with partial pivoting, packed and unpacked.

A = P L U. Rules leave out conjugation (docs/notes/holomorphic-rules). With A1 the first k columns
(or rows) of a rectangular A, the rest of U (of L) follows by solving with L (with U).
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.record import ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, named_tuple, op
from ag_visual.dispatch.vmap import all_stacked, leading
from ag_visual.ops.linalg.checks import (
    check_info,
    check_matrix,
    check_same_kind,
    check_square,
    columns,
    completed,
    composed,
    product,
    rows,
    triangular,
    turned,
)


def _no_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(
            f"{name}: LU without pivoting is not implemented on the CPU; leave out pivot=False"
        )


# Rules of L and U ---------------------------------------------------------------------------------


def _square_rule(F, gL, gU, L, U):
    inner = F.tril(product(F, turned(F, L), gL), -1) + F.triu(product(F, gU, turned(F, U)))
    inner = triangular(F, turned(F, L), inner, upper=True, unitriangular=True)
    return triangular(F, turned(F, U), inner, upper=False, left=False)


def _factors_rule(F, gL, gU, P, L, U):
    m, k = tuple(L.shape)[-2:]
    n = U.shape[-1]
    gL = F.zeros_of(L, tuple(L.shape)) if gL is None else gL
    gU = F.zeros_of(U, tuple(U.shape)) if gU is None else gU
    if m > k:
        low, u = rows(F, L, k, m), turned(F, U)
        last = triangular(F, u, rows(F, gL, k, m), upper=False, left=False)
        gU = gU - product(F, turned(F, low), last)
        first = _square_rule(F, rows(F, gL, 0, k), gU, rows(F, L, 0, k), U)
        g = F.cat((first, last), -2)
    elif n > k:
        right = columns(F, U, k, n)
        last = triangular(F, turned(F, L), columns(F, gU, k, n), upper=True, unitriangular=True)
        gL = gL - product(F, last, turned(F, right))
        first = _square_rule(F, gL, columns(F, gU, 0, k), L, columns(F, U, 0, k))
        g = F.cat((first, last), -1)
    else:
        g = _square_rule(F, gL, gU, L, U)
    return product(F, P, g)


def _factors_move(F, t, P, L, U) -> tuple[Any, Any]:
    m, k = tuple(L.shape)[-2:]
    n = U.shape[-1]
    t = product(F, turned(F, P), t)
    l1, u1 = rows(F, L, 0, k), columns(F, U, 0, k)
    inner = triangular(F, l1, t[..., :k, :k], upper=False, unitriangular=True)
    inner = triangular(F, u1, inner, upper=True, left=False)
    t_l, t_u = product(F, l1, F.tril(inner, -1)), product(F, F.triu(inner), u1)
    if m > k:
        last = rows(F, t, k, m) - product(F, rows(F, L, k, m), t_u)
        t_l = F.cat((t_l, triangular(F, u1, last, upper=True, left=False)), -2)
    elif n > k:
        last = columns(F, t, k, n) - product(F, t_l, columns(F, U, k, n))
        last = triangular(F, l1, last, upper=False, unitriangular=True)
        t_u = F.cat((t_u, last), -1)
    return t_l, t_u


def _packed(F, low, high, m: int, n: int):
    """A strictly lower triangle (m, k) and an upper one (k, n) in one (m, n) matrix."""
    k = min(m, n)
    batch = tuple((low if low is not None else high).shape)[:-2]
    if low is not None:
        low = F.tril(low, -1)
        low = F.cat((low, F.zeros_of(low, (*batch, m, n - k))), -1) if n > k else low
    if high is not None:
        high = F.triu(high)
        high = F.cat((high, F.zeros_of(high, (*batch, m - k, n))), -2) if m > k else high
    if low is None or high is None:
        return high if low is None else low
    return low + high


def _shifted(make, shape: tuple[int, ...]):
    """Matrices in which the choice of pivots is clear."""
    out = make(shape, low=-1.0, high=1.0)
    for i in range(min(shape[-2:])):
        out[..., (i + 1) % shape[-2], i] += 4.0
    return out


def _samples(make):
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3), (0, 0), (0, 3, 2)):
        yield Sample((_shifted(make, shape),))


def _errors(make):
    yield ErrorSample((make((2,)),), RuntimeError, "must have at least 2 dimensions")
    yield ErrorSample((make((2, 2)),), RuntimeError, "LU without pivoting", {"pivot": False})


# A = P L U ----------------------------------------------------------------------------------------


def _unpacked(xp, packed) -> tuple[Any, Any]:
    m, n = packed.shape[-2:]
    k = min(m, n)
    low = xp.tril(packed[..., :k], -1)
    low += xp.eye(m, k, dtype=packed.dtype)
    return low, xp.triu(packed[..., :k, :])


def _lu(xp, A, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    """A permutation P, a unit lower triangular L and an upper triangular U with A = P L U.

    A: (..., m, n); P (..., m, m), L (..., m, k), U (..., k, n) with k = min(m, n).
    """
    check_matrix("linalg.lu", A)
    _no_pivoting("linalg.lu", pivot)
    packed, pivots, _ = lapack.lu_factor(xp, A)
    low, high = _unpacked(xp, packed)
    return lapack.permutation(xp, pivots, A.shape[-2], A.dtype), low, high


op(
    "linalg_lu",
    _lu,
    vjp={"A": lambda F, gs, P, L, U: _factors_rule(F, gs[0], gs[1], P, L, U)},
    jvp={"A": lambda F, t_A, P, L, U: (None, *_factors_move(F, t_A, P, L, U))},
    outputs=("P", "L", "U"),
    differentiable=(1, 2),
    also_saves=("pivot",),
    public=False,
    batch=leading(),
    samples=_samples,
    errors=_errors,
)

# Packed -------------------------------------------------------------------------------------------

_ZERO_PIVOT = (
    "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you "
    "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)


def _check_pivots(name: str, info) -> None:
    try:
        check_info(name, info, _ZERO_PIVOT)
    except RuntimeError as error:  # torch raises no LinAlgError here
        raise RuntimeError(str(error)) from None


def _lu_factor_ex(xp, A, *, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:
    """L and U of A = P L U in one matrix, the swaps of rows, and which pivot is zero (0: none).

    A: (..., m, n); LU (..., m, n); pivots (..., min(m, n)), int32, counted from 1.
    """
    check_matrix("linalg.lu_factor", A)
    _no_pivoting("linalg.lu_factor", pivot)
    found = lapack.lu_factor(xp, A)
    if check_errors:
        _check_pivots("torch.linalg.lu_factor_ex", found[2])
    return found


def _factored(F, LU, pivots) -> tuple[Any, Any, Any]:
    return tuple(F.lu_unpack(LU, pivots))


def _lu_factor_rule(F, g, LU, pivots):
    k = min(tuple(LU.shape)[-2:])
    p, low, high = _factored(F, LU, pivots)
    return _factors_rule(F, columns(F, g, 0, k), rows(F, g, 0, k), p, low, high)


def _lu_factor_move(F, t_A, LU, pivots):
    p, low, high = _factored(F, LU, pivots)
    moved = _factors_move(F, t_A, p, low, high)
    return _packed(F, *moved, *tuple(LU.shape)[-2:])


op(
    "linalg_lu_factor_ex",
    _lu_factor_ex,
    vjp={"A": _lu_factor_rule},
    jvp={"A": _lu_factor_move},
    outputs=("LU", "pivots", "info"),
    differentiable=(0,),
    also_saves=("pivot",),
    public=False,
    batch=leading(),
    samples=_samples,
    errors=_errors,
)


_Factors = named_tuple("linalg_lu_factor", "LU", "pivots")


@composed("linalg.lu_factor", out=True)
def linalg_lu_factor(F, A, *, pivot: bool = True):
    """L and U in one matrix, and the row swaps: what `lu_solve` and `lu_unpack` take.

    Raises RuntimeError for a singular matrix.
    """
    packed, pivots, info = F.linalg_lu_factor_ex(A, pivot=pivot)
    _check_pivots("torch.linalg.lu_factor", info)
    return _Factors(packed, pivots)


@composite("lu", out="casts", profiled="_lu_with_info")
def lu(F, self, pivot: bool = True, get_infos: bool = False):
    """`linalg.lu_factor_ex`, which replaces it: (LU, pivots) and, if asked, the error numbers."""
    packed, pivots, info = F.linalg_lu_factor_ex(self, pivot=pivot)
    return (packed, pivots, info) if get_infos else (packed, pivots)


def _lu_unpack(
    xp, LU_data, LU_pivots, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    """P, L and U from `linalg.lu_factor`; what is not unpacked is empty."""
    if LU_pivots.dtype != xp.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype. Note: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    none = (0,)
    p = xp.zeros(none, LU_data.dtype)
    low, high = xp.zeros(none, LU_data.dtype), xp.zeros(none, LU_data.dtype)
    if unpack_data:
        low, high = _unpacked(xp, LU_data)
    if unpack_pivots:
        p = lapack.permutation(xp, LU_pivots, LU_data.shape[-2], LU_data.dtype)
    return p, low, high


def _lu_unpack_move(F, t_LU_data) -> tuple[Any, Any, Any]:
    k = min(tuple(t_LU_data.shape)[-2:])
    return None, F.tril(columns(F, t_LU_data, 0, k), -1), F.triu(rows(F, t_LU_data, 0, k))


op(
    "lu_unpack",
    _lu_unpack,
    vjp={"LU_data": lambda F, gs, LU_data_shape: _packed(F, gs[0], gs[1], *LU_data_shape[-2:])},
    jvp={"LU_data": _lu_unpack_move},
    inputs=("LU_data", "LU_pivots"),
    outputs=("P", "L", "U"),
    differentiable=(1, 2),
    layout=ROWS,
    method=False,
    batch=completed(all_stacked),
    samples=lambda make: [
        Sample(lapack.lu_factor(numpy, _shifted(make, shape))[:2])
        for shape in ((3, 3), (4, 2), (2, 4), (2, 2, 2), (0, 0))
    ],
)

# Solving with the factors -------------------------------------------------------------------------


def _lu_solve(xp, LU, pivots, B, *, left: bool = True, adjoint: bool = False):
    """X with A X = B (X A = B with left=False; A^H in place of A with adjoint) from A's factors.

    LU (..., n, n) and pivots as `lu_factor` gives them, B: (..., n, k); batches broadcast.
    """
    check_square("linalg.lu_solve", LU)
    check_same_kind("linalg.lu_solve", LU, B)
    if B.ndim < 2 or B.shape[-2 if left else -1] != LU.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation {equation} "
            f"({LU.shape[-2]}x{LU.shape[-1]} and {'x'.join(str(n) for n in B.shape[-2:])})"
        )
    if left:
        return lapack.lu_solve(xp, LU, pivots, B, 2 if adjoint else 0)
    # X A = B is A^T X^T = B^T; X A^H = B is conj(A) X^T = B^T.
    turned_ = B.swapaxes(-1, -2)
    if not adjoint:
        return lapack.lu_solve(xp, LU, pivots, turned_, 1).swapaxes(-1, -2)
    return xp.conj(lapack.lu_solve(xp, LU, pivots, xp.conj(turned_))).swapaxes(-1, -2)


def _as_adjoint(F, x):
    return F.conj(turned(F, x))


def _lu_solve_rule(F, g, needs, LU, pivots, result, left: bool, adjoint: bool) -> tuple[Any, Any]:
    """With A = P L U: dA = P (dL U + L dU), and the gradient of A is -g_B X^H."""
    g_b = F.linalg_lu_solve(LU, pivots, g, left=left, adjoint=not adjoint)
    if not needs[0]:
        return None, g_b
    x = _as_adjoint(F, result)
    g_a = -(product(F, g_b, x) if left else product(F, x, g_b))
    g_a = _as_adjoint(F, g_a) if adjoint else g_a
    p, low, high = _factored(F, LU, pivots)
    g_a = product(F, turned(F, p), g_a)
    g_l = product(F, g_a, _as_adjoint(F, high))
    g_u = product(F, _as_adjoint(F, low), g_a)
    return F.tril(g_l, -1) + F.triu(g_u), g_b


def _lu_solve_move(F, t_LU, LU, pivots, result, left: bool, adjoint: bool):
    p, low, high = _factored(F, LU, pivots)
    t_a = product(F, F.tril(t_LU, -1), high) + product(F, low, F.triu(t_LU))
    t_a = product(F, p, t_a)
    t_a = _as_adjoint(F, t_a) if adjoint else t_a
    right = product(F, t_a, result) if left else product(F, result, t_a)
    return F.linalg_lu_solve(LU, pivots, -right, left=left, adjoint=adjoint)


def _lu_solve_samples(make):
    for left in (True, False):
        for adjoint in (False, True):
            factors = lapack.lu_factor(numpy, _shifted(make, (3, 3)))[:2]
            b = make((3, 2) if left else (2, 3))
            yield Sample((*factors, b), {"left": left, "adjoint": adjoint})
    factors = lapack.lu_factor(numpy, _shifted(make, (2, 3, 3)))[:2]
    yield Sample((*factors, make((3, 2))))
    yield Sample((factors[0][:0], factors[1][:0], make((0, 3, 2))))


op(
    "linalg_lu_solve",
    _lu_solve,
    vjp={("LU", "B"): _lu_solve_rule},
    jvp={
        "LU": _lu_solve_move,
        "B": lambda F, t_B, LU, pivots, left, adjoint: F.linalg_lu_solve(
            LU, pivots, t_B, left=left, adjoint=adjoint
        ),
    },
    inputs=("LU", "pivots", "B"),
    holomorphic=False,
    layout=ROWS,
    public=False,
    batch=leading(LU=2, pivots=1, B=2),
    samples=_lu_solve_samples,
    errors=lambda make: [
        ErrorSample(
            (*lapack.lu_factor(numpy, make((2, 2)))[:2], make((3, 1))),
            RuntimeError,
            "the equation AX = B (2x2 and 3x1)",
        )
    ],
)


@composite("lu_solve", out=True, autocast="cpu float32")
def lu_solve(F, self, LU_data, LU_pivots):
    """`linalg.lu_solve`, with the right side first."""
    return F.linalg_lu_solve(LU_data, LU_pivots, self)
