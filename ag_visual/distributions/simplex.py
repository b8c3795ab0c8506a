"""Distributions of shares that sum to 1: Beta of two, Dirichlet of more."""

from __future__ import annotations

from numbers import Real
from typing import Any

from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.distribution import by_parameters
from ag_visual.distributions.exp_family import ExponentialFamily
from ag_visual.distributions.utils import broadcast_all


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution, gamma(sum a) times the product of x_i^(a_i - 1) / gamma(a_i).

    Samples have implicit gradients by each concentration a_i: the i-th share moves along its Beta
    distribution, and the others keep their ratios.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    expand = by_parameters

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return F._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        powers = F.xlogy(a - 1.0, value).sum(-1)
        return powers + F.lgamma(a.sum(-1)) - F.lgamma(a).sum(-1)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # Where no concentration exceeds 1 all of it is in a corner.
        corner = F.one_hot(self.concentration.argmax(-1), self.event_shape[0]).to(mode)
        return F.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        a = self.concentration
        return a * (total - a) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        a = self.concentration
        total, count = a.sum(-1), a.shape[-1]
        log_beta = F.lgamma(a).sum(-1) - F.lgamma(total)
        return log_beta + (total - count) * F.digamma(total) - ((a - 1) * F.digamma(a)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - F.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b), with a, b = concentration1, concentration0."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(concentration1, Real) and isinstance(concentration0, Real):
            pair = F.tensor([float(concentration1), float(concentration0)])
        else:
            pair = F.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        return self._expanded(new, batch_shape, _dirichlet=self._dirichlet.expand(batch_shape))

    @property
    def concentration1(self) -> Any:
        """The power of x, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The power of 1 - x, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(F.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return F.lgamma(x) + F.lgamma(y) - F.lgamma(x + y)
