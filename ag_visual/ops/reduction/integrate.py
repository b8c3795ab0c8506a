"""Numerical integration and differentiation along dimensions: trapezoid, gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.dims import wrap, wrap_all
from ag_visual.dispatch.table import composite


def _part(F, x, dim: int, start: int, stop: int):
    """x[start:stop] along a dimension; a negative stop counts from the end."""
    n = x.shape[dim]
    return F.slice(x, dim, start, stop + n if stop < 0 else stop, 1)


# Integration ------------------------------------------------------------------------------------


def _steps(F, name: str, y, x, dim: int):
    """The distances between neighbouring sample points, in dimensions that broadcast with y."""
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point, got {x.shape[0]} for "
                f"{y.shape[dim]}"
            )
        x = F.reshape(x, (-1,) + (1,) * (y.ndim - dim - 1))
        at = 0
    else:
        for _ in range(y.ndim - x.ndim):
            x = F.unsqueeze(x, 0)
        at = dim + x.ndim - y.ndim
    n = x.shape[at]
    return F.slice(x, at, 1, n, 1) - F.slice(x, at, 0, n - 1, 1)


def _arguments(name: str, y, x, dx, dim: int) -> tuple[Any, int]:
    if y.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap(dim, y.ndim)
    if x is not None and dx is not None:
        raise TypeError(f"{name}() takes sample points x, or their distance dx, but not both")
    for label, value in (("y", y), ("x", x)):
        if value is not None and value.dtype is dtypes.bool:
            raise RuntimeError(
                f"{name}: received a bool input for `{label}`, but bool is not supported"
            )
    return 1 if dx is None else dx, dim


@composite("trapezoid", method=False, aliases=("trapz",))
def _trapezoid(F, y, x=None, *, dx=None, dim: int = -1):
    """The integral of y along `dim` by the trapezoidal rule: sum of (y_i + y_{i+1}) dx_i / 2.

    x: the sample points (one for each along `dim`, or a tensor that broadcasts); dx: their
    distance (1). A dimension of size 0 or 1 gives 0.
    """
    dx, dim = _arguments("trapezoid", y, x, dx, dim)
    if y.shape[dim] == 0:
        return F.zeros_of(y, (*y.shape[:dim], *y.shape[dim + 1 :]))
    if x is not None:
        pairs = _part(F, y, dim, 0, -1) + _part(F, y, dim, 1, y.shape[dim])
        return F.sum(pairs * _steps(F, "trapezoid", y, x, dim), dim) / 2.0
    ends = (F.select(y, dim, 0) + F.select(y, dim, -1)) * 0.5
    return (F.sum(y, dim) - ends) * dx


@composite("cumulative_trapezoid", method=False)
def _cumulative(F, y, x=None, *, dx=None, dim: int = -1):
    """The running integral of y along `dim` by the trapezoidal rule, one element shorter than y.

    x and dx: as in `trapezoid`.
    """
    dx, dim = _arguments("cumulative_trapezoid", y, x, dx, dim)
    pairs = _part(F, y, dim, 0, -1) + _part(F, y, dim, 1, y.shape[dim])
    if x is not None:
        return F.cumsum(pairs * _steps(F, "cumulative_trapezoid", y, x, dim), dim) / 2.0
    return F.cumsum(pairs * (dx / 2.0), dim)


# Differences ------------------------------------------------------------------------------------


def _spacings(self, spacing, dims: tuple[int, ...], given: bool) -> list[Any]:
    """The distance of samples, or their coordinates, for each dimension."""
    if not isinstance(spacing, (tuple, list)):
        if isinstance(spacing, Tensor):
            raise TypeError(
                "gradient(): argument 'spacing' must be a number, or a list of numbers or of "
                "tensors, not Tensor"
            )
        return [1 if spacing is None else spacing] * len(dims)
    if len(spacing) != len(dims):
        if given:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and "
                "dim arguments to have the same length, but got a spacing argument of length "
                f"{len(spacing)} and a dim argument of length {len(dims)}."
            )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to 'self.dim() = {self.ndim}', since dim argument was not given, but got a "
            f"list of length {len(spacing)}"
        )
    return list(spacing)


def _even(F, x, dim: int, step, order: int):
    """Central differences at equal distances, one-sided ones of some order at the ends."""
    n = x.shape[dim]

    def at(i: int):
        return F.slice(x, dim, i % n, i % n + 1, 1)

    middle = (F.slice(x, dim, 2, n, 1) - F.slice(x, dim, 0, n - 2, 1)) / 2.0 / step
    if order == 1:
        first, last = (at(1) - at(0)) / step, (at(-1) - at(-2)) / step
    else:
        first = (-1.5 * at(0) + 2.0 * at(1) - 0.5 * at(2)) / step
        last = (0.5 * at(-3) - 2.0 * at(-2) + 1.5 * at(-1)) / step
    return F.cat([first, middle, last], dim)


def _uneven(F, x, dim: int, points, order: int):
    """Differences at given coordinates, exact for polynomials of degree 2 in the middle."""
    n = points.shape[0]
    tail = (1,) * (x.ndim - dim - 1)
    steps = F.slice(points, 0, 1, n, 1) - F.slice(points, 0, 0, n - 1, 1)
    before = F.reshape(F.slice(steps, 0, 0, n - 2, 1), (-1, *tail))
    after = F.reshape(F.slice(steps, 0, 1, n - 1, 1), (-1, *tail))

    def weights(a, b) -> tuple[Any, Any, Any]:
        """Of three neighbours, for the slope in the middle one."""
        return -b / (a * (a + b)), (b - a) / (a * b), a / (b * (a + b))

    def part(start: int, size: int):
        return F.slice(x, dim, start, start + size, 1)

    def step(i: int):
        return F.select(steps, 0, i)

    w = weights(before, after)
    middle = w[0] * part(0, n - 2) + w[1] * part(1, n - 2) + w[2] * part(2, n - 2)
    if order == 1:
        first = (part(1, 1) - part(0, 1)) / step(0)
        last = (part(n - 1, 1) - part(n - 2, 1)) / step(-1)
    else:
        a, b = step(0), step(1)
        first = (
            -(2.0 * a + b) / (a * (a + b)) * part(0, 1)
            + (a + b) / (a * b) * part(1, 1)
            - a / (b * (a + b)) * part(2, 1)
        )
        a, b = step(-2), step(-1)
        last = (
            b / (a * (a + b)) * part(n - 3, 1)
            - (b + a) / (a * b) * part(n - 2, 1)
            + (2.0 * b + a) / (b * (a + b)) * part(n - 1, 1)
        )
    return F.cat([first, middle, last], dim)


@composite("gradient", method=False)
def _gradient(
    F, self, *, spacing=None, dim: int | Sequence[int] | None = None, edge_order: int = 1
):
    """The slopes of sampled values along each dimension (or those named), as a tuple.

    Second-order central differences inside; at the ends one-sided ones of `edge_order` 1 or 2.
    spacing: the distance of samples (1), one for each dimension, or a list of vectors of
    coordinates.
    """
    given = dim is not None
    if isinstance(dim, int):
        dim = (dim,)
    dims = wrap_all(tuple(range(self.ndim)) if dim is None else dim, self.ndim)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    results = []
    for at, step in zip(dims, _spacings(self, spacing, dims, given), strict=True):
        if self.shape[at] <= edge_order:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, but "
                f"dimension {at} has size {self.shape[at]}"
            )
        difference = _uneven if isinstance(step, Tensor) else _even
        results.append(difference(F, self, at, step, edge_order))
    return tuple(results)
