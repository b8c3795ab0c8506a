"""What ops over dimensions share: their argument, spreading a reduced value back, samples.

A dimension argument is one int, several, or none for all; nodes keep it as a tuple of dimensions
counted from the front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ag_visual.dispatch.dims import wrap, wrap_all
from ag_visual.dispatch.record import ErrorSample, Sample

Dims = tuple[int, ...]


def all_dims(self: Any, dim: Any) -> Dims:
    """The dimensions to reduce, counted from the front; () is all of them."""
    if dim is None:
        return ()
    found = wrap_all((dim,) if isinstance(dim, int) else dim, self.ndim)
    return found if self.ndim else ()


def axes(dim: Dims) -> Dims | None:
    return dim or None


def spread(x: Any, shape: tuple[int, ...], dim: Dims, keepdim: bool) -> Any:
    """A reduced tensor with its reduced dimensions back, of size 1."""
    if keepdim or not shape or not dim:
        return x
    return x.reshape(tuple(1 if i in dim else n for i, n in enumerate(shape)))


def count(shape: tuple[int, ...], dim: Dims) -> int:
    return math.prod(shape[i] for i in dim) if dim else math.prod(shape)


def wide(xp: Any, self: Any) -> Any:
    """A dtype wide enough to add in; None where the array's own is."""
    if self.dtype.kind in "iub":
        return xp.int64
    return xp.float32 if self.dtype.itemsize == 2 else None


def narrow(result: Any, self: Any) -> Any:
    """Back from the wide dtype of 16-bit floats."""
    if self.dtype.kind in "iub" or self.dtype.itemsize > 2:
        return result
    return result.astype(self.dtype)


def several_dims(self: Any, dim: Any, keepdim: Any) -> tuple[Dims, bool]:
    return all_dims(self, dim), bool(keepdim)


def dims_samples(low: float = -2.0, high: float = 2.0) -> Callable[[Any], Iterator[Sample]]:
    """Samples of a reduction over some dimensions."""

    def samples(make: Any) -> Iterator[Sample]:
        for shape, dim, keepdim in (
            ((3, 4), 0, False),
            ((3, 4), -1, True),
            ((2, 3, 4), (0, 2), False),
            ((2, 3, 4), (1, -1), True),
            ((3,), 0, False),
            ((), 0, False),
        ):
            yield Sample((make(shape, low=low, high=high), dim, keepdim))

    return samples


def whole_samples(low: float = -2.0, high: float = 2.0) -> Callable[[Any], Iterator[Sample]]:
    """Samples of a reduction over everything."""

    def samples(make: Any) -> Iterator[Sample]:
        for shape in ((3, 4), (), (5,), (2, 1, 3)):
            yield Sample((make(shape, low=low, high=high),))

    return samples


def dim_samples(low: float = -2.0, high: float = 2.0) -> Callable[[Any], Iterator[Sample]]:
    """Samples of an op along one dimension."""

    def samples(make: Any) -> Iterator[Sample]:
        cases = (((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((2, 3, 1), 1), ((5,), 0), ((), 0))
        for shape, dim in cases:
            yield Sample((make(shape, low=low, high=high), dim))

    return samples


def dims_errors(make: Any) -> Iterator[ErrorSample]:
    yield ErrorSample((make((2, 3)), 5, False), IndexError, "Dimension out of range")
    yield ErrorSample((make((2, 3)), (0, 0), False), RuntimeError, "appears multiple times")


def dim_errors(make: Any) -> Iterator[ErrorSample]:
    yield ErrorSample((make((2, 3)), 2), IndexError, "Dimension out of range")


def cast(F: Any, self: Any, dtype: Any) -> Any:
    return self if dtype is None else self.to(dtype)


def one_dim(self: Any, dim: Any, keepdim: Any) -> tuple[int, bool]:
    return wrap(dim, self.ndim), bool(keepdim)
