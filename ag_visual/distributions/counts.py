"""Distributions of whole numbers, and the continuous Bernoulli."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.tensor import Tensor
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.distribution import Distribution, by_parameters
from ag_visual.distributions.exp_family import ExponentialFamily
from ag_visual.distributions.positive import Gamma
from ag_visual.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    standard_uniform,
)
from ag_visual.sizes import Size

_EITHER = "Either `probs` or `logits` must be specified, but not both."


def check_either(probs: Any, logits: Any) -> None:
    """Raise ValueError unless one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError(_EITHER)


class _Chance(Distribution):
    """A distribution of one event's probability, given as such or as log(p / (1 - p))."""

    def _set_chance(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Keep what was given; the other parameters, of its shape."""
        check_either(probs, logits)
        name = "logits" if probs is None else "probs"
        given = logits if probs is None else probs
        if any(isinstance(x, Tensor) and not x.is_floating_point() for x in others):
            given = F.as_tensor(given)  # a number would take their dtype
        *parts, value = broadcast_all(*others, given)
        setattr(self, name, value)
        return tuple(parts)

    @property
    def _param(self) -> Any:
        held = self.__dict__
        return held[next(name for name in ("probs", "logits") if name in held)]

    @lazy_property
    def logits(self) -> Any:
        """log(p / (1 - p))."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability p of the event."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()


def cross_entropy(logits: Any, target: Any) -> Any:
    """-target log(p) - (1 - target) log(1 - p), p = sigmoid(logits), elementwise."""
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


_CHANCE = {"probs": constraints.unit_interval, "logits": constraints.real}


class Bernoulli(_Chance, ExponentialFamily):
    """1 with probability p, otherwise 0."""

    arg_constraints = _CHANCE
    support = constraints.boolean
    has_enumerate_support = True
    expand = by_parameters
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        return F.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return F.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -cross_entropy(logits, value)

    def entropy(self) -> Any:
        return cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        param = self._param
        values = F.arange(2, dtype=param.dtype, device=param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (F.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        return F.log(1 + F.exp(x))


class Geometric(_Chance):
    """How many trials fail before the first success: p (1 - p)^k."""

    arg_constraints = _CHANCE
    support = constraints.nonnegative_integer
    expand = by_parameters

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            positive = self.probs > 0
            if not positive.all():
                raise ValueError(
                    f"Expected parameter probs ({type(self.probs).__name__} of shape "
                    f"{tuple(self.probs.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{self.probs[~positive]}"
                )

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return F.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = standard_uniform(shape, self.probs)
            return (drawn.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 log(0) is 0 where no trial fails.
        failing = F.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return cross_entropy(self.logits, self.probs) / self.probs


class Binomial(_Chance):
    """How many of total_count trials succeed, each with probability p."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_CHANCE}
    has_enumerate_support = True
    expand = by_parameters

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_chance(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(count.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        most = ((self.total_count + 1) * self.probs).floor()
        return F.minimum(most, self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return F.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = F.lgamma(n + 1) - F.lgamma(value + 1) - F.lgamma(n - value + 1)
        # log(1 + exp(logits)) without overflow
        norm = self.logits.clamp(min=0) + F.log1p(F.exp(-self.logits.abs()))
        return ways + value * self.logits - n * norm

    def _one_count(self, what: str) -> int:
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return n

    def entropy(self) -> Any:
        self._one_count("entropy")
        logs = self.log_prob(self.enumerate_support(False))
        return -(F.exp(logs) * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = 1 + self._one_count("enumerate_support")
        values = F.arange(count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(_Chance):
    """How many trials succeed (each with probability p) before total_count of them fail."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    expand = by_parameters

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_chance(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(count.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * F.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / F.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Poisson numbers whose rates are gamma numbers."""
        with no_grad():
            rates = Gamma(self.total_count, F.exp(-self.logits), validate_args=False)
            return F.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        chances = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = F.lgamma(n + value) - F.lgamma(1.0 + value) - F.lgamma(n)
        return chances + F.where(n + value == 0, 0.0, ways)


class Poisson(ExponentialFamily):
    """The Poisson distribution, rate^k exp(-rate) / k!."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    expand = by_parameters

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return F.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return F.xlogy(value, rate) - rate - F.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (F.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:
        return F.exp(x)


class ContinuousBernoulli(_Chance, ExponentialFamily):
    """C(p) p^x (1 - p)^(1 - x) on [0, 1], with C(p) = 2 atanh(1 - 2p) / (1 - 2p).

    Near p = 1/2 (between `lims`) formulas are replaced by their Taylor series there.
    Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli" (2019).
    """

    arg_constraints = _CHANCE
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_chance(probs, logits)
        if probs is not None:
            if validate_args and not _CHANCE["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(ContinuousBernoulli, _instance)
        names = [name for name in ("probs", "logits") if name in self.__dict__]
        held = {name: self.__dict__[name].expand(batch_shape) for name in names}
        return self._expanded(new, batch_shape, _lims=self._lims, **held)

    def _outside_unstable_region(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        """p, or a p outside of the region where the formulas have no digits."""
        return F.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _by_series(self, formula: Any, series: Any) -> Any:
        """A formula, or its series in p - 1/2 near there."""
        return F.where(self._outside_unstable_region(), formula, series(self.probs - 0.5))

    def _cont_bern_log_norm(self) -> Any:
        p = self._cut_probs()
        logs = (F.log1p(-p) - F.log(p)).abs().log() - (1 - 2 * p).abs().log()
        return self._by_series(
            logs, lambda d: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * d * d) * d * d
        )

    @property
    def mean(self) -> Any:
        p = self._cut_probs()
        value = p / (2 * p - 1) + 1 / (F.log1p(-p) - F.log(p))
        return self._by_series(value, lambda d: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * d * d) * d)

    @property
    def variance(self) -> Any:
        p = self._cut_probs()
        value = p * (p - 1) / (1 - 2 * p).pow(2) + (F.log1p(-p) - F.log(p)).pow(-2)
        return self._by_series(
            value, lambda d: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * d * d) * d * d
        )

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = F.rand(
            self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
        )
        return self.icdf(drawn)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._cont_bern_log_norm() - cross_entropy(logits, value)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        formula = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        inside = F.where(self._outside_unstable_region(), formula, value)
        return F.where(value <= 0, 0.0, F.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        p = self._cut_probs()
        raised = F.log1p(-p + value * (2 * p - 1)) - F.log1p(-p)
        formula = raised / (F.log(p) - F.log1p(-p))
        return F.where(self._outside_unstable_region(), formula, value)

    def entropy(self) -> Any:
        return (
            self.mean * (F.log1p(-self.probs) - F.log(self.probs))
            - self._cont_bern_log_norm()
            - F.log1p(-self.probs)
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (F.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        """log((exp(x) - 1) / x), by its series near 0."""
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = F.where(outside, x, (self._lims[0] - 0.5) * F.ones_like(x))
        logs = F.log(F.exp(cut).sub(1.0).abs()) - F.log(cut.abs())
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return F.where(outside, logs, series)
