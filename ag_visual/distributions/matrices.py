"""Distributions of positive definite and of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from ag_visual import linalg
from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.distribution import Distribution
from ag_visual.distributions.exp_family import ExponentialFamily
from ag_visual.distributions.gaussian import MATRICES, OfMatrix, log_diagonal
from ag_visual.distributions.positive import Chi2
from ag_visual.distributions.simplex import Beta
from ag_visual.distributions.utils import broadcast_all, standard_normal
from ag_visual.dtypes import finfo
from ag_visual.sizes import Size


class Wishart(OfMatrix, ExponentialFamily):
    """The Wishart distribution: the sum of x x^T of df normal vectors with covariance V.

    The density is det(X)^((df - p - 1) / 2) exp(-tr(V^-1 X) / 2) over
    2^(df p / 2) det(V)^(df / 2) gamma_p(df / 2).

    V is given as covariance_matrix, precision_matrix (V^-1) or scale_tril. Samples are made by
    Bartlett's decomposition.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        values = (covariance_matrix, precision_matrix, scale_tril)
        given = dict(zip(MATRICES, values, strict=True))
        if sum(v is not None for v in values) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        [(name, matrix)] = [(n, v) for n, v in given.items() if v is not None]
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        number = (
            df
            if isinstance(df, Tensor)
            else F.tensor(float(df), dtype=matrix.dtype, device=matrix.device)
        )
        batch = F.broadcast_shapes(matrix.shape[:-2], number.shape)
        event = matrix.shape[-2:]
        self.df = number.expand(batch)
        setattr(self, name, matrix.expand((*batch, *event)))
        if (number <= event[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}."
            )
        super().__init__(batch, event, validate_args=validate_args)
        if (self.df < event[-1]).any():
            warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim."
            )
        self._unbroadcasted_scale_tril = self._triangle(**given)
        self._chi2 = self._diagonals(self.df, event[-1])

    @staticmethod
    def _diagonals(df: Any, p: int) -> Chi2:
        steps = F.arange(p, dtype=df.dtype, device=df.device)
        return Chi2(df.unsqueeze(-1) - steps)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        df = self.df.expand(batch_shape)
        return self._expanded(
            new,
            batch_shape,
            df=df,
            _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril,
            _chi2=self._diagonals(df, self.event_shape[-1]),
            **self._held(batch_shape),
        )

    def _df(self) -> Any:
        return self.df.view((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Any:
        return self._df() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self._df() - self._event_shape[-1] - 1
        return F.where(factor <= 0, math.nan, factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._df() * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """L A A^T L^T: A is lower, its diagonal roots of chi-squared numbers, below it normal."""
        shape = self._extended_shape(sample_shape)
        diagonal = self._chi2.rsample(sample_shape).clamp(min=finfo(self.df.dtype).tiny).sqrt()
        below = standard_normal(shape, self._unbroadcasted_scale_tril).tril(-1)
        factor = F.matmul(self._unbroadcasted_scale_tril, below + diagonal.diag_embed())
        return F.matmul(factor, factor.mT)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p, factor = self._event_shape[-1], self._unbroadcasted_scale_tril
        half = self.df / 2
        norm = self.df * (p * math.log(2) / 2 + log_diagonal(factor)) + F.mvlgamma(half, p)
        trace = (self.precision_matrix * value).sum((-2, -1))
        log_det = linalg.slogdet(value).logabsdet
        return (half - (p + 1) / 2) * log_det - trace / 2 - norm

    def entropy(self) -> Any:
        p = self._event_shape[-1]
        half = self.df / 2
        digammas = sum(F.digamma(half - i / 2) for i in range(p))
        return (
            (p + 1) * log_diagonal(self._unbroadcasted_scale_tril)
            + p * (p + 1) / 2 * math.log(2)
            + F.mvlgamma(half, p)
            - (half - (p + 1) / 2) * digammas
            + half * p
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - linalg.slogdet(-2 * x).logabsdet) + F.mvlgamma(half, p)


class LKJCholesky(Distribution):
    """Cholesky factors of random dim x dim correlation matrices, with density det^(eta - 1).

    eta = concentration: at 1 all correlation matrices are equally likely. Samples are made by the
    onion method. Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices
    based on vines and extended onion method" (2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)
        self._beta = self._radii(self.concentration)

    def _radii(self, concentration: Any) -> Beta:
        """Row i = 1 ... dim - 1 has i entries, whose squared length is a beta number."""
        rows = F.arange(1, self.dim, dtype=concentration.dtype, device=concentration.device)
        rest = concentration.unsqueeze(-1) + (self.dim - 1 - rows) / 2
        return Beta(rows / 2 + F.zeros_like(rest), rest)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        concentration = self.concentration.expand(batch_shape)
        return self._expanded(
            new,
            batch_shape,
            dim=self.dim,
            concentration=concentration,
            _beta=self._radii(concentration),
        )

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            squared = self._beta.sample(sample_shape)
            squared = F.pad(squared, (1, 0)).unsqueeze(-1)
            normal = standard_normal(self._extended_shape(sample_shape), self.concentration)
            below = normal.tril(-1)
            length = linalg.norm(below, dim=-1, keepdim=True)
            rows = squared.sqrt() * below / F.where(length > 0, length, 1.0)
            tiny = finfo(rows.dtype).tiny
            diagonal = (1 - rows.pow(2).sum(-1)).clamp(min=tiny).sqrt()
            return rows + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.dim
        eta = self.concentration
        rows = F.arange(2, n + 1, dtype=eta.dtype, device=eta.device)
        powers = 2 * (eta - 1).unsqueeze(-1) + n - rows
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        above = eta + 0.5 * (n - 1)
        norm = (
            0.5 * (n - 1) * math.log(math.pi)
            + F.mvlgamma(above - 0.5, n - 1)
            - F.lgamma(above) * (n - 1)
        )
        return (powers * diagonal.log()).sum(-1) - norm
