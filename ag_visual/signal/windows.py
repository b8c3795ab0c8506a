"""torch.signal.windows: symmetric windows, and with sym=False those of one period.

Each returns a leaf of M numbers, float32 (the default dtype) or float64. With N = M - 1, or M where
sym is False, n runs from 0 to M - 1; a window of one number is 1. A negative M, other dtypes and
layouts and parameters outside of their range raise ValueError.

F. Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform" (1978);
A. Nuttall, "Some windows with very good sidelobe behavior" (1981).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from ag_visual import absent as _absent, dtypes
from ag_visual.core.tensor import Tensor
from ag_visual.layouts import strided
from ag_visual.names import expose as _expose
from ag_visual.ops.tensor.cast import dtype_of
from ag_visual.ops.tensor.make import make

Values = Callable[[Any, Any, int], Any]
"""values(backend, n, N): the window at the places n, in float64."""


def _window(
    name: str,
    M: int,
    values: Values,
    lone: Any = None,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """lone: `values` of a window of one number; None: it is 1."""
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    kind = dtype_of(name, dtype)
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    try:
        size = operator.index(M)
    except TypeError:
        given = f"{M!r} of type {type(M).__name__}"
        raise TypeError(f"{name}(): M is the number of places, an int, but is {given}") from None
    if size < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={size}")

    def build(backend: Any) -> Any:
        xp = backend.xp
        if size < 2 and (not size or lone is None):
            return xp.ones((size,), kind.np)
        n = xp.arange(size, dtype=xp.float64)
        found = (values if size > 1 else lone)(backend, n, size - bool(sym))
        return found.astype(kind.np)

    return make(build, device, requires_grad)


def _positive(what: str, value: float) -> float:
    if value <= 0:
        raise ValueError(f"{what} must be positive, got: {value} instead.")
    return value


def bartlett(M: int, **options: Any) -> Tensor:
    """A triangle: 1 - |2 n / N - 1|."""
    return _window("bartlett", M, lambda backend, n, N: 1 - abs(2 * n / N - 1), **options)


def cosine(M: int, **options: Any) -> Tensor:
    """sin(pi (n + 1/2) / (N + 1))"""
    return _window(
        "cosine", M, lambda backend, n, N: backend.xp.sin(math.pi / (N + 1) * (n + 0.5)), **options
    )


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, **options: Any) -> Tensor:
    """exp(-|n - center| / tau). The center is N / 2; of a symmetric window no other can be asked.

    tau: places in which it decays by e.
    """
    if center is not None and options.get("sym", True):
        raise ValueError("Center must be None for symmetric windows")
    _positive("Tau", tau)

    def values(backend: Any, n: Any, N: int) -> Any:
        return backend.xp.exp(-abs(n - (N / 2 if center is None else center)) / tau)

    # (As in torch, one number far from its center is not 1.)
    return _window("exponential", M, values, None if center is None else values, **options)


def gaussian(M: int, *, std: float = 1.0, **options: Any) -> Tensor:
    """exp(-((n - N / 2) / std)^2 / 2). std: the standard deviation, in places."""
    _positive("Standard deviation", std)

    def values(backend: Any, n: Any, N: int) -> Any:
        return backend.xp.exp(-(((n - N / 2) / std) ** 2) / 2)

    return _window("gaussian", M, values, **options)


def kaiser(M: int, *, beta: float = 12.0, **options: Any) -> Tensor:
    """I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta). beta: not negative; 0 weighs all alike."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(backend: Any, n: Any, N: int) -> Any:
        xp, i0 = backend.xp, backend.special.i0
        inner = xp.sqrt(xp.maximum(1 - (2 * n / N - 1) ** 2, 0))
        return i0(beta * inner) / i0(xp.asarray(float(beta)))

    return _window("kaiser", M, values, **options)


def general_cosine(M: int, *, a: Iterable[float], **options: Any) -> Tensor:
    """sum_k (-1)^k a[k] cos(2 pi k n / N). a: a list or tuple of at least one number."""
    if not isinstance(a, (list, tuple)):
        raise TypeError(f"Coefficients must be a list/tuple, but are {type(a).__name__}")
    if not a:
        raise ValueError("Coefficients cannot be empty")

    def values(backend: Any, n: Any, N: int) -> Any:
        cos = backend.xp.cos
        return sum((-1) ** k * weight * cos(2 * math.pi * k / N * n) for k, weight in enumerate(a))

    return _window("general_cosine", M, values, **options)


def general_hamming(M: int, *, alpha: float = 0.54, **options: Any) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / N)"""
    return general_cosine(M, a=[alpha, 1.0 - alpha], **options)


def hamming(M: int, **options: Any) -> Tensor:
    """0.54 - 0.46 cos(2 pi n / N)"""
    return general_hamming(M, **options)


def hann(M: int, **options: Any) -> Tensor:
    """(1 - cos(2 pi n / N)) / 2"""
    return general_hamming(M, alpha=0.5, **options)


def blackman(M: int, **options: Any) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)"""
    return general_cosine(M, a=[0.42, 0.5, 0.08], **options)


def nuttall(M: int, **options: Any) -> Tensor:
    """Four cosines, the ends near 0: Nuttall's with continuous first derivative."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], **options)


_expose(__name__)

__getattr__ = _absent.asked(__name__, "signal.windows")
