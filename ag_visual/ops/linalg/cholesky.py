"""Cholesky and QR, and the Householder products under QR; LDL, which has no derivative.

Derivatives: M. Seeger et al., "Auto-differentiating linear algebra" (2017), and S. Walter,
L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.families import is_complex, refused
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import leading
from ag_visual.errors import LinAlgError
from ag_visual.ops.linalg.checks import (
    adjoint,
    check_info,
    check_kind,
    check_matrix,
    check_square,
    column,
    columns,
    completed,
    composed,
    conj,
    diagonal,
    named,
    offered,
    product,
    triangular,
    whole,
    with_diagonal,
)

NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {info} is not positive-definite)."
)


def positive(make: Any, shape: tuple[int, ...]) -> Any:
    """Symmetric positive-definite matrices."""
    a = make(shape)
    out = a @ a.swapaxes(-1, -2)
    out[..., range(shape[-1]), range(shape[-1])] += 0.5
    return out


# Cholesky -----------------------------------------------------------------------------------------


def _cholesky_factor(xp: Any, name: str, a: Any, upper: bool) -> tuple[Any, Any]:
    check_square(name, a)
    if not upper:
        return lapack.cholesky(xp, a)
    factor, info = lapack.cholesky(xp, a.swapaxes(-1, -2).conj())
    return factor.swapaxes(-1, -2).conj(), info


def _lower(F: Any, x: Any, upper: bool) -> Any:
    return adjoint(F, x) if upper else x


def _cholesky_rule(F: Any, g: Any, L: Any, upper: bool) -> Any:
    g, L = _lower(F, g, upper), _lower(F, L, upper)
    phi = F.tril(product(F, adjoint(F, L), g))
    phi = phi + adjoint(F, F.tril(phi, -1))
    half = triangular(F, adjoint(F, L), phi, upper=True)
    return triangular(F, L, half, upper=False, left=False) * 0.5


def _cholesky_move(F: Any, t_self: Any, L: Any, upper: bool) -> Any:
    L = _lower(F, L, upper)
    inner = triangular(F, L, t_self, upper=False)
    inner = F.tril(triangular(F, adjoint(F, L), inner, upper=True, left=False))
    inner = with_diagonal(F, inner, diagonal(F, inner) * 0.5)
    return _lower(F, product(F, L, inner), upper)


def _cholesky_samples(make: Any) -> Iterator[Sample]:
    # Only one triangle is read, but the gradient is that of a symmetric matrix.
    for shape in ((3, 3), (2, 3, 3), (0, 0), (2, 0, 3, 3)):
        yield Sample((positive(make, shape),), smooth=False)
        yield Sample((positive(make, shape),), {"upper": True}, smooth=False)


def _cholesky_ex(
    xp: Any, self: Any, *, upper: bool = False, check_errors: bool = False
) -> tuple[Any, Any]:
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
    called="linalg.cholesky_ex",
    batch=leading(),
    samples=_cholesky_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)),), RuntimeError, "must be batches of square matrices")]
    ),
)
offered("linalg.cholesky_ex")


@composed("linalg.cholesky", out=True)
def linalg_cholesky(F: Any, self: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with A = L L^H, or U with A = U^H U.

    A: (..., n, n), symmetric (Hermitian) positive-definite; one triangle is read. Raises
    LinAlgError for a matrix that is not positive-definite.
    """
    factor, info = F.linalg_cholesky_ex(self, upper=upper)
    check_info("linalg.cholesky", info, NOT_POSITIVE)
    return factor


def _cholesky(xp: Any, self: Any, upper: bool = False) -> Any:
    """`linalg.cholesky`, which replaces it."""
    factor, info = _cholesky_factor(xp, "cholesky", self, upper)
    check_info("cholesky", info, NOT_POSITIVE)
    return factor


def _cholesky_errors(make: Any) -> Iterator[ErrorSample]:
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
)

# QR -----------------------------------------------------------------------------------------------


def _qr(xp: Any, A: Any, mode: str = "reduced") -> tuple[Any, Any]:
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


def _syminvadj(F: Any, x: Any) -> Any:
    """The adjoint of taking a Hermitian matrix to its triangle: x + x^H, half of the diagonal."""
    both = x + adjoint(F, x)
    return with_diagonal(F, both, diagonal(F, both) * 0.5)


