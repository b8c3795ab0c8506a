"""Transforms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from ag_visual import linalg
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.transforms.base import Transform
from ag_visual.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from ag_visual.dtypes import finfo
from ag_visual.sizes import Size


class _Plain(Transform):
    """A transform without parameters: two of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None


class SoftmaxTransform(_Plain):
    """y = softmax(x) over the last dimension; its inverse is log, as softmax loses a constant."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


def _log_rests(x: Any) -> Any:
    """log of how many pieces are left when each piece of a stick is broken off."""
    count = x.shape[-1]
    return F.arange(count, 0, -1, dtype=x.dtype, device=x.device).log()


def _padded(x: Any, before: int, after: int) -> Any:
    """Ones in front of and behind the last dimension."""
    return F.pad(x, (before, after), value=1.0)


class StickBreakingTransform(_Plain):
    """K numbers as the K + 1 pieces of a stick: x_k says where the k-th rest is broken."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Any) -> Any:
        share = F.sigmoid(x - _log_rests(x))
        rest = (1 - share).cumprod(-1)
        return _padded(share, 0, 1) * _padded(rest, 1, 0)

    def _inverse(self, y: Any) -> Any:
        pieces = y[..., :-1]
        rest = (1 - pieces.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return pieces.log() - rest.log() + _log_rests(pieces)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # The Jacobian is triangular: dy_k / dx_k = y_k (1 - share_k).
        return (F.logsigmoid(_log_rests(x) - x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """The lower triangle of a matrix, with exp of its diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """L L^T of the lower triangle with positive diagonal that LowerCholeskyTransform gives."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(_Plain):
    """D (D - 1) / 2 numbers as the Cholesky factor of a D x D correlation matrix.

    tanh(x) are partial correlations r, and L_ij = r_ij sqrt(1 - the sum over k < j of L_ik^2).
    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices" (2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=eps - 1, max=1 - eps), diag=-1)
        rest = (1 - partial * partial).sqrt().cumprod(-1)
        unit = F.eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return (partial + unit) * _padded(rest[..., :-1], 1, 0)

    def _inverse(self, y: Any) -> Any:
        rest = _padded(1 - (y * y).cumsum(-1)[..., :-1], 1, 0)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        rest = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        slopes = math.log(2.0) - x - F.softplus(-2.0 * x)
        return rest.log().sum(-1) / 2 + 2 * slopes.sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        size = shape[-1]
        return Size((*shape[:-2], size * (size - 1) // 2))
