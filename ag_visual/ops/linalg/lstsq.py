"""Pseudoinverse, least squares and rank; approximate singular values of large matrices.

G. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems
whose variables separate" (1973); N. Halko, P. Martinsson, J. Tropp, "Finding structure with
randomness" (2009).
"""

from __future__ import annotations

from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, functions, op
from ag_visual.dispatch.vmap import Batch, leading
from ag_visual.ops.linalg.checks import (
    adjoint,
    array_of,
    asked_for,
    check_matrix,
    check_same_kind,
    column,
    composed,
    conj,
    kind_of,
    product,
    real_part,
)
from ag_visual.ops.linalg.cholesky import positive
from ag_visual.ops.linalg.eig_svd import decompose
from ag_visual.ops.linalg.solve import is_vector, is_vector_of

# Pseudoinverse ------------------------------------------------------------------------------------


def _tolerance(xp, A, atol, rtol) -> tuple[Any, Any]:
    """Which singular values count: s > max(atol, rtol * largest), with torch's defaults."""
    default = max(A.shape[-2:]) * float(xp.finfo(A.dtype).eps)
    if rtol is None:
        rtol = default if atol is None else xp.where(xp.asarray(atol) > 0, 0.0, default)
    kind = A.real.dtype
    atol = xp.asarray(0.0 if atol is None else atol, dtype=kind)
    return atol[..., None], xp.asarray(rtol, dtype=kind)[..., None]


def _pinv(xp, self, *, atol=None, rtol=None, hermitian: bool = False):
    check_matrix("linalg.pinv", self)
    if self.size == 0:
        return xp.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    atol, rtol = _tolerance(xp, self, atol, rtol)
    if hermitian:
        values, v = xp.linalg.eigh(self, "L")
        size = abs(values)
        u, s = v, values
    else:
        u, s, vh = decompose(xp, "linalg.pinv", self, full_matrices=False)
        v, size = xp.conj(vh.swapaxes(-1, -2)), s
    known = size > xp.maximum(atol, rtol * size.max(axis=-1, keepdims=True))
    inverse = xp.where(known, 1 / xp.where(known, s, 1), 0)
    return xp.matmul(v * inverse[..., None, :].astype(self.dtype), xp.conj(u.swapaxes(-1, -2)))


def _pinv_back(F, g, A, P):
    """The adjoint of dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P."""
    ph, gh = adjoint(F, P), adjoint(F, g)
    first = -product(F, ph, g, ph)
    onto = product(F, gh, P, ph)
    second = onto - product(F, A, product(F, P, onto))
    onto = product(F, ph, P, gh)
    third = onto - product(F, product(F, onto, P), A)
    return first + second + third


def _pinv_move(F, t_self, self, result):
    P, th = result, adjoint(F, t_self)
    ph = adjoint(F, P)
    left, right = product(F, P, ph, th), product(F, th, ph, P)
    return (
        left
        - product(F, product(F, left, self), P)
        + right
        - product(F, P, product(F, self, right))
        - product(F, P, t_self, P)
    )


def _pinv_samples(make):
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 3), (2, 0, 3, 2)):
        yield Sample((make(shape),))
    yield Sample((positive(make, (3, 3)),), {"hermitian": True}, smooth=False)
    yield Sample((make((3, 2)),), {"atol": 1e-3, "rtol": 1e-2})


op(
    "linalg_pinv_within",
    _pinv,
    doc="The pseudoinverse of each matrix, by its singular values.",
    vjp={"self": lambda F, g, self, result: _pinv_back(F, g, self, result)},
    jvp={"self": _pinv_move},
    holomorphic=False,
    public=False,
    node="LinalgPinvBackward0",
    public_name="linalg.pinv",
    batch=leading(),
    samples=_pinv_samples,
    errors=lambda make: [
        ErrorSample((make((2,)),), RuntimeError, "must have at least 2 dimensions")
    ],
)


def _plain(x):
    """A tolerance as an array or a number."""
    return x._array if isinstance(x, Tensor) else x


def _within(name: str, legacy, atol, rtol) -> tuple[Any, Any]:
    if legacy is not None and (atol is not None or rtol is not None):
        raise RuntimeError(f"{name}: give either the old tolerance or atol and rtol, not both")
    return _plain(atol), _plain(rtol)


@composed("linalg.pinv", out="casts")
def linalg_pinv(F, self, rcond=None, hermitian: bool = False, *, atol=None, rtol=None):
    """The Moore and Penrose pseudoinverse of matrices: (..., m, n) to (..., n, m).

    Singular values up to max(atol, rtol * the largest) count as 0; rtol is max(m, n) * eps by
    default, and 0 where atol > 0 is given. hermitian: reads the lower triangle only, and is faster.
    """
    if self.ndim < 2:
        raise RuntimeError(
            f"linalg.pinv({kind_of(array_of(self))}{{{list(self.shape)}}}): expected a tensor with "
            "2 or more dimensions of float, double, cfloat or cdouble types"
        )
    atol, rtol = _within("linalg.pinv", rcond, atol, rtol)
    if rcond is not None:
        atol, rtol = 0.0, _plain(rcond)
    return F.linalg_pinv_within(self, atol=atol, rtol=rtol, hermitian=hermitian)


