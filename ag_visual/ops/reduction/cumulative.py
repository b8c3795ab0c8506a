"""Running sums and products along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy

from ag_visual.arrays.kernels.scans import cumulate, running, running_extreme
from ag_visual.core.level import anywhere
from ag_visual.dispatch.arguments import DType
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.opmath import WIDE
from ag_visual.dispatch.record import LINEAR, ROWS, Sample
from ag_visual.dispatch.table import composite, op, ops
from ag_visual.ops.linalg.checks import array_of
from ag_visual.ops.pointwise.elementary import logaddexp
from ag_visual.ops.reduction.along_dim import dim_errors, dim_samples


def _scan(self, dim) -> tuple[int]:
    return (wrap(dim, self.ndim),)


def _from_the_end(F, x, dim: int):
    if not F.traced:
        return cumulate(F.xp, x, dim, backwards=True)
    return F.flip(F.cumsum_dim(F.flip(x, (dim,)), dim), (dim,)) if x.ndim else x


def _cumprod_rule(F, g, self, result, dim: int):
    if not self.shape or self.shape[dim] < 2:
        return g
    if not anywhere(self == 0):
        return _from_the_end(F, g * result, dim) / self
    # Row k: the scan with element k replaced by one, which is what multiplies it from k on.
    last = F.unsqueeze(F.movedim(self, dim, -1), -2)
    n = last.shape[-1]
    rows = F.cumprod_dim(F.where(F.diagonal_mask(last, n, n), 1.0, last), last.ndim - 1)
    parts = F.triu(rows * F.unsqueeze(F.movedim(g, dim, -1), -2))
    if not F.traced:  # behind a zero nothing flows, be the gradient infinite
        parts = F.where(rows == 0, 0.0, parts)
    total = F.sum(parts, -1)
    return F.contiguous(F.movedim(total, -1, dim))


def _cumprod_along(F, t_self, self, dim: int):
    if not self.shape:
        return t_self
    last = F.unsqueeze(F.movedim(self, dim, -1), -2)
    n = last.shape[-1]
    rows = F.cumprod_dim(F.where(F.diagonal_mask(last, n, n), 1.0, last), last.ndim - 1)
    total = F.sum(F.triu(rows * F.unsqueeze(F.movedim(t_self, dim, -1), -1)), -2)
    return F.movedim(total, -1, dim)


def _cumprod_samples(make):
    yield from dim_samples(0.3, 2.0)(make)
    x = make((2, 4), low=0.3, high=2.0)
    x[0, 1] = x[1, 2] = x[1, 3] = 0.0
    yield Sample((x, 1))


op(
    "cumsum_dim",
    lambda xp, self, dim: cumulate(xp, self, dim),
    vjp={"self": lambda F, g, dim: _from_the_end(F, g, dim)},
    jvp=LINEAR,
    layout=ROWS,
    normalize=_scan,
    public=False,
    inplace=True,
    node="CumsumBackward0",
    public_name="cumsum",
    samples=dim_samples(),
    errors=dim_errors,
)
op(
    "cumprod_dim",
    lambda xp, self, dim: cumulate(xp, self, dim, product=True),
    vjp={"self": _cumprod_rule},
    jvp={"self": _cumprod_along},
    layout=ROWS,
    normalize=_scan,
    public=False,
    inplace=True,
    node="CumprodBackward0",
    public_name="cumprod",
    samples=_cumprod_samples,
    errors=dim_errors,
)


def _scanned(name: str, what: str) -> None:
    def body(F, self, dim: int, *, dtype: DType | None = None):
        if dtype is None:
            return getattr(F, f"{name}_dim")(self, dim)
        return getattr(F, f"{name}_dim")(self.to(dtype), dim).to(dtype)

    def variant(F, self, dim: int):
        return ops[f"{name}_dim"].write(self, dim)

    body.__doc__ = f"The running {what} along `dim`."
    variant.__doc__ = f"`{name}` in place."
    composite(name, out="casts check_overlap", autocast="cuda result")(body)
    composite(f"{name}_", spaces="")(variant)


_scanned("cumsum", "sum")
_scanned("cumprod", "product")


# So many lines are quicker step by step: of one line each step waits for the one before.
_MANY = 1 << 10


def _logcumsumexp(xp, self, dim: int):
    if self.ndim == 0 or self.size == 0:
        return self.copy()
    result = self.astype(running(self.dtype), order="C")
    result += 0  # no -0.
    if xp is numpy and result.dtype.kind == "f" and result.size < _MANY * result.shape[dim]:
        result = numpy.logaddexp.accumulate(result, axis=dim)
    else:
        lines = xp.moveaxis(result, dim, 0)
        for i in range(1, lines.shape[0]):
            lines[i] = logaddexp(xp, lines[i], lines[i - 1])
    return result.astype(self.dtype, copy=False)


def _in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of logcumsumexp: in 16 bits its differences of logarithms have no digits left."""

    @wraps(rule)
    def computed(F, g, self, result, dim: int):
        kind = array_of(self).dtype
        if kind.itemsize > 2:
            return rule(F, g, self, result, dim)
        x = F.cast(self, WIDE)
        return F.cast(rule(F, F.cast(g, WIDE), x, F.logcumsumexp(x, dim), dim), kind)

    return computed


