"""What an edge of the graph repairs, once for every op: shape, dtype and the real part."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.kernels.rows import summed
from ag_visual.core.node import Replaced

_BLAS = frozenset(numpy.dtype(c) for c in "fdFD")


_KEPT = 4096
"""Up to this many rows are summed so, by ones that are kept; of more it would lose digits."""

_ones = functools.lru_cache(maxsize=64)(numpy.ones)


def sum_to(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum a gradient over the dimensions that broadcasting added or stretched."""
    extra = g.ndim - len(shape)
    dims = tuple(range(extra)) + tuple(
        i + extra for i, size in enumerate(shape) if size == 1 and g.shape[i + extra] != 1
    )
    if dims:
        if g.dtype.kind in "fc":
            g = summed(xp, g, dims, True)
        else:
            g = g.sum(axis=dims, keepdims=True, dtype=g.dtype)
    return g.reshape(shape)


def expand(xp: Any, array: Any, shape: tuple[int, ...]) -> Any:
    """An array with dimensions of size 1 repeated to a shape, as a view; new ones come first."""
    # Not broadcast_to: that is read-only, and an expansion that repeats nothing may be written.
    extra = len(shape) - array.ndim
    strides = (0,) * extra + tuple(
        [
            stride if n == shape[extra + i] else 0
            for i, (n, stride) in enumerate(zip(array.shape, array.strides, strict=True))
        ]
    )
    return of_namespace(xp).as_strided(array, shape, strides)


def expand_for_good(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """A gradient whose elements share memory in torch, too, so that in-place ops refuse it.

    NumPy's fast in-place ops see that by its being read-only. An expansion that `fit` made may be
    written: whoever gives it to user code copies it first, for torch has written it out.
    """
    expanded = expand(xp, g, shape)
    if xp is numpy and expanded.size > g.size:
        expanded.flags.writeable = False
    return expanded


def fit(xp: Any, g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The gradient as an input of this shape and dtype takes it."""
    if type(g) is numpy.ndarray and g.dtype is dtype and len(shape) == 1 and dtype in _BLAS:
        have = g.shape
        if len(have) == 2 and have[1] == shape[0]:
            # The gradient of a bias: ones @ g takes a third of the time of a sum over rows.
            if have[0] <= _KEPT:
                return _ones(have[0], dtype).dot(g)
            return summed(xp, g, (0,))
    if not hasattr(g, "ndim") or g.ndim == 0:
        g = xp.asarray(g)
    if g.shape != shape:
        small = g.ndim < len(shape) or any(
            have == 1 != want
            for have, want in zip(g.shape[g.ndim - len(shape) :], shape, strict=True)
        )
        if not small:
            g = sum_to(xp, g, shape)
        elif xp is numpy:
            g = expand(xp, g, shape)
        else:
            g = xp.broadcast_to(g, shape).copy()
    if g.dtype != dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.astype(dtype)
    return g


def compatible(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Can a gradient of shape `have` be summed to `want`?"""
    try:
        return have == want or numpy.broadcast_shapes(have, want) == have
    except ValueError:
        return False


def refuse_incompatible(node: Any, at: int, have: tuple[int, ...], want: tuple[int, ...]) -> None:
    """Raise where a node's gradient of input `at` cannot be one of the shape `want`."""
    if not compatible(have, want):
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient at index {at} - got "
            f"{list(have)} but expected shape compatible with {list(want)}"
        )


def fit_edge(fitted: Callable[..., Any], F: Any, node: Any, edge: Any, g: Any) -> Any:
    """A node's gradient as the input at an edge takes it, by `fit` or `fit_traced`."""
    following, number, shape, dtype = edge
    if shape is None:
        shape, dtype = following.outs[number]
    if type(shape) is Replaced:
        g = fitted(F, g, shape.now, dtype)
        refuse_incompatible(node, node.next.index(edge), shape.now, shape)
        shape = tuple(shape)
    return fitted(F, g, shape, dtype)


def fit_traced(F: Any, g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`fit` on Tensors."""
    if tuple(g.shape) != shape:
        small = g.ndim < len(shape) or any(
            have == 1 != want
            for have, want in zip(g.shape[g.ndim - len(shape) :], shape, strict=True)
        )
        g = F.expand(g, shape) if small else F.sum_to_size(g, shape)
    if g._array.dtype != dtype:
        if g._array.dtype.kind == "c" and dtype.kind != "c":
            g = F.real(g)
        g = F.cast(g, dtype)
    return g