@composite("pinverse", autocast="cpu float32")
def pinverse(F, self, rcond: float = 1e-15):
    """`linalg.pinv`, with a relative tolerance of `rcond`."""
    return F.linalg_pinv(self, rcond)


def _matrix_rank(xp, self, *, atol=None, rtol=None, hermitian: bool = False):
    check_matrix("linalg.matrix_rank", self)
    if self.size == 0:
        return xp.zeros(self.shape[:-2], xp.int64)
    atol, rtol = _tolerance(xp, self, atol, rtol)
    if hermitian:
        s = abs(xp.linalg.eigvalsh(self, "L"))
    else:
        s = decompose(xp, "linalg.matrix_rank", self, compute_uv=False)
    known = s > xp.maximum(atol, rtol * s.max(axis=-1, keepdims=True))
    return xp.asarray(known.sum(axis=-1, dtype=xp.int64))


op(
    "linalg_matrix_rank_within",
    _matrix_rank,
    public=False,
    public_name="linalg.matrix_rank",
    oracle="linalg.matrix_rank",
    batch=leading(),
    samples=lambda make: [
        Sample((make((3, 3)),)),
        Sample((make((2, 4, 2)),), {"atol": 1.0, "rtol": 0.5}),
        Sample((positive(make, (3, 3)),), {"hermitian": True}),
        Sample((make((0, 3)),)),
    ],
)


@composed("linalg.matrix_rank", out="casts", autocast="cpu float32")
def linalg_matrix_rank(F, self, tol=None, hermitian: bool = False, *, atol=None, rtol=None):
    """How many singular values of each matrix exceed max(atol, rtol * the largest).

    rtol is max(m, n) * eps by default, and 0 where atol > 0 is given; `tol` is an older name of
    atol with rtol=0.
    """
    atol, rtol = _within("linalg.matrix_rank", tol, atol, rtol)
    if tol is not None:
        atol, rtol = _plain(tol), 0.0
    return F.linalg_matrix_rank_within(self, atol=atol, rtol=rtol, hermitian=hermitian)


# Least squares ------------------------------------------------------------------------------------

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq(xp, self, b, rcond=None, *, driver=None) -> tuple[Any, Any, Any, Any]:
    """The X of least |A X - B|, and of least size among these, for matrices (..., m, n).

    b: (..., m, k) or vectors (..., m). Gives (solution, residuals, rank, singular_values); as in
    LAPACK, the driver says which of the last three are there: residuals (for m > n and full rank)
    not for "gelsy", the default; the rank not for "gels"; singular values for "gelsd" and "gelss".
    Singular values up to rcond (max(m, n) * eps) times the largest count as 0. All drivers compute
    by singular values here.
    """
    name = "torch.linalg.lstsq"
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    driver = driver or "gelsy"
    if driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)}), got {driver!r}"
        )
    vector = is_vector(self, b)
    given = b[..., None] if vector else b
    if given.shape[-2] != self.shape[-2]:
        dim = "-1" if vector else "-2"
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({dim})")
    check_matrix(name, self)
    check_same_kind(name, self, b)
    m, n = self.shape[-2:]
    none = xp.zeros((0,), self.real.dtype)
    if min(m, n) == 0 or self.size == 0:
        batch = self.shape[:-2]
        x = xp.zeros((*batch, n, given.shape[-1]), self.dtype)
        rank, s = xp.zeros(batch, xp.int64), xp.zeros((*batch, min(m, n)), self.real.dtype)
    else:
        u, s, vh = decompose(xp, name, self, full_matrices=False)
        small = max(m, n) * float(xp.finfo(self.dtype).eps) if rcond is None else rcond
        known = s > small * s.max(axis=-1, keepdims=True)
        inverse = xp.where(known, 1 / xp.where(known, s, 1), 0)[..., None].astype(self.dtype)
        rank = xp.asarray(known.sum(axis=-1, dtype=xp.int64))
        x = xp.matmul(xp.conj(u.swapaxes(-1, -2)), given)
        x = xp.matmul(xp.conj(vh.swapaxes(-1, -2)), inverse * x)
    residuals = none
    if m > n and driver != "gelsy" and bool((rank == n).all()):
        residuals = (abs(xp.matmul(self, x) - given) ** 2).sum(axis=-2)
    return (
        x[..., 0] if vector else x,
        residuals,
        xp.zeros((0,), xp.int64) if driver == "gels" else rank,
        s if driver in ("gelsd", "gelss") else none.copy(),
    )


