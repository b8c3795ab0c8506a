"""Systems of linear equations, inverses and determinants.

M. Giles, "An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008). Rules of holomorphic ops leave out conjugation, so that A^T
stands where the gradient has A^H.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.record import ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch, leading
from ag_visual.errors import LinAlgError
from ag_visual.ops.linalg.checks import (
    adjoint,
    array_of,
    check_info,
    check_same_kind,
    check_square,
    column,
    composed,
    conj,
    embedded,
    named,
    offered,
    product,
    turned,
    whole,
)
from ag_visual.ops.linalg.cholesky import positive


def _regular(make: Any, shape: tuple[int, ...]) -> Any:
    """Matrices far from singular."""
    out = make(shape, low=-1.0, high=1.0)
    out[..., range(shape[-1]), range(shape[-1])] += 3.0
    return out


def _check_fits(name: str, A: Any, B: Any, left: bool) -> None:
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if B.shape[-2 if left else -1] != A.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


# Triangular systems -------------------------------------------------------------------------------


def _solve_triangular(
    xp: Any,
    self: Any,
    B: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    """The solution X of A X = B, or of X A = B with left=False, for triangular A.

    A: (..., n, n), of which one triangle is read (unitriangular: with ones on the diagonal);
    B: (..., n, k), or (..., k, n) with left=False; batches broadcast. A zero on the diagonal gives
    inf or nan.
    """
    check_square("linalg.solve_triangular", self)
    _check_fits("linalg.solve_triangular", self, B, left)
    check_same_kind("linalg.solve_triangular", self, B)
    return lapack.solve_triangular(xp, self, B, upper=upper, unit=unitriangular, left=left)


def _triangular_b(F: Any, g: Any, self: Any, left: bool, upper: bool, unitriangular: bool) -> Any:
    return F.linalg_solve_triangular(
        turned(F, self), g, upper=not upper, left=left, unitriangular=unitriangular
    )


def _triangle(F: Any, x: Any, upper: bool, unitriangular: bool) -> Any:
    return F.triu(x, int(unitriangular)) if upper else F.tril(x, -int(unitriangular))


def _triangular_rule(
    F: Any,
    g: Any,
    needs: Any,
    self: Any,
    result: Any,
    left: bool,
    upper: bool,
    unitriangular: bool,
) -> tuple[Any, Any]:
    g_b = _triangular_b(F, g, self, left, upper, unitriangular)
    if not needs[0]:
        return None, g_b
    x = turned(F, result)
    g_a = -(product(F, g_b, x) if left else product(F, x, g_b))
    return _triangle(F, g_a, upper, unitriangular), g_b


def _triangular_move(
    F: Any, t_self: Any, self: Any, result: Any, left: bool, upper: bool, unitriangular: bool
) -> Any:
    t_a = _triangle(F, t_self, upper, unitriangular)
    right = -(product(F, t_a, result) if left else product(F, result, t_a))
    return F.linalg_solve_triangular(
        self, right, upper=upper, left=left, unitriangular=unitriangular
    )


def _triangular_samples(make: Any) -> Iterator[Sample]:
    for upper in (True, False):
        for left in (True, False):
            b = (3, 2) if left else (2, 3)
            yield Sample((_regular(make, (3, 3)), make(b)), {"upper": upper, "left": left})
    a = _regular(make, (2, 3, 3))
    yield Sample((a, make((3, 2))), {"upper": True, "unitriangular": True})
    yield Sample((a[0], make((2, 3, 2))), {"upper": False})
    yield Sample((make((0, 0)), make((0, 2))), {"upper": False})


def _triangular_errors(make: Any) -> Iterator[ErrorSample]:
    yield ErrorSample(
        (make((2, 2)), make((3, 2))),
        RuntimeError,
        "Incompatible shapes of A and B for the equation AX = B (2x2 and 3x2)",
        {"upper": True},
    )
    yield ErrorSample((make((2, 3)), make((2, 2))), RuntimeError, "square", {"upper": True})


op(
    "linalg_solve_triangular",
    _solve_triangular,
    vjp={("self", "B"): _triangular_rule},
    jvp={
        "self": _triangular_move,
        "B": lambda F, t_B, self, left, upper, unitriangular: F.linalg_solve_triangular(
            self, t_B, upper=upper, left=left, unitriangular=unitriangular
        ),
    },
    inputs=("self", "B"),
    public=False,
    called="linalg.solve_triangular",
    batch=leading(self=2, B=2),
    samples=_triangular_samples,
    errors=_triangular_errors,
)
offered("linalg.solve_triangular")


def _triangular_solve(
    xp: Any,
    self: Any,
    A: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Any, Any]:
    """(X, A) with A X = self (A^T X with transpose); `linalg.solve_triangular` replaces it."""
    check_square("triangular_solve", A)
    _check_fits("triangular_solve", A, self, True)
    given = A.swapaxes(-1, -2) if transpose else A
    x = lapack.solve_triangular(xp, given, self, upper=upper != transpose, unit=unitriangular)
    return x, xp.broadcast_to(A, (*x.shape[:-2], *A.shape[-2:])).copy()


def _triangular_solve_rule(
    F: Any,
    gs: Any,
    A: Any,
    self_shape: Any,
    solution: Any,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> tuple[Any, Any]:
    g, g_copy = gs
    g_a = g_b = None
    if g is not None:
        given = A if transpose else turned(F, A)
        g_b = F.linalg_solve_triangular(
            given, g, upper=upper == transpose, unitriangular=unitriangular
        )
        g_a = -product(F, g_b, turned(F, solution))
        g_a = _triangle(F, turned(F, g_a) if transpose else g_a, upper, unitriangular)
    if g_copy is not None:
        g_a = g_copy if g_a is None else g_a + g_copy
    return F.zeros_of(A, tuple(self_shape)) if g_b is None else g_b, g_a


def _triangular_solve_right(
    F: Any, t_self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Any, Any]:
    moved = tuple(F.triangular_solve(t_self, A, upper, transpose, unitriangular))
    return moved[0], F.zeros_of(A, tuple(moved[1].shape))


def _triangular_solve_move(
    F: Any,
    t_A: Any,
    A: Any,
    solution: Any,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> tuple[Any, Any]:
    t_a = _triangle(F, t_A, upper, unitriangular)
    right = -product(F, turned(F, t_a) if transpose else t_a, solution)
    moved = F.triangular_solve(right, A, upper, transpose, unitriangular)[0]
    return moved, F.expand(t_A, (*tuple(moved.shape)[:-2], *tuple(t_A.shape)[-2:])) + 0


op(
    "triangular_solve",
    _triangular_solve,
    vjp={("self", "A"): _triangular_solve_rule},
    jvp={"self": _triangular_solve_right, "A": _triangular_solve_move},
    inputs=("self", "A"),
    outputs=("solution", "cloned_coefficient"),
    keeps=("self",),
    batch=whole,
    samples=lambda make: iter(
        [
            Sample((make((3, 2)), _regular(make, (3, 3)))),
            Sample((make((3, 2)), _regular(make, (3, 3)), False, True)),
            Sample((make((2, 3, 2)), _regular(make, (2, 3, 3)), True, False, True)),
        ]
    ),
)

# General systems ----------------------------------------------------------------------------------

_SINGULAR = "The solver failed because the input matrix is singular."


def is_vector(A: Any, B: Any) -> bool:
    """Whether B is a vector, or a batch of vectors with A's batch: torch's rule for both."""
    return is_vector_of(tuple(A.shape), tuple(B.shape))


def is_vector_of(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """`is_vector` of shapes."""
    return len(b) == 1 or (len(b) == len(a) - 1 and b == a[:-1])


def _solve_all(
    xp: Any, A: Any, B: Any, *, left: bool = True, check_errors: bool = False
) -> tuple[Any, Any, Any, Any]:
    """The solution, A's factors, and where they have a zero."""
    name = "linalg.solve"
    check_square(name, A)
    vector = is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    given = B[..., None] if vector else B
    _check_fits(name, A, given, left)
    check_same_kind(name, A, B)
    # X A = B is A^T X^T = B^T.
    lu, pivots, info = lapack.lu_factor(xp, A if left else A.swapaxes(-1, -2))
    if left:
        x = lapack.lu_solve(xp, lu, pivots, given)
    else:
        x = lapack.lu_solve(xp, lu, pivots, given.swapaxes(-1, -2)).swapaxes(-1, -2)
    if check_errors:
        check_info("torch.linalg.solve_ex", info, _SINGULAR)
    return (x[..., 0] if vector else x), lu, pivots, info


