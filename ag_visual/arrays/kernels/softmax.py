"""softmax, log_softmax and logsumexp with their backward functions, each in a few passes.

Layer 1. `dim` counts from either end; a 0-d array has the one dimension torch gives it. float16 and
bfloat16 are computed in float32. Nothing returned aliases an input.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.order import copied
from ag_visual.arrays.kernels.rows import by_column, is_matrix, row_products, row_sums


def _wide(xp: Any, array: Array) -> Array:
    """The array in a type that is wide enough to sum in: itself from float32 on."""
    return array if array.dtype.itemsize > 2 else copied(xp, array, xp.float32)


def _shifted(xp: Any, self: Array, dim: int) -> Array:
    """A fresh `self - max(self)` along `dim`, so that no exponential overflows."""
    return self - self.max(axis=dim, keepdims=True)


# Sums of exponentials between these bounds have lost nothing: no shift is needed, which saves the
# maximum (slower than the exponential in NumPy) and rounds less. On a GPU asking would wait for it.
LEAST, MOST = 1e-3, 1e30
# A logarithm of a probability that is less than its own rounding away from 0, nearly.
_CERTAIN = -0.01


def _exponentials(xp: Any, x: Array, dim: int) -> tuple[Array, Array, float, float] | None:
    """exp(x), its sums along `dim`, the least and the largest, where that needs no shift."""
    if xp is not numpy or x.dtype.kind != "f":
        return None
    powers = xp.exp(x)
    total = _sums(xp, powers, dim)
    # argmin and argmax find NaN, too, and take a third of the time of min and max.
    least, most = total.item(total.argmin()), total.item(total.argmax())
    return (powers, total, least, most) if least >= LEAST and most <= MOST else None


def _sums(xp: Any, x: Array, dim: int) -> Array:
    if dim in (-1, x.ndim - 1):
        return row_sums(xp, x)
    return x.sum(axis=dim, keepdims=True)


# NumPy's passes take as long for one number as those of other kernels for so many.
_WORTH = 8


def _of_rows(xp: Any, name: str, dim: int, *arrays: Array, numbers: Any = ()) -> Array | None:
    """What the compiled kernel gives for arrays and numbers; None where NumPy is to compute."""
    first = arrays[0]
    if not fast.wanted(xp, _WORTH * first.size) or dim not in (-1, first.ndim - 1):
        return None
    run = fast.kernel(name, *arrays)
    if run is None:
        return None
    result = numpy.empty(first.shape, first.dtype)
    if first.ndim == 2:
        run(*arrays, result, *numbers)
    else:
        rows = [x.reshape(-1, first.shape[-1]) for x in (*arrays, result)]
        run(*rows, *numbers)
    return result


def softmax(xp: Any, self: Array, dim: int) -> Array:
    """exp(x) / sum(exp(x)) along `dim`."""
    if self.ndim == 0:
        return softmax(xp, self.reshape(1), 0).reshape(())
    if self.size == 0:
        return xp.empty_like(self)
    x = _wide(xp, self)
    done = _of_rows(xp, "softmax", dim, x, numbers=(LEAST, MOST))
    if done is not None:
        return done if x is self else done.astype(self.dtype)
    found = _exponentials(xp, x, dim)
    if found is None:
        result = _shifted(xp, x, dim)
        xp.exp(result, out=result)
        total = _sums(xp, result, dim)
    else:
        result, total = found[:2]
    # Divided, not multiplied by 1 / total: a certain outcome has probability 1.
    if total.shape == (*result.shape[:-1], 1) and result.flags.c_contiguous:
        flat = result.reshape(-1, result.shape[-1])
        by_column(xp, xp.divide, flat, total.reshape(-1, 1), out=flat)
    else:
        result /= total
    return result if x is self else result.astype(self.dtype)


def softmax_backward(xp: Any, grad_output: Array, output: Array, dim: int) -> Array:
    """output * (grad_output - sum(grad_output * output)) along `dim`."""
    if grad_output.ndim == 0:
        return softmax_backward(xp, grad_output.reshape(1), output.reshape(1), 0).reshape(())
    gw, rw = _wide(xp, grad_output), _wide(xp, output)
    done = _of_rows(xp, "softmax_backward", dim, gw, rw, numbers=(False,))
    if done is not None:
        return done if gw is grad_output else done.astype(grad_output.dtype)
    if grad_output.size and dim in (-1, grad_output.ndim - 1):
        grad = xp.empty(gw.shape, gw.dtype)
        flat, there = (each.reshape(-1, gw.shape[-1]) for each in (gw, grad))
        by_column(xp, xp.subtract, flat, row_products(xp, gw, rw).reshape(-1, 1), out=there)
    else:
        grad = gw - (gw * rw).sum(axis=dim, keepdims=True)
    grad *= rw
    return grad if gw is grad_output else grad.astype(grad_output.dtype)


def log_softmax(xp: Any, self: Array, dim: int) -> Array:
    """x - log(sum(exp(x))) along `dim`, without forming the exponentials' quotient."""
    if self.ndim == 0:
        return log_softmax(xp, self.reshape(1), 0).reshape(())
    if self.size == 0:
        return xp.empty_like(self)
    x = _wide(xp, self)
    done = _of_rows(xp, "log_softmax", dim, x)
    if done is not None:
        return done if x is self else done.astype(self.dtype)
    found = _exponentials(xp, x, dim)
    if found is not None:
        result = x - xp.log(found[1])
        # Both were rounded: that is much where an outcome is certain, or likely beside large ones.
        size = max(math.log(found[3]), -math.log(found[2]))
        bound = -size / 4 if size > 4 else _CERTAIN
        if result.item(result.argmax()) > bound:
            result = _with_likely(xp, x, result, dim, bound)
    else:
        result = _log_shifted(xp, x, dim)
    return result if x is self else result.astype(self.dtype)


