"""A recurrent layer over a whole sequence in one direction, and its gradients.

Layer 1. `sizes[t]` rows belong to step t, one step after the other; sequences are sorted, so that
sizes never grow. Steps of one size are a run. What a run computes lies as (steps, features, rows),
so that each gate of a step is one block of memory: a step is one product and about ten calls into
memory that is there. What does not depend on the step before it is computed for all steps at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ag_visual.arrays.backend import Array
from ag_visual.arrays.kernels import lstm_steps
from ag_visual.arrays.kernels.rows import column_sums
from ag_visual.arrays.quiet import silent

RELU, TANH, LSTM, GRU = range(4)
"""The modes, as torch numbers them."""
KEPT = {RELU: 0, TANH: 0, LSTM: 6, GRU: 5}
"""How many numbers the forward keeps for the backward, for each row and hidden unit."""

Sizes = tuple[int, ...]


class _Run(NamedTuple):
    """Steps of one size: their rows are `begin` to `end` of all."""

    steps: int
    size: int
    begin: int
    end: int

    def of(self, array: Array) -> Array:
        """(steps, size, ...) of the rows of all steps."""
        return array[self.begin : self.end].reshape(self.steps, self.size, *array.shape[1:])

    def turned(self, xp: Any, array: Array) -> Array:
        """(steps, features, size) of them, in memory of its own order."""
        return xp.ascontiguousarray(self.of(array).transpose(0, 2, 1))

    def kept(self, space: Array, hidden: int, count: int) -> Array:
        """(steps, count * hidden, size): the run's part of the flat memory."""
        part = space[self.begin * count * hidden : self.end * count * hidden]
        return part.reshape(self.steps, count * hidden, self.size)


def _runs(sizes: Sizes, backwards: bool) -> Iterator[_Run]:
    """The runs in the order in which they are computed."""
    found, begin = [], 0
    for size, group in itertools.groupby(sizes):
        steps = len(list(group))
        found.append(_Run(steps, size, begin, begin + steps * size))
        begin += steps * size
    return reversed(found) if backwards else iter(found)


def _resized(xp: Any, state: Array | None, first: Array, rows: int) -> Array:
    """The state (features, rows) of as many sequences: some are over, or some begin."""
    if state is None:
        return xp.ascontiguousarray(first[:rows].T)
    many = state.shape[1]
    if rows <= many:
        return xp.ascontiguousarray(state[:, :rows])
    return xp.ascontiguousarray(xp.concatenate([state, first[many:rows].T], axis=1))


def _steps(backwards: bool, *arrays: Any) -> Iterator[tuple[Array, ...]]:
    """The steps of arrays (steps, ...) side by side, in the order in which they are computed."""
    return zip(*(list(x[::-1] if backwards else x) for x in arrays), strict=True)


def _parts(array: Array, count: int) -> list[Array]:
    """`count` equal parts of the features of (steps, features, rows)."""
    width = array.shape[1] // count
    return [array[:, k * width : (k + 1) * width] for k in range(count)]


