"""Solving with, and inverting from, a Cholesky factor."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap import leading
from ag_visual.ops.linalg.checks import adjoint, check_square, product
from ag_visual.ops.linalg.cholesky import positive
from ag_visual.ops.linalg.solve import check_fits


def _triangle_of(xp, factor, upper: bool):
    return xp.conj(factor.swapaxes(-1, -2)) if upper else factor


def _cholesky_solve(xp, self, input2, upper: bool = False):
    """X with A X = self from the Cholesky factor of A: L, or U with upper=True.

    self: (..., n, k), input2: (..., n, n); batches broadcast.
    """
    if self.ndim < 2:
        raise RuntimeError(f"b should have at least 2 dimensions, but has {self.ndim} dimensions")
    if input2.ndim < 2:
        raise RuntimeError(f"u should have at least 2 dimensions, but has {input2.ndim} dimensions")
    check_square("cholesky_solve", input2)
    check_fits("cholesky_solve", input2, self, True)
    lower = _triangle_of(xp, input2, upper)
    half = lapack.solve_triangular(xp, lower, self, upper=False)
    return lapack.solve_triangular(xp, xp.conj(lower.swapaxes(-1, -2)), half, upper=True)


def _cholesky_solve_rule(F, g, needs, input2, result, upper: bool) -> tuple[Any, Any]:
    g_b = F.cholesky_solve(g, input2, upper)
    if not needs[1]:
        return g_b, None
    both = product(F, g_b, adjoint(F, result))
    both = both + adjoint(F, both)
    return g_b, -(product(F, input2, both) if upper else product(F, both, input2))


def _gram(F, t, factor, upper: bool):
    """The tangent of A = L L^H (U^H U) along that of its factor."""
    half = product(F, adjoint(F, t), factor) if upper else product(F, t, adjoint(F, factor))
    return half + adjoint(F, half)


def _cholesky_solve_move(F, t_input2, input2, result, upper: bool):
    moved = product(F, _gram(F, t_input2, input2, upper), result)
    return -F.cholesky_solve(moved, input2, upper)


def _cholesky_inverse_move(F, t_self, self, result, upper: bool):
    return -product(F, result, _gram(F, t_self, self, upper), result)


def _cholesky_solve_samples(make):
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
    dtype_check=lambda self, input2: (
        "Expected b and A to have the same dtype, but found b of type "
        f"{self.scalar_name} and A of type {input2.scalar_name} instead"
    ),
    also_saves=("self",),
    holomorphic=False,
    batch=leading(self=2, input2=2),
    samples=_cholesky_solve_samples,
    errors=lambda make: [
        ErrorSample((make((3, 2)), make((2, 2))), RuntimeError, "Incompatible shapes of A and B")
    ],
    out="casts",
    autocast="cpu float32",
)


def _cholesky_inverse(xp, self, upper: bool = False):
    """The inverse of A from its Cholesky factor: L, or U with upper=True."""
    check_square("cholesky_inverse", self)
    lower = _triangle_of(xp, self, upper)
    one = xp.broadcast_to(xp.eye(self.shape[-1], dtype=self.dtype), self.shape)
    half = lapack.solve_triangular(xp, lower, one, upper=False)
    return xp.matmul(xp.conj(half.swapaxes(-1, -2)), half)


def _cholesky_inverse_rule(F, g, self, result, upper: bool):
    both = product(F, result, g + adjoint(F, g), result)
    return -(product(F, self, both) if upper else product(F, both, self))


op(
    "cholesky_inverse",
    _cholesky_inverse,
    vjp={"self": _cholesky_inverse_rule},
    jvp={"self": _cholesky_inverse_move},
    holomorphic=False,
    batch=leading(),
    samples=lambda make: [
        Sample((positive(make, (3, 3)),), smooth=False),
        Sample((positive(make, (2, 2, 2)), True), smooth=False),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)),), RuntimeError, "cholesky_inverse: A must be batches of")
    ],
    out="casts",
    autocast="cpu float32",
)
