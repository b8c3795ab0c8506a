"""Recurrent layers: RNN, LSTM and GRU over whole sequences, padded or packed.

A layer in one direction is one op (docs/notes/recurrent-layers.md). Where it is taken step by step,
the input's part of all steps is one multiplication; what is left of a step is the part of the
hidden state, and the formula of the cell.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.kernels import recurrent as kernels
from ag_visual.core import modes
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.autocast import casts_of, run as cast_run
from ag_visual.dispatch.table import functions as F, traced
from ag_visual.events.spans import OP
from ag_visual.events.timed import Span
from ag_visual.nn import functional, init
from ag_visual.nn.linear import new_parameter
from ag_visual.nn.module import Module
from ag_visual.nn.recurrent import elman, gru, lstm
from ag_visual.nn.utils.rnn import PackedSequence

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_MODES = {
    "LSTM": kernels.LSTM,
    "GRU": kernels.GRU,
    "RNN_TANH": kernels.TANH,
    "RNN_RELU": kernels.RELU,
}


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: `num_layers` layers in one or both directions."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_sizes(mode, hidden_size, num_layers, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        rows = GATES[mode] * hidden_size
        out = proj_size or hidden_size
        self._all_weights: list[list[str]] = []  # their names
        for layer in range(num_layers):
            width = out * self._directions if layer else input_size
            for direction in range(self._directions):
                suffix = f"_l{layer}" + "_reverse" * direction
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, width),
                    "weight_hh": (rows, out),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, new_parameter(shape, device, dtype))
                self._all_weights.append([name + suffix for name in shapes])
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        """The names of all parameters in one list."""
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters of `all_weights` in one list."""
        return [weight for weights in self.all_weights for weight in weights]

    def flatten_parameters(self) -> None:
        """torch lays its weights out for cuDNN here; there is nothing to do."""

    def reset_parameters(self) -> None:
        """Values from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        shown = [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join([text, *shown])

    # What comes in ---------------------------------------------------------------------------

    def _sizes(self) -> dict[str, int]:
        """The last dimension of each part of the hidden state."""
        return {"hx": self.proj_size or self.hidden_size}

    def _begin(self, hx: Any, data: Any, batch: int, batched: bool, order: Any) -> list[Any]:
        """The parts of the hidden state as (layers * directions, batch, size)."""
        count = self.num_layers * self._directions
        sizes = self._sizes()
        if hx is None:
            like = {"dtype": data.dtype, "device": data.device}
            return [F["zeros"](count, batch, size, **like) for size in sizes.values()]
        found = []
        given = hx if isinstance(hx, tuple | list) else (hx,)
        if len(given) != len(sizes) or not all(isinstance(part, Tensor) for part in given):
            wanted = "a tuple (h, c) of Tensors" if "cx" in sizes else "one Tensor"
            kinds = ", ".join(type(part).__name__ for part in given)
            got = f"({kinds})" if isinstance(hx, tuple | list) else kinds
            raise TypeError(
                f"{type(self).__name__}: the hidden state must be {wanted}, but got {got}"
            )
        for part, (name, size) in zip(given, sizes.items(), strict=True):
            dims = 3 if batched else 2
            if part.dim() != dims:
                kind = "batched 3-D" if batched else "unbatched 2-D"
                raise RuntimeError(
                    f"For {kind} input, {name} should also be {dims}-D but got "
                    f"{part.dim()}-D tensor"
                )
            part = part if batched else part.unsqueeze(1)
            if tuple(part.shape) != (count, batch, size):
                which = {"cx": "hidden[1]"}.get(name, "hidden[0]" if "cx" in sizes else "hidden")
                raise RuntimeError(
                    f"Expected {which} size {(count, batch, size)}, got {list(part.shape)}"
                )
            found.append(part if order is None else part.index_select(1, order))
        return found

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = input if isinstance(input, PackedSequence) else None
        batched = packed is not None or input.dim() == 3
        turned = packed is None and batched and self.batch_first
        if packed is not None:
            data, sizes = packed.data, packed.batch_sizes.tolist()
        else:
            if input.dim() not in (2, 3):
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D "
                    "instead"
                )
            if not batched:
                input = input.unsqueeze(1)
            steps, batch = input.shape[1::-1] if turned else input.shape[:2]
            sizes = [batch] * steps
            data = input
        weight = self.all_weights[0][0]
        if data.dtype is not weight.dtype and modes.state.autocast is None:
            raise ValueError(
                f"RNN input dtype ({data.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({data.dtype})"
            )
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{data.shape[-1]}"
            )
        if not sizes:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        order = None if packed is None else packed.sorted_indices
        states = self._begin(hx, data, sizes[0], batched, order)
        with Span(f"aten::{self.mode.lower()}", OP):
            data = data.transpose(0, 1) if turned else data
            # Mixed precision casts all of it on CUDA; on the CPU, as in torch, a plain LSTM alone.
            plain = self.mode == "LSTM" and not self.proj_size and packed is None
            casts = casts_of("lower" if plain else "cuda lower")
            given = data, sizes, states, self.all_weights
            data, states = cast_run(casts, self._layers, given, {}, composite=True)
            data = data.transpose(0, 1) if turned else data
        if packed is not None:
            back = packed.unsorted_indices
            if back is not None:
                states = [part.index_select(1, back) for part in states]
            output: Any = PackedSequence(data, packed.batch_sizes, order, back)
        else:
            output = data
            if not batched:
                output = output.squeeze(1)
                states = [part.squeeze(1) for part in states]
        return output, states[0] if len(states) == 1 else tuple(states)

    # The layers ------------------------------------------------------------------------------

    def _layers(
        self, data: Any, sizes: list[int], states: list[Any], all_weights: list[list[Any]]
    ) -> tuple[Any, list[Any]]:
        flat = [weight for weights in all_weights for weight in weights]
        whole = not self.proj_size and _is_whole([data, *states, *flat])
        apart = data.dim() == 3 and not whole
        if apart:
            data = data.flatten(0, 1)
        sweep = self._layer if whole else self._sweep
        weights = iter(all_weights)
        last: list[list[Any]] = []
        begins = list(zip(*(part.unbind(0) for part in states), strict=True))
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                data = functional.dropout(data, self.dropout)
            found = []
            for direction in range(self._directions):
                begin = begins[layer * self._directions + direction]
                out, end = sweep(data, sizes, begin, next(weights), direction == 1)
                found.append(out)
                last.append(end)
            data = found[0] if len(found) == 1 else F["cat"](found, -1)
        if apart:
            data = data.view(len(sizes), sizes[0], data.shape[-1])
        return data, [F["stack"](parts) for parts in zip(*last, strict=True)]

    def _layer(
        self, data: Any, sizes: list[int], begin: Any, weights: list[Any], backwards: bool
    ) -> tuple[Any, Any]:
        """What `_sweep` gives, by one op; the outputs have the dimensions of `data`."""
        if not self.bias:
            nothing = data.new_zeros(weights[0].shape[0])
            weights = [*weights, nothing, nothing]
        batches = () if data.dim() == 3 else tuple(sizes)
        options = self.num_layers, self.bias, self.bidirectional, self.batch_first, self.training
        h, c = begin if len(begin) == 2 else (*begin, None)
        given = backwards, batches, _MODES[self.mode], self.hidden_size, *options
        output, last_h, last_c, _ = traced.mkldnn_rnn_layer(data, *weights, h, c, *given)
        return output, (last_h,) if c is None else (last_h, last_c)

    def _step(self, a: Any, b: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """The next state from the parts of the gates that the input and the last h add."""
        raise NotImplementedError

    def _sweep(
        self, data: Any, sizes: list[int], begin: Any, weights: list[Any], backwards: bool
    ) -> tuple[Any, Any]:
        """One layer in one direction: the outputs of all steps, and the last states."""
        w_ih, w_hh, *rest = weights
        b_ih, b_hh = rest[:2] if self.bias else (None, None)
        w_hr = rest[-1] if self.proj_size else None
        steps = list(functional.linear(data, w_ih, b_ih).split(sizes))
        count = sizes[-1] if backwards else sizes[0]
        state = tuple(part[:count] for part in begin) if count < sizes[0] else tuple(begin)
        outputs: list[Any] = []
        ended: list[tuple[Any, ...]] = []  # the last states of sequences that are over
        for a in reversed(steps) if backwards else steps:
            now = a.shape[0]
            if now > count:
                joined = zip(state, begin, strict=True)
                state = tuple(F["cat"]([s, s0[count:now]]) for s, s0 in joined)
            elif now < count:
                ended.append(tuple(part[now:] for part in state))
                state = tuple(part[:now] for part in state)
            count = now
            state = self._step(a, functional.linear(state[0], w_hh, b_hh), state)
            if w_hr is not None:
                state = (functional.linear(state[0], w_hr), *state[1:])
            outputs.append(state[0])
        if ended:
            ended.append(state)
            state = tuple(F["cat"](parts[::-1]) for parts in zip(*ended, strict=True))
        return F["cat"](outputs[::-1] if backwards else outputs), state


def _is_whole(given: list[Any]) -> bool:
    """Whether layers of these tensors are one op each: real numbers of one dtype, no transforms."""
    # Who never asked for the switch has not set it: nobody else imports its module.
    switch = sys.modules.get("ag_visual.backends.mkldnn")
    if modes.state.levels or modes.duals or not (switch is None or switch.enabled):
        return False
    first = given[0]
    backend = backend_of(first._array)
    if not backend.has_values or not first.is_floating_point() or not first.numel():
        return False
    return all(x.dtype is first.dtype and backend_of(x._array) is backend for x in given)


def _check_sizes(mode: str, hidden: Any, layers: int, dropout: Any, proj: int) -> None:
    if mode not in GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")
    if isinstance(dropout, bool) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            f"being zeroed, but is {dropout}"
        )
    if dropout > 0 and layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={layers}"
        )
    if not isinstance(hidden, int):
        raise TypeError(f"hidden_size should be of type int, got: {type(hidden).__name__}")
    if hidden <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj >= hidden:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if proj and mode != "LSTM":
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), or relu. Elman (1990).

    RNN(input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False,
    dropout=0.0, bidirectional=False, device=None, dtype=None). Returns (output, h_n).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if len(args) > 3:
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def _step(self, a: Any, b: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        return (elman(self.nonlinearity, a, b),)


class LSTM(RNNBase):
    """Hochreiter and Schmidhuber, "Long short-term memory" (1997).

    LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, proj_size=0, device=None, dtype=None). Returns (output, (h_n, c_n)).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _sizes(self) -> dict[str, int]:
        return {**super()._sizes(), "cx": self.hidden_size}

    def _step(self, a: Any, b: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        return lstm(a, b, state[1])


class GRU(RNNBase):
    """Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014).

    GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, device=None, dtype=None). Returns (output, h_n).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def _step(self, a: Any, b: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        return (gru(a, b, state[0]),)
