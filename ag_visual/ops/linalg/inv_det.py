"""Inverses and determinants."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.kernels import lapack
from ag_visual.core.level import all_values, anywhere
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, named_tuple, op
from ag_visual.dispatch.vmap import leading
from ag_visual.errors import LinAlgError
from ag_visual.ops.linalg.checks import (
    adjoint,
    array_of,
    check_info,
    check_square,
    column,
    composed,
    conj,
    embedded,
    product,
    turned,
)
from ag_visual.ops.linalg.solve import regular

_NO_INVERSE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)


def _inv_ex(xp, A, *, check_errors: bool = False) -> tuple[Any, Any]:
    """The inverse of each matrix and an error number: 0, or which pivot is zero.

    A: (..., n, n). check_errors=True raises LinAlgError for a singular matrix.
    """
    check_square("linalg.inv", A)
    none = xp.zeros(A.shape[:-2], xp.int32)
    if A.size == 0:
        return A.copy(), none
    try:
        with of_namespace(xp).raising():
            return xp.linalg.inv(A), none
    except numpy.linalg.LinAlgError:
        lu, pivots, info = lapack.lu_factor(xp, A)
    if check_errors:
        check_info("linalg.inv_ex", info, _NO_INVERSE)
    one = xp.broadcast_to(xp.eye(A.shape[-1], dtype=A.dtype), A.shape)
    return lapack.lu_solve(xp, lu, pivots, one), info


def _inv_samples(make):
    for shape in ((3, 3), (2, 2, 2), (0, 0), (2, 0, 3, 3)):
        yield Sample((regular(make, shape),))


def _inv_errors(make):
    a = make((2, 3, 3))
    a[1] = 0
    checked = {"check_errors": True}
    text = "linalg.inv_ex: (Batch element 1): The diagonal element 1 is zero, the inversion could"
    yield ErrorSample((a,), LinAlgError, text, checked)
    yield ErrorSample((make((2, 3)),), RuntimeError, "batches of square matrices, but they are 2")
    yield ErrorSample((make((2,)),), RuntimeError, "must have at least 2 dimensions")


op(
    "linalg_inv_ex",
    _inv_ex,
    vjp={"A": lambda F, g, inverse: -product(F, turned(F, inverse), g, turned(F, inverse))},
    jvp={"A": lambda F, t_A, inverse: -product(F, inverse, t_A, inverse)},
    outputs=("inverse", "info"),
    differentiable=(0,),
    public=False,
    batch=leading(),
    samples=_inv_samples,
    errors=_inv_errors,
    autocast="cpu float32",
)


@composed("linalg.inv", out=True, autocast="cpu float32")
def linalg_inv(F, A):
    """The inverse of each matrix of A: (..., n, n). Raises LinAlgError for a singular one."""
    inverse, info = F.linalg_inv_ex(A)
    check_info("linalg.inv", info, _NO_INVERSE)
    return inverse


@composite("inverse", out=True, autocast="cpu float32")
def inverse(F, self):
    """`linalg.inv`."""
    return F.linalg_inv(self)


# Determinants -------------------------------------------------------------------------------------


def _parity(xp, pivots):
    """The determinant of the row swaps, 1 or -1."""
    own = xp.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    return 1 - 2 * ((pivots != own).sum(axis=-1) % 2)


def _pivot_diagonal(A):
    return A.diagonal(0, -2, -1)


def _det(xp, A) -> tuple[Any, Any, Any]:
    check_square("linalg.det", A)
    lu, pivots, _ = lapack.lu_factor(xp, A)
    found = _pivot_diagonal(lu).prod(axis=-1) * _parity(xp, pivots).astype(A.dtype)
    return xp.asarray(found), lu, pivots


def _cofactors(F, A, result, LU, pivots):
    """The derivative of the determinant: the transposed adjugate, or det(A) A^-T."""
    if not anywhere(all_values(result) == 0):
        inverse = _inverse_of(F, A, LU, pivots)
        return column(F, column(F, result)) * turned(F, inverse)
    # Singular: A = U S V^H, whose adjugate is det(U) det(V^H) V adj(S) U^H.
    u, s, vh = F.linalg_svd(A, False)
    others = F.product_of_others(s, -1)
    phase = F.linalg_det(u) * F.linalg_det(vh)
    others = embedded(F, others + F.zeros_of(u, tuple(s.shape)))
    return column(F, column(F, phase)) * product(F, conj(F, u), others, conj(F, vh))


def _inverse_of(F, A, LU, pivots):
    if F.traced:
        return F.linalg_inv_ex(A)[0]
    one = F.xp.broadcast_to(F.xp.eye(A.shape[-1], dtype=A.dtype), A.shape)
    return lapack.lu_solve(F.xp, LU, pivots, one)


def _det_rule(F, g, A, result, LU, pivots):
    if A.shape[-1] < 2 or 0 in A.shape:
        return column(F, column(F, g))  # the determinant is the element, if there is one
    return column(F, column(F, g)) * _cofactors(F, A, result, LU, pivots)


def _det_move(F, t_A, A, result, LU, pivots):
    return F.sum(_cofactors(F, A, result, LU, pivots) * t_A, (-2, -1))


def _det_samples(make):
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (2, 0, 3, 3)):
        yield Sample((regular(make, shape),))
    # torch's gradient of an exactly singular matrix is 0, the limit is not.
    singular = make((3, 3))
    singular[:] = [[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [1.5, 0.25, 3.0]]
    yield Sample((singular,), oracle=False)


op(
    "linalg_det_all",
    _det,
    doc="The determinant of each square matrix.",
    vjp={"A": _det_rule},
    jvp={"A": _det_move},
    outputs=("result", "LU", "pivots"),
    differentiable=(0,),
    public=False,
    node="LinalgDetBackward0",
    public_name="linalg.det",
    oracle=lambda torch, A: (torch.linalg.det(A),),
    batch=leading(),
    samples=_det_samples,
    errors=lambda make: [
        ErrorSample((make((2, 3)),), RuntimeError, "linalg.det: A must be batches of square")
    ],
)


@composed("linalg.det", out=True)
def linalg_det(F, A):
    """The determinant of each matrix of A: (..., n, n), from its LU factors."""
    return F.linalg_det_all(A)[0]


@composite("det", out=True)
def det(F, self):
    """`linalg.det`."""
    return F.linalg_det(self)


def _slogdet(xp, A) -> tuple[Any, Any, Any, Any]:
    check_square("linalg.slogdet", A)
    lu, pivots, _ = lapack.lu_factor(xp, A)
    values = _pivot_diagonal(lu)
    size = abs(values)
    phases = xp.where(size == 0, 0, values / xp.where(size == 0, 1, size)).astype(A.dtype)
    sign = phases.prod(axis=-1) * _parity(xp, pivots).astype(A.dtype)
    return xp.asarray(sign), xp.asarray(xp.log(size).sum(axis=-1)), lu, pivots


def _slogdet_rule(F, gs, A, sign, LU, pivots):
    """log |det| is Re log det; the sign turns with Im log det."""
    g_sign, g = gs[0], gs[1]
    if is_complex(A):
        if g is not None:
            g = F.complex(g, F.zeros_of(g, tuple(g.shape)))
        if g_sign is not None:
            turn = F.imag(conj(F, sign) * g_sign)
            turn = F.complex(F.zeros_of(turn, tuple(turn.shape)), turn)
            g = turn if g is None else g + turn
    if g is None:
        return F.zeros_of(A, tuple(A.shape))
    return column(F, column(F, g)) * adjoint(F, _inverse_of(F, A, LU, pivots))


def _slogdet_move(F, t_A, A, sign, LU, pivots):
    moved = F.sum(turned(F, _inverse_of(F, A, LU, pivots)) * t_A, (-2, -1))
    if not is_complex(A):
        return F.zeros_of(sign, tuple(sign.shape)), moved, None, None
    turn = F.imag(moved)
    return sign * F.complex(F.zeros_of(turn, tuple(turn.shape)), turn), F.real(moved), None, None


op(
    "linalg_slogdet_all",
    _slogdet,
    doc="The sign of each determinant, and the logarithm of its size.",
    vjp={"A": _slogdet_rule},
    jvp={"A": _slogdet_move},
    outputs=("sign", "logabsdet", "LU", "pivots"),
    differentiable=(0, 1),
    holomorphic=False,
    public=False,
    node="LinalgSlogdetBackward0",
    public_name="linalg.slogdet",
    oracle=lambda torch, A: torch.linalg.slogdet(A),
    batch=leading(),
    samples=_inv_samples,
    errors=lambda make: [
        ErrorSample((make((2, 3)),), RuntimeError, "linalg.slogdet: A must be batches of square")
    ],
)


_LinalgSlogdet = named_tuple("linalg_slogdet", "sign", "logabsdet")
_Slogdet = named_tuple("slogdet", *_LinalgSlogdet._fields)


@composed("linalg.slogdet", out=True)
def linalg_slogdet(F, A):
    """Sign (a complex number of size 1) and log of the size of each determinant: (..., n, n).

    A singular matrix gives (0, -inf).
    """
    return _LinalgSlogdet(*tuple(F.linalg_slogdet_all(A))[:2])


@composite("slogdet", out=True)
def slogdet(F, self):
    """`linalg.slogdet`."""
    return _Slogdet(*tuple(F.linalg_slogdet_all(self))[:2])


@composite("logdet")
def logdet(F, self):
    """The logarithm of each determinant; nan for a negative one, -inf for 0."""
    check_square("logdet", array_of(self))
    sign, size = tuple(F.linalg_slogdet_all(self))[:2]
    if is_complex(sign):
        return F.log(sign) + size
    return F.where(sign == -1, math.nan, size)
