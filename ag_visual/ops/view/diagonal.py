"""Diagonals as views, and matrices made of them."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import of_namespace
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import structural, view_op
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, ops
from ag_visual.ops.view.slice import replacer


def _diagonal(xp, self, offset: int = 0, dim1: int = 0, dim2: int = 1):
    # Not xp.diagonal: that is read-only.
    first, second = max(-offset, 0), max(offset, 0)
    rows, columns = self.shape[dim1], self.shape[dim2]
    count = max(0, min(rows - first, columns - second))
    rest = [i for i in range(self.ndim) if i not in (dim1, dim2)]
    at: list[Any] = [slice(None)] * self.ndim
    at[dim1] = slice(min(first, rows), None)
    at[dim2] = slice(min(second, columns), None)
    shape = (*(self.shape[i] for i in rest), count)
    strides = (*(self.strides[i] for i in rest), self.strides[dim1] + self.strides[dim2])
    return of_namespace(xp).as_strided(self[tuple(at)], shape, strides)


def _normal_diagonal(self, offset: int = 0, dim1=0, dim2=1) -> tuple[int, int, int]:
    first, second = wrap(dim1, self.ndim), wrap(dim2, self.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return offset, first, second


view_op(
    "diagonal",
    _diagonal,
    vjp={
        "self": lambda F, g, self_shape, offset, dim1, dim2: F.diagonal_backward(
            g, self_shape, offset, dim1, dim2
        )
    },
    normalize=_normal_diagonal,
    samples=lambda make: [
        Sample((make((3, 4)),)),
        Sample((make((2, 3, 4)), 1, -1, 0)),
        Sample((make((3, 4)), -2)),
        Sample((make((3, 4)), 7)),
    ],
    errors=lambda make: [
        ErrorSample((make((3, 3)), 0, 1, 1), RuntimeError, "diagonal dimensions cannot be")
    ],
    doc="The elements (i, i + offset) of dim1 and dim2, in a last dimension, as a view.",
)


def _diagonal_backward(xp, self, input_sizes, offset: int, dim1: int, dim2: int):
    result = xp.zeros(input_sizes, dtype=self.dtype)
    _diagonal(xp, result, offset, dim1, dim2)[...] = self
    return result


structural(
    "diagonal_backward",
    _diagonal_backward,
    vjp={"self": lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2)},
    public=False,
    samples=lambda make: [Sample((make((3,)), (3, 4), 1, 0, 1))],
)


def _diag_embed(xp, self, offset: int = 0, dim1: int = -2, dim2: int = -1):
    size = self.shape[-1] + abs(offset)
    rest = iter(self.shape[:-1])
    shape = tuple(size if i in (dim1, dim2) else next(rest) for i in range(self.ndim + 1))
    return _diagonal_backward(xp, self, shape, offset, dim1, dim2)


def _normal_embed(self, offset: int = 0, dim1=-2, dim2=-1) -> tuple[int, int, int]:
    first, second = wrap(dim1, self.ndim + 1), wrap(dim2, self.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return offset, first, second


structural(
    "diag_embed",
    _diag_embed,
    vjp={"self": lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2)},
    normalize=_normal_embed,
    samples=lambda make: [
        Sample((make((3,)),)),
        Sample((make((2, 3)), 1)),
        Sample((make((2, 3)), -1, 0, 2)),
    ],
    doc="Matrices whose diagonals are the last dimension, zero elsewhere.",
)


@composite("diag", out=True)
def _diag(F, self, diagonal: int = 0):
    """A matrix with this diagonal, or the diagonal of a matrix (a copy)."""
    if self.ndim == 1:
        return F.diag_embed(self, diagonal)
    if self.ndim == 2:
        return F.diagonal_copy(self, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")


@composite("diagflat")
def _diagflat(F, self, offset: int = 0):
    """A matrix with all elements of `self`, in row-major order, on one of its diagonals."""
    return F.diag_embed(F.reshape(self, (-1,)), offset)


_on_diagonal = replacer("diagonal")
structural(
    "diagonal_scatter",
    lambda xp, self, src, offset=0, dim1=0, dim2=1: _on_diagonal(xp, self, src, offset, dim1, dim2),
    vjp={
        "self": lambda F, g, src_shape, offset, dim1, dim2: F.diagonal_scatter(
            g, F.zeros_of(g, src_shape), offset, dim1, dim2
        ),
        "src": lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2),
    },
    normalize=lambda self, src, *args: ops["diagonal"].normalize(self, *args),
    samples=lambda make: [Sample((make((3, 3)), make((3,))))],
    doc="`self` with `src` written to a diagonal.",
)
