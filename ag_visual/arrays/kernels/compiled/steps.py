"""The steps of an LSTM.

Layer 1. `compiled/__init__.py` says what kernels are given.
"""

from __future__ import annotations

import numpy

from ag_visual.arrays.kernels.compiled.making import summing
from ag_visual.arrays.kernels.compiled.numbers import sigmoid, tanh


@summing
def _add(x, y):
    for j in range(x.size):
        x[j] += y[j]


@summing
def _sigmoids(x):
    for j in range(x.size):
        x[j] = sigmoid(x[j])


@summing
def _tanhs(x, out):
    for j in range(x.size):
        out[j] = tanh(x[j])


@summing
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


@summing
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


TAKES = {
    lstm: "m m m m m m m n b",
    lstm_backward: "m m m m m m m m m m m m n b",
}
