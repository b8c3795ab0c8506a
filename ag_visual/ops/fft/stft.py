"""Short-time Fourier transforms and their inverse, and the windows that they weigh signals with.

D. Griffin, J. Lim, "Signal estimation from modified short-time Fourier transform" (1984);
F. Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform" (1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.level import all_values
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import composite, function
from ag_visual.ops.fft.fft import BY_N, BY_ROOT, NONE
from ag_visual.ops.linalg.checks import array_of
from ag_visual.ops.tensor.cast import dtype_of
from ag_visual.ops.tensor.make import make

# Windows ------------------------------------------------------------------------------------------


def _window(
    name: str,
    length: int,
    periodic: bool,
    values: Callable[[Any, Any], Any],
    dtype,
    device,
    requires_grad: bool,
) -> Tensor:
    """`values(backend, x)` of places x in [0, 1]: `length` of them, or one more less the last."""
    kind = dtype_of(name, dtype)
    if kind.category < 2:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )

    def build(backend):
        xp = backend.xp
        if length < 2:
            return xp.ones((length,), kind.np)
        places = xp.arange(length, dtype=xp.float64) / (length if periodic else length - 1)
        found = values(backend, places)
        return found.astype(kind.np)

    return make(build, device, requires_grad)


def _cosines(*weights: float) -> Callable[[Any, Any], Any]:
    """sum_k (-1)^k weights[k] cos(2 pi k x)"""

    def values(backend, x):
        total = weights[0]
        for k, weight in enumerate(weights[1:], 1):
            total = total + (-1) ** k * weight * backend.xp.cos((2 * math.pi * k) * x)
        return total

    return values


def _plain_window(name: str, text: str, values: Callable[[Any, Any], Any]) -> None:
    """A window without parameters."""

    def create(
        window_length: int,
        periodic: bool = True,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad: bool = False,
    ) -> Tensor:
        return _window(name, window_length, periodic, values, dtype, device, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = text
    function()(create)


_plain_window(
    "hann_window",
    "1/2 - 1/2 cos(2 pi n / (N - 1)), n < window_length; N is one more than that if periodic.",
    _cosines(0.5, 0.5),
)
_plain_window(
    "blackman_window",
    "0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1)); N: one more if periodic.",
    lambda backend, x: abs(_cosines(0.42, 0.5, 0.08)(backend, x)),
)
_plain_window(
    "bartlett_window",
    "A triangle: 1 - |2 n / (N - 1) - 1|, n < window_length; N is one more if periodic.",
    lambda backend, x: 1 - abs(2 * x - 1),
)


@function()
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2 pi n / (N - 1)), n < window_length; N is one more if periodic."""
    values = _cosines(alpha, beta)
    return _window("hamming_window", window_length, periodic, values, dtype, device, requires_grad)


