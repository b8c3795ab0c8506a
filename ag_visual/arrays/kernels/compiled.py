"""Kernels compiled by Numba: one pass over the memory where NumPy takes ten.

Layer 1. Only `arrays/fast.py` imports this file, when the first of them is used. A kernel fills
arrays that are given; matrices lie row by row, and all of a call are of one type, float32 or
float64. All of it stands in one file: Numba compiles again when the file has changed that a kernel
is in, not when one has that it uses.

Sums may be reordered and products fused with sums. That there is no NaN and no infinity is nowhere
assumed, and a quotient stays one: a certain outcome has probability 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
from numba import boolean, float64, from_dtype, int64, njit
from numba.core import event
from numba.extending import overload

from ag_visual.arrays.kernels import normal

_F, _I = numpy.float32, numpy.int32
_D, _L = numpy.float64, numpy.int64


def _made(*may: str, **more: bool) -> Callable[[Any], Any]:
    """A decorator: compiled when `function` asks, with what `may` be done of fast mathematics."""

    def decorate(function: Any) -> Any:
        how = {"error_model": "numpy", "nogil": True, "fastmath": set(may), **more}
        try:
            return njit(cache=True, **how)(function)
        except RuntimeError:  # neither the package's folder nor the user's cache may be written
            return njit(**how)(function)

    return decorate


# What is right in a certain order alone keeps it. (A loop with a call in it is not vectorised.)
_ordered = _made("contract", forceinline=True)
_summing = _made("reassoc", "contract", "nsz")

# ln 2 in two parts, of which the first has few bits: a product with a power of two is exact.
_LN2_F = (_F(0.693359375), _F(math.log(2) - 0.693359375))
_LN2_D = (_D(0.6931471803691238), _D(1.9082149292705877e-10))
# Of the normal distribution function.
_CONST, _DENSITY = _F(normal.CONST), _F(1 / math.sqrt(2 * math.pi))
_POWERS = tuple(_F(c) for c in normal.POWERS)


@_ordered
def _reduced32(x):
    """exp(x) = (1 + p) 2^n: p and n."""
    k = numpy.floor(x * _F(1 / math.log(2)) + _F(0.5))
    r = x - k * _LN2_F[0]
    r = r - k * _LN2_F[1]
    p = _F(1 / 5040)
    p = p * r + _F(1 / 720)
    p = p * r + _F(1 / 120)
    p = p * r + _F(1 / 24)
    p = p * r + _F(1 / 6)
    p = p * r + _F(1 / 2)
    p = p * r + _F(1)
    return p * r, _I(k) if k == k else _I(0)


@_ordered
def _reduced64(x):
    k = numpy.floor(x * (1 / math.log(2)) + 0.5)
    r = x - k * _LN2_D[0]
    r = r - k * _LN2_D[1]
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    p = p * r + 1.0
    return p * r, _I(k) if k == k else _I(0)


@_ordered
def _power32(n):
    """2^n for -126 <= n <= 127."""
    return _I((n + _I(127)) << _I(23)).view(numpy.float32)


@_ordered
def _power64(n):
    return _L((_L(n) + _L(1023)) << _L(52)).view(numpy.float64)


@_ordered
def _exp32(x):
    x = _F(90) if x > _F(90) else x
    x = _F(-110) if x < _F(-110) else x
    p, n = _reduced32(x)
    half = _I(n >> _I(1))  # 2^n itself may be no number where the result is one
    return (p + _F(1)) * _power32(half) * _power32(_I(n - half))


@_ordered
def _exp64(x):
    x = 710.0 if x > 710.0 else x
    x = -760.0 if x < -760.0 else x
    p, n = _reduced64(x)
    half = _I(n >> _I(1))
    return (p + 1.0) * _power64(half) * _power64(_I(n - half))


@_ordered
def _tanh32(x):
    """u / (u + 2) with u = exp(2 |x|) - 1."""
    y = _F(2) * abs(x)
    y = _F(40) if y > _F(40) else y
    p, n = _reduced32(y)
    scale = _power32(n)
    u = p * scale + (scale - _F(1))
    y = u / (u + _F(2))
    return -y if x < _F(0) else y


@_ordered
def _tanh64(x):
    y = 2.0 * abs(x)
    y = 80.0 if y > 80.0 else y
    p, n = _reduced64(y)
    scale = _power64(n)
    u = p * scale + (scale - 1.0)
    y = u / (u + 2.0)
    return -y if x < 0.0 else y


@_ordered
def _sigmoid32(x):
    return _F(1) / (_F(1) + _exp32(-x))


@_ordered
def _sigmoid64(x):
    return 1.0 / (1.0 + _exp64(-x))


@_ordered
def _key32(x):
    """An integer for each number, in their order; a NaN is above or below all."""
    bits = _F(x).view(numpy.int32)
    return _I(bits ^ _I(_I(bits >> _I(31)) & _I(0x7FFFFFFF)))


@_ordered
def _key64(x):
    bits = _D(x).view(numpy.int64)
    return bits ^ ((bits >> _L(63)) & _L(0x7FFFFFFFFFFFFFFF))


@_ordered
def _of_key32(key):
    return _I(key ^ _I(_I(key >> _I(31)) & _I(0x7FFFFFFF))).view(numpy.float32)


@_ordered
def _of_key64(key):
    return _L(key ^ ((key >> _L(63)) & _L(0x7FFFFFFFFFFFFFFF))).view(numpy.float64)


def _by_type(narrow: Any, wide: Any) -> Any:
    """A function of one number that is `narrow` of 32 bits and `wide` of 64."""

    def either(x):
        raise NotImplementedError

    @overload(either)
    def _chosen(x):
        return (lambda x: narrow(x)) if x.bitwidth == 32 else (lambda x: wide(x))

    return either


_exp = _by_type(_exp32, _exp64)
_sigmoid = _by_type(_sigmoid32, _sigmoid64)
_tanh = _by_type(_tanh32, _tanh64)
_key = _by_type(_key32, _key64)
_of_key = _by_type(_of_key32, _of_key64)


@_ordered
def _less(x, a, b):
    """(x - a) - b, in this order."""
    return (x - a) - b


# Sums are taken in the arrays' type over so many numbers, and over more than that in float64.
_PART, _BLOCK = 512, 32


@_ordered
def _normal(x):
    """Phi(x), as kernels/normal.py has it, and exp(-x^2 / 2)."""
    power = _exp32(x * x * _F(-0.5))
    v = abs(x)
    v = _F(1000) if v > _F(1000) else v
    v = v / (v + _CONST)
    p = _POWERS[0] * v + _POWERS[1]
    p = p * v + _POWERS[2]
    p = p * v + _POWERS[3]
    p = p * v + _POWERS[4]
    p = p * v + _POWERS[5]
    p = p * v + _POWERS[6]
    p = p * power
    return (_F(1) - p if x > _F(0) else p), power


@_summing
def _sum(x):
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j]
    return total


@_summing
def _squares(x, mean):
    """The sum of (x - mean)^2."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total += (x[j] - mean) * (x[j] - mean)
    return total


