"""Products along dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ag_visual.dispatch.arguments import (
    LEFT_OUT,
    DType,
)
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import constant, flattened
from ag_visual.ops.reduction.along_dim import (
    narrow,
    one_dim,
    spread,
    whole_samples,
    wide,
)

# Sums and means -----------------------------------------------------------------------------------


def _prod_all(xp: Any, self: Any) -> Any:
    return narrow(self.prod(dtype=wide(xp, self)), self)


def _prod_dim(xp: Any, self: Any, dim: Any, keepdim: Any = False) -> Any:
    axis = dim if self.ndim else None
    return narrow(self.prod(axis=axis, dtype=wide(xp, self), keepdims=keepdim), self)


@composite("product_of_others", public=False)
def _product_of_others(F: Any, self: Any, dim: int) -> Any:
    """For each element the product of all others along `dim`, exact where there are zeros."""
    last = F.unsqueeze(F.movedim(self, dim, -1), -2)
    n = last.shape[-1]
    ones = F.diagonal_mask(last, n, n)
    others = F.prod_dim(F.where(ones, 1.0, last), -1, False)
    return F.contiguous(F.movedim(others, -1, dim))


def _diagonal_mask(xp: Any, self: Any, rows: int, columns: int) -> Any:
    return xp.eye(rows, columns, dtype=bool)


op(
    "diagonal_mask",
    _diagonal_mask,
    public=False,
    batch=constant,
    samples=lambda make: iter([Sample((make((2,)), 3, 2))]),
)


def _prod_rule(F: Any, g: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    g = spread(g, tuple(self.shape), (dim,), keepdim)
    if not self.shape:
        return g
    if not bool((self == 0).any()):
        return g * (spread(result, tuple(self.shape), (dim,), keepdim) / self)
    return g * F.product_of_others(self, dim)


def _prod_all_rule(F: Any, g: Any, self: Any, result: Any) -> Any:
    if not self.shape:
        return g
    zero = self == 0
    if not bool(zero.any()):
        return g * (result / self)
    if not F.traced and int(zero.sum()) > 1:
        return zeros(F, self)  # be the gradient infinite
    shape = tuple(self.shape)
    return g * F.product_of_others(self.reshape((-1,)), 0).reshape(shape)


def _prod_samples(make: Any) -> Iterator[Sample]:
    for shape, dim, keepdim in (((3, 4), 0, False), ((3, 4), -1, True), ((5,), 0, False)):
        yield Sample((make(shape, low=0.3, high=2.0), dim, keepdim))
        x = make(shape, low=0.3, high=2.0)
        x[(1,) * len(shape)] = 0.0
        yield Sample((x, dim, keepdim))
    yield Sample((make((), low=0.3, high=2.0), 0, False))


def _prod_all_samples(make: Any) -> Iterator[Sample]:
    yield from whole_samples(0.3, 2.0)(make)
    for empty in (1, 2):
        x = make((2, 3), low=0.3, high=2.0)
        x.reshape(-1)[:empty] = 0.0
        yield Sample((x,))


op(
    "prod_all",
    _prod_all,
    vjp={"self": _prod_all_rule},
    jvp=ELEMENTWISE,
    public=False,
    node="ProdBackward0",
    public_name="prod",
    batch=flattened("prod_dim", False),
    samples=_prod_all_samples,
)
op(
    "prod_dim",
    _prod_dim,
    vjp={"self": _prod_rule},
    jvp=ELEMENTWISE,
    normalize=one_dim,
    public=False,
    node="ProdBackward1",
    public_name="prod",
    samples=_prod_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)), 2, False), IndexError, "Dimension out of range")]
    ),
)


@composite("prod", out="casts")
def _prod(
    F: Any, self: Any, dim: int = LEFT_OUT, keepdim: bool = False, *, dtype: DType | None = None
) -> Any:
    """The product of all elements, or along one dimension."""
    if dtype is not None:
        self = self.to(dtype)
    found = F.prod_all(self) if dim is None else F.prod_dim(self, dim, keepdim)
    return found if dtype is None else found.to(dtype)


# Spread -------------------------------------------------------------------------------------------
