"""Transforms whose parts along a dimension are transforms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.transforms.base import Transform
from ag_visual.distributions.utils import sum_rightmost


class _PartsTransform(Transform):
    """Maps for the parts of a tensor along a dimension."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> bool:
        return all(each.bijective for each in self.transforms)

    def _parts(self, value: Any) -> Sequence[Any]:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range of {value.dim()} dimensions")
        return self._taken(value)

    def _taken(self, value: Any) -> Sequence[Any]:
        raise NotImplementedError

    def _joined(self, parts: list[Any], dim: int) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return self._joined([each(part) for each, part in pairs], self.dim)

    def _inverse(self, y: Any) -> Any:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return self._joined([each.inv(part) for each, part in pairs], self.dim)


class CatTransform(_PartsTransform):
    """Maps for parts of given lengths that are joined along a dimension."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(each, Transform) for each in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.lengths)} lengths, {len(self.transforms)} transforms")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.transforms)

    @property
    def length(self) -> int:
        """How long the joined dimension is."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)

    def _taken(self, value: Any) -> Sequence[Any]:
        if value.shape[self.dim] != self.length:
            raise AssertionError(f"dim {self.dim} is {value.shape[self.dim]}, not {self.length}")
        starts = accumulate(self.lengths, initial=0)
        pairs = zip(starts, self.lengths, strict=False)
        return [value.narrow(self.dim, start, length) for start, length in pairs]

    def _joined(self, parts: list[Any], dim: int) -> Any:
        return F.cat(parts, dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for each, before, after in zip(
            self.transforms, self._parts(x), self._parts(y), strict=True
        ):
            term = each.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, self.event_dim - each.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return self._joined(terms, dim) if dim < 0 else sum(terms[1:], terms[0])


class StackTransform(_PartsTransform):
    """Maps for the slices of a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(each, Transform) for each in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([each.codomain for each in self.transforms], self.dim)

    def _taken(self, value: Any) -> Sequence[Any]:
        if value.shape[self.dim] != len(self.transforms):
            count = len(self.transforms)
            raise AssertionError(f"dim {self.dim} is {value.shape[self.dim]}, not {count}")
        return value.unbind(self.dim)

    def _joined(self, parts: list[Any], dim: int) -> Any:
        return F.stack(parts, dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        terms = [each.log_abs_det_jacobian(before, after) for each, before, after in triples]
        return self._joined(terms, self.dim)