def _signed(xp: Any, weight: Array, mode: int, hidden: int) -> Array:
    """A weight or bias whose gates lie as the kernels want them, sigmoids first and negated."""
    if mode == LSTM:  # i, f, g, o -> o, i, f, g
        given, weight = weight, xp.empty(weight.shape, weight.dtype)
        xp.negative(given[3 * hidden :], weight[:hidden])
        xp.negative(given[: 2 * hidden], weight[hidden : 3 * hidden])
        weight[3 * hidden :] = given[2 * hidden : 3 * hidden]
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
    hidden, kind = w_hh.shape[1], w_hh.dtype
    bias = b_ih + b_hh
    if mode == LSTM:
        found = lstm_steps.forward(xp, data, w_ih, w_hh, bias, h, c, sizes, backwards)
        if found is not None:
            return found
    if mode == GRU:
        bias[2 * hidden :] = b_ih[2 * hidden :]
    added = xp.matmul(data, _signed(xp, w_ih, mode, hidden).T)
    added += _signed(xp, bias, mode, hidden)
    # By columns BLAS takes two thirds of the time where there are few sequences.
    recur = xp.ascontiguousarray(_signed(xp, w_hh, mode, hidden).T).T
    output = xp.empty((len(data), hidden), kind)
    space = xp.empty((len(data) * KEPT[mode] * hidden,), kind)
    firsts = {"h": h, "c": c} if c is not None else {"h": h}
    lasts = {name: xp.empty_like(first) for name, first in firsts.items()}
    now: dict[str, Array | None] = dict.fromkeys(firsts)
    for run in _runs(sizes, backwards):
        now = {n: _resized(xp, now[n], first, run.size) for n, first in firsts.items()}
        states = xp.empty((run.steps, hidden, run.size), kind)
        kept = run.kept(space, hidden, KEPT[mode])
        if mode == LSTM:
            kept[:, : 4 * hidden] = run.of(added).transpose(0, 2, 1)
            # Of one sequence all are vectors: their products take three quarters of the time.
            at = (..., 0) if run.size == 1 else ...
            given = recur, now["h"][at], now["c"][at], kept[at], states[at]
            now["c"] = _lstm(xp, *given, backwards).reshape(hidden, run.size)
        elif mode == GRU:
            b_hn = b_hh[2 * hidden :].reshape(-1, 1)
            _gru(xp, run.turned(xp, added), recur, b_hn, now["h"], kept, states, backwards)
        else:
            _elman(xp, run.turned(xp, added), recur, now["h"], states, mode, backwards)
        now["h"] = states[0 if backwards else -1]
        run.of(output)[...] = states.transpose(0, 2, 1)
        for name, state in now.items():
            lasts[name][: run.size] = state.T  # of those that go on later runs write it again
    return output, lasts["h"], lasts.get("c", xp.empty((0,), kind)), space


def _elman(
    xp: Any, added: Array, recur: Array, h: Array, states: Array, mode: int, backwards: bool
) -> None:
    zero = xp.zeros((), added.dtype)
    for a, out in _steps(backwards, added, states):
        xp.dot(recur, h, out=out)
        xp.add(a, out, out)
        if mode == TANH:
            xp.tanh(out, out)
        else:
            xp.maximum(out, zero, out=out)
        h = out


def _lstm(
    xp: Any, recur: Array, h: Array, c: Array, kept: Array, states: Array, backwards: bool
) -> Array:
    """Keeps o, i, f, g, the cell before and the tanh of that after; gives the last cell.

    At first there lies in the place of the gates what the input adds.
    """
    hidden = recur.shape[1]
    o, _, _, g, cells, bent = _parts(kept, 6)
    last = xp.empty_like(c)
    cells[-1 if backwards else 0] = c
    after = [last, *cells[:-1]] if backwards else [*cells[1:], last]
    # i and f lie side by side, and g and the cell.
    factors = kept[:, hidden : 3 * hidden], kept[:, 3 * hidden : 5 * hidden]
    each = kept[:, : 4 * hidden], kept[:, : 3 * hidden], *factors, o, g, after, bent, states
    dot, add, multiply, exp, tanh = xp.dot, xp.add, xp.multiply, xp.exp, xp.tanh
    reciprocal, one = xp.reciprocal, xp.ones((), kept.dtype)
    product = xp.empty((4 * hidden, *h.shape[1:]), kept.dtype)
    products = xp.empty((2 * hidden, *h.shape[1:]), kept.dtype)
    new, old = products[:hidden], products[hidden:]
    for gates, bounded, i_f, g_c, o, g, cell, bent, out in _steps(backwards, *each):
        dot(recur, h, out=product)
        add(gates, product, gates)
        exp(bounded, bounded)
        add(bounded, one, bounded)
        reciprocal(bounded, bounded)
        tanh(g, g)
        multiply(i_f, g_c, products)
        add(new, old, cell)
        tanh(cell, bent)
        multiply(o, bent, out)
        h = out
    return last


