"""Variances and standard deviations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

from ag_visual.arrays.kernels.rows import summed
from ag_visual.dispatch.arguments import (
    checked,
    kind_named,
    outside,
)
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.record import ELEMENTWISE, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.ops.reduction.along_dim import (
    Dims,
    all_dims,
    axes,
    count,
    spread,
)

# Sums and means -----------------------------------------------------------------------------------
from ag_visual.ops.reduction.sums import mean_rule


def _freedom(shape: Any, dim: Dims, correction: Any) -> float:
    return max(0, count(shape, dim) - (1 if correction is None else correction))


# Up to so many float32 elements are computed with in float64.
_FEW = 1 << 11
# How many times the variance a squared mean may be before its last digit shows in the deviations.
_FAR = 1e4


def _var(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    kind, x = self.dtype, self
    if kind.itemsize == 2:
        x = x.astype(xp.float32)
    elif kind.char == "f" and x.size <= _FEW:
        x = x.astype(xp.float64)
    axis, n = axes(dim), count(self.shape, dim)
    mean = summed(xp, x, axis, True) / n
    off = x - mean
    square = off * off if kind.kind != "c" else off.real**2 + off.imag**2
    total = summed(xp, square, axis, True)
    if n and x.dtype.char == "f" and bool((mean * mean * n > _FAR * total).any()):
        # The mean was rounded: what the deviations add up to tells by how much.
        lost = summed(xp, off, axis, True)
        total -= lost * lost / n
    total = total / _freedom(self.shape, dim, correction)
    if not keepdim:
        total = total.reshape(()) if axis is None else total.squeeze(axis)
    return total.astype(_real_type(xp, self))


def _real_type(xp: Any, self: Any) -> Any:
    if self.dtype.kind != "c":
        return self.dtype
    return xp.float32 if self.dtype.itemsize == 8 else xp.float64


def _std(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    return xp.sqrt(_var(xp, self, dim, correction, keepdim))


def _squeezed_mean(xp: Any, self: Any, dim: Dims, keepdim: bool) -> Any:
    return summed(xp, self, axes(dim), keepdim) / count(self.shape, dim)


def _var_mean(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    return _var(xp, self, dim, correction, keepdim), _squeezed_mean(xp, self, dim, keepdim)


def _std_mean(xp: Any, self: Any, dim: Any = (), correction: Any = 1, keepdim: Any = False) -> Any:
    return _std(xp, self, dim, correction, keepdim), _squeezed_mean(xp, self, dim, keepdim)


def _var_rule(F: Any, g: Any, self: Any, dim: Dims, correction: Any, keepdim: bool) -> Any:
    shape = tuple(self.shape)
    mean = F.mean_dims(self, dim, True)
    free = _freedom(shape, dim, correction)
    g = spread(g, shape, dim, keepdim)
    if free:
        return g * (self - mean) * (2 / free)
    # As torch divides by 0: by all elements it keeps no sign of their deviations.
    if axes(dim) is None or not shape:
        return g * F.where(self == mean, math.nan, math.inf)
    return g * (self - mean) * math.inf


def _std_rule(
    F: Any, g: Any, self: Any, result: Any, dim: Dims, correction: Any, keepdim: bool
) -> Any:
    g = F.where(result == 0, 0.0, g / (2 * F.where(result == 0, 1.0, result)))
    return _var_rule(F, g, self, dim, correction, keepdim)


def _with_mean(F: Any, gs: Any, moment: Any, shape: Any, dim: Dims, keepdim: bool) -> Any:
    """The gradient of a moment and the mean from those of both, either of which may be None."""
    total = None if gs[0] is None else moment(gs[0])
    if gs[1] is not None:
        mean = mean_rule(F, gs[1], shape, dim, keepdim)
        total = mean if total is None else total + mean
    return total


def _var_mean_rule(F: Any, gs: Any, self: Any, dim: Dims, correction: Any, keepdim: bool) -> Any:
    return _with_mean(
        F,
        gs,
        lambda g: _var_rule(F, g, self, dim, correction, keepdim),
        tuple(self.shape),
        dim,
        keepdim,
    )


def _std_mean_rule(
    F: Any, gs: Any, self: Any, result0: Any, dim: Dims, correction: Any, keepdim: bool
) -> Any:
    return _with_mean(
        F,
        gs,
        lambda g: _std_rule(F, g, self, result0, dim, correction, keepdim),
        tuple(self.shape),
        dim,
        keepdim,
    )


def _spread_samples(make: Any) -> Iterator[Sample]:
    for shape, dim, correction, keepdim in (
        ((3, 4), None, 1, False),
        ((3, 4), 0, 0, True),
        ((2, 3, 4), (0, 2), 1, False),
        ((5,), 0, 2, False),
    ):
        yield Sample((make(shape), dim, correction, keepdim))


def _both_along(
    F: Any,
    t_self: Any,
    self: Any,
    result0: Any,
    std: bool,
    dim: Dims,
    correction: Any,
    keepdim: bool,
) -> tuple[Any, Any]:
    """The tangents of a moment and of the mean."""
    ones = F.zeros_of(result0, tuple(result0.shape)) + 1
    args = (dim, correction, keepdim)
    slope = _std_rule(F, ones, self, result0, *args) if std else _var_rule(F, ones, self, *args)
    moved = F.sum_dims(F.conj(slope) * t_self, dim, keepdim)
    moved = F.real(moved) if is_complex(self) else moved
    return moved, F.mean_dims(t_self, dim, keepdim)


def _var_mean_along(
    F: Any, t_self: Any, self: Any, result0: Any, dim: Dims, correction: Any, keepdim: bool
) -> tuple[Any, Any]:
    return _both_along(F, t_self, self, result0, False, dim, correction, keepdim)


def _std_mean_along(
    F: Any, t_self: Any, self: Any, result0: Any, dim: Dims, correction: Any, keepdim: bool
) -> tuple[Any, Any]:
    return _both_along(F, t_self, self, result0, True, dim, correction, keepdim)


def _moment(name: str, kernel: Any, rule: Any, **options: Any) -> None:
    op(
        f"{name}_dims",
        kernel,
        vjp={"self": rule},
        jvp=options.pop("jvp", ELEMENTWISE),
        normalize=lambda self, dim, correction, keepdim: (
            all_dims(self, dim),
            correction,
            bool(keepdim),
        ),
        holomorphic=False,
        public=False,
        node="".join(p.capitalize() for p in name.split("_")) + "Backward0",
        public_name=name,
        oracle=lambda torch, self, dim, correction, keepdim: getattr(torch, name)(
            self, dim, correction=correction, keepdim=keepdim
        ),
        samples=_spread_samples,
        **options,
    )

    def body(
        F: Any,
        self: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        elif dim is not None:
            dim = checked(name, "dim", kind_named("SomeDims"), dim)
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        if count(tuple(self.shape), all_dims(self, dim)) <= correction:
            warnings.warn(
                f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than "
                "the reduction factor (input numel divided by output numel).",
                UserWarning,
                stacklevel=outside(),
            )
        return getattr(F, f"{name}_dims")(self, dim, correction, keepdim)

    body.__doc__ = (
        f"{name.replace('_', ' and ')} over `dim` (all by default); the sum of squares is divided "
        "by n - correction (1 by default)."
    )
    single = not name.endswith("_mean")
    composite(name, method=single, out="casts" if single else False)(body)


_moment("var", _var, _var_rule)
_moment("std", _std, _std_rule)
_BOTH: dict[str, Any] = {"outputs": ("result0", "result1")}
_moment(
    "var_mean",
    _var_mean,
    _var_mean_rule,
    jvp={"self": _var_mean_along},
    namedtuple="var_mean",
    **_BOTH,
)
_moment(
    "std_mean",
    _std_mean,
    _std_mean_rule,
    jvp={"self": _std_mean_along},
    namedtuple="std_mean",
    **_BOTH,
)

# Exponential sums and norms -----------------------------------------------------------------------
