"""Products along dimensions."""

from __future__ import annotations

from ag_visual.core.level import anywhere
from ag_visual.dispatch.arguments import LEFT_OUT, DType
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import constant, flattened
from ag_visual.ops.reduction.along_dim import narrow, one_dim, spread, whole_samples, wide


def _prod_dim(xp, self, dim, keepdim=False):
    axis = dim if self.ndim else None
    return narrow(self.prod(axis=axis, dtype=wide(xp, self), keepdims=keepdim), self)


@composite("product_of_others", public=False)
def _product_of_others(F, self, dim: int):
    """For each element the product of all others along `dim`, exact where there are zeros."""
    last = F.unsqueeze(F.movedim(self, dim, -1), -2)
    n = last.shape[-1]
    ones = F.diagonal_mask(last, n, n)
    others = F.prod_dim(F.where(ones, 1.0, last), -1, False)
    return F.contiguous(F.movedim(others, -1, dim))


op(
    "diagonal_mask",
    lambda xp, self, rows, columns: xp.eye(rows, columns, dtype=bool),
    public=False,
    batch=constant,
    samples=lambda make: [Sample((make((2,)), 3, 2))],
)


def _prod_rule(F, g, self, result, dim: int, keepdim: bool):
    g = spread(g, tuple(self.shape), (dim,), keepdim)
    if not self.shape:
        return g
    if not anywhere(self == 0):
        return g * (spread(result, tuple(self.shape), (dim,), keepdim) / self)
    if self.shape[dim] == 1:
        return g  # as in torch a constant, also where it is differentiated
    return g * F.product_of_others(self, dim)


def _prod_all_rule(F, g, self, result):
    if not self.shape:
        return g
    zero = self == 0
    if not anywhere(zero):
        return g * (result / self)
    if not F.traced and int(zero.sum()) > 1:
        return zeros(F, self)  # be the gradient infinite
    shape = tuple(self.shape)
    if shape.count(1) == len(shape):
        return g.reshape(shape)  # a constant, as above
    return g * F.product_of_others(self.reshape((-1,)), 0).reshape(shape)


def _prod_samples(make):
    for shape, dim, keepdim in (((3, 4), 0, False), ((3, 4), -1, True), ((5,), 0, False)):
        yield Sample((make(shape, low=0.3, high=2.0), dim, keepdim))
        x = make(shape, low=0.3, high=2.0)
        x[(1,) * len(shape)] = 0.0
        yield Sample((x, dim, keepdim))
    yield Sample((make((), low=0.3, high=2.0), 0, False))


def _prod_all_samples(make):
    yield from whole_samples(0.3, 2.0)(make)
    for empty in (1, 2):
        x = make((2, 3), low=0.3, high=2.0)
        x.reshape(-1)[:empty] = 0.0
        yield Sample((x,))


op(
    "prod_all",
    lambda xp, self: narrow(self.prod(dtype=wide(xp, self)), self),
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
    errors=lambda make: [
        ErrorSample((make((2, 3)), 2, False), IndexError, "Dimension out of range")
    ],
)


@composite("prod", out="casts", autocast="cpu float32, cuda result")
def _prod(F, self, dim: int = LEFT_OUT, keepdim: bool = False, *, dtype: DType | None = None):
    """The product of all elements, or along one dimension."""
    if dtype is not None:
        self = self.to(dtype)
    found = F.prod_all(self) if dim is None else F.prod_dim(self, dim, keepdim)
    return found if dtype is None else found.to(dtype)
