"""A recurrent layer over a whole sequence in one direction, and its gradients.

Layer 1. `sizes[t]` rows belong to step t, one step after the other; sequences are sorted, so that
sizes never grow. A step is one product and about ten calls into memory that is there; all that
does not depend on the step before it is computed for all steps at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels.rows import column_sums
from ag_visual.arrays.quiet import silent

RELU, TANH, LSTM, GRU = range(4)
"""The modes, as torch numbers them."""
KEPT = {RELU: 1, TANH: 1, LSTM: 6, GRU: 4}
"""How many numbers are kept for each of a row's hidden units (of an RNN, in no row)."""

Sizes = tuple[int, ...]


def _steps(array: Array, sizes: Sizes, backwards: bool) -> list[Array]:
    """The rows of each step, in the order in which they are computed."""
    if sizes[0] == sizes[-1]:
        found = list(array.reshape(len(sizes), sizes[0], *array.shape[1:]))
    else:
        ends = itertools.accumulate(sizes)
        found = [array[end - n : end] for n, end in zip(sizes, ends, strict=True)]
    return found[::-1] if backwards else found


def _columns(array: Array, count: int, width: int) -> list[Array]:
    """The first `count` blocks of `width` columns."""
    return [array[:, k * width : (k + 1) * width] for k in range(count)]


def _resized(xp: Any, state: Array, first: Array, rows: int) -> Array:
    """The state of as many sequences: those that are over leave, those that begin join."""
    if rows < len(state):
        return state[:rows]
    return xp.concatenate([state, first[len(state) : rows]])


def _before(xp: Any, states: Array, first: Array, sizes: Sizes, backwards: bool) -> Array:
    """The state before each row, from the states after each row and the first ones."""
    many = len(first)
    if sizes[0] == sizes[-1]:
        parts = [states[many:], first] if backwards else [first, states[:-many]]
        return xp.concatenate(parts)
    steps = _steps(states, sizes, backwards)
    last = first[: len(steps[0])]
    found = []
    for rows in steps:
        found.append(_resized(xp, last, first, len(rows)) if len(rows) != len(last) else last)
        last = rows
    return xp.concatenate(found[::-1] if backwards else found)


def _last(xp: Any, states: Array, sizes: Sizes, backwards: bool) -> Array:
    """The state after the last step of each sequence."""
    many = sizes[0]
    if backwards:
        return states[:many].copy()
    if many == sizes[-1]:
        return states[-many:].copy()
    steps = _steps(states, sizes, False)
    left = (*sizes[1:], 0)
    return xp.concatenate([s[n:] for s, n in zip(steps[::-1], left[::-1], strict=True)])


def _signed(xp: Any, weight: Array, mode: int, hidden: int) -> Array:
    """A weight or bias whose gates lie as the kernels want them, sigmoids first and negated."""
    if mode == LSTM:  # i, f, g, o -> o, i, f, g
        weight = xp.roll(weight, hidden, axis=0)
        weight[: 3 * hidden] *= -1
    elif mode == GRU:
        weight = weight.copy()
        weight[: 2 * hidden] *= -1
    return weight


@silent
def forward(
    xp: Any,
    mode: int,
    data: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array,
    b_hh: Array,
    h: Array,
    c: Array | None,
    sizes: Sizes,
    backwards: bool,
) -> tuple[Array, Array, Array, Array]:
    """Outputs (rows, hidden), the last h and c (c of an LSTM alone), and what backward needs.

    data: (rows, input); weights (gates * hidden, input or hidden); h, c: (sequences, hidden).
    """
    hidden = w_hh.shape[1]
    bias = b_ih + b_hh
    if mode == GRU:
        bias[2 * hidden :] = b_ih[2 * hidden :]
    added = xp.matmul(data, _signed(xp, w_ih, mode, hidden).T)
    added += _signed(xp, bias, mode, hidden)
    recur = xp.ascontiguousarray(_signed(xp, w_hh, mode, hidden).T)
    output = xp.empty((len(data), hidden), added.dtype)
    order = sizes, backwards
    cells = xp.empty((0,), added.dtype)
    if mode == LSTM:
        space = xp.empty((len(data), KEPT[LSTM] * hidden), added.dtype)
        _lstm(xp, added, recur, h, c, space, output, *order)
        cells = _last(xp, space[:, 4 * hidden : 5 * hidden], *order)
    elif mode == GRU:
        space = xp.empty((len(data), KEPT[GRU] * hidden), added.dtype)
        _gru(xp, added, recur, b_hh[2 * hidden :], h, space, output, *order)
    else:
        space = cells
        _elman(xp, added, recur, h, output, mode, *order)
    return output, _last(xp, output, *order), cells, space


