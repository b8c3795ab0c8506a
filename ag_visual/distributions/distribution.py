"""Distribution: what every distribution is asked for. Its own parameters are named, checked and
expanded by `arg_constraints`: a subclass writes `expand = by_parameters`.
"""

from __future__ import annotations

from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.level import all_values, anywhere, is_batchedtensor
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.distributions._namespace import F
from ag_visual.distributions.constraints import is_dependent
from ag_visual.distributions.utils import lazy_property
from ag_visual.sizes import Size

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution over events of a shape, for a batch of parameters.

    `sample(shape)` gives a tensor of shape + batch_shape + event_shape, `log_prob` of one a tensor
    of shape + batch_shape. Only `rsample`, where `has_rsample`, has gradients by the parameters.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their parameters and values where they aren't told."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            limits = self.arg_constraints
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation."
            )
            return
        for name, limit in limits.items():
            if is_dependent(limit):
                continue
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue  # computed from others, which are checked
            value = getattr(self, name)
            if not everywhere(limit.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{limit!r}, but found invalid values:\n{_text(value)}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a batch of another shape, to which its own one broadcasts."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The set that each parameter lies in, by its name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set that events lie in."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The expected event."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The event of the largest probability."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance of each element of an event."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw without gradients: a tensor of sample_shape + batch_shape + event_shape."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draw with gradients by the parameters, where `has_rsample`."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`sample((n,))`, under its older name."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or probability of each event."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The event up to which the probability is `value`: the inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All events of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The expected value of -log_prob, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return F.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _full(self, value: float, like: Any) -> Any:
        """One number for each of the batch and the event."""
        shape = self._extended_shape()
        return F.full(shape, value, dtype=like.dtype, device=like.device)

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError where a value has not the event's shape or is outside of the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        cut = value.dim() - len(self._event_shape)
        if value.shape[max(cut, 0) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        expected = self._extended_shape()
        pairs = zip(reversed(value.shape), reversed(expected), strict=False)
        if any(1 != i != j != 1 for i, j in pairs):
            raise ValueError(
                "Value is not broadcastable with batch_shape+event_shape: "
                f"{value.shape} vs {expected}."
            )
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation."
            )
            return
        if not everywhere(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{_text(value)}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A bare instance for `expand` to fill; a subclass with an `__init__` needs an `expand`."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(
        self, new: Any, batch_shape: Any, event_shape: Any = None, **attributes: Any
    ) -> Any:
        """What `expand` returns: attributes, shapes, and whether values are checked."""
        new.__dict__.update(attributes)
        event_shape = self._event_shape if event_shape is None else event_shape
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        shown = {n: self.__dict__[n] for n in self.arg_constraints if n in self.__dict__}
        inner = (f"{n}: {_text(v) if v.numel() == 1 else v.size()}" for n, v in shown.items())
        return f"{type(self).__name__}({', '.join(inner)})"


def _text(value: Any) -> str:
    """A tensor in an error; what stands for slices of a vmap has no number to show."""
    return repr(value) if is_batchedtensor(value) else format(value)


def everywhere(valid: Any) -> bool:
    """Whether a bool tensor is true throughout, in each slice of a vmap, too."""
    return not anywhere(all_values(valid) == 0)


def by_parameters(self: Any, batch_shape: Any, _instance: Any = None) -> Any:
    """The same distribution for a batch of another shape, to which its own one broadcasts.

    As a method `expand`: every parameter that a class of its bases constrains and that the instance
    holds is expanded, in front of the dimensions that its constraint calls an event.
    """
    lineage = type(self).__mro__
    home = next(cls for cls in lineage if vars(cls).get("expand") is by_parameters)
    new = self._get_checked_instance(home, _instance)
    batch_shape = Size(batch_shape)
    held = {}
    for cls in home.__mro__:
        limits = vars(cls).get("arg_constraints", {})
        if isinstance(limits, property):
            limits = self.arg_constraints if cls is not Distribution else {}
        for name, limit in limits.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                event = value.shape[value.dim() - limit.event_dim :]
                held[name] = value.expand((*batch_shape, *event))
    return self._expanded(new, batch_shape, **held)
