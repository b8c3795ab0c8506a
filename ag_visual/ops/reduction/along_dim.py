"""What ops over dimensions share: their argument, spreading a reduced value back, samples.

A dimension argument is one int, several, or none for all; nodes keep it as a tuple of dimensions
counted from the front.
"""

from __future__ import annotations

import math

from ag_visual.dispatch.dims import wrap, wrap_all
from ag_visual.dispatch.record import ErrorSample, Sample

Dims = tuple[int, ...]


def all_dims(self, dim) -> Dims:
    """The dimensions to reduce, counted from the front; () is all of them."""
    if dim is None:
        return ()
    found = wrap_all((dim,) if isinstance(dim, int) else dim, self.ndim)
    return found if self.ndim else ()


def axes(dim: Dims) -> Dims | None:
    return dim or None


def spread(x, shape: tuple[int, ...], dim: Dims, keepdim: bool):
    """A reduced tensor with its reduced dimensions back, of size 1."""
    if keepdim or not shape or not dim:
        return x
    return x.reshape(tuple(1 if i in dim else n for i, n in enumerate(shape)))


def count(shape: tuple[int, ...], dim: Dims) -> int:
    return math.prod(shape[i] for i in dim) if dim else math.prod(shape)


def wide(xp, self):
    """A dtype wide enough to add in; None where the array's own is."""
    if self.dtype.kind in "iub":
        return xp.int64
    return xp.float32 if self.dtype.itemsize == 2 else None


def narrow(result, self):
    """Back from the wide dtype of 16-bit floats."""
    if self.dtype.kind in "iub" or self.dtype.itemsize > 2:
        return result
    return result.astype(self.dtype)


def several_dims(self, dim, keepdim) -> tuple[Dims, bool]:
    return all_dims(self, dim), bool(keepdim)


def dims_samples(make):
    """Samples of a reduction over some dimensions."""
    return [
        Sample((make(shape), dim, keepdim))
        for shape, dim, keepdim in (
            ((3, 4), 0, False),
            ((3, 4), -1, True),
            ((2, 3, 4), (0, 2), False),
            ((2, 3, 4), (1, -1), True),
            ((3,), 0, False),
            ((), 0, False),
        )
    ]


def whole_samples(low: float = -2.0, high: float = 2.0):
    """Samples of a reduction over everything."""
    return lambda make: [
        Sample((make(shape, low=low, high=high),)) for shape in ((3, 4), (), (5,), (2, 1, 3))
    ]


def dim_samples(low: float = -2.0, high: float = 2.0):
    """Samples of an op along one dimension."""

    def samples(make):
        cases = (((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((2, 3, 1), 1), ((5,), 0), ((), 0))
        for shape, dim in cases:
            yield Sample((make(shape, low=low, high=high), dim))

    return samples


def dims_errors(make):
    yield ErrorSample((make((2, 3)), 5, False), IndexError, "Dimension out of range")
    yield ErrorSample((make((2, 3)), (0, 0), False), RuntimeError, "appears multiple times")


def dim_errors(make):
    yield ErrorSample((make((2, 3)), 2), IndexError, "Dimension out of range")


def cast(F, self, dtype):
    return self if dtype is None else self.to(dtype)


def one_dim(self, dim, keepdim) -> tuple[int, bool]:
    return wrap(dim, self.ndim), bool(keepdim)
