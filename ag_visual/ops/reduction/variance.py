"""Variances and standard deviations."""

from __future__ import annotations

import math

from ag_visual.arrays.kernels.rows import summed
from ag_visual.core.source import warn
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.record import ELEMENTWISE, Sample
from ag_visual.dispatch.rules import requesting
from ag_visual.dispatch.table import composite, op
from ag_visual.ops.reduction.along_dim import Dims, all_dims, axes, count, spread
from ag_visual.ops.reduction.sums import mean_rule


def _freedom(shape, dim: Dims, correction) -> float:
    return max(0, count(shape, dim) - (1 if correction is None else correction))


# Up to so many float32 elements are computed with in float64.
_FEW = 1 << 11
# How many times the variance a squared mean may be before its last digit shows in the deviations.
_FAR = 1e4


def _var(xp, self, dim=(), correction=1, keepdim=False):
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


def _real_type(xp, self):
    if self.dtype.kind != "c":
        return self.dtype
    return xp.float32 if self.dtype.itemsize == 8 else xp.float64


def _std(xp, self, dim=(), correction=1, keepdim=False):
    if self.dtype.itemsize > 2:
        return xp.sqrt(_var(xp, self, dim, correction, keepdim))
    square = _var(xp, self.astype(xp.float32), dim, correction, keepdim)
    return xp.sqrt(square).astype(self.dtype)


def _var_rule(F, g, self, dim: Dims, correction, keepdim: bool):
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


def _std_rule(F, g, self, result, dim: Dims, correction, keepdim: bool):
    g = F.where(result == 0, 0.0, g / (2 * F.where(result == 0, 1.0, result)))
    return _var_rule(F, g, self, dim, correction, keepdim)


def _moment(name: str, kernel, rule, **options) -> None:
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
        samples=lambda make: [
            Sample((make(shape), dim, correction, keepdim))
            for shape, dim, correction, keepdim in (
                ((3, 4), None, 1, False),
                ((3, 4), 0, 0, True),
                ((2, 3, 4), (0, 2), 1, False),
                ((5,), 0, 2, False),
            )
        ],
        **options,
    )

    single = not name.endswith("_mean")

    def body(
        F, self, dim=None, unbiased: bool | None = None, keepdim: bool = False, *, correction=None
    ):
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            kinds = "std and var" if single else name
            raise RuntimeError(
                f"{kinds} only support floating point and complex dtypes, not {self.dtype}. "
                "Convert with .float() first."
            )
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        elif dim is not None:
            dim = checked(name, "dim", kind_named("SomeDims"), dim)
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        if count(tuple(self.shape), all_dims(self, dim)) <= correction:
            warn(
                f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than "
                "the reduction factor (input numel divided by output numel)."
            )
        return getattr(F, f"{name}_dims")(self, dim, correction, keepdim)

    body.__doc__ = (
        f"{name.replace('_', ' and ')} over `dim` (all by default); the sum of squares is divided "
        "by n - correction (1 by default)."
    )
    composite(name, method=single, out="casts" if single else False)(body)


_moment("var", _var, _var_rule)
_moment("std", _std, _std_rule)


def _with_mean(name: str, moment, rule, *saved: str) -> None:
    """A moment and the mean; `saved` is what the moment's rule asks for beside self."""

    def kernel(xp, self, dim=(), correction=1, keepdim=False):
        x = self if self.dtype.itemsize > 2 else self.astype(xp.float32)
        mean = summed(xp, x, axes(dim), keepdim) / count(self.shape, dim)
        return moment(xp, self, dim, correction, keepdim), mean.astype(self.dtype)

    @requesting("F", "gs", "self", *saved, "dim", "correction", "keepdim")
    def back(F, gs, self, *known):
        """Either of the two gradients may be None."""
        *_, dim, _, keepdim = known
        total = None if gs[0] is None else rule(F, gs[0], self, *known)
        if gs[1] is not None:
            mean = mean_rule(F, gs[1], tuple(self.shape), dim, keepdim)
            total = mean if total is None else total + mean
        return total

    def along(F, t_self, self, result0, dim, correction, keepdim):
        ones = F.zeros_of(result0, tuple(result0.shape)) + 1
        known = (result0,) if saved else ()
        slope = rule(F, ones, self, *known, dim, correction, keepdim)
        moved = F.sum_dims(F.conj(slope) * t_self, dim, keepdim)
        moved = F.real(moved) if is_complex(self) else moved
        return moved, F.mean_dims(t_self, dim, keepdim)

    outputs = ("result0", "result1")
    _moment(name, kernel, back, jvp={"self": along}, namedtuple=name, outputs=outputs)


_with_mean("var_mean", _var, _var_rule)
_with_mean("std_mean", _std, _std_rule, "result0")