@function()
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - (2 n / (N - 1) - 1)^2)) / I0(beta), n < window_length; N as elsewhere."""

    def values(backend, x):
        xp, i0 = backend.xp, backend.special.i0
        inner = i0(beta * xp.sqrt(xp.maximum(1 - (2 * x - 1) ** 2, 0)))
        return inner / i0(xp.asarray(float(beta)))

    return _window("kaiser_window", window_length, periodic, values, dtype, device, requires_grad)


# Transforms ---------------------------------------------------------------------------------------


def _call_text(name: str, self, window, **given) -> str:
    """The call, as errors tell it."""
    kind = dtypes.legacy_name(dtypes.of_array(array_of(self)))
    seen = "None" if window is None else f"torch.{_kind(window)}{{{list(window.shape)}}}"
    rest = ", ".join(f"{k}={v if v is None else int(v)}" for k, v in given.items())
    first, _, others = rest.partition(", normalized")
    return f"{name}(torch.{kind}{list(self.shape)}, {first}, window={seen}, normalized{others})"


def _kind(tensor) -> str:
    return dtypes.legacy_name(dtypes.of_array(array_of(tensor)))


def _whole_window(F, like, window, win_length: int, n_fft: int):
    """The window in the middle of n_fft points; None where it is 1 everywhere."""
    if window is None:
        if win_length == n_fft:
            return None
        kind = numpy.zeros(0, array_of(like).dtype).real.dtype
        window = F.cast(F.real(F.zeros_of(like, (win_length,))) + 1, kind)
    if win_length < n_fft:
        left = (n_fft - win_length) // 2
        window = F.constant_pad_nd(window, (left, n_fft - win_length - left), 0)
    return window


def _is_complex(x) -> bool:
    return x is not None and array_of(x).dtype.kind == "c"


def _check_lengths(call: str, n_fft: int, hop_length: int, win_length: int, window) -> None:
    if hop_length <= 0:
        raise RuntimeError(f"{call} : expected hop_length > 0, but got hop_length={hop_length}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{call} : expected 0 < win_length <= n_fft, but got win_length={win_length}"
        )
    if window is not None and tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{call} : expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {list(window.shape)}"
        )


@composite("stft", autocast="cpu float32")
def stft(
    F,
    self,
    n_fft: int,
    hop_length=None,
    win_length=None,
    window=None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """Fourier transforms of overlapping pieces of signals.

    X[w, m] = sum_k window[k] x[m hop + k] exp(-2 pi i w k / n_fft); x: (time) or (batch, time), X:
    (batch, frequencies, pieces). hop_length is n_fft // 4 by default. center: pieces are centred
    at their time, x is padded (`pad_mode`) by n_fft // 2 at both ends. onesided (the default for
    real signals): n_fft // 2 + 1 frequencies. normalized: times 1 / sqrt(n_fft).
    return_complex=False gives pairs of real numbers in a last dimension.
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if center and align_to_window:
        raise RuntimeError(
            "stft only supports align_to_window for center = False; leave out one of the two"
        )
    if center:
        size, missing = self.shape[-1], 3 - self.ndim
        self = F.reshape(self, (*(1,) * missing, *tuple(self.shape)))
        self = F.pad(self, (n_fft // 2, n_fft // 2), pad_mode)
        self = F.reshape(self, (*tuple(self.shape)[missing:-1], size + 2 * (n_fft // 2)))
    call = _call_text(
        "stft",
        self,
        window,
        n_fft=n_fft,
        hop_length=hop_length,
        win_length=win_length,
        normalized=normalized,
        onesided=onesided,
        return_complex=return_complex,
        align_to_window=align_to_window,
    )
    if array_of(self).dtype.kind not in "fc":
        raise RuntimeError(f"{call} : expected a tensor of floating point or complex values")
    if self.ndim not in (1, 2):
        raise RuntimeError(f"{call} : expected a 1D or 2D tensor")
    complex_ = _is_complex(self) or _is_complex(window)
    if return_complex is None and not complex_:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )
    single = self.ndim == 1
    x = F.unsqueeze(self, 0) if single else self
    size = x.shape[1]
    if not 0 < n_fft <= size:
        raise RuntimeError(f"{call} : expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    _check_lengths(call, n_fft, hop_length, win_length, window)
    if onesided and complex_:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    window = _whole_window(F, x, window, win_length, n_fft)
    pieces = F.unfold(x, 1, n_fft, hop_length)
    pieces = pieces if window is None else pieces * window
    scaling = BY_ROOT if normalized else NONE
    if complex_:
        found = F._fft_c2c(pieces, (2,), scaling, True)
    else:
        found = F._fft_r2c(pieces, (2,), scaling, True if onesided is None else bool(onesided))
    found = F.transpose(found, 1, 2)
    found = F.squeeze(found, 0) if single else found
    return found if return_complex is None or return_complex else F.view_as_real(found)


@composite("istft")
def istft(
    F,
    self,
    n_fft: int,
    hop_length=None,
    win_length=None,
    window=None,
    center: bool = True,
    normalized: bool = False,
    onesided=None,
    length=None,
    return_complex: bool = False,
):
    """The signals whose `stft`, with the same arguments, is nearest to the given one.

    The inverse transforms of the pieces, weighed by the window, are added up and divided by the
    sum of squared windows, which must nowhere be 0. self: (frequencies, pieces) or (batch,
    frequencies, pieces), complex. length: of the signals (cut, or filled up with zeros).
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    call = _call_text(
        "istft",
        self,
        window,
        n_fft=n_fft,
        hop_length=hop_length,
        win_length=win_length,
        normalized=normalized,
        onesided=onesided,
        return_complex=return_complex,
    )
    if not _is_complex(self):
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if self.ndim not in (2, 3):
        raise RuntimeError(
            f"{call} : expected a tensor with 2 or 3 dimensions, but got {self.ndim}"
        )
    if 0 in tuple(self.shape):
        raise RuntimeError(f"{call} : input tensor cannot be empty.")
    single = self.ndim == 2
    x = F.unsqueeze(self, 0) if single else self
    sizes, pieces = x.shape[1], x.shape[2]
    onesided = sizes != n_fft if onesided is None else bool(onesided)
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if sizes != wanted:
        size_text = "n_fft / 2 + 1 when onesided=True" if onesided else "n_fft when onesided=False"
        raise RuntimeError(
            f"{call} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {size_text}, but got {sizes}"
        )
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"{call} : expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{call} : expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{call} : Invalid window shape. window has to be 1D and length of `win_length`"
        )
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and _is_complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    kind = numpy.zeros(0, array_of(x).dtype).real.dtype
    if window is None:
        window = F.cast(F.real(F.zeros_of(x, (win_length,))) + 1, kind)
    window = _whole_window(F, x, window, win_length, n_fft)
    x = F.transpose(x, 1, 2)
    scaling = BY_ROOT if normalized else BY_N
    if return_complex:
        signal = F._fft_c2c(x, (2,), scaling, False)
    else:
        half = x if onesided else F.slice(x, 2, 0, n_fft // 2 + 1, 1)
        signal = F._fft_c2r(half, (2,), scaling, n_fft)
    whole = n_fft + hop_length * (pieces - 1)
    added = F.unfold_backward(signal * window, (x.shape[0], whole), 1, n_fft, hop_length)
    squares = F.expand(F.unsqueeze(F.unsqueeze(window * window, 0), 0), (1, pieces, n_fft))
    weights = F.unfold_backward(squares, (1, whole), 1, n_fft, hop_length)
    start = n_fft // 2 if center else 0
    end = whole - n_fft // 2 if center else whole
    if length is not None:
        end = start + length
    added = F.slice(added, 1, start, min(end, whole), 1)
    weights = F.slice(weights, 1, start, min(end, whole), 1)
    least = abs(all_values(weights)).min()
    if not bool(least > 1e-11):
        raise RuntimeError(
            f"{call} window overlap add min: {float(least)}: the squared windows of all pieces add "
            "up to 0 somewhere. Use a smaller hop_length, another window, or center=True"
        )
    result = added / weights
    if end > whole:
        warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings."
        )
        result = F.constant_pad_nd(result, (0, end - whole), 0)
    return F.squeeze(result, 0) if single else result
