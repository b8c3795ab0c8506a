"""What a transform is; its inverse, compositions, and maps that only change dimensions."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.utils import sum_rightmost
from ag_visual.sizes import Size


class Transform:
    """A differentiable map between two sets, with the logarithm of its Jacobian's determinant.

    Call it for y = f(x); `inv` is the inverse map. With cache_size=1 the last pair (x, y) is kept,
    so that the inverse of a result gives the very tensor that it came from.
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # a weak reference is not pickled

    @property
    def event_dim(self) -> int:
        """How many last dimensions are one value, where domain and codomain agree on it."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """The inverse map."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """1 where an elementwise map increases, -1 where it decreases."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same map with another cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __call__(self, x: Any) -> Any:
        """y = f(x)."""
        if not self._cache_size:
            return self._call(x)
        known, y = self._cached_x_y
        if x is known:
            return y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if not self._cache_size:
            return self._inverse(y)
        x, known = self._cached_x_y
        if y is known:
            return x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx| of a pair, without the event's dimensions."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of f(x) for an x of a shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for an f(x) of a shape."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a map, which keeps the cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    __getstate__ = object.__getstate__

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


def raised(constraint: Any, count: int) -> Any:
    """A set of values with more dimensions."""
    return constraints.independent(constraint, count) if count > 0 else constraint


class ComposeTransform(Transform):
    """One map after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        first = self.parts[0].domain
        rank = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            rank = max(
                rank + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        return raised(first, rank - first.event_dim)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        last = self.parts[-1].codomain
        rank = self.parts[0].domain.event_dim
        for part in self.parts:
            grown = rank + part.codomain.event_dim - part.domain.event_dim
            rank = max(grown, part.codomain.event_dim)
        return raised(last, rank - last.event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Any:
        found = None if self._inv is None else self._inv()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, found._inv = weakref.ref(found), weakref.ref(self)
        return found

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return F.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        terms = []
        rank = self.domain.event_dim
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, rank - part.domain.event_dim))
            rank += part.codomain.event_dim - part.domain.event_dim
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A map whose last dimensions are taken together: their Jacobians' logarithms add up."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        inner = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(inner, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        inner = f"{self.base_transform!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__}({inner})"


class ReshapeTransform(Transform):
    """The last dimensions in another shape of equally many elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return self._exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._exchanged(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _exchanged(shape: Any, last: Size, new: Size) -> Any:
        if len(shape) < len(last):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(last)
        if tuple(shape[cut:]) != tuple(last):
            raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {last}")
        return Size((*shape[:cut], *new))