def _lstsq_rule(F, gs, needs, self, b, solution) -> tuple[Any, Any]:
    g, g_rest = gs
    vector = is_vector(self, b)
    x, right = (column(F, solution), column(F, b)) if vector else (solution, b)
    g_a = g_b = None
    if g is not None:
        g = column(F, g) if vector else g
        inverse = F.linalg_pinv(self)
        if needs[0]:
            g_a = _pinv_back(F, product(F, g, adjoint(F, right)), self, inverse)
        g_b = product(F, adjoint(F, inverse), g)
    if g_rest is not None and g_rest.ndim and 0 not in tuple(g_rest.shape):
        # The residual is orthogonal to the columns of A: how X moves does not count.
        rest = (product(F, self, x) - right) * (2 * F.unsqueeze(g_rest, -2))
        more = product(F, rest, adjoint(F, x))
        g_a = more if g_a is None else g_a + more
        g_b = -rest if g_b is None else g_b - rest
    if g_b is None:
        return F.zeros_of(self, tuple(self.shape)), F.zeros_of(b, tuple(b.shape))
    return g_a, (F.squeeze(g_b, -1) if vector else g_b)


def _lstsq_move(F, t, t_b, self, b, solution, residuals):
    """X = A^+ B along A (t) or B (t_b); the residual moves only as A X - B with X held."""
    vector = is_vector(self, b)
    x, right = (column(F, solution), column(F, b)) if vector else (solution, b)
    inverse = F.linalg_pinv(self)
    if t is not None:
        moved = product(F, _pinv_move(F, t, self, inverse), right)
        rest = product(F, t, x)
    else:
        t_b = column(F, t_b) if vector else t_b
        moved, rest = product(F, inverse, t_b), -t_b
    t_residuals = F.zeros_of(residuals, tuple(residuals.shape))
    if residuals.ndim and 0 not in tuple(residuals.shape):
        along = conj(F, product(F, self, x) - right) * rest
        t_residuals = 2 * real_part(F, F.sum(along, (-2,)))
    return F.squeeze(moved, -1) if vector else moved, t_residuals, None, None


def _lstsq_batch(batch: Batch):
    F = batch.F
    a, b = batch.full("self"), batch.full("b")
    vector = is_vector_of(batch.shape("self"), batch.shape("b"))
    if vector:
        b = F.unsqueeze(b, -1)
    found = list(batch.run(self=a, b=b))
    if vector:
        found[0] = F.squeeze(found[0], -1)
    return asked_for(batch, tuple(found))


def _lstsq_samples(make):
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2)):
        yield Sample((make(shape), make((*shape[:-1], 2))))
    yield Sample((make((4, 2)), make((4, 2))), {"driver": "gelsd"})
    yield Sample((make((4, 2)), make((4, 2))), {"driver": "gels"})
    yield Sample((make((4, 2)), make((4,))))


op(
    "linalg_lstsq",
    _lstsq,
    vjp={("self", "b"): _lstsq_rule},
    jvp={
        "self": lambda F, t_self, self, b, solution, residuals: _lstsq_move(
            F, t_self, None, self, b, solution, residuals
        ),
        "b": lambda F, t_b, self, b, solution, residuals: _lstsq_move(
            F, None, t_b, self, b, solution, residuals
        ),
    },
    outputs=("solution", "residuals", "rank", "singular_values"),
    differentiable=(0, 1),
    holomorphic=False,
    public=False,
    batch=_lstsq_batch,
    samples=_lstsq_samples,
    errors=lambda make: [
        ErrorSample(
            (make((3, 2)), make((2, 2))),
            RuntimeError,
            "torch.linalg.lstsq: input.size(-2) should match other.size(-2)",
        ),
        ErrorSample(
            (make((3, 2)), make((3, 2))), RuntimeError, "should be one of", {"driver": "x"}
        ),
    ],
    out="casts",
    autocast="cpu float32",
)

# Low rank -----------------------------------------------------------------------------------------


def _basis(F, A, q: int, niter: int):
    """Orthonormal columns that nearly span the range of A: powers of A on random vectors."""
    dtype, device = A.dtype, A.device
    start = functions["randn"](A.shape[-1], q, dtype=dtype, device=device)
    found = F.linalg_qr(F.matmul(A, start))[0]
    for _ in range(niter):
        found = F.linalg_qr(F.matmul(adjoint(F, A), found))[0]
        found = F.linalg_qr(F.matmul(A, found))[0]
    return found


@composite("svd_lowrank", method=False, profiled=UNSEEN)
def svd_lowrank(F, A, q: int = 6, niter: int = 2, M=None):
    """U, S and V of the best approximation of A (of A - M) of rank q, nearly.

    A: (..., m, n); U (..., m, q), S (..., q), V (..., n, q). Random vectors start it (see
    `manual_seed`); exact, up to rounding, for matrices of rank <= q.
    """
    if M is not None:
        A = A - M
    m, n = tuple(A.shape)[-2:]
    wide = m < n
    A = adjoint(F, A) if wide else A
    basis = _basis(F, A, q, niter)
    u, s, vh = F.linalg_svd(F.matmul(adjoint(F, basis), A), False)
    u, v = F.matmul(basis, u), adjoint(F, vh)
    return (v, s, u) if wide else (u, s, v)


@composite("pca_lowrank", method=False, profiled=UNSEEN)
def pca_lowrank(F, A, q=None, center: bool = True, niter: int = 2):
    """U, S and V of a principal component analysis: `svd_lowrank` of A less its column means.

    q: how many components (default: min(6, m, n)).
    """
    m, n = tuple(A.shape)[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - F.mean(A, (-2,), True)
    return F.svd_lowrank(A, q, niter)
