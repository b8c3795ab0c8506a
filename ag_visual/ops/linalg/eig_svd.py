"""Eigenvalues and eigenvectors, singular values and vectors.

Eigenvectors and singular vectors are determined up to a factor of size 1: a loss that depends on it
has no derivative, and the rules say so. Rules follow from differentiating A V = V L, with
E_ij = L_j - L_i.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays.kernels import lapack
from ag_visual.core import modes
from ag_visual.core.level import all_values
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, named_tuple, op
from ag_visual.dispatch.vmap import leading
from ag_visual.errors import LinAlgError
from ag_visual.ops.linalg.checks import (
    adjoint,
    check_matrix,
    check_square,
    column,
    columns,
    composed,
    diagonal,
    embedded,
    off_diagonal,
    product,
    row,
    rows,
    with_diagonal,
)
from ag_visual.ops.linalg.cholesky import positive

_PHASE = (
    "{name}_backward: The {what} in the complex case are specified up to multiplication by e^{{i "
    "phi}}. The specified loss function depends on this quantity, so it is ill-defined. Use "
    "something that the phase leaves alone: sizes, projections v v^H, values."
)


def _check_phase(name: str, what: str, found, expected=0.0) -> None:
    """The derivative in the direction of the phase must vanish."""
    found, expected = all_values(found), all_values(expected)
    rest = abs(found - expected)
    if rest.size and bool((rest > 1e-2 + 1e-2 * abs(expected)).any()):
        raise RuntimeError(_PHASE.format(name=name, what=what))


def _like(F, x, model):
    """A real tensor as a complex one where the model is complex."""
    if is_complex(model) and not is_complex(x):
        return F.complex(x, F.zeros_of(x, tuple(x.shape)))
    return x


def _gaps(F, values):
    """E_ij = L_j - L_i, with ones on the diagonal."""
    n = values.shape[-1]
    gaps = row(F, values) - column(F, values)
    return F.where(F.diagonal_mask(values, n, n), 1.0, gaps)


# Hermitian matrices -------------------------------------------------------------------------------


def _check_triangle(UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


_STUCK = (
    "{name}: The algorithm failed to converge because the input matrix is ill-conditioned or has "
    "too many repeated eigenvalues: {error}."
)


def _eigh(xp, self, UPLO: str = "L") -> tuple[Any, Any]:
    """Real eigenvalues in ascending order and orthonormal eigenvectors of Hermitian matrices.

    A = V diag(L) V^H; A: (..., n, n), of which one triangle (UPLO) is read; L (..., n), V
    (..., n, n). The gradient of the vectors is finite where the eigenvalues are distinct.
    """
    check_square("linalg.eigh", self)
    uplo = _check_triangle(UPLO)
    if self.size == 0:
        return xp.zeros(self.shape[:-1], self.real.dtype), self.copy()
    try:
        values, vectors = xp.linalg.eigh(self, uplo)
    except numpy.linalg.LinAlgError as error:
        raise LinAlgError(_STUCK.format(name="linalg.eigh", error=error)) from None
    return values, vectors


def _eigh_rule(F, gs, eigenvalues, eigenvectors):
    g_values, g_vectors = gs
    v = eigenvectors
    if g_vectors is None:
        scaled = v * _like(F, row(F, g_values), v)
        return product(F, scaled, adjoint(F, v))
    inner = product(F, adjoint(F, v), g_vectors)
    if is_complex(v):
        _check_phase("linalg_eigh", "eigenvectors", F.imag(diagonal(F, inner)))
    inner = off_diagonal(F, inner / _gaps(F, eigenvalues))
    if g_values is not None:
        inner = inner + _like(F, embedded(F, g_values), v)
    # A moves among Hermitian matrices: the rest of the gradient says nothing.
    inner = (inner + adjoint(F, inner)) * 0.5
    return product(F, v, inner, adjoint(F, v))


def _eigh_move(F, t_self, eigenvalues, eigenvectors) -> tuple[Any, Any]:
    v = eigenvectors
    inner = product(F, adjoint(F, v), t_self, v)
    moved = diagonal(F, inner)
    turn = off_diagonal(F, inner / _gaps(F, eigenvalues))
    moved = F.real(moved) if is_complex(moved) else moved + 0.0
    return moved, product(F, v, turn)


def _hermitian_samples(make):
    # Only one triangle is read, but the gradient is that of a symmetric matrix.
    for shape in ((3, 3), (2, 3, 3), (0, 0), (2, 0, 3, 3)):
        yield Sample((positive(make, shape),), smooth=False)
    yield Sample((positive(make, (3, 3)), "U"), smooth=False)


op(
    "linalg_eigh",
    _eigh,
    vjp={"self": _eigh_rule},
    jvp={"self": _eigh_move},
    outputs=("eigenvalues", "eigenvectors"),
    holomorphic=False,
    public=False,
    batch=leading(),
    samples=_hermitian_samples,
    errors=lambda make: [
        ErrorSample((make((2, 2)), "X"), RuntimeError, "Expected UPLO argument to be 'L' or"),
        ErrorSample((make((2, 3)),), RuntimeError, "batches of square matrices"),
    ],
    autocast="cpu float32",
)


def _wanted(x) -> bool:
    """Whether a derivative may be asked for: the values alone are cheaper, but have no rule."""
    return isinstance(x, Tensor) and (x.requires_grad or bool(modes.special))


def _eigvalsh_values(xp, self, UPLO: str = "L"):
    check_square("linalg.eigvalsh", self)
    uplo = _check_triangle(UPLO)
    if self.size == 0:
        return xp.zeros(self.shape[:-1], self.real.dtype)
    return xp.linalg.eigvalsh(self, uplo)


op(
    "linalg_eigvalsh_values",
    _eigvalsh_values,
    public=False,
    public_name="linalg.eigvalsh",
    oracle="linalg.eigvalsh",
    batch=leading(),
    samples=_hermitian_samples,
)


@composed("linalg.eigvalsh", out=True, autocast="cpu float32")
def linalg_eigvalsh(F, self, UPLO: str = "L"):
    """The real eigenvalues of symmetric or Hermitian matrices (..., n, n), in ascending order."""
    return F.linalg_eigh(self, UPLO)[0] if _wanted(self) else F.linalg_eigvalsh_values(self, UPLO)


# General matrices ---------------------------------------------------------------------------------


def _check_finite(xp, name: str, a) -> None:
    if not bool(xp.isfinite(a).all()):
        raise RuntimeError(f"torch.{name}: input tensor should not contain infs or NaNs.")


def _eig(xp, self) -> tuple[Any, Any]:
    """Complex eigenvalues and eigenvectors of size 1 of square matrices: A V = V diag(L).

    self: (..., n, n), real or complex. The order is LAPACK's. The gradient is finite where the
    eigenvalues are distinct.
    """
    check_square("linalg.eig", self)
    _check_finite(xp, "linalg.eig", self)
    return lapack.eig(xp, self)


def _eig_rule(F, gs, eigenvalues, eigenvectors):
    g_values, g_vectors = gs
    v = eigenvectors
    vh = adjoint(F, v)
    if g_vectors is None:
        return F.linalg_solve(vh, column(F, g_values) * vh)
    inner = product(F, vh, g_vectors)
    along = diagonal(F, inner)
    _check_phase("linalg_eig", "eigenvectors", F.imag(along))
    # Eigenvectors keep their size: what points along them does not count.
    inner = inner - product(F, vh, v) * _like(F, row(F, F.real(along)), v)
    inner = off_diagonal(F, inner / F.conj(_gaps(F, eigenvalues)))
    if g_values is not None:
        inner = inner + embedded(F, g_values)
    return F.linalg_solve(vh, product(F, inner, vh))


def _eig_move(F, t_self, eigenvalues, eigenvectors) -> tuple[Any, Any]:
    v = eigenvectors
    inner = F.linalg_solve(v, product(F, _like(F, t_self, v), v))
    turn = product(F, v, off_diagonal(F, inner / _gaps(F, eigenvalues)))
    along = F.real(F.sum(F.conj(v) * turn, (-2,), True))
    return diagonal(F, inner) + 0.0, turn - v * _like(F, along, v)


def _general_samples(make):
    # Eigenvectors are free up to a phase, and the order of eigenvalues to rounding.
    for shape in ((3, 3), (2, 3, 3), (0, 0), (2, 0, 3, 3)):
        yield Sample((make(shape),), smooth=False)


def _eig_errors(make):
    bad = make((2, 2))
    bad[0, 0] = numpy.nan
    yield ErrorSample((bad,), RuntimeError, "input tensor should not contain infs or NaNs")
    yield ErrorSample((make((2, 3)),), RuntimeError, "batches of square matrices")


op(
    "linalg_eig",
    _eig,
    vjp={"self": _eig_rule},
    jvp={"self": _eig_move},
    outputs=("eigenvalues", "eigenvectors"),
    gauge_outputs=("eigenvectors",),
    holomorphic=False,
    public=False,
    batch=leading(),
    samples=_general_samples,
    errors=_eig_errors,
    out="casts",
    autocast="cpu float32",
)


def _eigvals_values(xp, self):
    check_square("linalg.eigvals", self)
    _check_finite(xp, "linalg.eigvals", self)
    return lapack.eigvals(xp, self)


op(
    "linalg_eigvals_values",
    _eigvals_values,
    public=False,
    public_name="linalg.eigvals",
    oracle=False,
    batch=leading(),
    samples=_general_samples,
)


@composed("linalg.eigvals", out="casts", autocast="cpu float32")
def linalg_eigvals(F, self):
    """The complex eigenvalues of square matrices (..., n, n), in LAPACK's order."""
    return F.linalg_eig(self)[0] if _wanted(self) else F.linalg_eigvals_values(self)


