"""What an edge of the graph repairs, once for every op: shape, dtype and the real part."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.coo import Coo
from ag_visual.arrays.kernels.rows import summed
from ag_visual.core.node import Node, Replaced, Target
from ag_visual.core.sparse import SparseTensor

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
        if g.dtype.kind in "fcV":
            g = summed(xp, g, dims, True)
        else:
            g = g.sum(axis=dims, keepdims=True, dtype=g.dtype)
        if not g.flags.c_contiguous:
            g = xp.ascontiguousarray(g)  # as torch's sums
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


class Unfit(RuntimeError):
    """That a gradient can be neither summed nor expanded to the shape of its input."""

    def __init__(self, have: tuple[int, ...], want: tuple[int, ...]) -> None:
        super().__init__(
            f"invalid gradient - got {list(have)} but expected shape compatible with {list(want)}"
        )


def _is_small(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Is a gradient of shape `have` to be expanded to `want`, or else summed? Raises `Unfit`."""
    if not have:
        return True
    extra = len(have) - len(want)
    small, large = extra < 0, extra > 0
    for a, b in zip(have[max(extra, 0) :], want[max(-extra, 0) :], strict=True):
        if a != b:
            if a == 1:
                small = True
            elif b == 1:
                large = True
            else:
                raise Unfit(have, want)
    if small and large:
        raise Unfit(have, want)
    return small


def fit(xp: Any, g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The gradient as an input of this shape and dtype takes it; raises `Unfit`."""
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
        if type(g) is Coo:
            g = g.dense()
        if not _is_small(g.shape, shape):
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


def check_compatible(node: Node, at: int, have: tuple[int, ...], want: tuple[int, ...]) -> None:
    """Raise where a node's gradient of input `at` cannot be one of the shape `want`."""
    if not compatible(have, want):
        raise _invalid(f"Function {node.name()} returned an ", at, have, want)


def _invalid(who: str, at: int, have: tuple[int, ...], want: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(
        f"{who}invalid gradient at index {at} - got {list(have)} but expected shape compatible "
        f"with {list(want)}"
    )


def fit_edge(fitted: Callable[..., Any], F: Any, node: Node, edge: Target, g: Any) -> Any:
    """A node's gradient as the input at an edge takes it, by `fit` or `fit_traced`."""
    shape, dtype = taken(edge)
    have = tuple(g.shape)
    try:
        if type(shape) is Replaced:
            g = fitted(F, g, shape.now, dtype)
            check_compatible(node, node.next.index(edge), shape.now, shape)
            shape = tuple(shape)
        elif Replaced.ever and 0 not in shape and _reads_itself(node, node.next.index(edge)):
            check_compatible(node, node.next.index(edge), have, shape)
        return fitted(F, g, shape, dtype)
    except Unfit:
        who = f"Function {node.name()} returned an "
        raise _invalid(who, node.next.index(edge), have, shape) from None


def fit_root(fitted: Callable[..., Any], F: Any, edge: Any, g: Any, at: int) -> Any:
    """What a backward begins with as the tensor took it before its data was replaced."""
    shape, dtype = taken(edge)
    if not compatible(tuple(g.shape), shape):
        raise _invalid("", at, tuple(g.shape), shape)
    return fitted(F, g, tuple(shape), dtype)


def taken(edge: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of the gradients that an edge takes; the shape may be `Replaced`."""
    following, number, shape, dtype = edge
    if shape is not None:
        return shape, dtype
    outs: tuple[tuple[int, ...], Any] = following.outs[number]
    return outs if dtype is None else (dtype, outs[1])


def _reads_itself(node: Any, at: int) -> bool:
    """Is the gradient of an input computed from its value, so that it is at least as large?

    (A smaller one shows that the input's data was replaced since. Of several outputs not all may
    read it.)
    """
    op = getattr(node, "op", None)
    return op is not None and node.outs is None and at in _reading(op)


@functools.cache
def _reading(op: Any) -> frozenset[int]:
    reads = {name for rule in op.rules for name in rule.inputs if name in rule.requests}
    kept = reads & set(op.saves) - set(op.lists)
    return frozenset(at for at, name in enumerate(op.diff_inputs) if name in kept)


def fit_traced(F: Any, g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`fit` on Tensors."""
    if tuple(g.shape) != shape:
        small = _is_small(tuple(g.shape), shape)
        g = g.to_dense() if type(g) is SparseTensor else g
        g = F.expand(g, shape) if small else F.sum_to_size(g, shape)
    if g._array.dtype != dtype:
        if g._array.dtype.kind == "c" and dtype.kind != "c":
            g = F.real(g)
        g = F.cast(g, dtype)
    return g