def _elman(
    xp: Any,
    added: Array,
    recur: Array,
    h: Array,
    output: Array,
    mode: int,
    sizes: Sizes,
    backwards: bool,
) -> None:
    zero = xp.zeros((), added.dtype)
    first, h = h, h[:0]
    for a, out in zip(*(_steps(x, sizes, backwards) for x in (added, output)), strict=True):
        if len(h) != len(a):
            h = _resized(xp, h, first, len(a))
        xp.dot(h, recur, out=out)
        xp.add(a, out, out)
        if mode == TANH:
            xp.tanh(out, out)
        else:
            xp.maximum(out, zero, out=out)
        h = out


def _lstm(
    xp: Any,
    added: Array,
    recur: Array,
    h: Array,
    c: Any,
    space: Array,
    output: Array,
    sizes: Sizes,
    backwards: bool,
) -> None:
    """In `space` by columns: the gates o, i, f, g, the cell, its tanh."""
    hidden = len(recur)
    o, i, f, g, cell, bent = _columns(space, 6, hidden)
    parts = added, space[:, : 4 * hidden], space[:, : 3 * hidden], o, i, f, g, cell, bent, output
    steps = [_steps(x, sizes, backwards) for x in parts]
    dot, add, multiply, exp, tanh = xp.dot, xp.add, xp.multiply, xp.exp, xp.tanh
    reciprocal, one = xp.reciprocal, xp.ones((), added.dtype)
    whole, spare = xp.empty((len(h), 4 * hidden), added.dtype), xp.empty_like(h)
    first_h, first_c, h, c = h, c, h[:0], c[:0]
    for a, gates, bounded, o, i, f, g, cell, bent, out in zip(*steps, strict=True):
        if len(h) != len(a):
            h, c = _resized(xp, h, first_h, len(a)), _resized(xp, c, first_c, len(a))
            product, part = whole[: len(a)], spare[: len(a)]
        dot(h, recur, out=product)
        add(a, product, gates)
        exp(bounded, bounded)
        add(bounded, one, bounded)
        reciprocal(bounded, bounded)
        tanh(g, g)
        multiply(f, c, cell)
        multiply(i, g, part)
        add(cell, part, cell)
        tanh(cell, bent)
        multiply(o, bent, out)
        h, c = out, cell


def _gru(
    xp: Any,
    added: Array,
    recur: Array,
    b_hn: Array,
    h: Array,
    space: Array,
    output: Array,
    sizes: Sizes,
    backwards: bool,
) -> None:
    """In `space` by columns: the gates r, z, what h adds to n, and n."""
    hidden = len(recur)
    r, z, inner, n = _columns(space, 4, hidden)
    parts = (
        *(added[:, : 2 * hidden], added[:, 2 * hidden :], space[:, : 2 * hidden]),
        *(r, z, inner, n, output),
    )
    steps = [_steps(x, sizes, backwards) for x in parts]
    dot, add, multiply, subtract, exp, tanh = (
        *(xp.dot, xp.add, xp.multiply),
        *(xp.subtract, xp.exp, xp.tanh),
    )
    reciprocal, one = xp.reciprocal, xp.ones((), added.dtype)
    whole = xp.empty((len(h), 3 * hidden), added.dtype)
    first, h = h, h[:0]
    for a, a_n, bounded, r, z, inner, n, out in zip(*steps, strict=True):
        if len(h) != len(a):
            h = _resized(xp, h, first, len(a))
            product = whole[: len(a)]
            to_gates, to_n = product[:, : 2 * hidden], product[:, 2 * hidden :]
        dot(h, recur, out=product)
        add(a, to_gates, bounded)
        exp(bounded, bounded)
        add(bounded, one, bounded)
        reciprocal(bounded, bounded)
        add(to_n, b_hn, inner)
        multiply(r, inner, n)
        add(n, a_n, n)
        tanh(n, n)
        subtract(h, n, out)
        multiply(out, z, out)
        add(out, n, out)
        h = out


