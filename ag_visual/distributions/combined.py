"""Distributions that are made of other ones: Independent, mixtures, transformed ones."""

from __future__ import annotations

from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.categorical import Categorical
from ag_visual.distributions.distribution import Distribution
from ag_visual.distributions.transforms import ComposeTransform, Transform
from ag_visual.distributions.utils import sum_rightmost
from ag_visual.sizes import Size


class Independent(Distribution):
    """A distribution whose last batch dimensions are part of the event: log densities add up."""

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        return self._expanded(
            new,
            batch_shape,
            base_dist=self.base_dist.expand(Size((*batch_shape, *inner))),
            reinterpreted_batch_ndims=self.reinterpreted_batch_ndims,
        )

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @constraints.dependent_property
    def support(self) -> Any:
        inner = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(inner, count) if count else inner

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: a Categorical chooses along the last batch dimension of other distributions."""

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        chosen, batch = mixture_distribution.batch_shape, component_distribution.batch_shape
        if not batch:
            raise ValueError(
                "component_distribution.batch_shape is empty: its last dimension is the one that "
                "the mixture chooses along"
            )
        for mine, its in zip(reversed(chosen), reversed(batch[:-1]), strict=False):
            if mine != 1 and its != 1 and mine != its:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({chosen}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch[:-1]})"
                )
        count = mixture_distribution._num_events
        if count != batch[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({batch[-1]})"
            )
        self._num_component = count
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        components = self._component_distribution.expand(Size((*batch_shape, self._num_component)))
        return self._expanded(
            new,
            batch_shape,
            components.event_shape,
            _mixture_distribution=self._mixture_distribution.expand(batch_shape),
            _component_distribution=components,
            _num_component=self._num_component,
            _event_ndims=len(components.event_shape),
        )

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of the choice."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The distributions chosen from."""
        return self._component_distribution

    @property
    def _weights(self) -> Any:
        """The probabilities of the choice, in front of the event's dimensions."""
        probs = self.mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    @property
    def mean(self) -> Any:
        return (self._weights * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        """The law of total variance: the mean of the variances and the variance of the means."""
        dim = -1 - self._event_ndims
        apart = self.component_distribution.mean - self.mean.unsqueeze(dim)
        inner = self.component_distribution.variance
        return (self._weights * (inner + apart.pow(2))).sum(dim)

    def cdf(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        each = self.component_distribution.cdf(self._for_each(x))
        return (each * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        each = self.component_distribution.log_prob(self._for_each(x))
        return F.logsumexp(each + F.log_softmax(self.mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            event = drawn.shape[dim + 1 :]
            index = chosen.reshape((*chosen.shape, 1, *(1,) * len(event)))
            return drawn.gather(dim, index.expand((*chosen.shape, 1, *event))).squeeze(dim)

    def _for_each(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        inner = f"\n  {self.mixture_distribution},\n  {self.component_distribution}"
        return f"{type(self).__name__}({inner})"


class TransformedDistribution(Distribution):
    """The distribution of f(x), where x has a base distribution and f is a list of transforms.

    log p(y) = log p(x) - log |det dy/dx| with x = the inverse of f at y.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = self._listed(transforms)
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        event_dim = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {shape}."
            )
        result = whole.forward_shape(shape)
        needed = Size(whole.inverse_shape(result))
        if shape != needed:
            base_distribution = base_distribution.expand(needed[: len(needed) - event_dim])
        more = whole.domain.event_dim - event_dim
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        rank = whole.codomain.event_dim + max(event_dim - whole.domain.event_dim, 0)
        if len(result) < rank:
            raise AssertionError(f"an event of {rank} dimensions in a shape {tuple(result)}")
        cut = len(result) - rank
        super().__init__(result[:cut], result[cut:], validate_args=validate_args)

    @staticmethod
    def _listed(transforms: Any) -> list[Transform]:
        if isinstance(transforms, Transform):
            return [transforms]
        if not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(each, Transform) for each in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        return transforms

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        shape: Any = Size((*batch_shape, *self.event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return self._expanded(new, batch_shape, base_dist=base, transforms=self.transforms)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    def _moved(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self._moved(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._moved(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rank = len(self.event_shape)
        result: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            rank += transform.domain.event_dim - transform.codomain.event_dim
            moved = transform.log_abs_det_jacobian(x, y)
            result = result - sum_rightmost(moved, rank - transform.domain.event_dim)
            y = x
        inner = self.base_dist.log_prob(y)
        return result + sum_rightmost(inner, rank - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """A probability, or 1 minus it where the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._moved(self.base_dist.icdf(self._monotonize_cdf(value)))