def _gru(
    xp: Any,
    added: Array,
    recur: Array,
    b_hn: Array,
    h: Array,
    kept: Array,
    states: Array,
    backwards: bool,
) -> None:
    """Keeps r, z, what h adds to n, n, and h - n."""
    hidden = recur.shape[1]
    r, z, inner, n, off = _parts(kept, 5)
    each = added[:, : 2 * hidden], added[:, 2 * hidden :], kept[:, : 2 * hidden]
    each = *each, r, z, inner, n, off, states
    dot, add, multiply = xp.dot, xp.add, xp.multiply
    subtract, exp, tanh = xp.subtract, xp.exp, xp.tanh
    reciprocal, one = xp.reciprocal, xp.ones((), kept.dtype)
    product = xp.empty((3 * hidden, h.shape[1]), kept.dtype)
    to_gates, to_n = product[: 2 * hidden], product[2 * hidden :]
    for a, a_n, bounded, r, z, inner, n, off, out in _steps(backwards, *each):
        dot(recur, h, out=product)
        add(a, to_gates, bounded)
        exp(bounded, bounded)
        add(bounded, one, bounded)
        reciprocal(bounded, bounded)
        add(to_n, b_hn, inner)
        multiply(r, inner, n)
        add(n, a_n, n)
        tanh(n, n)
        subtract(h, n, off)
        multiply(off, z, out)
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
    if lstm_steps.made(space, output):
        given = data, w_ih, w_hh, h, c, output, space, sizes, backwards, needs
        return lstm_steps.backward(*grads, *given)
    hidden, kind = w_hh.shape[1], w_hh.dtype
    g_out, *g_last = grads
    firsts = [h] if c is None else [h, c]
    ends = [
        xp.zeros(first.shape, kind) if g is None else g.copy()
        for first, g in zip(firsts, g_last, strict=False)
    ]
    of_input = xp.empty((len(data), w_hh.shape[0]), kind)
    of_hidden = xp.empty_like(of_input) if mode == GRU else of_input
    weight = xp.roll(w_hh, hidden, axis=0) if mode == LSTM else w_hh
    weight = xp.ascontiguousarray(weight.T)
    now: list[Array | None] = [None] * len(ends)
    for run in reversed(list(_runs(sizes, backwards))):
        now = [_resized(xp, state, end, run.size) for state, end in zip(now, ends, strict=True)]
        g = None if g_out is None else run.turned(xp, g_out)
        kept = run.kept(space, hidden, KEPT[mode])
        rows = run.of(of_input).transpose(0, 2, 1)
        if mode == LSTM:
            slopes, carried = _lstm_slopes(xp, kept)
            _lstm_back(xp, slopes, carried, _parts(kept, 6)[2], weight, g, *now, not backwards)
            rows[:, : 3 * hidden] = slopes[:, hidden:]
            rows[:, 3 * hidden :] = slopes[:, :hidden]
        elif mode == GRU:
            slopes = _gru_slopes(xp, kept)
            _gru_back(xp, slopes, _parts(kept, 5)[1], weight, g, now[0], not backwards)
            rows[:, : 2 * hidden] = slopes[:, : 2 * hidden]
            rows[:, 2 * hidden :] = slopes[:, 3 * hidden :]
            run.of(of_hidden).transpose(0, 2, 1)[...] = slopes[:, : 3 * hidden]
        else:
            states = run.turned(xp, output)
            slopes = 1 - (states * states if mode == TANH else (states <= 0).astype(kind))
            _elman_back(xp, slopes, weight, g, now[0], mode, not backwards)
            rows[...] = slopes
        for end, state in zip(ends, now, strict=True):
            end[: run.size] = state.T
    return (
        xp.matmul(of_input, w_ih) if needs[0] else None,
        xp.matmul(of_input.T, data) if needs[1] else None,
        xp.matmul(of_hidden.T, _before(xp, output, h, sizes, backwards)) if needs[2] else None,
        column_sums(xp, of_input) if needs[3] else None,
        column_sums(xp, of_hidden) if needs[4] else None,
        *(ends if c is not None else (*ends, None)),
    )


