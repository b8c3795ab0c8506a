"""The Cholesky decomposition.

Derivative: M. Seeger et al., "Auto-differentiating linear algebra" (2017).
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap import leading
from ag_visual.errors import LinAlgError
from ag_visual.ops.linalg.checks import (
    adjoint,
    check_info,
    check_square,
    composed,
    diagonal,
    product,
    triangular,
    with_diagonal,
)

NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {info} is not positive-definite)."
)


def positive(make, shape: tuple[int, ...]):
    """Symmetric positive-definite matrices."""
    a = make(shape)
    out = a @ a.swapaxes(-1, -2)
    out[..., range(shape[-1]), range(shape[-1])] += 0.5
    return out


def _cholesky_factor(xp, name: str, a, upper: bool) -> tuple[Any, Any]:
    check_square(name, a)
    if not upper:
        return lapack.cholesky(xp, a)
    factor, info = lapack.cholesky(xp, a.swapaxes(-1, -2).conj())
    return factor.swapaxes(-1, -2).conj(), info


def _lower(F, x, upper: bool):
    return adjoint(F, x) if upper else x


def _cholesky_rule(F, g, L, upper: bool):
    g, L = _lower(F, g, upper), _lower(F, L, upper)
    phi = F.tril(product(F, adjoint(F, L), g))
    phi = phi + adjoint(F, F.tril(phi, -1))
    half = triangular(F, adjoint(F, L), phi, upper=True)
    return triangular(F, L, half, upper=False, left=False) * 0.5


def _cholesky_move(F, t_self, L, upper: bool):
    L = _lower(F, L, upper)
    inner = triangular(F, L, t_self, upper=False)
    inner = F.tril(triangular(F, adjoint(F, L), inner, upper=True, left=False))
    inner = with_diagonal(F, inner, diagonal(F, inner) * 0.5)
    return _lower(F, product(F, L, inner), upper)


def _cholesky_samples(make):
    # Only one triangle is read, but the gradient is that of a symmetric matrix.
    for shape in ((3, 3), (2, 3, 3), (0, 0), (2, 0, 3, 3)):
        yield Sample((positive(make, shape),), smooth=False)
        yield Sample((positive(make, shape),), {"upper": True}, smooth=False)


def _cholesky_ex(xp, self, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    """The Cholesky factor L with A = L L^H (U with A = U^H U if upper) and an error number.

    info[i] is 0, or the order of the first leading minor of matrix i that is not positive-definite;
    check_errors=True raises LinAlgError for it. A: (..., n, n), symmetric or Hermitian: one
    triangle is read.
    """
    factor, info = _cholesky_factor(xp, "linalg.cholesky_ex", self, upper)
    if check_errors:
        check_info("linalg.cholesky_ex", info, NOT_POSITIVE)
    return factor, info


op(
    "linalg_cholesky_ex",
    _cholesky_ex,
    vjp={"self": _cholesky_rule},
    jvp={"self": _cholesky_move},
    outputs=("L", "info"),
    differentiable=(0,),
    holomorphic=False,
    public=False,
    batch=leading(),
    samples=_cholesky_samples,
    errors=lambda make: [
        ErrorSample((make((2, 3)),), RuntimeError, "must be batches of square matrices")
    ],
    autocast="cpu float32",
)


@composed("linalg.cholesky", out=True, autocast="cpu float32")
def linalg_cholesky(F, self, *, upper: bool = False):
    """The lower triangular L with A = L L^H, or U with A = U^H U.

    A: (..., n, n), symmetric (Hermitian) positive-definite; one triangle is read. Raises
    LinAlgError for a matrix that is not positive-definite.
    """
    factor, info = F.linalg_cholesky_ex(self, upper=upper)
    check_info("linalg.cholesky", info, NOT_POSITIVE)
    return factor


def _cholesky(xp, self, upper: bool = False):
    """The Cholesky factor L of A = L L^H.

    `linalg.cholesky` replaces it.
    """
    factor, info = _cholesky_factor(xp, "cholesky", self, upper)
    check_info("cholesky", info, NOT_POSITIVE)
    return factor


def _cholesky_errors(make):
    bad = make((2, 2, 2))
    bad[:] = [[1.0, 0.0], [0.0, -1.0]]
    yield ErrorSample((bad[0],), LinAlgError, "the leading minor of order 2 is not positive")
    yield ErrorSample((bad,), LinAlgError, "cholesky: (Batch element 0): The factorization could")
    yield ErrorSample((make((2,)),), RuntimeError, "must have at least 2 dimensions")


op(
    "cholesky",
    _cholesky,
    vjp={"self": lambda F, g, result, upper: _cholesky_rule(F, g, result, upper)},
    jvp={"self": lambda F, t_self, result, upper: _cholesky_move(F, t_self, result, upper)},
    holomorphic=False,
    batch=leading(),
    samples=_cholesky_samples,
    errors=_cholesky_errors,
    out="casts",
    autocast="cpu float32",
)