def _qr_square(F: Any, gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    inner = 0
    if gR is not None:
        inner = product(F, gR, adjoint(F, R))
    if gQ is not None:
        inner = inner - product(F, adjoint(F, Q), gQ)
    inner = product(F, Q, _syminvadj(F, F.triu(inner)))
    return triangular(
        F, adjoint(F, R), inner if gQ is None else gQ + inner, upper=False, left=False
    )


def _check_qr(Q: Any, R: Any, mode: str, shape: Any) -> None:
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


def _qr_rule(F: Any, gs: Any, Q: Any, R: Any, mode: str, A_shape: Any) -> Any:
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


def _qr_move(F: Any, t_A: Any, Q: Any, R: Any, mode: str, A_shape: Any) -> tuple[Any, Any]:
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


def _qr_samples(make: Any) -> Iterator[Sample]:
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
    called="linalg.qr",
    returns="linalg_qr",
    batch=completed(leading()),
    samples=_qr_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 2)), "q"), RuntimeError, "qr received unrecognized mode 'q'")]
    ),
)
offered("linalg.qr")


@composite("qr", out=True)
def qr(F: Any, self: Any, some: bool = True) -> Any:
    """`linalg.qr`, which replaces it: reduced, or complete with some=False."""
    return F.linalg_qr(self, "reduced" if some else "complete")


# Householder reflections --------------------------------------------------------------------------


def _check_reflectors(name: str, input: Any, tau: Any) -> None:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )
    check_kind(name, input)


def _reflectors(F: Any, input: Any, count: int) -> list[Any]:
    """The vectors v_i = (0, ..., 0, 1, input[i+1:, i]) as columns."""
    m, n = tuple(input.shape)[-2:]
    whole = F.tril(input, -1) + F.where(
        F.diagonal_mask(input, m, n), 1.0, F.zeros_of(input, (m, n))
    )
    return [columns(F, whole, i, i + 1) for i in range(count)]


def _reflected(F: Any, x: Any, v: Any, factor: Any) -> Any:
    """(I - factor v v^H) x."""
    return x - product(F, column(F, column(F, factor)) * v, product(F, adjoint(F, v), x))


def _householder(xp: Any, input: Any, tau: Any) -> Any:
    """The first n columns of H_1 H_2 ... H_k with H_i = I - tau_i v_i v_i^H.

    input: (..., m, n) with v_i below the diagonal of column i (1 on it), tau: (..., k), as `geqrf`
    gives them.
    """
    _check_reflectors("torch.linalg.householder_product", input, tau)
    m, n = input.shape[-2:]
    result = xp.zeros(input.shape, input.dtype)
    result += xp.eye(m, n, dtype=input.dtype)
    for i in reversed(range(tau.shape[-1])):
        v = input[..., i:, i].copy()
        v[..., 0] = 1
        below = result[..., i:, :]
        inner = xp.matmul(v.conj()[..., None, :], below)
        below -= (tau[..., i, None] * v)[..., None] * inner
    return result


def _householder_rule(F: Any, g: Any, input: Any, tau: Any) -> tuple[Any, Any]:
    """For dH_i between its left product L and its right one R, the gradient of H_i is L^H g R^H."""
    m, n = tuple(input.shape)[-2:]
    count = tau.shape[-1]
    vectors = _reflectors(F, input, count)
    factors = [tau[..., i] for i in range(count)]
    rights = [F.where(F.diagonal_mask(input, m, n), 1.0, F.zeros_of(input, tuple(input.shape)))]
    for i in reversed(range(1, count)):
        rights.append(_reflected(F, rights[-1], vectors[i], factors[i]))
    g_vectors, g_factors = [], []
    for i in range(count):
        v, t = vectors[i], factors[i]
        right = rights[count - 1 - i]
        # K v and K^H v of K = g right^H, which is never formed.
        k_v = product(F, g, product(F, adjoint(F, right), v))
        kh_v = product(F, right, product(F, adjoint(F, g), v))
        g_factors.append(-product(F, adjoint(F, v), k_v)[..., 0, 0])
        wide = column(F, column(F, t))
        g_vectors.append(-(wide * kh_v) - conj(F, wide) * k_v)
        # H_i^H from the left for the next.
        g = _reflected(F, g, v, conj(F, t))
    g_vectors += [F.zeros_of(input, (*tuple(input.shape)[:-1], 1))] * (n - count)
    g_input = (
        F.tril(F.cat(tuple(g_vectors), -1), -1) if g_vectors else F.zeros_of(input, input.shape)
    )
    g_tau = F.stack(tuple(g_factors), -1) if g_factors else F.zeros_of(tau, tuple(tau.shape))
    return g_input, g_tau


