"""Named distributions that are transforms of others."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.combined import TransformedDistribution
from ag_visual.distributions.positive import Exponential, Gamma
from ag_visual.distributions.real_line import Cauchy, Normal, Uniform
from ag_visual.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from ag_visual.distributions.utils import EULER, broadcast_all
from ag_visual.dtypes import finfo


class _OfBase(TransformedDistribution):
    """Expands its base, which holds all its parameters."""

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        lineage = type(self).__mro__
        home = next(cls for cls in lineage if cls.__module__ == __name__)
        return super().expand(batch_shape, _instance=self._get_checked_instance(home, _instance))


class LogNormal(_OfBase):
    """The distribution of exp(x), x normal with mean loc and standard deviation scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        spread = self.scale.pow(2)
        return spread.expm1() * (2 * self.loc + spread).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(_OfBase):
    """K normal numbers as K + 1 shares of a stick."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale


class _Folded(_OfBase):
    """The absolute value of a number that is distributed symmetrically around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Any:
        """The scale of the number before its absolute value."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return F.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logs = self.base_dist.log_prob(value) + math.log(2)
        return F.where(value >= 0, logs, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """The distribution of |x|, x normal with mean 0 and standard deviation scale."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The distribution of |x|, x of a Cauchy distribution around 0: without a mean."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Any:
        return self._full(math.inf, self.scale)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


class Gumbel(_OfBase):
    """The Gumbel distribution of largest values, exp(-(z + exp(-z))) / scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low, high = F.full_like(self.loc, limits.tiny), F.full_like(self.loc, 1 - limits.eps)
        base = Uniform(low, high, validate_args=validate_args)
        steps = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-F.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return TransformedDistribution.expand(self, batch_shape, _instance=new)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class InverseGamma(_OfBase):
    """The distribution of 1 / x, x of a gamma distribution."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverted = PowerTransform(F.tensor(-1.0, dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, inverted, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        """The concentration of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        a = self.concentration
        return F.where(a > 1, self.rate / F.where(a > 1, a - 1, 1.0), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        known = self.concentration > 2
        a = F.where(known, self.concentration, 3.0)
        return F.where(known, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Kumaraswamy(_OfBase):
    """a b x^(a - 1) (1 - x^a)^(b - 1) on [0, 1], a and b = concentration1 and 0."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = F.zeros_like(self.concentration0), F.ones_like(self.concentration0)
        steps = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        base = Uniform(low, high, validate_args=validate_args)
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return TransformedDistribution.expand(self, batch_shape, _instance=new)

    def _moment(self, n: int) -> Any:
        """E[x^n] = b B(1 + n / a, b)."""
        b, above = self.concentration0, 1 + n / self.concentration1
        return F.exp(F.log(b) + F.lgamma(above) + F.lgamma(b) - F.lgamma(above + b))

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)  # elsewhere the density has no largest value
        ratio = (F.where(inside, a, 2.0) - 1) / (F.where(inside, a * b, 2.0) - 1)
        return F.where(inside, ratio.pow(a.reciprocal()), math.nan)

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = F.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - F.log(a) - F.log(b)


class Pareto(_OfBase):
    """The Pareto distribution, alpha scale^alpha / x^(alpha + 1) above scale."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return TransformedDistribution.expand(self, batch_shape, _instance=new)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)  # mean is infinite where alpha <= 1
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)  # variance is infinite where alpha <= 2
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(_OfBase):
    """The Weibull distribution of scale x^(1 / concentration), x exponential with rate 1."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(F.ones_like(self.scale), validate_args=validate_args)
        steps = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.concentration = self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        return TransformedDistribution.expand(self, batch_shape, _instance=new)

    @property
    def mean(self) -> Any:
        return self.scale * F.exp(F.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1).clamp(min=0) / k).pow(k.reciprocal())

    @property
    def variance(self) -> Any:
        inverse = self.concentration_reciprocal
        square = F.exp(F.lgamma(1 + 2 * inverse)) - F.exp(2 * F.lgamma(1 + inverse))
        return self.scale.pow(2) * square

    def entropy(self) -> Any:
        inverse = self.concentration_reciprocal
        return EULER * (1 - inverse) + F.log(self.scale * inverse) + 1