def _transposed_system(F: Any, A: Any, LU: Any, pivots: Any, g: Any, left: bool) -> Any:
    """X with A^T X = g (X A^T = g): by the known factors, unless a graph of it is wanted."""
    if F.xp is None:
        return F.linalg_solve(turned(F, A), g, left=left)
    if left:
        return lapack.lu_solve(F.xp, LU, pivots, g, 1)
    solved = lapack.lu_solve(F.xp, LU, pivots, g.swapaxes(-1, -2), 1)
    return solved.swapaxes(-1, -2)


def _solve_rule(
    F: Any, g: Any, needs: Any, A: Any, LU: Any, pivots: Any, result: Any, left: bool, B_shape: Any
) -> tuple[Any, Any]:
    vector = is_vector_of(tuple(A.shape), tuple(B_shape))
    if vector:
        g, result = column(F, g), column(F, result)
    g_b = _transposed_system(F, A, LU, pivots, g, left)
    g_a = None
    if needs[0]:
        x = turned(F, result)
        g_a = -(product(F, g_b, x) if left else product(F, x, g_b))
    return g_a, (F.squeeze(g_b, -1) if vector else g_b)


def _solve_move(F: Any, t_A: Any, A: Any, result: Any, left: bool, B_shape: Any) -> Any:
    if is_vector_of(tuple(A.shape), tuple(B_shape)):
        return F.squeeze(F.linalg_solve(A, -product(F, t_A, column(F, result))), -1)
    right = product(F, t_A, result) if left else product(F, result, t_A)
    return F.linalg_solve(A, -right, left=left)


