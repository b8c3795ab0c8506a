"""KL(p || q) = E[-log q(x)] - H(p), where log q needs only a few expected values under p.

For each class of p those values, for each class of q its cross entropy in them: the table of torch
has their pairs. Where p has probability outside of q's support the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ag_visual.distributions._namespace import F
from ag_visual.distributions.counts import Bernoulli, Binomial, ContinuousBernoulli, Poisson
from ag_visual.distributions.kl import register_kl
from ag_visual.distributions.positive import Exponential, Gamma
from ag_visual.distributions.real_line import Laplace, Normal, Uniform
from ag_visual.distributions.simplex import Beta
from ag_visual.distributions.transformed import Gumbel, Pareto
from ag_visual.distributions.utils import EULER

# Expected values under p --------------------------------------------------------------------------


def _mean_log(p: Any) -> Any:
    """E[log x]."""
    if isinstance(p, Beta):
        return F.digamma(p.concentration1) - F.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Exponential):
        return -p.rate.log() - EULER
    if isinstance(p, Gamma):
        return F.digamma(p.concentration) - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (F.xlogy(p.high, p.high) - F.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _mean_log_rest(p: Any) -> Any:
    """E[log(1 - x)]."""
    if isinstance(p, Beta):
        return F.digamma(p.concentration0) - F.digamma(p.concentration1 + p.concentration0)
    low, high = 1 - p.high, 1 - p.low
    return (F.xlogy(high, high) - F.xlogy(low, low)) / (high - low) - 1


def _mean_decay(p: Any, t: Any) -> Any:
    """E[exp(-t x)]."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    if isinstance(p, Gamma):
        return F.exp(-p.concentration * F.log1p(t / p.rate))
    if isinstance(p, Gumbel):
        return F.exp(F.lgamma(1 + t * p.scale) - t * p.loc)
    if isinstance(p, Normal):
        return F.exp(0.5 * (t * p.scale).pow(2) - t * p.loc)
    return (F.exp(-t * p.low) - F.exp(-t * p.high)) / (t * (p.high - p.low))


def _limits(p: Any) -> tuple[Any, Any]:
    """The bounds of p's support."""
    if isinstance(p, Uniform):
        return p.low, p.high
    if isinstance(p, (Beta, ContinuousBernoulli)):
        return 0.0, 1.0
    if isinstance(p, Pareto):
        return p.scale, math.inf
    return (0.0 if isinstance(p, (Exponential, Gamma)) else -math.inf), math.inf


# Cross entropies, E[-log q(x)] --------------------------------------------------------------------


def _to_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    log_beta = F.lgamma(a) + F.lgamma(b) - F.lgamma(a + b)
    return log_beta - (a - 1) * _mean_log(p) - (b - 1) * _mean_log_rest(p)


def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -q._cont_bern_log_norm() - p.mean * q.logits - F.log1p(-q.probs)


def _to_exponential(p: Any, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log()


def _to_gamma(p: Any, q: Any) -> Any:
    a = q.concentration
    return F.lgamma(a) - a * q.rate.log() - (a - 1) * _mean_log(p) + q.rate * p.mean


def _to_gumbel(p: Any, q: Any) -> Any:
    t = q.scale.reciprocal()
    return q.scale.log() + (p.mean - q.loc) * t + F.exp(q.loc * t) * _mean_decay(p, t)


def _to_laplace(p: Any, q: Any) -> Any:
    """E|x - m| of a normal x is sd sqrt(2 / pi) exp(-d^2 / 2) + d sd erf(d / sqrt(2))."""
    d = (p.loc - q.loc) / p.scale
    apart = math.sqrt(2 / math.pi) * F.exp(-0.5 * d.pow(2)) + d * F.erf(math.sqrt(0.5) * d)
    return F.log(2 * q.scale) + p.scale * apart / q.scale


def _to_normal(p: Any, q: Any) -> Any:
    square = p.variance + (p.mean - q.loc).pow(2)
    return q.scale.log() + 0.5 * math.log(2 * math.pi) + 0.5 * square / q.scale.pow(2)


def _to_pareto(p: Any, q: Any) -> Any:
    return (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


def _to_uniform(p: Any, q: Any) -> Any:
    return F.log(q.high - q.low)


# The table ----------------------------------------------------------------------------------------


def _limited(p: Any, q: Any, divergence: Any) -> Any:
    """The divergence, infinite where p's support has parts outside of q's."""
    (p_low, p_high), (q_low, q_high) = _limits(p), _limits(q)
    for outside in (p_low < q_low, p_high > q_high):
        if isinstance(outside, bool):
            if outside:
                return F.full_like(divergence, math.inf)
        else:
            divergence = F.where(outside, math.inf, divergence)
    return divergence


def _finite(p_type: type, q_type: type, cross_entropy: Callable[[Any, Any], Any]) -> None:
    @register_kl(p_type, q_type)
    def formula(p: Any, q: Any) -> Any:
        if p_type is not Pareto or q_type is Pareto:
            return _limited(p, q, cross_entropy(p, q) - p.entropy())
        # Up to this alpha the tail has not the moment that q asks for.
        heavy = p.alpha <= (2 if q_type is Normal else 1)
        light = Pareto(p.scale, F.where(heavy, 3.0, p.alpha), validate_args=False)
        divergence = cross_entropy(light, q) - light.entropy()
        return _limited(p, q, F.where(heavy, math.inf, divergence))


_CROSS: dict[type, tuple[Callable[[Any, Any], Any], tuple[type, ...]]] = {
    Beta: (_to_beta, (Beta, Uniform)),
    ContinuousBernoulli: (_to_continuous_bernoulli, (Beta, ContinuousBernoulli, Uniform)),
    Exponential: (_to_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    Gamma: (_to_gamma, (Beta, Exponential, Pareto, Uniform)),
    Gumbel: (_to_gumbel, (Exponential, Gamma, Gumbel, Normal, Uniform)),
    Laplace: (_to_laplace, (Normal,)),
    Normal: (
        _to_normal,
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    ),
    Pareto: (_to_pareto, (Pareto, Uniform)),
    Uniform: (_to_uniform, (Beta, ContinuousBernoulli, Uniform)),
}
_BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
_POSITIVE = (*_BOUNDED, Exponential, Gamma)
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: _BOUNDED,
    Gamma: _BOUNDED,
    Gumbel: _POSITIVE,
    Laplace: _POSITIVE,
    Normal: _POSITIVE,
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _q_type, (_cross, _p_types) in _CROSS.items():
    for _p_type in _p_types:
        _finite(_p_type, _q_type, _cross)


def _infinite(p: Any, q: Any) -> Any:
    """p has probability where q has none, whatever the parameters are."""
    shape = F.broadcast_shapes(p.batch_shape, q.batch_shape)
    return p.mean.detach().new_full(shape, math.inf)


for _p_type, _q_types in _INFINITE.items():
    for _q_type in _q_types:
        register_kl(_p_type, _q_type)(_infinite)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return q.rate - p.probs * q.rate.log() - p.entropy()
