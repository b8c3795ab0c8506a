"""Recurrent cells: one step of an RNN, LSTM or GRU."""

from __future__ import annotations

import math
from typing import Any

from ..ops.table import functions as F
from . import functional, init
from .module import Module
from .parameter import Parameter


class _Cell(Module):
    """Base of cells: weights (gates * hidden, input) and (gates * hidden, hidden)."""

    gates: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
        }
        if bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            value = None
            if name in shapes:
                value = Parameter(F["empty"](shapes[name], device=device, dtype=dtype))
                init.uniform_(value, -bound, bound)
            self.register_parameter(name, value)

    def _start(self, input: Any, hx: Any) -> Any:
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{type(self).__name__}: input has inconsistent input_size: got "
                f"{input.shape[-1]}, expected {self.input_size}"
            )
        return input.new_zeros(*input.shape[:-1], self.hidden_size) if hx is None else hx

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"

    def _gates(self, input: Any, h: Any) -> tuple[Any, Any]:
        return (
            functional.linear(input, self.weight_ih, self.bias_ih),
            functional.linear(h, self.weight_hh, self.bias_hh),
        )


class RNNCell(_Cell):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        a, b = self._gates(input, self._start(input, hx))
        return F[self.nonlinearity](a + b)


class LSTMCell(_Cell):
    """Returns (h', c') from input and (h, c)."""

    gates = 4

    def forward(self, input: Any, hx: Any = None) -> Any:
        h, c = (None, None) if hx is None else hx
        h, c = self._start(input, h), self._start(input, c)
        a, b = self._gates(input, h)
        i, f, g, o = (a + b).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class GRUCell(_Cell):
    """h' = (1 - z) n + z h."""

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        h = self._start(input, hx)
        a, b = self._gates(input, h)
        ra, za, na = a.chunk(3, -1)
        rb, zb, nb = b.chunk(3, -1)
        r, z = (ra + rb).sigmoid(), (za + zb).sigmoid()
        n = (na + r * nb).tanh()
        return n + z * (h - n)