@_summing
def _along(g, x, weight, mean, rstd):
    """The sums of h = g weight, and of h n."""
    total = other = x.dtype.type(0)
    for j in range(x.size):
        h = g[j] * weight[j]
        total += h
        other += h * ((x[j] - mean) * rstd)
    return total, other


@_summing
def layer_norm(x, weight, bias, eps, out, means, rstds):
    """Rows normalised, times weight, plus bias; both (width,)."""
    rows, width = x.shape
    kind = x.dtype.type
    for i in range(rows):
        total = 0.0
        for begin in range(0, width, _PART):
            total += _sum(x[i, begin : begin + _PART])
        mean = kind(total / width)
        total = 0.0
        for begin in range(0, width, _PART):
            total += _squares(x[i, begin : begin + _PART], mean)
        rstd = kind(1 / math.sqrt(total / width + eps))
        means[i, 0], rstds[i, 0] = mean, rstd
        for j in range(width):
            out[i, j] = (x[i, j] - mean) * rstd * weight[j] + bias[j]


@_summing
def layer_norm_backward(g, x, means, rstds, weight, d_x, d_weight, d_bias):
    """With n = (x - mean) rstd and h = g weight: rstd (h - mean(h) - n mean(h n)) of each row.

    d_weight and d_bias, (width,), are the sums of g n and of g.
    """
    rows, width = x.shape
    kind = x.dtype.type
    parts, sums = numpy.empty((2, width), x.dtype), numpy.zeros((2, width))
    of_weight, of_bias = parts[0], parts[1]
    for block in range(0, rows, _BLOCK):
        parts[:] = kind(0)
        for i in range(block, min(block + _BLOCK, rows)):
            mean, rstd = means[i, 0], rstds[i, 0]
            total = along = 0.0
            for begin in range(0, width, _PART):
                end = begin + _PART
                part, other = _along(
                    g[i, begin:end], x[i, begin:end], weight[begin:end], mean, rstd
                )
                total += part
                along += other
            level, lean = kind(total / width), kind(along / width)
            for j in range(width):
                n = (x[i, j] - mean) * rstd
                d_x[i, j] = rstd * (g[i, j] * weight[j] - level - n * lean)
            # (Apart: a loop that stores to three arrays is not vectorised.)
            for j in range(width):
                of_weight[j] += g[i, j] * ((x[i, j] - mean) * rstd)
            for j in range(width):
                of_bias[j] += g[i, j]
        for j in range(width):
            sums[0, j] += of_weight[j]
            sums[1, j] += of_bias[j]
    d_weight[:], d_bias[:] = sums[0], sums[1]