def _householder_move(F: Any, input: Any, tau: Any, t_input: Any = None, t_tau: Any = None) -> Any:
    """The tangent of the product along one of its inputs, one reflection after the other."""
    m, n = tuple(input.shape)[-2:]
    count = tau.shape[-1]
    vectors = _reflectors(F, input, count)
    low = None if t_input is None else F.tril(t_input, -1)
    x = F.where(F.diagonal_mask(input, m, n), 1.0, F.zeros_of(input, tuple(input.shape)))
    moved = F.zeros_of(input, tuple(input.shape))
    for i in reversed(range(count)):
        v, t = vectors[i], tau[..., i]
        moved = _reflected(F, moved, v, t)
        if low is not None:
            t_v = columns(F, low, i, i + 1)
            turn = t_v * product(F, adjoint(F, v), x) + v * product(F, adjoint(F, t_v), x)
            moved = moved - column(F, column(F, t)) * turn
        else:
            factor = column(F, column(F, t_tau[..., i]))
            moved = moved - factor * v * product(F, adjoint(F, v), x)
        x = _reflected(F, x, v, t)
    return moved


def _householder_samples(make: Any) -> Iterator[Sample]:
    for shape, k in (((3, 3), 3), ((4, 2), 2), ((4, 3), 2), ((2, 3, 2), 2), ((0, 3, 2), 2)):
        yield Sample((make(shape), make((*shape[:-2], k))))


def _householder_move_of_input(F: Any, t_input: Any, input: Any, tau: Any) -> Any:
    return _householder_move(F, input, tau, t_input=t_input)


def _householder_move_of_tau(F: Any, t_tau: Any, input: Any, tau: Any) -> Any:
    return _householder_move(F, input, tau, t_tau=t_tau)


op(
    "linalg_householder_product",
    _householder,
    vjp={("input", "tau"): _householder_rule},
    jvp={
        "input": _householder_move_of_input,
        "tau": _householder_move_of_tau,
    },
    inputs=("input", "tau"),
    keeps=("result",),
    holomorphic=False,
    public=False,
    called="linalg.householder_product",
    batch=whole,
    samples=_householder_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)), make((2,))), RuntimeError, "must be greater than or equal to")]
    ),
)
offered("linalg.householder_product")


@composite("orgqr", out=True)
def orgqr(F: Any, self: Any, input2: Any) -> Any:
    """`linalg.householder_product` under LAPACK's name."""
    return F.linalg_householder_product(self, input2)


def _geqrf(xp: Any, self: Any) -> tuple[Any, Any]:
    """R in the upper triangle, the Householder vectors below it, and their factors tau."""
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kind("torch.geqrf", self)
    return lapack.geqrf(xp, self)


op(
    "geqrf",
    _geqrf,
    vjp={"self": refused("geqrf")},
    outputs=("a", "tau"),
    returns="geqrf",
    node="GeqrfBackward0",
    batch=leading(),
    samples=lambda make: iter([Sample((make((3, 2)),)), Sample((make((2, 2, 3)),))]),
)


def _ormqr(
    xp: Any,
    self: Any,
    input2: Any,
    input3: Any,
    left: bool = True,
    transpose: bool = False,
) -> Any:
    """Q C, Q^H C, C Q or C Q^H with Q = H_1 ... H_k in its Householder vectors and tau.

    self: (..., m, k) and input2: (..., k) as `geqrf` gives them, input3: C.
    """
    for name, array in (("input", self), ("other", input3)):
        if array.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    if input2.ndim != self.ndim - 1:
        raise RuntimeError(
            "torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim "
            f"equal to {input2.ndim} and input.ndim is equal to {self.ndim}"
        )
    k = input2.shape[-1]
    if input3.shape[-2 if left else -1] != self.shape[-2]:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]"
        )
    if k > min(input3.shape[-2 if left else -1], self.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], "
            "input.shape[-1])"
        )
    check_kind("torch.ormqr", self)
    result = (input3 if left else xp.conj(input3.swapaxes(-1, -2))).copy()
    # C Q = (Q^H C^H)^H
    adjoint_ = transpose == left
    for i in range(k) if adjoint_ else reversed(range(k)):
        v = self[..., i:, i].copy()
        v[..., 0] = 1
        factor = input2[..., i, None]
        below = result[..., i:, :]
        inner = xp.matmul(v.conj()[..., None, :], below)
        below -= ((factor.conj() if adjoint_ else factor) * v)[..., None] * inner
    return result if left else xp.ascontiguousarray(result.swapaxes(-1, -2).conj())