def _logcumsumexp_rule(F, g, self, result, dim: int):
    """sum over k >= i of g[k] exp(x[i] - r[k]), in logarithms: its factors alone overflow."""
    if not self.shape:
        return g

    # Where everything so far is exp(-inf) nothing flows.
    empty = result == -math.inf
    result = F.where(empty, 0.0, result)

    def part(weights, there):
        there = F.logical_and(there, F.logical_not(empty))
        logs = F.where(there, F.log(F.where(there, weights, 1.0)), -math.inf)
        back = F.flip(F.logcumsumexp(F.flip(logs - result, (dim,)), dim), (dim,))
        return F.exp(back + self)

    if is_complex(g):
        return part(g, g != 0)
    return part(g, g > 0) - part(-g, g < 0)


def _logcumsumexp_move(F, t_self, self, result, dim: int):
    """sum over i <= k of t[i] exp(x[i] - r[k]), in logarithms, too."""
    if not self.shape:
        return t_self + 0
    result = F.where(result == -math.inf, 0.0, result)

    def part(weights, there):
        logs = F.where(there, F.log(F.where(there, weights, 1.0)), -math.inf)
        return F.exp(F.logcumsumexp(logs + self, dim) - result)

    if is_complex(t_self):
        return part(t_self, t_self != 0)
    return part(t_self, t_self > 0) - part(-t_self, t_self < 0)


op(
    "logcumsumexp",
    _logcumsumexp,
    vjp={"self": _in_float32(_logcumsumexp_rule)},
    jvp={"self": _in_float32(_logcumsumexp_move)},
    layout=ROWS,
    normalize=_scan,
    samples=dim_samples(),
    errors=dim_errors,
    doc="log of the running sum of exp(x) along `dim`, without overflow.",
    out="check_overlap",
)


def _running(name: str, largest: bool) -> None:
    def kernel(xp, self, dim: int):
        if self.ndim == 0:
            return self.copy(), xp.zeros((), xp.int64)
        return running_extreme(xp, self, dim, largest)

    op(
        name,
        kernel,
        vjp={
            "self": lambda F, g, self_shape, dim, indices: F.scatter_add(
                F.zeros_of(g, self_shape), dim, indices, g
            )
        },
        jvp={"self": lambda F, t_self, dim, indices: F.gather(t_self, dim, indices)},
        outputs=("values", "indices"),
        layout=ROWS,
        differentiable=(0,),
        normalize=_scan,
        also_saves=("self",),
        real_only=True,
        samples=dim_samples(),
        errors=dim_errors,
        doc=f"The {'largest' if largest else 'smallest'} value so far along `dim`, and the last "
        "index where it stands.",
    )


_running("cummax", True)
_running("cummin", False)


@composite("diff", out="check_overlap")
def _diff(F, self, n: int = 1, dim: int = -1, prepend=None, append=None):
    """The n-th difference of neighbours along `dim`; of bools, whether they differ."""
    if self.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for end in (prepend, append):
        if end is not None and end.ndim != self.ndim:
            raise RuntimeError(
                "diff expects prepend or append to be the same dimension as input: they have "
                f"{end.ndim} and {self.ndim} dimensions"
            )
    dim = wrap(dim, self.ndim)
    if n == 0:
        return F.clone(self)
    parts = [x for x in (prepend, self, append) if x is not None]
    x = F.cat(parts, dim) if len(parts) > 1 else self
    less = F.logical_xor if x.dtype.category == 0 else F.sub
    for _ in range(min(n, x.shape[dim])):
        size = x.shape[dim]
        x = less(F.narrow(x, dim, 1, size - 1), F.narrow(x, dim, 0, size - 1))
    return x
