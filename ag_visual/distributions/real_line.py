"""Distributions of real numbers with a location and a scale, and the uniform one."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.distribution import Distribution, by_parameters
from ag_visual.distributions.exp_family import ExponentialFamily
from ag_visual.distributions.positive import Chi2
from ag_visual.distributions.utils import broadcast_all, standard_normal
from ag_visual.dtypes import finfo

_LOCATION_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class _LocationScale(Distribution):
    """loc + scale * x, where x has a fixed distribution."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    def _checked(self, value: Any) -> Any:
        """(value - loc) / scale, the value checked first."""
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution, exp(-(x - loc)^2 / (2 scale^2)) / (scale sqrt(2 pi)).

    >>> import ag_visual as ag
    >>> ag.distributions.Normal(0.0, 1.0).log_prob(ag.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = _LOCATION_SCALE
    support = constraints.real
    expand = by_parameters
    _mean_carrier_measure = 0

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Any) -> Any:
        z = self._checked(value)
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + F.erf(self._checked(value) / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * F.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + F.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        precision = self.scale.pow(-2)
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * F.log(-math.pi / y)


class Laplace(_LocationScale):
    """The Laplace distribution, exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints = _LOCATION_SCALE
    support = constraints.real
    expand = by_parameters

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = self.loc.detach().new_empty(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * drawn.sign() * F.log1p(-drawn.abs())

    def log_prob(self, value: Any) -> Any:
        return -self._checked(value).abs() - F.log(2 * self.scale)

    def cdf(self, value: Any) -> Any:
        z = self._checked(value)
        return 0.5 - 0.5 * z.sign() * F.expm1(-z.abs())

    def icdf(self, value: Any) -> Any:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * F.log1p(-2 * centred.abs())

    def entropy(self) -> Any:
        return 1 + F.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy distribution, 1 / (pi scale (1 + ((x - loc) / scale)^2)): without a mean."""

    arg_constraints = _LOCATION_SCALE
    support = constraints.real
    expand = by_parameters

    @property
    def mean(self) -> Any:
        return self._full(math.nan, self.loc)

    @property
    def variance(self) -> Any:
        return self._full(math.inf, self.loc)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = self.loc.detach().new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + drawn * self.scale

    def log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - F.log1p(self._checked(value).pow(2))

    def cdf(self, value: Any) -> Any:
        return F.atan(self._checked(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return F.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(Distribution):
    """Student's t: loc + scale * x, where x is a normal number over the root of Chi2(df) / df."""

    arg_constraints = {"df": constraints.positive, **_LOCATION_SCALE}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(StudentT, _instance)
        held = {name: getattr(self, name).expand(batch_shape) for name in ("df", "loc", "scale")}
        return self._expanded(new, batch_shape, _chi2=self._chi2.expand(batch_shape), **held)

    @property
    def mean(self) -> Any:
        return F.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        finite = F.where(self.df > 2, self.df, 3.0)
        value = F.where(self.df > 2, self.scale.pow(2) * finite / (finite - 2), math.inf)
        return F.where(self.df > 1, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_normal(self._extended_shape(sample_shape), self.df)
        spread = self._chi2.rsample(sample_shape) / self.df
        return self.loc + self.scale * drawn * spread.rsqrt()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * (self.df.log() + math.log(math.pi))
            + F.lgamma(0.5 * self.df)
            - F.lgamma(0.5 * (self.df + 1))
        )
        return -0.5 * (self.df + 1) * F.log1p(z.pow(2) / self.df) - norm

    def entropy(self) -> Any:
        half, above = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = F.lgamma(half) + math.lgamma(0.5) - F.lgamma(above)
        spread = above * (F.digamma(above) - F.digamma(half))
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True
    expand = by_parameters

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = F.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return F.log(inside.type_as(self.low)) - F.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return F.log(self.high - self.low)