def _ormqr_rule(
    F: Any, g: Any, needs: Any, self: Any, input2: Any, input3: Any, left: bool, transpose: bool
) -> tuple[Any, Any, Any]:
    g_other = None
    if needs[2]:
        g_other = F.ormqr(self, input2, g, left, not transpose)
    if not (needs[0] or needs[1]):
        return None, None, g_other
    m, n, k = self.shape[-2], self.shape[-1], input2.shape[-1]
    # The whole Q is the product of these reflectors with more columns, whose factors are absent.
    batch = tuple(self.shape)[:-2]
    square = columns(F, self, 0, k)
    square = F.cat((square, F.zeros_of(self, (*batch, m, m - k))), -1) if m > k else square
    g_q = product(F, g, adjoint(F, input3)) if left else product(F, adjoint(F, input3), g)
    g_q = adjoint(F, g_q) if transpose else g_q
    g_input, g_tau = _householder_rule(F, g_q, square, input2)
    g_input = columns(F, g_input, 0, k)
    rest = F.zeros_of(self, (*batch, m, n - k))
    return (F.cat((g_input, rest), -1) if n > k else g_input), g_tau, g_other


def _ormqr_samples(make: Any) -> Iterator[Sample]:
    for left in (True, False):
        for transpose in (False, True):
            other = (3, 2) if left else (2, 3)
            yield Sample((make((3, 2)), make((2,)), make(other), left, transpose))
    yield Sample((make((2, 3, 3)), make((2, 3)), make((2, 3, 2))))
    yield Sample((make((2, 4)), make((2,)), make((2, 3))))


op(
    "ormqr",
    _ormqr,
    vjp={("self", "input2", "input3"): _ormqr_rule},
    inputs=("self", "input2", "input3"),
    keeps=("result",),
    holomorphic=False,
    batch=whole,
    samples=_ormqr_samples,
    errors=lambda make: iter(
        [ErrorSample((make((3, 2)), make((2,)), make((2, 2))), RuntimeError, "must be equal to")]
    ),
)

# LDL ----------------------------------------------------------------------------------------------


def _ldl_factor_ex(
    xp: Any, self: Any, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Any, Any, Any]:
    """Bunch and Kaufman's factors of symmetric (hermitian=True: Hermitian) matrices.

    Gives (LD, pivots, info) in LAPACK's compact form; one triangle is read. Has no derivative.
    """
    check_square("torch.linalg.ldl_factor_ex", self)
    found = lapack.ldl_factor(xp, self, hermitian)
    if check_errors:
        check_info("torch.linalg.ldl_factor_ex", found[2], _LDL_SINGULAR)
    return found


_LDL_SINGULAR = (
    "The diagonal element {info} of D is exactly zero: the matrix is singular, and ldl_solve would "
    "divide by zero."
)

op(
    "linalg_ldl_factor_ex",
    _ldl_factor_ex,
    outputs=("LD", "pivots", "info"),
    returns="linalg_ldl_factor_ex",
    public=False,
    called="linalg.ldl_factor_ex",
    batch=leading(),
    samples=lambda make: iter([Sample((positive(make, s),)) for s in ((3, 3), (2, 2, 2))]),
)
offered("linalg.ldl_factor_ex")


@composed("linalg.ldl_factor", out=True)
def linalg_ldl_factor(F: Any, self: Any, *, hermitian: bool = False) -> Any:
    """`ldl_factor_ex`, which raises LinAlgError where D has a zero."""
    factors, pivots, info = F.linalg_ldl_factor_ex(self, hermitian=hermitian)
    check_info("torch.linalg.ldl_factor", info, _LDL_SINGULAR)
    return named("linalg_ldl_factor", ("LD", "pivots"), (factors, pivots))


def _ldl_solve(xp: Any, LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """X with A X = B from the factors of `ldl_factor`; B: (..., n, k). Has no derivative."""
    check_square("torch.linalg.ldl_solve", LD)
    if B.ndim < 2 or B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected B to have as many rows as LD, but got "
            f"{list(B.shape)} and {list(LD.shape)}"
        )
    return lapack.ldl_solve(xp, LD, pivots, B, hermitian)


def _ldl_solve_samples(make: Any) -> Iterator[Sample]:
    import numpy

    factors, pivots, _ = lapack.ldl_factor(numpy, positive(make, (2, 3, 3)), False)
    yield Sample((factors, pivots, make((2, 3, 2))))
    yield Sample((factors[0], pivots[0], make((3, 1))))


op(
    "linalg_ldl_solve",
    _ldl_solve,
    inputs=("LD", "pivots", "B"),
    public=False,
    called="linalg.ldl_solve",
    batch=leading(LD=2, pivots=1, B=2),
    samples=_ldl_solve_samples,
)
offered("linalg.ldl_solve")