# Singular values ----------------------------------------------------------------------------------


def _check_driver(driver) -> None:
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend; leave it out"
        )


def decompose(xp, name: str, A, **options):
    """numpy.linalg.svd with torch's words where it fails."""
    try:
        return xp.linalg.svd(A, **options)
    except numpy.linalg.LinAlgError as error:
        where = ""
        if A.ndim > 2:
            finite = xp.isfinite(A).all(axis=(-2, -1)).reshape(-1)
            at = next((i for i in range(finite.size) if not bool(finite[i])), 0)
            where = f"(Batch element {at}): "
        reason = (
            "the input matrix contained non-finite values."
            if not bool(xp.isfinite(A).all())
            else f"the input matrix is ill-conditioned or has too many repeated singular values "
            f"({error})."
        )
        raise LinAlgError(
            f"{name}: {where}The algorithm failed to converge because {reason}"
        ) from None


def _svd(xp, A, full_matrices: bool = True, *, driver=None) -> tuple[Any, Any, Any]:
    """Singular values in descending order, and orthonormal U and V with A = U diag(S) V^H.

    A: (..., m, n); S: (..., k) with k = min(m, n), real; U (..., m, m) and Vh (..., n, n), or with
    full_matrices=False (..., m, k) and (..., k, n). The gradient of U and Vh is finite where the
    singular values are distinct (and not 0, unless A is square).
    """
    check_matrix("linalg.svd", A)
    _check_driver(driver)
    m, n = A.shape[-2:]
    if A.size == 0:
        k = min(m, n)
        batch = A.shape[:-2]
        u = xp.zeros((*batch, m, m if full_matrices else k), A.dtype)
        vh = xp.zeros((*batch, n if full_matrices else k, n), A.dtype)
        u[...] = xp.eye(*u.shape[-2:], dtype=A.dtype)
        vh[...] = xp.eye(*vh.shape[-2:], dtype=A.dtype)
        return u, xp.zeros((*batch, k), A.real.dtype), vh
    u, s, vh = decompose(xp, "linalg.svd", A, full_matrices=full_matrices)
    return u, s, vh


