"""Systems of linear equations, general and triangular.

M. Giles, "An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008). Rules of holomorphic ops leave out conjugation, so that A^T
stands where the gradient has A^H.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.record import ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import named_tuple, op
from ag_visual.dispatch.vmap import Batch, leading
from ag_visual.errors import LinAlgError
from ag_visual.ops.linalg.checks import (
    check_info,
    check_same_kind,
    check_square,
    column,
    composed,
    product,
    turned,
    whole,
)


def regular(make, shape: tuple[int, ...]):
    """Matrices far from singular."""
    out = make(shape, low=-1.0, high=1.0)
    out[..., range(shape[-1]), range(shape[-1])] += 3.0
    return out


def check_fits(name: str, A, B, left: bool) -> None:
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if B.shape[-2 if left else -1] != A.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


# Triangular systems -------------------------------------------------------------------------------


def _solve_triangular(xp, self, B, *, upper: bool, left: bool = True, unitriangular: bool = False):
    """The solution X of A X = B, or of X A = B with left=False, for triangular A.

    A: (..., n, n), of which one triangle is read (unitriangular: with ones on the diagonal);
    B: (..., n, k), or (..., k, n) with left=False; batches broadcast. A zero on the diagonal gives
    inf or nan.
    """
    check_square("linalg.solve_triangular", self)
    check_fits("linalg.solve_triangular", self, B, left)
    check_same_kind("linalg.solve_triangular", self, B)
    return lapack.solve_triangular(xp, self, B, upper=upper, unit=unitriangular, left=left)


def _triangular_b(F, g, self, left: bool, upper: bool, unitriangular: bool):
    return F.linalg_solve_triangular(
        turned(F, self), g, upper=not upper, left=left, unitriangular=unitriangular
    )


def _triangle(F, x, upper: bool, unitriangular: bool):
    return F.triu(x, int(unitriangular)) if upper else F.tril(x, -int(unitriangular))


def _triangular_rule(
    F, g, needs, self, result, left: bool, upper: bool, unitriangular: bool
) -> tuple[Any, Any]:
    g_b = _triangular_b(F, g, self, left, upper, unitriangular)
    if not needs[0]:
        return None, g_b
    x = turned(F, result)
    g_a = -(product(F, g_b, x) if left else product(F, x, g_b))
    return _triangle(F, g_a, upper, unitriangular), g_b


def _triangular_move(F, t_self, self, result, left: bool, upper: bool, unitriangular: bool):
    t_a = _triangle(F, t_self, upper, unitriangular)
    right = -(product(F, t_a, result) if left else product(F, result, t_a))
    return F.linalg_solve_triangular(
        self, right, upper=upper, left=left, unitriangular=unitriangular
    )


def _triangular_samples(make):
    for upper in (True, False):
        for left in (True, False):
            b = (3, 2) if left else (2, 3)
            yield Sample((regular(make, (3, 3)), make(b)), {"upper": upper, "left": left})
    a = regular(make, (2, 3, 3))
    yield Sample((a, make((3, 2))), {"upper": True, "unitriangular": True})
    yield Sample((a[0], make((2, 3, 2))), {"upper": False})
    yield Sample((make((0, 0)), make((0, 2))), {"upper": False})


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
    public=False,
    batch=leading(self=2, B=2),
    samples=_triangular_samples,
    errors=lambda make: [
        ErrorSample(
            (make((2, 2)), make((3, 2))),
            RuntimeError,
            "Incompatible shapes of A and B for the equation AX = B (2x2 and 3x2)",
            {"upper": True},
        ),
        ErrorSample((make((2, 3)), make((2, 2))), RuntimeError, "square", {"upper": True}),
    ],
)


def _triangular_solve(
    xp, self, A, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    """(X, A) with A X = self (A^T X with transpose) for triangular A.

    `linalg.solve_triangular` replaces it.
    """
    check_square("triangular_solve", A)
    check_fits("triangular_solve", A, self, True)
    given = A.swapaxes(-1, -2) if transpose else A
    x = lapack.solve_triangular(xp, given, self, upper=upper != transpose, unit=unitriangular)
    return x, xp.broadcast_to(A, (*x.shape[:-2], *A.shape[-2:])).copy()


def _triangular_solve_rule(
    F, gs, A, self_shape, solution, upper: bool, transpose: bool, unitriangular: bool
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
    F, t_self, A, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Any, Any]:
    moved = tuple(F.triangular_solve(t_self, A, upper, transpose, unitriangular))
    return moved[0], F.zeros_of(A, tuple(moved[1].shape))


def _triangular_solve_move(
    F, t_A, A, solution, upper: bool, transpose: bool, unitriangular: bool
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
    outputs=("solution", "cloned_coefficient"),
    also_saves=("self",),
    batch=whole,
    samples=lambda make: [
        Sample((make((3, 2)), regular(make, (3, 3)))),
        Sample((make((3, 2)), regular(make, (3, 3)), False, True)),
        Sample((make((2, 3, 2)), regular(make, (2, 3, 3)), True, False, True)),
    ],
    out="check_overlap",
    autocast="cpu float32",
)

# General systems ----------------------------------------------------------------------------------

_SINGULAR = "The solver failed because the input matrix is singular."


def is_vector(A, B) -> bool:
    """Whether B is a vector, or a batch of vectors with A's batch: torch's rule for both."""
    return is_vector_of(tuple(A.shape), tuple(B.shape))


def is_vector_of(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """`is_vector` of shapes."""
    return len(b) == 1 or (len(b) == len(a) - 1 and b == a[:-1])


def _solve_all(
    xp, A, B, *, left: bool = True, check_errors: bool = False
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
    check_fits(name, A, given, left)
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


def _transposed_system(F, A, LU, pivots, g, left: bool):
    """X with A^T X = g (X A^T = g): by the known factors, unless a graph of it is wanted."""
    if F.traced:
        return F.linalg_solve(turned(F, A), g, left=left)
    if left:
        return lapack.lu_solve(F.xp, LU, pivots, g, 1)
    solved = lapack.lu_solve(F.xp, LU, pivots, g.swapaxes(-1, -2), 1)
    return solved.swapaxes(-1, -2)


def _solve_rule(F, g, needs, A, LU, pivots, result, left: bool, B_shape) -> tuple[Any, Any]:
    vector = is_vector_of(tuple(A.shape), tuple(B_shape))
    if vector:
        g, result = column(F, g), column(F, result)
    g_b = _transposed_system(F, A, LU, pivots, g, left)
    g_a = None
    if needs[0]:
        x = turned(F, result)
        g_a = -(product(F, g_b, x) if left else product(F, x, g_b))
    return g_a, (F.squeeze(g_b, -1) if vector else g_b)


def _solve_move(F, t_A, A, result, left: bool, B_shape):
    if is_vector_of(tuple(A.shape), tuple(B_shape)):
        return F.squeeze(F.linalg_solve(A, -product(F, t_A, column(F, result))), -1)
    right = product(F, t_A, result) if left else product(F, result, t_A)
    return F.linalg_solve(A, -right, left=left)


def _solve_batch(batch: Batch):
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


def _solve_errors(make):
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
    jvp={"A": _solve_move, "B": lambda F, t_B, A, left: F.linalg_solve(A, t_B, left=left)},
    outputs=("result", "LU", "pivots", "info"),
    differentiable=(0,),
    layout=ROWS,
    public=False,
    node="LinalgSolveExBackward0",
    public_name="linalg.solve",
    oracle=lambda torch, *args, **named: torch.linalg.solve_ex(*args, **named)[:1],
    batch=_solve_batch,
    samples=lambda make: [
        Sample((regular(make, (3, 3)), make((3, 2)))),
        Sample((regular(make, (3, 3)), make((3,)))),
        Sample((regular(make, (2, 3, 3)), make((2, 3)))),
        Sample((regular(make, (3, 3)), make((2, 3))), {"left": False}),
        Sample((regular(make, (2, 1, 3, 3)), make((3, 3, 2)))),
        Sample((regular(make, (0, 3, 3)), make((3, 2)))),
    ],
    errors=_solve_errors,
)


@composed("linalg.solve", out=True, autocast="cpu float32")
def linalg_solve(F, A, B, *, left: bool = True):
    """The solution X of A X = B, or of X A = B with left=False.

    A: (..., n, n); B: (..., n, k) or (..., k, n), or a vector (n,), or a batch of vectors (..., n)
    with exactly A's batch; batches broadcast. Raises LinAlgError for a singular matrix.
    """
    result, _, _, info = F.linalg_solve_all(A, B, left=left)
    check_info("torch.linalg.solve", info, _SINGULAR)
    return result


_Solved = named_tuple("linalg_solve_ex", "result", "info")


@composed("linalg.solve_ex", out=True)
def linalg_solve_ex(F, A, B, *, left: bool = True, check_errors: bool = False):
    """`solve` with an error number for each matrix instead of an exception."""
    result, _, _, info = F.linalg_solve_all(A, B, left=left, check_errors=check_errors)
    return _Solved(result, info)
