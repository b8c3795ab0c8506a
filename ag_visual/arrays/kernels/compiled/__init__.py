"""Kernels compiled by Numba: one pass over the memory where NumPy takes ten.

Layer 1. Only `arrays/fast.py` imports this package, when the first of them is used. A kernel fills
arrays that are given; they lie row by row, and all of a call are of one type, float32 or float64.
No call looks at that again, which on small arrays was half of its time: who calls has made sure.

Each file's `TAKES` names its kernels and what they take, a letter for each argument: v, m, t and i,
an array of one, two, three and four dimensions of the type that is computed in; q and w of float64;
n, p and x of int64; j and k of int32; z, one of no dimensions of the type that is computed in; d, a
float64; l, an int64; b, a bool.

Sums may be reordered and products fused with sums. That there is no NaN and no infinity is nowhere
assumed, and a quotient stays one: a certain outcome has probability 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import boolean, float64, from_dtype, int32, int64
from numba.core import event
from numba.types import Array

from ag_visual.arrays.kernels.compiled import (
    activation,
    convolution,
    indices,
    pooling,
    rows,
    sampling,
    scans,
    steps,
    systems,
)

_TAKES = {
    kernel.py_func.__name__: (kernel, takes)
    for topic in (activation, convolution, indices, pooling, rows, sampling, scans, steps, systems)
    for kernel, takes in topic.TAKES.items()
}


class _Compiled(event.Listener):
    """Tells where a kernel will be kept that is not there yet, before it is compiled."""

    def __init__(self, kernel: Any, report: Callable[[str | None], None]) -> None:
        self.kernel, self.report = kernel, report

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] is self.kernel:
            self.report(getattr(self.kernel.stats, "cache_path", None))

    def on_end(self, event: Any) -> None:
        pass


def function(name: str, kind: Any, report: Callable[[str | None], None]) -> Callable[..., Any]:
    """The kernel of that name for a dtype, read or compiled now, which `report` is told."""
    (kernel, takes), number = _TAKES[name], from_dtype(kind)
    types_ = {
        "m": number[:, ::1],
        "v": number[::1],
        "t": number[:, :, ::1],
        "i": number[:, :, :, ::1],
        "q": float64[::1],
        "w": float64[:, ::1],
        "n": int64[::1],
        "p": int64[:, ::1],
        "x": int64[:, :, ::1],
        "j": int32[::1],
        "k": int32[:, ::1],
        "z": Array(number, 0, "C"),
        "d": float64,
        "l": int64,
        "b": boolean,
    }
    with event.install_listener("numba:compile", _Compiled(kernel, report)):
        return kernel.compile(tuple(types_[each] for each in takes.split()))  # type: ignore[no-any-return]