def _skew(F, x):
    return x - adjoint(F, x)


def _first(F, gs, U, S, Vh) -> tuple[Any, ...]:
    """The singular vectors that belong to singular values, and their gradients."""
    k = S.shape[-1]
    gu, gs_, gvh = gs
    if U.shape[-1] > k:
        U, gu = columns(F, U, 0, k), None if gu is None else columns(F, gu, 0, k)
    if Vh.shape[-2] > k:
        Vh, gvh = rows(F, Vh, 0, k), None if gvh is None else rows(F, gvh, 0, k)
    return gu, gs_, gvh, U, Vh


def _svd_rule(F, gs, U, S, Vh):
    gU, gS, gVh, U, Vh = _first(F, gs, U, S, Vh)
    if gU is None and gVh is None:
        return product(F, U * _like(F, row(F, gS), U), Vh)
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    gap = _gaps(F, S * S)
    left = None if gU is None else _skew(F, product(F, adjoint(F, U), gU))
    right = None if gVh is None else _skew(F, product(F, Vh, adjoint(F, gVh)))
    if is_complex(U):
        turns = [None if x is None else F.imag(diagonal(F, x)) for x in (left, right)]
        given = [x for x in turns if x is not None]
        _check_phase("svd", "singular vectors", given[0], -given[1] if len(given) > 1 else 0.0)
    inner: Any = 0
    if left is not None:
        inner = (left / gap) * row(F, S)
    if right is not None:
        inner = inner + column(F, S) * (right / gap)
    if left is not None and is_complex(U):
        inner = with_diagonal(F, inner, diagonal(F, left) / (2 * S))
    else:
        inner = off_diagonal(F, inner)
    if gS is not None:
        inner = inner + _like(F, embedded(F, gS), U)
    result = product(F, U, inner, Vh)
    if m > k and gU is not None:
        outside = gU / row(F, S)
        outside = outside - product(F, U, product(F, adjoint(F, U), outside))
        result = result + product(F, outside, Vh)
    if n > k and gVh is not None:
        outside = gVh / column(F, S)
        outside = outside - product(F, product(F, outside, adjoint(F, Vh)), Vh)
        result = result + product(F, U, outside)
    return result


