"""A layer of an LSTM in one direction with its steps compiled, as `recurrent` asks for it.

Layer 1. All lies as torch has it, (rows, features): no step turns anything. A workspace of this
file has one number more than its gates, cells and their tanh: that says whose it is.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual.arrays import fast
from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.rows import column_sums

_KEPT = 6


def made(space: Array, output: Array) -> bool:
    """Whether a forward of this file has filled the workspace."""
    return space.size == _KEPT * output.size + 1


def _parts(space: Array, rows: int, hidden: int) -> tuple[Array, Array, Array]:
    """The gates i, f, g, o, the cells, and the tanh of these."""
    gates, cells, bents, _ = numpy.split(space, numpy.array([4, 5, 6]) * (rows * hidden))
    return gates.reshape(rows, -1), cells.reshape(rows, hidden), bents.reshape(rows, hidden)


def forward(
    xp: Any,
    data: Array,
    w_ih: Array,
    w_hh: Array,
    bias: Array,
    h: Array,
    c: Array,
    sizes: tuple[int, ...],
    backwards: bool,
) -> tuple[Array, Array, Array, Array] | None:
    """What `recurrent.forward` gives; None where NumPy is to compute. bias: the sum of both."""
    rows, hidden = len(data), w_hh.shape[1]
    run = fast.kernel("lstm", bias, data, w_ih, h, c) if fast.wanted(xp, rows * hidden) else None
    if run is None:
        return None
    kind = data.dtype
    space = numpy.empty(_KEPT * rows * hidden + 1, kind)
    space[-1] = 0
    gates, cells, bents = _parts(space, rows, hidden)
    numpy.matmul(data, w_ih.T, out=gates)
    gates += bias
    output, h, c = numpy.empty((rows, hidden), kind), h.copy(), c.copy()
    recur = numpy.ascontiguousarray(w_hh.T)
    run(gates, recur, h, c, cells, bents, output, numpy.array(sizes), backwards)
    return output, h, c, space


def backward(
    g: Array | None,
    g_h: Array | None,
    g_c: Array | None,
    data: Array,
    w_ih: Array,
    w_hh: Array,
    h: Array,
    c: Array,
    output: Array,
    space: Array,
    sizes: tuple[int, ...],
    backwards: bool,
    needs: tuple[bool, ...],
) -> tuple[Array | None, ...]:
    """What `recurrent.backward` gives, whatever the switch says now."""
    kind = data.dtype
    run = fast.kernel("lstm_backward", output)
    if run is None:
        raise RuntimeError("an LSTM's forward was compiled, and its backward cannot be")
    gates, cells, bents = _parts(space, *output.shape)
    d_h, d_c = (numpy.zeros(h.shape, kind) if each is None else each.copy() for each in (g_h, g_c))
    d_gates, before = numpy.empty_like(gates), numpy.empty_like(output)
    given = numpy.empty((0, 0), kind) if g is None else g
    ones = (_own(each) for each in (given, gates, w_hh))
    firsts = (_own(each) for each in (h, c, cells, bents, output))
    run(*ones, d_h, d_c, *firsts, before, d_gates, numpy.array(sizes), backwards)
    bias = column_sums(numpy, d_gates) if needs[3] or needs[4] else None
    return (
        numpy.matmul(d_gates, w_ih) if needs[0] else None,
        numpy.matmul(d_gates.T, data) if needs[1] else None,
        numpy.matmul(d_gates.T, before) if needs[2] else None,
        bias if needs[3] else None,
        bias.copy() if needs[4] else None,
        d_h,
        d_c,
    )


def _own(array: Array) -> Array:
    """The array, or a copy of one that may not be written: compiled kernels take no such."""
    return array if array.flags.carray else array.copy()