def _log_shifted(xp: Any, x: Array, dim: int) -> Array:
    result = _shifted(xp, x, dim)
    result -= xp.log(_sums(xp, xp.exp(result), dim))
    return result


def _with_likely(xp: Any, x: Array, result: Array, dim: int, bound: float) -> Array:
    """The result with the slices computed again, from their maximum, that reach above `bound`."""
    if dim not in (-1, x.ndim - 1) or not (is_matrix(x) and is_matrix(result)):
        return _log_shifted(xp, x, dim)
    width = x.shape[-1]
    rows, there = x.reshape(-1, width), result.reshape(-1, width)
    likely = xp.flatnonzero(there > bound) // width
    if 2 * len(likely) > len(rows):
        return _log_shifted(xp, x, dim)
    there[likely] = _log_shifted(xp, rows[likely], 1)
    return result


def log_softmax_backward(xp: Any, grad_output: Array, output: Array, dim: int) -> Array:
    """grad_output - exp(output) * sum(grad_output) along `dim`."""
    if grad_output.ndim == 0:
        return log_softmax_backward(xp, grad_output.reshape(1), output.reshape(1), 0).reshape(())
    gw, rw = _wide(xp, grad_output), _wide(xp, output)
    done = _of_rows(xp, "softmax_backward", dim, gw, rw, numbers=(True,))
    if done is not None:
        return done if gw is grad_output else done.astype(grad_output.dtype)
    grad = xp.exp(rw)
    grad *= _sums(xp, gw, dim)
    xp.subtract(gw, grad, out=grad)
    return grad if gw is grad_output else grad.astype(grad_output.dtype)


def _axes(ndim: int, dim: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dim) if dim else tuple(range(ndim))


def logsumexp(xp: Any, self: Array, dim: tuple[int, ...], keepdim: bool = False) -> Array:
    """log(sum(exp(x))) over the dimensions in `dim` (all of them when empty)."""
    if self.ndim == 0:
        return logsumexp(xp, self.reshape(1), (0,)).reshape(())
    axes = _axes(self.ndim, dim)
    x = _wide(xp, self)
    if any(self.shape[axis] == 0 for axis in axes):
        total = xp.exp(x).sum(axis=axes, keepdims=keepdim)
        return xp.log(total).astype(self.dtype)
    real = x.real if x.dtype.kind == "c" else x
    peak = real.max(axis=axes, keepdims=True) if x.size else real.sum(axis=axes, keepdims=True)
    # An infinite peak would make inf - inf; torch, too, subtracts 0 there.
    peak = xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak))
    shifted = x - peak
    xp.exp(shifted, out=shifted)
    result = xp.log(shifted.sum(axis=axes, keepdims=True)) + peak
    if not keepdim:
        result = result.reshape(_kept(self, axes))
    return result if x is self else result.astype(self.dtype)


def _kept(self: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    gone = {axis % self.ndim for axis in axes}
    return tuple(n for axis, n in enumerate(self.shape) if axis not in gone)
