"""A recurrent layer in one direction as one op, as torch has it for an LSTM on the CPU.

Forward mode and vmap never meet it: nn.RNNBase takes single steps there. Its raw backward uses what
the forward kept; the recorded one goes through the steps again, so that it can be differentiated.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.kernels import recurrent as kernels
from ag_visual.dispatch.families import zeros_like
from ag_visual.dispatch.record import Sample
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap import slice_by_slice

GATES = {kernels.RELU: 1, kernels.TANH: 1, kernels.LSTM: 4, kernels.GRU: 3}


def _sizes(input, batch_sizes: tuple[int, ...]) -> tuple[int, ...]:
    return batch_sizes or (input.shape[1],) * input.shape[0]


def _layer(
    xp,
    input,
    weight0,
    weight1,
    weight2,
    weight3,
    hx_,
    cx_=None,
    reverse=False,
    batch_sizes=(),
    mode=kernels.LSTM,
    hidden_size=0,
    num_layers=1,
    has_biases=True,
    bidirectional=False,
    batch_first=False,
    train=True,
) -> tuple[Any, Any, Any, Any]:
    """One layer in one direction: the outputs, the last h, the last c of an LSTM, a workspace.

    input: (steps, batch, size), or the data of a packed sequence with its batch_sizes. weight0,
    weight1: of the input and of h, (gates * hidden, ...); weight2, weight3: their biases. mode: 0
    RNN with relu, 1 with tanh, 2 LSTM, 3 GRU.
    """
    data = xp.ascontiguousarray(input).reshape(-1, input.shape[-1])
    weights = (weight0, weight1, weight2, weight3)
    h, c = xp.ascontiguousarray(hx_), None if cx_ is None else xp.ascontiguousarray(cx_)
    sizes = _sizes(input, batch_sizes)
    found = kernels.forward(xp, mode, data, *weights, h, c, sizes, reverse)
    output, last_h, last_c, space = found
    # As bytes it is not rounded where results are.
    space = space.view(xp.uint8)
    return output.reshape(*input.shape[:-1], weight1.shape[1]), last_h, last_c, space


def _rule(
    F,
    gs,
    input,
    weight0,
    weight1,
    weight2,
    weight3,
    hx_,
    cx_,
    reverse,
    batch_sizes,
    mode,
    result0,
    result3,
    needs,
) -> tuple[Any, ...]:
    width, hidden = input.shape[-1], weight1.shape[1]
    sizes = _sizes(input, batch_sizes)
    if F.traced:
        flat = [g if g is None else F.reshape(g, (-1, hidden)) for g in gs[:1]]
        given = F.reshape(input, (-1, width)), weight0, weight1, weight2, weight3, hx_, cx_
        found = _Recorded(F, mode, sizes, reverse, *given).backward(flat[0], *gs[1:], cx_)
    else:
        xp = F.xp
        rows = [
            None if x is None else xp.ascontiguousarray(x)
            for x in (*gs, input, hx_, cx_, result0, weight1)
        ]
        g, g_h, g_c, data, h, c, output, recur = rows
        data, output = data.reshape(-1, width), output.reshape(-1, hidden)
        grads = None if g is None else g.reshape(-1, hidden), g_h, g_c
        kept = result3.view(weight0.dtype)
        found = kernels.backward(
            *(xp, mode, grads, data, weight0, recur, h, c, output, kept, sizes, reverse, needs)
        )
    d_input, *rest = found
    d_input = d_input if d_input is None else F.reshape(d_input, tuple(input.shape))
    return tuple(g if n else None for g, n in zip((d_input, *rest), needs, strict=True))


class _Recorded:
    """The steps of a layer on Tensors, and the way back through them."""

    def __init__(self, F, mode: int, sizes, reverse: bool, x, w_ih, w_hh, b_ih, b_hh, h, c):
        self.F, self.mode, self.sizes, self.x = F, mode, sizes, x
        self.w_ih, self.w_hh, self.hidden = w_ih, w_hh, w_hh.shape[1]
        self.begin = {"h": h, "c": c}
        ends = [sum(sizes[: t + 1]) for t in range(len(sizes))]
        places = [slice(end - n, end) for n, end in zip(sizes, ends, strict=True)]
        self.places = places[::-1] if reverse else places
        added = F.matmul(x, F.t(w_ih)) + b_ih
        self.steps: list[dict[str, Any]] = []
        for place in self.places:
            rows = place.stop - place.start
            h, c = self._resized(h, "h", rows), self._resized(c, "c", rows)
            step = self._step(added[place], F.matmul(h, F.t(w_hh)) + b_hh, h, c)
            self.steps.append({"before": h, "c": c, **step})
            h, c = step["h"], step.get("cell")

    def _resized(self, state, name: str, rows: int):
        if state is None or len(state) == rows:
            return state
        if rows < len(state):
            return state[:rows]
        return self.F.cat([state, self.begin[name][len(state) : rows]])

    def _parts(self, x):
        return self.F.split(x, self.hidden, 1)

    def _step(self, a, b, h, c) -> dict[str, Any]:
        F = self.F
        if self.mode == kernels.LSTM:
            i, f, g, o = self._parts(a + b)
            i, f, g, o = F.sigmoid(i), F.sigmoid(f), F.tanh(g), F.sigmoid(o)
            cell = f * c + i * g
            bent = F.tanh(cell)
            return {"i": i, "f": f, "g": g, "o": o, "cell": cell, "bent": bent, "h": o * bent}
        if self.mode == kernels.GRU:
            (a_r, a_z, a_n), (b_r, b_z, inner) = self._parts(a), self._parts(b)
            r, z = F.sigmoid(a_r + b_r), F.sigmoid(a_z + b_z)
            n = F.tanh(a_n + r * inner)
            return {"r": r, "z": z, "inner": inner, "n": n, "h": n + z * (h - n)}
        return {"h": F.tanh(a + b) if self.mode == kernels.TANH else F.relu(a + b)}

    def _back(self, s: dict[str, Any], d_h, d_c) -> tuple[Any, Any, Any, Any]:
        """The gradients of a and b of `_step`, and what goes on to h (but by b) and to c."""
        F = self.F
        if self.mode == kernels.LSTM:
            i, f, g, o, bent = (s[name] for name in ("i", "f", "g", "o", "bent"))
            d_c = d_c + d_h * o * (1 - bent * bent)
            d_a = F.cat(
                [
                    d_c * g * i * (1 - i),
                    d_c * s["c"] * f * (1 - f),
                    d_c * i * (1 - g * g),
                    d_h * bent * o * (1 - o),
                ],
                1,
            )
            return d_a, d_a, None, d_c * f
        if self.mode == kernels.GRU:
            r, z, inner, n = (s[name] for name in ("r", "z", "inner", "n"))
            d_n = d_h * (1 - z) * (1 - n * n)
            d_r = d_n * inner * r * (1 - r)
            d_z = d_h * (s["before"] - n) * z * (1 - z)
            return F.cat([d_r, d_z, d_n], 1), F.cat([d_r, d_z, d_n * r], 1), d_h * z, None
        h = s["h"]
        d_a = d_h * (1 - h * h) if self.mode == kernels.TANH else F.where(h <= 0, 0.0, d_h)
        return d_a, d_a, None, None

    def backward(self, g, g_h, g_c, cx_) -> tuple[Any, ...]:
        """The gradients of the seven inputs."""
        F = self.F
        kinds = {"h": g_h, "c": g_c} if cx_ is not None else {"h": g_h}
        ends = {
            name: zeros_like(F, self.begin[name]) if given is None else given
            for name, given in kinds.items()
        }
        rows = len(self.steps[-1]["h"])
        now = {name: whole[:rows] for name, whole in ends.items()}
        of_input: list[Any] = [None] * len(self.steps)
        of_hidden = list(of_input)
        for k in range(len(self.steps) - 1, -1, -1):
            step, place = self.steps[k], self.places[k]
            ends, now = self._moved(ends, now, len(step["h"]))
            d_h = now["h"] if g is None else now["h"] + g[place]
            of_input[k], of_hidden[k], more, d_c = self._back(step, d_h, now.get("c"))
            d_h = F.matmul(of_hidden[k], self.w_hh)
            now = {"h": d_h if more is None else d_h + more, "c": d_c}
            now = {name: now[name] for name in kinds}
        ends, now = self._moved(ends, now, 0)
        d_a, d_b, before = (
            self._in_order(x) for x in (of_input, of_hidden, [s["before"] for s in self.steps])
        )
        return (
            F.matmul(d_a, self.w_ih),
            F.matmul(F.t(d_a), self.x),
            F.matmul(F.t(d_b), before),
            F.sum(d_a, (0,)),
            F.sum(d_b, (0,)),
            ends["h"],
            ends.get("c"),
        )

    def _moved(self, ends, now, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Gradients of as many rows: those of sequences that begin here are done."""
        cat = self.F.cat
        for name, state in now.items():
            many = len(state)
            if rows < many:
                ends = {**ends, name: cat([ends[name][:rows], state[rows:], ends[name][many:]])}
                now = {**now, name: state[:rows]}
            elif rows > many:
                now = {**now, name: cat([state, ends[name][many:rows]])}
        return ends, now

    def _in_order(self, steps: list[Any]):
        forwards = self.places[0].start == 0
        return self.F.cat(steps if forwards else steps[::-1])


def _samples(make):
    for mode, gates in GATES.items():
        weights = make((3 * gates, 2)), make((3 * gates, 3)), make((3 * gates,))
        state = (make((2, 3)), make((2, 3)) if mode == kernels.LSTM else None)
        given = *weights, make((3 * gates,)), *state
        yield Sample((make((4, 2, 2)), *given, False, (), mode, 3), smooth=mode != kernels.RELU)
        yield Sample((make((5, 2)), *given, True, (2, 2, 1), mode, 3), smooth=mode != kernels.RELU)


op(
    "mkldnn_rnn_layer",
    _layer,
    vjp={("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_"): _rule},
    outputs=("result0", "result1", "result2", "result3"),
    differentiable=(0, 1, 2),
    also_saves=(
        *("weight2", "weight3", "result1", "result2", "hidden_size", "num_layers", "has_biases"),
        *("bidirectional", "batch_first", "train"),
    ),
    batch=slice_by_slice,
    opmath=True,
    rounding="once",
    real_only=True,
    public=False,
    oracle=False,
    samples=_samples,
)
