"""Transforms of numbers, elementwise."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.transforms.base import Transform, raised
from ag_visual.distributions.utils import sum_rightmost
from ag_visual.dtypes import finfo


def _same(mine: Any, other: Any) -> bool:
    """Whether two numbers or tensors are equal throughout."""
    equal = mine == other
    return bool(equal.all() if isinstance(equal, Tensor) else equal)


class _Increasing(Transform):
    """An increasing bijection of numbers, elementwise."""

    bijective = True
    domain: Any = constraints.real
    sign: Any = +1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None


class ExpTransform(_Increasing):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(_Increasing):
    """y = 1 / (1 + exp(-x)), kept away from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        limits = finfo(x.dtype)
        return F.sigmoid(x).clamp(min=limits.tiny, max=1 - limits.eps)

    def _inverse(self, y: Any) -> Any:
        limits = finfo(y.dtype)
        inside = y.clamp(min=limits.tiny, max=1 - limits.eps)
        return inside.log() - (-inside).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Increasing):
    """y = log(1 + exp(x)); above 20 y = x, as in nn.functional.softplus."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x)


class TanhTransform(_Increasing):
    """y = tanh(x). Use cache_size=1 where y comes near -1 or 1: atanh has no digits there."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)^2) without taking the difference
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|, whose inverse takes the positive x."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class PowerTransform(Transform):
    """y = x ** exponent of positive numbers."""

    bijective = True
    domain = constraints.positive
    codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else F.tensor(float(exponent))

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return F.broadcast_shapes(shape, tuple(getattr(self.exponent, "shape", ())))

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale * x."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:
        return raised(constraints.real, self.event_dim)

    codomain = domain

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale, shape = self.scale, x.shape
        if isinstance(scale, Tensor):
            logs = scale.abs().log()
        else:
            logs = F.full_like(x, math.log(abs(scale)) if scale else -math.inf)
        if self.event_dim:
            cut = x.dim() - self.event_dim
            logs = sum_rightmost(logs.expand(F.broadcast_shapes(logs.shape, shape)), self.event_dim)
            shape = shape[:cut]
        return logs.expand(shape)

    def forward_shape(self, shape: Any) -> Any:
        parts = (tuple(getattr(part, "shape", ())) for part in (self.loc, self.scale))
        return F.broadcast_shapes(shape, *parts)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = F(x), the distribution function of a distribution of numbers."""

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