@silent
def backward(
    xp: Any,
    mode: int,
    grads: tuple[Array | None, Array | None, Array | None],
    data: Array,
    w_ih: Array,
    w_hh: Array,
    h: Array,
    c: Array | None,
    output: Array,
    space: Array,
    sizes: Sizes,
    backwards: bool,
    needs: tuple[bool, ...],
) -> tuple[Array | None, ...]:
    """The gradients of data, w_ih, w_hh, b_ih, b_hh, h and c, from those of the three results."""
    hidden = w_hh.shape[1]
    g_out, g_h, g_c = grads
    before = _before(xp, output, h, sizes, backwards)
    d_h = xp.zeros_like(h) if g_h is None else g_h.copy()
    d_c = None
    order = sizes, not backwards  # the way back
    if mode == LSTM:
        cells = space[:, 4 * hidden : 5 * hidden]
        slopes, carried = _lstm_slopes(xp, space, _before(xp, cells, c, sizes, backwards), hidden)
        weight = xp.roll(w_hh, hidden, axis=0)
        d_c = xp.zeros_like(d_h) if g_c is None else g_c.copy()
        forget = space[:, 2 * hidden : 3 * hidden]
        d_h, d_c = _lstm_back(xp, slopes, carried, forget, weight, g_out, d_h, d_c, *order)
        of_input = of_hidden = xp.roll(slopes, -hidden, axis=1)
    elif mode == GRU:
        slopes = _gru_slopes(xp, space, before, hidden)
        update = space[:, hidden : 2 * hidden]
        d_h = _gru_back(xp, slopes, update, w_hh, g_out, d_h, *order)
        of_hidden = slopes[:, : 3 * hidden]
        of_input = xp.concatenate([slopes[:, : 2 * hidden], slopes[:, 3 * hidden :]], axis=1)
    else:
        slopes = 1 - output * output if mode == TANH else 1 - (output <= 0).astype(output.dtype)
        d_h = _elman_back(xp, slopes, w_hh, g_out, d_h, *order)
        of_input = of_hidden = slopes
    return (
        xp.matmul(of_input, w_ih) if needs[0] else None,
        xp.matmul(of_input.T, data) if needs[1] else None,
        xp.matmul(of_hidden.T, before) if needs[2] else None,
        column_sums(xp, of_input) if needs[3] else None,
        column_sums(xp, of_hidden) if needs[4] else None,
        d_h,
        d_c,
    )


def _arriving(
    g: Array | None, slopes: Array, sizes: Sizes, backwards: bool
) -> Iterator[Array | None]:
    """What arrives at the outputs of each step."""
    return itertools.repeat(None) if g is None else iter(_steps(g, sizes, backwards))


class _Ends:
    """The gradient of a state where sequences begin or end, on the way back through the steps.

    Its rows are those of the last states' gradients until the step is reached that made them, and
    afterwards the gradients of the first states.
    """

    def __init__(self, xp: Any, whole: Array, rows: int) -> None:
        self.xp, self.whole, self.now = xp, whole, whole[:rows].copy()

    def at(self, rows: int) -> Array:
        """The gradient of as many sequences."""
        now = self.now
        if rows < len(now):
            self.whole[rows : len(now)] = now[rows:]
            self.now = now[:rows].copy()
        elif rows > len(now):
            self.now = self.xp.concatenate([now, self.whole[len(now) : rows]])
        return self.now

    def done(self) -> Array:
        self.whole[: len(self.now)] = self.now
        return self.whole


def _elman_back(
    xp: Any,
    slopes: Array,
    weight: Array,
    g: Array | None,
    d_h: Array,
    sizes: Sizes,
    backwards: bool,
) -> Array:
    """Makes of the slopes the gradients of what goes into the function; gives that of h."""
    steps = _steps(slopes, sizes, backwards)
    ends = _Ends(xp, d_h, len(steps[0]))
    for s, arrived in zip(steps, _arriving(g, slopes, sizes, backwards), strict=False):
        d_h = ends.at(len(s))
        if arrived is not None:
            xp.add(d_h, arrived, d_h)
        xp.multiply(s, d_h, s)
        xp.dot(s, weight, out=d_h)
    return ends.done()


