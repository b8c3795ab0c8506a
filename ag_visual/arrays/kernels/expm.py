"""The exponential of matrices: Pade approximation of order 13 with scaling and squaring.

Layer 1. N. Higham, "The scaling and squaring method for the matrix exponential revisited",
SIAM J. Matrix Anal. Appl. 26 (2005): coefficients and the bound 5.37 on the 1-norm.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import Array

_BOUND = 5.371920351148152
_B = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)


def matrix_exp(xp: Any, a: Array) -> Array:
    """exp(A) of each square matrix of a batch; each is scaled by its own power of two."""
    if a.size == 0:
        return a.copy()
    norm = abs(a).sum(axis=-2).max(axis=-1)
    ratio = xp.where(xp.isfinite(norm) & (norm > _BOUND), norm / _BOUND, 1.0)
    squarings = xp.ceil(xp.log2(ratio))[..., None, None]
    scaled = a * xp.exp2(-squarings).astype(norm.dtype)
    result = _pade(xp, scaled)
    for done in range(int(squarings.max())):
        result = xp.where(done < squarings, xp.matmul(result, result), result)
    return result


def _pade(xp: Any, a: Array) -> Array:
    one = xp.eye(a.shape[-1], dtype=a.dtype)
    a2 = xp.matmul(a, a)
    a4 = xp.matmul(a2, a2)
    a6 = xp.matmul(a4, a2)
    high = xp.matmul(a6, _B[13] * a6 + _B[11] * a4 + _B[9] * a2)
    odd = xp.matmul(a, high + _B[7] * a6 + _B[5] * a4 + _B[3] * a2 + _B[1] * one)
    high = xp.matmul(a6, _B[12] * a6 + _B[10] * a4 + _B[8] * a2)
    even = high + _B[6] * a6 + _B[4] * a4 + _B[2] * a2 + _B[0] * one
    return xp.linalg.solve(even - odd, even + odd)
