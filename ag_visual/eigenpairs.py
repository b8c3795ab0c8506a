"""lobpcg: a few of the largest or smallest eigenpairs, of all that `linalg.eigh` finds."""

from __future__ import annotations

from typing import Any

from ag_visual import linalg
from ag_visual.core.tensor import Tensor


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) w and columns v with A v = w B v, for symmetric A (..., m, m).

    k: as many as X has columns, or 1. B: positive definite, the identity if None. Nothing is
    iterated: `linalg.eigh` finds all pairs to the last digits, so that X, n, iK, niter, tol, method
    and what follows change nothing. Both results have gradients.

    Raises:
        ValueError: A has less than 3 k rows.
        AssertionError: A is not square.
    """
    if A.ndim < 2 or A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    count = k if k is not None else 1 if X is None else X.shape[-1]
    size = A.shape[-1]
    if size < 3 * count:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller "
            f"than 3 x the number of requested eigenpairs (={count})"
        )
    if B is None:
        values, vectors = linalg.eigh(A)
    else:
        factor = linalg.cholesky(B)
        half = linalg.solve_triangular(factor, A, upper=False)
        inner = linalg.solve_triangular(factor, half.mH, upper=False)
        values, vectors = linalg.eigh((inner + inner.mH) / 2)
        vectors = linalg.solve_triangular(factor.mH, vectors, upper=True)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :count], vectors[..., :count]