def _svd_move(F, t_A, U, S, Vh, full_matrices: bool) -> tuple[Any, Any, Any]:
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    if full_matrices and m != n:
        return _padded_move(F, t_A, U, S, Vh)
    inner = product(F, adjoint(F, U), t_A, adjoint(F, Vh))
    moved = diagonal(F, inner)
    t_s = F.real(moved) if is_complex(moved) else moved + 0.0
    rest = off_diagonal(F, inner)
    gap = _gaps(F, S * S)
    by_s, s_by = rest * row(F, S), column(F, S) * rest
    turn_u = (by_s + adjoint(F, by_s)) / gap
    turn_v = (s_by + adjoint(F, s_by)) / gap
    if is_complex(inner):
        imaginary = F.imag(moved) / S
        turn_u = turn_u + embedded(F, F.complex(F.zeros_of(imaginary, imaginary.shape), imaginary))
    t_u = product(F, U, turn_u)
    t_vh = adjoint(F, product(F, adjoint(F, Vh), turn_v))
    if m > k:
        outside = product(F, t_A, adjoint(F, Vh)) / row(F, S)
        t_u = t_u + outside - product(F, U, product(F, adjoint(F, U), outside))
    if n > k:
        outside = product(F, adjoint(F, U), t_A) / column(F, S)
        t_vh = t_vh + outside - product(F, product(F, outside, adjoint(F, Vh)), Vh)
    return t_u, t_s, t_vh


def _padded_move(F, t_A, U, S, Vh) -> tuple[Any, Any, Any]:
    """The vectors that full_matrices adds are not unique: as torch's, they stay where they are."""
    k = S.shape[-1]
    thin_u, thin_vh = F.narrow(U, -1, 0, k), F.narrow(Vh, -2, 0, k)
    t_u, t_s, t_vh = _svd_move(F, t_A, thin_u, S, thin_vh, False)
    rest_u = (*U.shape[:-1], U.shape[-1] - k)
    rest_vh = (*Vh.shape[:-2], Vh.shape[-2] - k, Vh.shape[-1])
    return (
        F.cat((t_u, F.zeros_of(t_u, rest_u)), -1),
        t_s,
        F.cat((t_vh, F.zeros_of(t_vh, rest_vh)), -2),
    )


def _svd_samples(make):
    # Singular vectors are free up to a factor of size 1.
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3), (0, 3), (2, 0, 3, 2)):
        yield Sample((make(shape), False), smooth=False)
    yield Sample((make((3, 3)),), smooth=False)


def _svd_errors(make):
    bad = make((2, 2, 2))
    bad[1] = numpy.nan
    text = "linalg.svd: (Batch element 1): The algorithm failed to converge because the input matr"
    yield ErrorSample((bad,), LinAlgError, text)
    yield ErrorSample((make((2,)),), RuntimeError, "must have at least 2 dimensions")
    yield ErrorSample((make((2, 2)),), RuntimeError, "is only supported on CUDA", {"driver": "x"})


op(
    "linalg_svd",
    _svd,
    vjp={"A": _svd_rule},
    jvp={"A": _svd_move},
    outputs=("U", "S", "Vh"),
    also_saves=("full_matrices",),
    holomorphic=False,
    public=False,
    batch=leading(),
    samples=_svd_samples,
    errors=_svd_errors,
    autocast="cpu float32",
)


def _svdvals_values(xp, A):
    check_matrix("linalg.svdvals", A)
    if A.size == 0:
        return xp.zeros((*A.shape[:-2], min(A.shape[-2:])), A.real.dtype)
    return decompose(xp, "linalg.svdvals", A, compute_uv=False)


op(
    "linalg_svdvals_values",
    _svdvals_values,
    inputs=("A",),
    public=False,
    public_name="linalg.svdvals",
    oracle="linalg.svdvals",
    batch=leading(),
    samples=lambda make: [Sample((make(s),)) for s in ((3, 3), (2, 4, 2), (0, 3))],
)


@composed("linalg.svdvals", out=True, autocast="cpu float32")
def linalg_svdvals(F, A, *, driver=None):
    """The singular values of matrices (..., m, n), in descending order."""
    _check_driver(driver)
    return F.linalg_svd(A, False)[1] if _wanted(A) else F.linalg_svdvals_values(A)


_Svd = named_tuple("svd", "U", "S", "V")


@composite("svd", out=True, autocast="cpu float32")
def svd(F, self, some: bool = True, compute_uv: bool = True):
    """U, S and V with A = U diag(S) V^H; `linalg.svd`, which gives V^H, replaces it."""
    if compute_uv:
        u, s, vh = F.linalg_svd(self, not some)
        return _Svd(u, s, adjoint(F, vh))
    m, n = tuple(self.shape)[-2:]
    batch = tuple(self.shape)[:-2]
    u, v = (F.zeros_of(self, (*batch, size, size)) for size in (m, n))
    return _Svd(u, F.linalg_svdvals(self), v)
