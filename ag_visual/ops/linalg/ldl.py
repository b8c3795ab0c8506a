"""LDL factors, and solving with them."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.record import Sample
from ag_visual.dispatch.table import named_tuple, op
from ag_visual.dispatch.vmap import leading
from ag_visual.ops.linalg.checks import check_info, check_square, composed
from ag_visual.ops.linalg.cholesky import positive


def _ldl_factor_ex(
    xp, self, *, hermitian: bool = False, check_errors: bool = False
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
    namedtuple="linalg_ldl_factor_ex",
    public=False,
    aten="aten::linalg_ldl_factor_ex",
    batch=leading(),
    samples=lambda make: [Sample((positive(make, s),)) for s in ((3, 3), (2, 2, 2))],
)


_Factors = named_tuple("linalg_ldl_factor", "LD", "pivots")


@composed("linalg.ldl_factor", out=True)
def linalg_ldl_factor(F, self, *, hermitian: bool = False):
    """`ldl_factor_ex`, which raises LinAlgError where D has a zero."""
    factors, pivots, info = F.linalg_ldl_factor_ex(self, hermitian=hermitian)
    check_info("torch.linalg.ldl_factor", info, _LDL_SINGULAR)
    return _Factors(factors, pivots)


def _ldl_solve(xp, LD, pivots, B, *, hermitian: bool = False):
    """X with A X = B from the factors of `ldl_factor`; B: (..., n, k). Has no derivative."""
    check_square("torch.linalg.ldl_solve", LD)
    if B.ndim < 2 or B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected B to have as many rows as LD, but got "
            f"{list(B.shape)} and {list(LD.shape)}"
        )
    return lapack.ldl_solve(xp, LD, pivots, B, hermitian)


def _ldl_solve_samples(make):
    import numpy

    factors, pivots, _ = lapack.ldl_factor(numpy, positive(make, (2, 3, 3)), False)
    yield Sample((factors, pivots, make((2, 3, 2))))
    yield Sample((factors[0], pivots[0], make((3, 1))))


op(
    "linalg_ldl_solve",
    _ldl_solve,
    aten="aten::linalg_ldl_solve",
    inputs=("LD", "pivots", "B"),
    public=False,
    batch=leading(LD=2, pivots=1, B=2),
    samples=_ldl_solve_samples,
)