@_summing
def _largest(row):
    """The largest number of a row; with NaN there, NaN or the largest of the rest."""
    best = _key(row[0])
    for j in range(1, row.size):
        key = _key(row[j])
        best = key if key > best else best
    return _of_key(best)


@_summing
def softmax(x, out, least, most):
    """exp(x) / sum(exp(x)) of each row, shifted where the sum is not between least and most."""
    rows, width = x.shape
    kind = x.dtype.type
    for i in range(rows):
        total = 0.0
        for j in range(width):
            power = _exp(x[i, j])
            out[i, j] = power
            total += power
        if not (total >= least and total <= most):
            top = _largest(x[i])
            total = 0.0
            for j in range(width):
                power = _exp(x[i, j] - top)
                out[i, j] = power
                total += power
        divisor = kind(total)
        for j in range(width):
            out[i, j] = out[i, j] / divisor


@_summing
def softmax_backward(g, y, out):
    """y (g - sum(g y)) of each row."""
    rows, width = g.shape
    kind = g.dtype.type
    for i in range(rows):
        total = 0.0
        for j in range(width):
            total += g[i, j] * y[i, j]
        level = kind(total)
        for j in range(width):
            out[i, j] = y[i, j] * (g[i, j] - level)


@_summing
def log_softmax(x, out):
    """(x - max) - log(sum(exp(x - max))) of each row."""
    rows, width = x.shape
    kind = x.dtype.type
    for i in range(rows):
        top = _largest(x[i])
        total = 0.0
        for j in range(width):
            total += _exp(x[i, j] - top)
        level = kind(math.log(total))
        for j in range(width):
            out[i, j] = _less(x[i, j], top, level)


@_summing
def log_softmax_backward(g, y, out):
    """g - exp(y) sum(g) of each row."""
    rows, width = g.shape
    kind = g.dtype.type
    for i in range(rows):
        total = 0.0
        for j in range(width):
            total += g[i, j]
        level = kind(total)
        for j in range(width):
            out[i, j] = g[i, j] - _exp(y[i, j]) * level


@_summing
def _add(x, y):
    for j in range(x.size):
        x[j] += y[j]


@_summing
def _sigmoids(x):
    for j in range(x.size):
        x[j] = _sigmoid(x[j])


@_summing
def _tanhs(x, out):
    for j in range(x.size):
        out[j] = _tanh(x[j])


@_summing
def lstm(gates, recur, h, c, cells, bents, output, sizes, backwards):
    """Takes the steps; gates (rows, 4 hidden) hold what the input adds, then i, f, g, o.

    recur: (hidden, 4 hidden). h, c: (sequences, hidden), the first and then the last. cells, bents
    and output: (rows, hidden), the cell, its tanh, and h. sizes: the rows of each step.
    """
    hidden = h.shape[1]
    steps = sizes.size
    begin = gates.shape[0] if backwards else 0
    product = numpy.empty((h.shape[0], 4 * hidden), h.dtype)
    new = numpy.empty(h.shape, h.dtype)
    for step in range(steps):
        rows = sizes[steps - 1 - step if backwards else step]
        begin -= rows if backwards else 0
        end = begin + rows
        gate, cell = gates[begin:end], cells[begin:end]
        numpy.dot(h[:rows], recur, product[:rows])
        # All numbers of a step in one loop, those of g too: loops over short rows take longer.
        _add(gate.reshape(-1), product[:rows].reshape(-1))
        for i in range(rows):
            new[i] = gate[i, 2 * hidden : 3 * hidden]
        _tanhs(new[:rows].reshape(-1), new[:rows].reshape(-1))
        _sigmoids(gate.reshape(-1))
        for i in range(rows):
            row, at = gate[i], cell[i]
            row[2 * hidden : 3 * hidden] = new[i]
            for j in range(hidden):
                at[j] = row[hidden + j] * c[i, j] + row[j] * row[2 * hidden + j]
            c[i] = at
        _tanhs(cell.reshape(-1), bents[begin:end].reshape(-1))
        for i in range(rows):
            row, bent, out = gate[i], bents[begin + i], output[begin + i]
            for j in range(hidden):
                out[j] = row[3 * hidden + j] * bent[j]
            h[i] = out
        begin += 0 if backwards else rows


