"""Recurrent cells: one step of an RNN, LSTM or GRU."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.dispatch.autocast import precision
from ag_visual.dispatch.table import functions as F
from ag_visual.errors import type_name
from ag_visual.events.spans import OP
from ag_visual.events.timed import Span
from ag_visual.nn import functional, init
from ag_visual.nn.linear import new_parameter
from ag_visual.nn.module import Module


def elman(nonlinearity: str, a: Any, b: Any) -> Any:
    """h' from what the input and the last h add to it."""
    return F[nonlinearity](a + b)


def lstm(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """(h', c'). Hochreiter and Schmidhuber (1997), with the forget gate of Gers et al. (2000)."""
    i, f, g, o = (a + b).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(a: Any, b: Any, h: Any) -> Any:
    """h' = (1 - z) n + z h. Cho et al. (2014)."""
    ra, za, na = a.chunk(3, -1)
    rb, zb, nb = b.chunk(3, -1)
    r, z = (ra + rb).sigmoid(), (za + zb).sigmoid()
    n = (na + r * nb).tanh()
    return n + z * (h - n)


def _projected(
    input: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, gates: int
) -> tuple[Any, Any]:
    """What the input and the last h add to all gates; refuses sizes that do not fit."""
    given, wide = input.shape, w_ih.shape  # read once, as each time makes a new object
    if given[-1] != wide[-1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {given[-1]} expected {wide[-1]}"
        )
    if len(given) == 2 and given[0] != h.shape[0]:
        raise RuntimeError(
            f"Input batch size {given[0]} doesn't match hidden0 batch size {h.shape[0]}"
        )
    rows = gates * w_hh.shape[-1]
    if wide[0] != rows:
        size = "hidden_size" if gates == 1 else f"{gates} * hidden_size"
        raise RuntimeError(f"weight_ih first dim must be {size} = {rows}, but got {wide[0]}")
    return functional.linear(input, w_ih, b_ih), functional.linear(h, w_hh, b_hh)


@precision("cuda lower")
def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh) for (batch, input) and (batch, hidden)."""
    with Span("aten::rnn_tanh_cell", OP):
        return elman("tanh", *_projected(input, hx, w_ih, w_hh, b_ih, b_hh, 1))


@precision("cuda lower")
def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """h' = relu(W_ih x + b_ih + W_hh h + b_hh) for (batch, input) and (batch, hidden)."""
    with Span("aten::rnn_relu_cell", OP):
        return elman("relu", *_projected(input, hx, w_ih, w_hh, b_ih, b_hh, 1))


@precision("cuda lower")
def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> tuple[Any, Any]:
    """(h', c') of an LSTM from (batch, input) and hx = (h, c); weights of (4 hidden, ...)."""
    if not isinstance(hx, tuple | list):
        raise TypeError(
            f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {type_name(hx)}"
        )
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    with Span("aten::lstm_cell", OP):
        return lstm(*_projected(input, hx[0], w_ih, w_hh, b_ih, b_hh, 4), hx[1])


@precision("cuda lower")
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """h' of a GRU from (batch, input) and (batch, hidden); weights of (3 hidden, ...)."""
    with Span("aten::gru_cell", OP):
        return gru(*_projected(input, hx, w_ih, w_hh, b_ih, b_hh, 3), hx)


class RNNCellBase(Module):
    """Base of cells: weights (gates * hidden, input) and (gates * hidden, hidden)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = new_parameter((rows, input_size), device, dtype)
        self.weight_hh = new_parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter((rows,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Values from U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check(self, input: Any, hx: Any, name: str) -> Any:
        """The hidden state: what was given, or zeros."""
        cell = type(self).__name__
        given = input.shape  # read once, as each time makes a new object
        dims = len(given)
        if dims not in (1, 2):
            raise ValueError(f"{cell}: Expected input to be 1D or 2D, got {dims}D instead")
        if given[-1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {given[-1]} expected {self.input_size}"
            )
        if hx is None:
            return F["zeros"](*given[:-1], self.hidden_size, dtype=input.dtype, device=input.device)
        state = hx.shape
        if len(state) != dims:
            raise ValueError(
                f"{cell}: Expected hidden to be {dims}D as its input, got {len(state)}D instead"
            )
        if dims == 2 and state[0] != given[0]:
            raise RuntimeError(
                f"Input batch size {given[0]} doesn't match hidden{name} batch size {state[0]}"
            )
        if state[-1] != self.hidden_size:
            raise RuntimeError(
                f"hidden{name} has inconsistent hidden_size: got {state[-1]}, expected "
                f"{self.hidden_size}"
            )
        return hx

    def _weights(self) -> tuple[Any, Any, Any, Any]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. Elman (1990)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        h = self._check(input, hx, "0")
        cell = rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell
        return cell(input, h, *self._weights())


class _GatedCell(RNNCellBase):
    """Base of cells with `gates` parts in each weight."""

    gates: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self.gates, device, dtype)


class LSTMCell(_GatedCell):
    """Returns (h', c') from input and (h, c). Hochreiter and Schmidhuber (1997)."""

    gates = 4

    def forward(self, input: Any, hx: Any = None) -> Any:
        h, c = (None, None) if hx is None else hx
        h, c = self._check(input, h, "0"), self._check(input, c, "1")
        return lstm_cell(input, (h, c), *self._weights())


class GRUCell(_GatedCell):
    """h' = (1 - z) n + z h. Cho et al. (2014)."""

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        h = self._check(input, hx, "0")
        return gru_cell(input, h, *self._weights())