def _before(xp: Any, output: Array, first: Array, sizes: Sizes, backwards: bool) -> Array:
    """The h that each row began with: of its sequence's row before it, or the first."""
    size = sizes[0]
    if size == sizes[-1]:
        return xp.concatenate([output[size:], first] if backwards else [first, output[:-size]])
    parts, begin = [], 0
    ends = list(itertools.accumulate(sizes))
    for step, size in enumerate(sizes):
        near = step + 1 if backwards else step - 1
        if 0 <= near < len(sizes):
            begin = ends[near] - sizes[near]
            known = min(size, sizes[near])
            parts.append(output[begin : begin + known])
            if known < size:
                parts.append(first[known:size])
        else:
            parts.append(first[:size])
    return xp.concatenate(parts)


def _elman_back(
    xp: Any, slopes: Array, weight: Array, g: Array | None, d_h: Array, mode: int, backwards: bool
) -> None:
    """Makes of the slopes the gradients of what goes into the function, and of d_h that of h.

    A relu that is shut lets nothing through, not even a gradient that is not finite.
    """
    for s, arrived in _steps(backwards, slopes, slopes if g is None else g):
        if g is not None:
            xp.add(d_h, arrived, d_h)
        if mode == RELU:
            s[...] = xp.where(s, d_h, 0)
        else:
            xp.multiply(s, d_h, s)
        xp.dot(weight, s, out=d_h)


def _lstm_slopes(xp: Any, kept: Array) -> tuple[Array, Array]:
    """By the gates' inputs, of h for o, of c for i, f, g; and how h grows with c."""
    o, i, _, g, _, bent = _parts(kept, 6)
    steps, width, rows = kept.shape
    hidden = width // 6
    slopes = xp.empty((steps, 4 * hidden, rows), kept.dtype)
    to_o, _, _, to_g = _parts(slopes, 4)
    bounded, to_bounded = kept[:, : 3 * hidden], slopes[:, : 3 * hidden]
    xp.subtract(1, bounded, to_bounded)
    xp.multiply(to_bounded, bounded, to_bounded)
    to_o *= bent
    slopes[:, hidden : 3 * hidden] *= kept[:, 3 * hidden : 5 * hidden]
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
    backwards: bool,
) -> None:
    """Makes of the slopes the gradients of the gates' inputs, of d_h and d_c those of h and c."""
    steps, width, rows = slopes.shape
    hidden = width // 4
    of_c = slopes[:, hidden:].reshape(steps, 3, hidden, rows)
    each = slopes, slopes[:, :hidden], of_c, carried, forget, slopes if g is None else g
    dot, add, multiply = xp.dot, xp.add, xp.multiply
    part = xp.empty_like(d_c)
    for s, to_o, to_c, along, f, arrived in _steps(backwards, *each):
        if g is not None:
            add(d_h, arrived, d_h)
        multiply(d_h, along, part)
        add(d_c, part, d_c)
        multiply(to_o, d_h, to_o)
        multiply(to_c, d_c, to_c)
        multiply(d_c, f, d_c)
        dot(weight, s, out=d_h)


def _gru_slopes(xp: Any, kept: Array) -> Array:
    """Of h', by the inputs of r, of z, by what h adds to n, and by the input of n."""
    r, z, inner, n, off = _parts(kept, 5)
    slopes = xp.empty((kept.shape[0], kept.shape[1] // 5 * 4, kept.shape[2]), kept.dtype)
    to_r, to_z, to_inner, to_n = _parts(slopes, 4)
    xp.subtract(1, z, to_z)
    xp.multiply(n, n, to_n)
    xp.subtract(1, to_n, to_n)
    to_n *= to_z
    to_z *= z
    to_z *= off
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
    backwards: bool,
) -> None:
    """Makes of the slopes the gradients, and of d_h that of h."""
    steps, width, rows = slopes.shape
    hidden = width // 4
    whole = slopes.reshape(steps, 4, hidden, rows)
    each = whole, slopes[:, : 3 * hidden], update, slopes if g is None else g
    dot, add, multiply = xp.dot, xp.add, xp.multiply
    part = xp.empty_like(d_h)
    for s, to_h, z, arrived in _steps(backwards, *each):
        if g is not None:
            add(d_h, arrived, d_h)
        multiply(s, d_h, s)
        multiply(d_h, z, d_h)
        dot(weight, to_h, out=part)
        add(d_h, part, d_h)