@_summing
def lstm_backward(
    g,
    gates,
    weight,
    d_h,
    d_c,
    first_h,
    first_c,
    cells,
    bents,
    output,
    before,
    d_gates,
    sizes,
    backwards,
):
    """The way back; d_h, d_c: the gradients of the last h and c, then of the first.

    g: (rows, hidden), or (0, 0) for none. weight: (4 hidden, hidden). Fills d_gates, the gradient
    of what the input adds, and before, the h that each row began with.
    """
    hidden = d_h.shape[1]
    steps = sizes.size
    begin = 0 if backwards else gates.shape[0]
    one = d_h.dtype.type(1)
    for count in range(steps):
        step = count if backwards else steps - 1 - count
        rows = sizes[step]
        begin -= 0 if backwards else rows
        near = step + 1 if backwards else step - 1
        known, there = 0, 0  # the rows that have a step before this one, and where that begins
        if near >= 0 and near < steps:
            known = min(rows, sizes[near])
            there = begin + rows if backwards else begin - sizes[near]
        for i in range(rows):
            at = begin + i
            gate, to, bent = gates[at], d_gates[at], bents[at]
            cell = cells[there + i] if i < known else first_c[i]
            last = output[there + i] if i < known else first_h[i]
            d, e = d_h[i], d_c[i]
            before[at] = last
            if g.size:
                for j in range(hidden):
                    d[j] += g[at, j]
            for j in range(hidden):
                into, keep = gate[j], gate[hidden + j]
                new, out = gate[2 * hidden + j], gate[3 * hidden + j]
                e_j = e[j] + d[j] * (out * (one - bent[j] * bent[j]))
                to[j] = e_j * (new * (into * (one - into)))
                to[hidden + j] = e_j * (cell[j] * (keep * (one - keep)))
                to[2 * hidden + j] = e_j * (into * (one - new * new))
                to[3 * hidden + j] = d[j] * (bent[j] * (out * (one - out)))
                e[j] = e_j * keep
        numpy.dot(d_gates[begin : begin + rows], weight, d_h[:rows])
        begin += rows if backwards else 0


@_summing
def gelu(x, out):
    """x Phi(x) of float32."""
    for i in range(x.size):
        out[i] = x[i] * _normal(x[i])[0]


@_summing
def gelu_backward(g, x, out):
    """g (Phi(x) + x phi(x)) of float32."""
    for i in range(x.size):
        below, power = _normal(x[i])
        out[i] = g[i] * (below + power * _DENSITY * x[i])


# What each kernel takes: m and v, a matrix and a vector of the type that is computed in; n, a
# vector of int64; d, a float64; b, a bool.
_TAKES = {
    layer_norm: "m v v d m m m",
    layer_norm_backward: "m m m m v m v v",
    softmax: "m m d d",
    softmax_backward: "m m m",
    log_softmax: "m m",
    log_softmax_backward: "m m m",
    lstm: "m m m m m m m n b",
    lstm_backward: "m m m m m m m m m m m m n b",
    gelu: "v v",
    gelu_backward: "v v v",
}
_NAMED = {each.py_func.__name__: each for each in _TAKES}


class _Compiled(event.Listener):
    """Tells where a kernel will be kept that is not there yet, before it is compiled."""

    def __init__(self, kernel: Any, tell: Callable[[str | None], None]) -> None:
        self.kernel, self.tell = kernel, tell

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] is self.kernel:
            self.tell(getattr(self.kernel.stats, "cache_path", None))

    def on_end(self, event: Any) -> None:
        pass


def function(name: str, kind: Any, tell: Callable[[str | None], None]) -> Callable[..., None]:
    """The kernel of that name for a dtype, from the disk or compiled now, which `tell` is told."""
    kernel, number = _NAMED[name], from_dtype(kind)
    types_ = {
        "m": number[:, ::1],
        "v": number[::1],
        "n": int64[::1],
        "d": float64,
        "b": boolean,
    }
    with event.install_listener("numba:compile", _Compiled(kernel, tell)):
        kernel.compile(tuple(types_[each] for each in _TAKES[kernel].split()))
    return kernel