def _solve_batch(batch: Batch) -> Any:
    """The solution by broadcasting, and factors with the batch of A's slices in front."""
    F = batch.F
    a, b = batch.shape("A"), batch.shape("B")
    vector = is_vector_of(a, b)
    given = batch["B"]
    if vector:
        given = F.unsqueeze(given, -1)
    # Slices with equally many dimensions: the matrices, or the one right side of all.
    rank = max(len(a), len(b) + vector)
    factor = batch.padded("A", rank)
    if "B" in batch:
        for _ in range(rank - len(b) - vector):
            given = F.unsqueeze(given, 1)
    found = list(batch.run(A=factor, B=given))
    for i, shape in ((1, a), (2, a[:-1]), (3, a[:-2])):
        had = "A" in batch
        found[i] = batch.filled(F.reshape(found[i], (batch.size, *shape)) if had else found[i], had)
    if vector:
        found[0] = F.squeeze(found[0], -1)
    return tuple(found)


def _solve_samples(make: Any) -> Iterator[Sample]:
    yield Sample((_regular(make, (3, 3)), make((3, 2))))
    yield Sample((_regular(make, (3, 3)), make((3,))))
    yield Sample((_regular(make, (2, 3, 3)), make((2, 3))))
    yield Sample((_regular(make, (3, 3)), make((2, 3))), {"left": False})
    yield Sample((_regular(make, (2, 1, 3, 3)), make((3, 3, 2))))
    yield Sample((_regular(make, (0, 3, 3)), make((3, 2))))


def _solve_errors(make: Any) -> Iterator[ErrorSample]:
    a = make((2, 3, 3))
    a[1] = 0
    yield ErrorSample(
        (a, make((2, 3, 1))),
        LinAlgError,
        "torch.linalg.solve_ex: (Batch element 1): The solver failed because",
        {"check_errors": True},
    )
    yield ErrorSample((make((2, 2)), make((3,))), RuntimeError, "the equation AX = B (2x2 and 3x1)")


op(
    "linalg_solve_all",
    _solve_all,
    vjp={("A", "B"): _solve_rule},
    jvp={
        "A": _solve_move,
        "B": lambda F, t_B, A, left: F.linalg_solve(A, t_B, left=left),
    },
    inputs=("A", "B"),
    outputs=("result", "LU", "pivots", "info"),
    differentiable=(0,),
    layout=ROWS,
    public=False,
    node="LinalgSolveExBackward0",
    called="linalg.solve",
    oracle=lambda torch, *args, **named: torch.linalg.solve_ex(*args, **named)[:1],
    batch=_solve_batch,
    samples=_solve_samples,
    errors=_solve_errors,
)


@composed("linalg.solve", out=True)
def linalg_solve(F: Any, A: Any, B: Any, *, left: bool = True) -> Any:
    """The solution X of A X = B, or of X A = B with left=False.

    A: (..., n, n); B: (..., n, k) or (..., k, n), or a vector (n,), or a batch of vectors (..., n)
    with exactly A's batch; batches broadcast. Raises LinAlgError for a singular matrix.
    """
    result, _, _, info = F.linalg_solve_all(A, B, left=left)
    check_info("torch.linalg.solve", info, _SINGULAR)
    return result


