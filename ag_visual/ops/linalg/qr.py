"""The QR decomposition.

Derivative: S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010).
"""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import leading
from ag_visual.ops.linalg.checks import (
    adjoint,
    check_matrix,
    columns,
    completed,
    diagonal,
    product,
    triangular,
    with_diagonal,
)


def _qr(xp, A, mode: str = "reduced") -> tuple[Any, Any]:
    """Q with orthonormal columns and an upper triangular R with A = Q R.

    A: (..., m, n). mode: "reduced" gives Q (..., m, k) and R (..., k, n) with k = min(m, n),
    "complete" Q (..., m, m) and R (..., m, n), "r" R alone. Differentiable where the first k
    columns are linearly independent, not for "r", nor for "complete" with m > n.
    """
    if mode not in ("reduced", "r", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    check_matrix("linalg.qr", A)
    if mode == "r":
        return xp.zeros((0,), A.dtype), xp.linalg.qr(A, "r")
    q, r = xp.linalg.qr(A, mode)
    return q, r


def _syminvadj(F, x):
    """The adjoint of taking a Hermitian matrix to its triangle: x + x^H, half of the diagonal."""
    both = x + adjoint(F, x)
    return with_diagonal(F, both, diagonal(F, both) * 0.5)


def _qr_square(F, gQ, gR, Q, R):
    inner = 0
    if gR is not None:
        inner = product(F, gR, adjoint(F, R))
    if gQ is not None:
        inner = inner - product(F, adjoint(F, Q), gQ)
    inner = product(F, Q, _syminvadj(F, F.triu(inner)))
    return triangular(
        F, adjoint(F, R), inner if gQ is None else gQ + inner, upper=False, left=False
    )


def _check_qr(Q, R, mode: str, shape) -> None:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    m, n = shape[-2:]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )


def _qr_rule(F, gs, Q, R, mode: str, A_shape):
    _check_qr(Q, R, mode, A_shape)
    gQ, gR = gs
    m, n = A_shape[-2:]
    if m >= n:
        return _qr_square(F, gQ, gR, Q, R)
    # A = [A1 A2]: the square A1 has the QR decomposition, and R2 = Q^H A2.
    if gR is None:
        g2 = F.zeros_of(Q, (*tuple(A_shape)[:-1], n - m))
        return F.cat((_qr_square(F, gQ, None, Q, columns(F, R, 0, m)), g2), -1)
    r2, g2 = columns(F, R, m, n), columns(F, gR, m, n)
    moved = product(F, Q, r2, adjoint(F, g2))
    first = _qr_square(
        F,
        moved if gQ is None else gQ + moved,
        columns(F, gR, 0, m),
        Q,
        columns(F, R, 0, m),
    )
    return F.cat((first, product(F, Q, g2)), -1)


def _qr_move(F, t_A, Q, R, mode: str, A_shape) -> tuple[Any, Any]:
    _check_qr(Q, R, mode, A_shape)
    m, n = A_shape[-2:]
    k = min(m, n)
    r1 = columns(F, R, 0, k)
    solved = triangular(F, r1, columns(F, t_A, 0, k), upper=True, left=False)
    inner = product(F, adjoint(F, Q), solved)
    low = F.tril(inner, -1)
    skew = low - adjoint(F, low)
    if is_complex(inner):
        imaginary = F.imag(diagonal(F, inner))
        skew = with_diagonal(F, skew, F.complex(F.zeros_of(imaginary, imaginary.shape), imaginary))
    t_q = product(F, Q, skew) + (solved - product(F, Q, inner))
    t_r = product(F, inner - skew, r1)
    if m < n:
        right = columns(F, t_A, k, n) - product(F, t_q, columns(F, R, k, n))
        t_r = F.cat((t_r, product(F, adjoint(F, Q), right)), -1)
    return t_q, t_r


def _qr_samples(make):
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3), (2, 0), (0, 3, 2)):
        yield Sample((make(shape),))
    yield Sample((make((3, 3)), "complete"))
    yield Sample((make((2, 3)), "complete"))


op(
    "linalg_qr",
    _qr,
    vjp={"A": _qr_rule},
    jvp={"A": _qr_move},
    outputs=("Q", "R"),
    holomorphic=False,
    public=False,
    namedtuple="linalg_qr",
    batch=completed(leading()),
    samples=_qr_samples,
    errors=lambda make: [
        ErrorSample((make((2, 2)), "q"), RuntimeError, "qr received unrecognized mode 'q'")
    ],
    autocast="cpu float32",
)


@composite("qr", out=True, autocast="cpu float32")
def qr(F, self, some: bool = True):
    """`linalg.qr`, which replaces it: reduced, or complete with some=False."""
    return F.linalg_qr(self, "reduced" if some else "complete")
