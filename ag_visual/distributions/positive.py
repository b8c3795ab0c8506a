"""Distributions of positive numbers that are made of gamma variables."""

from __future__ import annotations

import math
from typing import Any

from ag_visual import special
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.distribution import Distribution, by_parameters
from ag_visual.distributions.exp_family import ExponentialFamily
from ag_visual.distributions.utils import broadcast_all
from ag_visual.dtypes import finfo
from ag_visual.sizes import Size


class Exponential(ExponentialFamily):
    """The exponential distribution, rate exp(-rate x)."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    expand = by_parameters
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return F.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = self.rate.detach().new_empty(self._extended_shape(sample_shape)).exponential_()
        return drawn / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -F.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -F.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - F.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -F.log(-x)


class Gamma(ExponentialFamily):
    """The gamma distribution, rate^a x^(a - 1) exp(-rate x) / gamma(a) with a = concentration.

    Samples have the implicit gradient by the concentration, dx/da = -(dF/da) / (dF/dx).
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    expand = by_parameters
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return F._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Any) -> Any:
        value = F.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return (
            F.xlogy(self.concentration, self.rate)
            + F.xlogy(self.concentration - 1, value)
            - self.rate * value
            - F.lgamma(self.concentration)
        )

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - F.log(self.rate) + F.lgamma(a) + (1.0 - a) * F.digamma(a)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return F.lgamma(x + 1) - (x + 1) * F.log(-y)


class Chi2(Gamma):
    """The distribution of the sum of df squared normal numbers: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}
    expand = by_parameters

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2


class FisherSnedecor(Distribution):
    """The F distribution: the ratio of two Chi2 numbers, each over its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(FisherSnedecor, _instance)
        names = ("df1", "df2", "_gamma1", "_gamma2")
        held = {name: getattr(self, name).expand(batch_shape) for name in names}
        return self._expanded(new, batch_shape, **held)

    @property
    def mean(self) -> Any:
        df2 = F.where(self.df2 > 2, self.df2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return F.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, F.where(self.df2 > 4, self.df2, math.nan)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = Size(sample_shape)
        # Gamma(df / 2, df) has half the mean of Chi2(df) / df: the factors cancel.
        tiny = finfo(self.df1.dtype).tiny
        ratio = self._gamma1.rsample(shape) / self._gamma2.rsample(shape).clamp(min=tiny)
        return ratio.clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        log_beta = F.lgamma(half1) + F.lgamma(half2) - F.lgamma(half1 + half2)
        power = half1 * ratio.log() + (half1 - 1) * value.log()
        return power - (half1 + half2) * F.log1p(ratio * value) - log_beta


class VonMises(Distribution):
    """The von Mises distribution on a circle, exp(k cos(x - loc)) / (2 pi I0(k)).

    Angles are in radians; k = concentration. Samples come by rejection, without gradients.
    Source: Best and Fisher, "Efficient simulation of the von Mises distribution" (1979).
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    expand = by_parameters

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # log I0(k) = k + log(exp(-k) I0(k)); cos - 1 keeps its digits at large k.
        excess = k * ((value - self.loc).cos() - 1)
        return excess - math.log(2 * math.pi) - F.log(special.i0e(k))

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        loc = self.loc.detach().expand(shape)
        # The wrapped Cauchy distribution that envelopes this one; in float64, as 1 - r is small.
        k = self.concentration.detach().double().expand(shape)
        tau = 1 + (1 + 4 * k * k).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = F.where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
        angle = F.zeros_like(k)
        waiting = F.ones_like(k) > 0
        while bool(waiting.any()):
            u1, u2, u3 = F.rand((3, *shape), dtype=k.dtype, device=k.device).unbind(0)
            z = F.cos(math.pi * u1)
            f = ((1 + r * z) / (r + z)).clamp(min=-1, max=1)
            c = k * (r - f)
            accepted = (c * (2 - c) > u2) | ((c / u2).log() + 1 - c >= 0)
            angle = F.where(waiting & accepted, (u3 - 0.5).sign() * f.acos(), angle)
            waiting = waiting & ~accepted
        return (angle.to(loc.dtype) + math.pi + loc) % (2 * math.pi) - math.pi

    @property
    def mean(self) -> Any:
        """The circular mean, an angle."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance, 1 - I1(k) / I0(k)."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)


class GeneralizedPareto(Distribution):
    """The tail (1 + c z)^(-1 / c - 1) / scale, z = (x - loc) / scale, c = concentration.

    c = 0 is the exponential distribution; below 0 the support ends at loc - scale / c.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    expand = by_parameters

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        bounded = self.concentration < 0
        safe = F.where(bounded, self.concentration, -1.0)
        upper = F.where(bounded, self.loc - self.scale / safe, math.inf)
        return constraints.interval(self.loc, upper)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(F.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _parts(self) -> tuple[Any, Any]:
        """Where the concentration counts as 0, and the concentration with 1 in those places."""
        zero = F.isclose(self.concentration, F.zeros_like(self.concentration))
        return zero, F.where(zero, 1.0, self.concentration)

    def _log_rest(self, value: Any) -> Any:
        """log(1 - cdf)."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._parts()
        return F.where(zero, -z, -F.log1p(c * z) / c)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._parts()
        return F.where(zero, -z, -(1 + 1 / c) * F.log1p(c * z)) - self.scale.log()

    def log_survival_function(self, value: Any) -> Any:
        """log(1 - cdf(value))."""
        return self._log_rest(value)

    def log_cdf(self, value: Any) -> Any:
        """log(cdf(value))."""
        return F.log1p(-F.exp(self._log_rest(value)))

    def cdf(self, value: Any) -> Any:
        return -F.expm1(self._log_rest(value))

    def icdf(self, value: Any) -> Any:
        zero, c = self._parts()
        rest = -F.log1p(-value)
        return self.loc + self.scale * F.where(zero, rest, F.expm1(c * rest) / c)

    @property
    def mean(self) -> Any:
        known = self.concentration < 1
        safe = F.where(known, self.concentration, 0.5)
        return F.where(known, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def variance(self) -> Any:
        known = self.concentration < 0.5
        safe = F.where(known, self.concentration, 0.25)
        value = self.scale.pow(2) / ((1 - safe).pow(2) * (1 - 2 * safe))
        return F.where(known, value, math.nan)

    def entropy(self) -> Any:
        return F.log(self.scale) + self.concentration + 1

    @property
    def mode(self) -> Any:
        return self.loc