@composed("linalg.solve_ex", out=True)
def linalg_solve_ex(
    F: Any, A: Any, B: Any, *, left: bool = True, check_errors: bool = False
) -> Any:
    """`solve` with an error number for each matrix instead of an exception."""
    result, _, _, info = F.linalg_solve_all(A, B, left=left, check_errors=check_errors)
    return named("linalg_solve_ex", ("result", "info"), (result, info))


# Inverses -----------------------------------------------------------------------------------------

_NO_INVERSE = (
    "The diagonal element {info} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)


def _inv_ex(xp: Any, A: Any, *, check_errors: bool = False) -> tuple[Any, Any]:
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


def _inv_samples(make: Any) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 2), (0, 0), (2, 0, 3, 3)):
        yield Sample((_regular(make, shape),))


def _inv_errors(make: Any) -> Iterator[ErrorSample]:
    a = make((2, 3, 3))
    a[1] = 0
    checked = {"check_errors": True}
    told = "linalg.inv_ex: (Batch element 1): The diagonal element 1 is zero, the inversion could"
    yield ErrorSample((a,), LinAlgError, told, checked)
    yield ErrorSample((make((2, 3)),), RuntimeError, "batches of square matrices, but they are 2")
    yield ErrorSample((make((2,)),), RuntimeError, "must have at least 2 dimensions")


op(
    "linalg_inv_ex",
    _inv_ex,
    vjp={
        "A": lambda F, g, inverse: -product(F, turned(F, inverse), g, turned(F, inverse)),
    },
    jvp={"A": lambda F, t_A, inverse: -product(F, inverse, t_A, inverse)},
    outputs=("inverse", "info"),
    differentiable=(0,),
    public=False,
    called="linalg.inv_ex",
    batch=leading(),
    samples=_inv_samples,
    errors=_inv_errors,
)
offered("linalg.inv_ex")


@composed("linalg.inv", out=True)
def linalg_inv(F: Any, A: Any) -> Any:
    """The inverse of each matrix of A: (..., n, n). Raises LinAlgError for a singular one."""
    inverse, info = F.linalg_inv_ex(A)
    check_info("linalg.inv", info, _NO_INVERSE)
    return inverse


@composite("inverse", out=True)
def inverse(F: Any, self: Any) -> Any:
    """`linalg.inv`."""
    return F.linalg_inv(self)


# Determinants -------------------------------------------------------------------------------------


def _parity(xp: Any, pivots: Any) -> Any:
    """The determinant of the row swaps, 1 or -1."""
    own = xp.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    return 1 - 2 * ((pivots != own).sum(axis=-1) % 2)


def _pivot_diagonal(A: Any) -> Any:
    return A.diagonal(0, -2, -1)


def _det(xp: Any, A: Any) -> tuple[Any, Any, Any]:
    check_square("linalg.det", A)
    lu, pivots, _ = lapack.lu_factor(xp, A)
    found = _pivot_diagonal(lu).prod(axis=-1) * _parity(xp, pivots).astype(A.dtype)
    return xp.asarray(found), lu, pivots


def _cofactors(F: Any, A: Any, result: Any, LU: Any, pivots: Any) -> Any:
    """The derivative of the determinant: the transposed adjugate, or det(A) A^-T."""
    if not bool((array_of(result) == 0).any()):
        inverse = _inverse_of(F, A, LU, pivots)
        return column(F, column(F, result)) * turned(F, inverse)
    # Singular: A = U S V^H, whose adjugate is det(U) det(V^H) V adj(S) U^H.
    u, s, vh = F.linalg_svd(A, False)
    others = F.product_of_others(s, -1)
    phase = F.linalg_det(u) * F.linalg_det(vh)
    others = embedded(F, others + F.zeros_of(u, tuple(s.shape)))
    return column(F, column(F, phase)) * product(F, conj(F, u), others, conj(F, vh))


def _inverse_of(F: Any, A: Any, LU: Any, pivots: Any) -> Any:
    if F.xp is None:
        return F.linalg_inv_ex(A)[0]
    one = F.xp.broadcast_to(F.xp.eye(A.shape[-1], dtype=A.dtype), A.shape)
    return lapack.lu_solve(F.xp, LU, pivots, one)


def _det_rule(F: Any, g: Any, A: Any, result: Any, LU: Any, pivots: Any) -> Any:
    if A.shape[-1] < 2 or 0 in A.shape:
        return column(F, column(F, g))  # the determinant is the element, if there is one
    return column(F, column(F, g)) * _cofactors(F, A, result, LU, pivots)


