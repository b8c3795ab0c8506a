"""KL(p || q) of two distributions of one family, and of what is made of others."""

from __future__ import annotations

import math
from typing import Any

from ag_visual import linalg
from ag_visual.distributions._namespace import F
from ag_visual.distributions.categorical import Categorical, OneHotCategorical
from ag_visual.distributions.combined import Independent, TransformedDistribution
from ag_visual.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from ag_visual.distributions.exp_family import ExponentialFamily
from ag_visual.distributions.gaussian import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    log_diagonal,
    squared_length,
)
from ag_visual.distributions.kl import kl_divergence, register_kl
from ag_visual.distributions.positive import Exponential, Gamma
from ag_visual.distributions.real_line import Cauchy, Laplace, Normal
from ag_visual.distributions.simplex import Dirichlet
from ag_visual.distributions.transformed import HalfNormal
from ag_visual.distributions.utils import sum_rightmost


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    # What p cannot draw counts nothing; what only q cannot draw is infinitely far.
    ones = F.where(p.probs == 0, 0.0, F.where(q.probs == 0, math.inf, ones))
    zeros = F.where(p.probs == 1, 0.0, F.where(q.probs == 1, math.inf, zeros))
    return ones + zeros


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return F.where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = F.where(q.probs == 0, math.inf, terms)
    return F.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """A(eta_q) - A(eta_p) - <eta_q - eta_p, grad A(eta_p)>: a Bregman divergence."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    normalizer, params, moments = p._normalizer_and_moments()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for param, other, moment in zip(params, others, moments, strict=True):
        event = param.dim() - len(p.batch_shape)
        result = result - sum_rightmost((other - param) * moment, event)
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + F.lgamma(b)
        - F.lgamma(a)
        + (a - b) * F.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - F.log1p(-q.probs) / p.probs - q.logits


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    apart = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * F.exp(-apart / p.scale) - 1


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    """Source: Chyzak and Nielsen, "A closed-form formula for Cauchy distributions" (2019)."""
    apart = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return apart.log() - (4 * p.scale * q.scale).log()


def _root(p: Any) -> tuple[Any, Any]:
    """W and d of the covariance W W^T + diag(d); d is None for a full one."""
    if isinstance(p, LowRankMultivariateNormal):
        return p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    return p._unbroadcasted_scale_tril, None


def _half_log_det(p: Any) -> Any:
    if isinstance(p, LowRankMultivariateNormal):
        return 0.5 * p._log_det()
    return log_diagonal(p._unbroadcasted_scale_tril)


def _trace(p: Any, q: Any) -> Any:
    """tr(S_q^-1 S_p)."""
    w, d = _root(p)
    if isinstance(q, LowRankMultivariateNormal):
        # S_q^-1 = 1 / d_q - U^T U
        diagonal = q._unbroadcasted_cov_diag
        scaled = q._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        u = linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
        spread = w.pow(2).sum(-1) if d is None else w.pow(2).sum(-1) + d
        trace = (spread / diagonal).sum(-1) - F.matmul(u, w).pow(2).sum((-2, -1))
        return trace if d is None else trace - (u.pow(2) * d.unsqueeze(-2)).sum((-2, -1))
    factor = q._unbroadcasted_scale_tril
    trace = linalg.solve_triangular(factor, w, upper=False).pow(2).sum((-2, -1))
    if d is None:
        return trace
    rest = linalg.solve_triangular(factor, d.sqrt().diag_embed(), upper=False)
    return trace + rest.pow(2).sum((-2, -1))


def _gaussians(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes "
            "cannot be computed"
        )
    apart = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        distance = q._distance(apart)
    else:
        distance = squared_length(q._unbroadcasted_scale_tril, apart)
    determinants = _half_log_det(q) - _half_log_det(p)
    return determinants + 0.5 * (_trace(p, q) + distance - p.event_shape[0])


for _p_type in (MultivariateNormal, LowRankMultivariateNormal):
    for _q_type in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p_type, _q_type)(_gaussians)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    """That of the bases: one invertible map of both changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    inner = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(inner, len(p.event_shape) - len(p.base_dist.event_shape))
