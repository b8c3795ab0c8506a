"""Distributions of one of several categories, and of counts of them."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.counts import Binomial, check_either
from ag_visual.distributions.distribution import Distribution
from ag_visual.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from ag_visual.dtypes import finfo
from ag_visual.sizes import Size

_CHANCES = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Distribution):
    """The numbers below K, number i with the i-th probability of the last dimension.

    `probs` need not sum to 1, `logits` are log probabilities up to a constant.

    >>> import ag_visual as ag
    >>> ag.distributions.Categorical(ag.tensor([1.0, 3.0])).log_prob(ag.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = _CHANCES
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_either(probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        else:
            self.probs = probs / probs.sum(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Categorical, _instance)
        shape = (*batch_shape, self._num_events)
        held = {n: self.__dict__[n].expand(shape) for n in _CHANCES if n in self.__dict__}
        return self._expanded(new, batch_shape, _num_events=self._num_events, **held)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def _param(self) -> Any:
        held = self.__dict__
        return held[next(name for name in ("probs", "logits") if name in held)]

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        return self._full(math.nan, self.probs)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self._full(math.nan, self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = Size(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = F.multinomial(rows, shape.numel(), True).T
            return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = F.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = F.arange(self._num_events, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class _OfCategories(Distribution):
    """A distribution of vectors that holds a Categorical."""

    _categorical: Categorical

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(_OfCategories):
    """Vectors that are 1 at one of K places, each with its probability, and elsewhere 0."""

    arg_constraints = _CHANCES
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(OneHotCategorical, _instance)
        return self._expanded(
            new, batch_shape, _categorical=self._categorical.expand(Size(batch_shape))
        )

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return F.one_hot(self.probs.argmax(-1), self.event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        indices = self._categorical.sample(Size(sample_shape))
        return F.one_hot(indices, self.event_shape[0]).to(self.probs.detach())

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = F.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass their gradient on to the probabilities as it is.

    Source: Bengio, Leonard and Courville, "Estimating or propagating gradients through stochastic
    neurons" (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategories):
    """How often each of K categories occurs in total_count draws."""

    arg_constraints = _CHANCES
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Multinomial, _instance)
        shape = Size(batch_shape)
        return self._expanded(
            new,
            shape,
            total_count=self.total_count,
            _categorical=self._categorical.expand(shape),
            _binomial=self._binomial.expand(Size((*shape, *self.event_shape))),
        )

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self._categorical.sample(Size((self.total_count, *sample_shape)))
        counts = F.one_hot(drawn, self.event_shape[0]).sum(0)
        return counts.to(self.probs.detach())

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        # 0 log(0) is 0: what cannot occur, and has not.
        logits = F.where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = F.lgamma(value.sum(-1) + 1) - F.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Any:
        """n H(p) - log n!, and the expected log k! of each count k, which is binomial."""
        n = F.tensor(float(self.total_count), dtype=self.probs.dtype, device=self.probs.device)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        chances = F.exp(self._binomial.log_prob(counts))
        spread = (chances * F.lgamma(counts + 1)).sum((0, -1))
        return n * self._categorical.entropy() - F.lgamma(n + 1) + spread