def _det_move(F: Any, t_A: Any, A: Any, result: Any, LU: Any, pivots: Any) -> Any:
    return F.sum(_cofactors(F, A, result, LU, pivots) * t_A, (-2, -1))


def _det_samples(make: Any) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (2, 0, 3, 3)):
        yield Sample((_regular(make, shape),))
    # torch's gradient of an exactly singular matrix is 0, the limit is not.
    singular = make((3, 3))
    singular[:] = [[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [1.5, 0.25, 3.0]]
    yield Sample((singular,), oracle=False)


op(
    "linalg_det_all",
    _det,
    vjp={"A": _det_rule},
    jvp={"A": _det_move},
    outputs=("result", "LU", "pivots"),
    differentiable=(0,),
    public=False,
    node="LinalgDetBackward0",
    called="linalg.det",
    oracle=lambda torch, A: (torch.linalg.det(A),),
    batch=leading(),
    samples=_det_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)),), RuntimeError, "linalg.det: A must be batches of square")]
    ),
)


@composed("linalg.det", out=True)
def linalg_det(F: Any, A: Any) -> Any:
    """The determinant of each matrix of A: (..., n, n), from its LU factors."""
    return F.linalg_det_all(A)[0]


@composite("det", out=True)
def det(F: Any, self: Any) -> Any:
    """`linalg.det`."""
    return F.linalg_det(self)


def _slogdet(xp: Any, A: Any) -> tuple[Any, Any, Any, Any]:
    check_square("linalg.slogdet", A)
    lu, pivots, _ = lapack.lu_factor(xp, A)
    values = _pivot_diagonal(lu)
    size = abs(values)
    phases = xp.where(size == 0, 0, values / xp.where(size == 0, 1, size)).astype(A.dtype)
    sign = phases.prod(axis=-1) * _parity(xp, pivots).astype(A.dtype)
    return xp.asarray(sign), xp.asarray(xp.log(size).sum(axis=-1)), lu, pivots


def _slogdet_rule(F: Any, gs: Any, A: Any, sign: Any, LU: Any, pivots: Any) -> Any:
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


def _slogdet_move(F: Any, t_A: Any, A: Any, sign: Any, LU: Any, pivots: Any) -> Any:
    moved = F.sum(turned(F, _inverse_of(F, A, LU, pivots)) * t_A, (-2, -1))
    if not is_complex(A):
        return F.zeros_of(sign, tuple(sign.shape)), moved, None, None
    turn = F.imag(moved)
    return sign * F.complex(F.zeros_of(turn, tuple(turn.shape)), turn), F.real(moved), None, None


op(
    "linalg_slogdet_all",
    _slogdet,
    vjp={"A": _slogdet_rule},
    jvp={"A": _slogdet_move},
    outputs=("sign", "logabsdet", "LU", "pivots"),
    differentiable=(0, 1),
    holomorphic=False,
    public=False,
    node="LinalgSlogdetBackward0",
    called="linalg.slogdet",
    oracle=lambda torch, A: torch.linalg.slogdet(A),
    batch=leading(),
    samples=_inv_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)),), RuntimeError, "linalg.slogdet: A must be batches of square")]
    ),
)


@composed("linalg.slogdet", out=True)
def linalg_slogdet(F: Any, A: Any) -> Any:
    """Sign (a complex number of size 1) and log of the size of each determinant: (..., n, n).

    A singular matrix gives (0, -inf).
    """
    return named("linalg_slogdet", ("sign", "logabsdet"), tuple(F.linalg_slogdet_all(A))[:2])


@composite("slogdet", out=True)
def slogdet(F: Any, self: Any) -> Any:
    """`linalg.slogdet`."""
    return named("slogdet", ("sign", "logabsdet"), tuple(F.linalg_slogdet_all(self))[:2])


@composite("logdet")
def logdet(F: Any, self: Any) -> Any:
    """The logarithm of each determinant; nan for a negative one, -inf for 0."""
    check_square("logdet", array_of(self))
    sign, size = tuple(F.linalg_slogdet_all(self))[:2]
    if is_complex(sign):
        return F.log(sign) + size
    return F.where(sign == -1, math.nan, size)


# With a Cholesky factor ---------------------------------------------------------------------------


def _triangle_of(xp: Any, factor: Any, upper: bool) -> Any:
    return xp.conj(factor.swapaxes(-1, -2)) if upper else factor