def _lstm_slopes(xp: Any, space: Array, before: Array, hidden: int) -> tuple[Array, Array]:
    """By the gates' inputs, of h for o, of c for i, f, g; and how h grows with c."""
    o, i, _, g, _, bent = _columns(space, 6, hidden)
    bounded = space[:, : 3 * hidden]
    slopes = xp.empty((len(space), 4 * hidden), space.dtype)
    xp.subtract(1, bounded, slopes[:, : 3 * hidden])
    slopes[:, : 3 * hidden] *= bounded
    to_o, to_i, to_f, to_g = _columns(slopes, 4, hidden)
    to_o *= bent
    to_i *= g
    to_f *= before
    xp.multiply(g, g, to_g)
    xp.subtract(1, to_g, to_g)
    to_g *= i
    carried = bent * bent
    xp.subtract(1, carried, carried)
    carried *= o
    return slopes, carried


def _lstm_back(
    xp: Any,
    slopes: Array,
    carried: Array,
    forget: Array,
    weight: Array,
    g: Array | None,
    d_h: Array,
    d_c: Array,
    sizes: Sizes,
    backwards: bool,
) -> tuple[Array, Array]:
    """Makes of the slopes the gradients of the gates' inputs; gives those of h and c."""
    hidden = weight.shape[1]
    of_c = slopes[:, hidden:].reshape(len(slopes), 3, hidden)
    parts = slopes, slopes[:, :hidden], of_c, carried, forget
    steps = [_steps(x, sizes, backwards) for x in parts]
    dot, add, multiply = xp.dot, xp.add, xp.multiply
    rows = len(steps[0][0])
    ends_h, ends_c = _Ends(xp, d_h, rows), _Ends(xp, d_c, rows)
    rows = -1
    arriving = _arriving(g, slopes, sizes, backwards)
    for s, to_o, to_c, along, f, arrived in zip(*steps, arriving, strict=False):
        if len(s) != rows:
            rows = len(s)
            d_h, d_c = ends_h.at(rows), ends_c.at(rows)
            each, part = d_c[:, None, :], xp.empty_like(d_c)
        if arrived is not None:
            add(d_h, arrived, d_h)
        multiply(d_h, along, part)
        add(d_c, part, d_c)
        multiply(to_o, d_h, to_o)
        multiply(to_c, each, to_c)
        multiply(d_c, f, d_c)
        dot(s, weight, out=d_h)
    return ends_h.done(), ends_c.done()


def _gru_slopes(xp: Any, space: Array, before: Array, hidden: int) -> Array:
    """Of h', by the inputs of r, of z, by what h adds to n, and by the input of n."""
    r, z, inner, n = _columns(space, 4, hidden)
    slopes = xp.empty_like(space)
    to_r, to_z, to_inner, to_n = _columns(slopes, 4, hidden)
    xp.subtract(1, z, to_z)
    xp.multiply(n, n, to_n)
    xp.subtract(1, to_n, to_n)
    to_n *= to_z
    to_z *= z
    to_z *= before - n
    xp.multiply(to_n, r, to_inner)
    xp.subtract(1, r, to_r)
    to_r *= to_inner
    to_r *= inner
    return slopes


def _gru_back(
    xp: Any,
    slopes: Array,
    update: Array,
    weight: Array,
    g: Array | None,
    d_h: Array,
    sizes: Sizes,
    backwards: bool,
) -> Array:
    """Makes of the slopes the gradients; gives that of h."""
    hidden = weight.shape[1]
    parts = slopes.reshape(len(slopes), 4, hidden), slopes[:, : 3 * hidden], update
    steps = [_steps(x, sizes, backwards) for x in parts]
    ends = _Ends(xp, d_h, len(steps[0][0]))
    rows = -1
    for s, to_h, z, arrived in zip(*steps, _arriving(g, slopes, sizes, backwards), strict=False):
        if len(s) != rows:
            rows = len(s)
            d_h = ends.at(rows)
            each, part = d_h[:, None, :], xp.empty_like(d_h)
        if arrived is not None:
            xp.add(d_h, arrived, d_h)
        xp.multiply(s, each, s)
        xp.multiply(d_h, z, d_h)
        xp.dot(to_h, weight, out=part)
        xp.add(d_h, part, d_h)
    return ends.done()
