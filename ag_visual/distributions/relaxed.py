"""Continuous relaxations of discrete distributions, whose samples have gradients.

Sources: Maddison, Mnih and Teh, "The concrete distribution" (2017); Jang, Gu and Poole,
"Categorical reparameterization with Gumbel-softmax" (2017).
"""

from __future__ import annotations

import math
from typing import Any

from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.categorical import Categorical
from ag_visual.distributions.combined import TransformedDistribution
from ag_visual.distributions.counts import _Chance
from ag_visual.distributions.distribution import Distribution
from ag_visual.distributions.transforms import ExpTransform, SigmoidTransform
from ag_visual.distributions.utils import broadcast_all, clamp_probs, standard_uniform
from ag_visual.sizes import Size


class LogitRelaxedBernoulli(_Chance):
    """A logistic number around log(p / (1 - p)), over a temperature: the logit of RelaxedBernoulli.

    At temperature 0 its sigmoid would be a Bernoulli number.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LogitRelaxedBernoulli, _instance)
        names = [name for name in ("probs", "logits") if name in self.__dict__]
        held = {name: self.__dict__[name].expand(batch_shape) for name in names}
        return self._expanded(new, batch_shape, temperature=self.temperature, **held)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        drawn = clamp_probs(standard_uniform(shape, probs))
        noise = drawn.log() - (-drawn).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value.mul(self.temperature)
        log_temperature = F.as_tensor(self.temperature, dtype=apart.dtype).log()
        return log_temperature + apart - 2 * apart.exp().log1p()


class _Relaxed(TransformedDistribution):
    """A transform of a relaxed distribution of logarithms, which holds the parameters."""

    has_rsample = True

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        home = next(cls for cls in type(self).__mro__ if cls.__module__ == __name__)
        return super().expand(batch_shape, _instance=self._get_checked_instance(home, _instance))

    @property
    def temperature(self) -> Any:
        """How far from discrete the samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logits of the discrete distribution."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities of the discrete distribution."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """Numbers in (0, 1) that approach Bernoulli numbers as the temperature falls."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(Distribution):
    """The logarithms of RelaxedOneHotCategorical's samples, which do not underflow."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # the log of the simplex is a surface in it
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        return self._expanded(
            new,
            batch_shape,
            temperature=self.temperature,
            _categorical=self._categorical.expand(Size(batch_shape)),
        )

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = clamp_probs(standard_uniform(shape, self.logits))
        gumbel = -((-(drawn.log())).log())
        return F.log_softmax((self.logits + gumbel) / self.temperature, -1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = F.as_tensor(self.temperature, dtype=value.dtype)
        scale = math.lgamma(count) + (count - 1) * temperature.log()
        score = logits - value.mul(temperature)
        return F.log_softmax(score, -1).sum(-1) + scale


class RelaxedOneHotCategorical(_Relaxed):
    """Points of the simplex that approach one-hot vectors as the temperature falls."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