def _cholesky_solve(xp: Any, self: Any, input2: Any, upper: bool = False) -> Any:
    """X with A X = self from the Cholesky factor of A: L, or U with upper=True.

    self: (..., n, k), input2: (..., n, n); batches broadcast.
    """
    if self.ndim < 2:
        raise RuntimeError(f"b should have at least 2 dimensions, but has {self.ndim} dimensions")
    if input2.ndim < 2:
        raise RuntimeError(f"u should have at least 2 dimensions, but has {input2.ndim} dimensions")
    check_square("cholesky_solve", input2)
    _check_fits("cholesky_solve", input2, self, True)
    lower = _triangle_of(xp, input2, upper)
    half = lapack.solve_triangular(xp, lower, self, upper=False)
    return lapack.solve_triangular(xp, xp.conj(lower.swapaxes(-1, -2)), half, upper=True)


def _cholesky_solve_rule(
    F: Any, g: Any, needs: Any, input2: Any, result: Any, upper: bool
) -> tuple[Any, Any]:
    g_b = F.cholesky_solve(g, input2, upper)
    if not needs[1]:
        return g_b, None
    both = product(F, g_b, adjoint(F, result))
    both = both + adjoint(F, both)
    return g_b, -(product(F, input2, both) if upper else product(F, both, input2))


def _gram(F: Any, t: Any, factor: Any, upper: bool) -> Any:
    """The tangent of A = L L^H (U^H U) along that of its factor."""
    half = product(F, adjoint(F, t), factor) if upper else product(F, t, adjoint(F, factor))
    return half + adjoint(F, half)


def _cholesky_solve_move(F: Any, t_input2: Any, input2: Any, result: Any, upper: bool) -> Any:
    moved = product(F, _gram(F, t_input2, input2, upper), result)
    return -F.cholesky_solve(moved, input2, upper)


def _cholesky_inverse_move(F: Any, t_self: Any, self: Any, result: Any, upper: bool) -> Any:
    return -product(F, result, _gram(F, t_self, self, upper), result)


def _cholesky_solve_samples(make: Any) -> Iterator[Sample]:
    # Only one triangle is read, but the gradient, torch's, is that of L L^H.
    for upper in (False, True):
        yield Sample((make((3, 2)), positive(make, (3, 3)), upper), smooth=False)
    yield Sample((make((3, 2)), positive(make, (2, 3, 3))), smooth=False)
    yield Sample((make((0, 2)), make((0, 0))), smooth=False)


op(
    "cholesky_solve",
    _cholesky_solve,
    vjp={("self", "input2"): _cholesky_solve_rule},
    jvp={
        "self": lambda F, t_self, input2, upper: F.cholesky_solve(t_self, input2, upper),
        "input2": _cholesky_solve_move,
    },
    inputs=("self", "input2"),
    alike=lambda self, input2: (
        "Expected b and A to have the same dtype, but found b of type "
        f"{dtype_errors.told(self)} and A of type {dtype_errors.told(input2)} instead"
    ),
    keeps=("self",),
    holomorphic=False,
    batch=leading(self=2, input2=2),
    samples=_cholesky_solve_samples,
    errors=lambda make: iter(
        [ErrorSample((make((3, 2)), make((2, 2))), RuntimeError, "Incompatible shapes of A and B")]
    ),
)


def _cholesky_inverse(xp: Any, self: Any, upper: bool = False) -> Any:
    """The inverse of A from its Cholesky factor: L, or U with upper=True."""
    check_square("cholesky_inverse", self)
    lower = _triangle_of(xp, self, upper)
    one = xp.broadcast_to(xp.eye(self.shape[-1], dtype=self.dtype), self.shape)
    half = lapack.solve_triangular(xp, lower, one, upper=False)
    return xp.matmul(xp.conj(half.swapaxes(-1, -2)), half)


def _cholesky_inverse_rule(F: Any, g: Any, self: Any, result: Any, upper: bool) -> Any:
    both = product(F, result, g + adjoint(F, g), result)
    return -(product(F, self, both) if upper else product(F, both, self))


op(
    "cholesky_inverse",
    _cholesky_inverse,
    vjp={"self": _cholesky_inverse_rule},
    jvp={"self": _cholesky_inverse_move},
    holomorphic=False,
    batch=leading(),
    samples=lambda make: iter(
        [
            Sample((positive(make, (3, 3)),), smooth=False),
            Sample((positive(make, (2, 2, 2)), True), smooth=False),
        ]
    ),
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)),), RuntimeError, "cholesky_inverse: A must be batches of")]
    ),
)
