"""Smooth gates: silu, mish, gelu, glu."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.arrays.kernels import activation as kernels
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import unary
from ag_visual.dispatch.record import FLOAT, ONCE, ErrorSample, Sample
from ag_visual.dispatch.table import op
from ag_visual.ops.nn.activation import backward_op, in_float32


def _silu(xp, self):
    if self.itemsize == 2:
        return in_float32(_silu, xp, self)
    return self * kernels.sigmoid(xp, self)


def _silu_backward(xp, g, self):
    if self.itemsize == 2:
        return in_float32(_silu_backward, xp, g, self)
    z = kernels.sigmoid(xp, self)
    return g * (z * (1 + self * (1 - z)))


def _silu_rule(F, g, self):
    if not F.traced:
        return _silu_backward(F.xp, g, self)
    z = F.sigmoid(self)
    return g * (z * (1 + self * (1 - z)))


def _mish(xp, self):
    if self.itemsize == 2:
        return in_float32(_mish, xp, self)
    return self * xp.tanh(kernels.softplus(xp, self))


def _mish_backward(xp, g, self):
    if self.itemsize == 2:
        return in_float32(_mish_backward, xp, g, self)
    t = xp.tanh(kernels.softplus(xp, self))
    return g * (t + self * kernels.sigmoid(xp, self) * (1 - t * t))


def _mish_rule(F, g, self):
    if not F.traced:
        return _mish_backward(F.xp, g, self)
    t = F.tanh(F.softplus(self))
    return g * (t + self * F.sigmoid(self) * (1 - t * t))


unary(
    "silu",
    _silu_rule,
    _silu,
    method=False,
    reference=lambda np, x: x / (1 + np.exp(-x)),
    doc="x * sigmoid(x), elementwise.",
    spaces="nn.functional",
    rounding=ONCE,
    functional_inplace="flag",
)
unary(
    "mish",
    _mish_rule,
    _mish,
    method=False,
    real_only=True,
    reference=lambda np, x: x * np.tanh(np.log(1 + np.exp(x))),
    doc="x * tanh(softplus(x)), elementwise.",
    spaces="nn.functional",
    rounding=ONCE,
    functional_inplace="flag",
)


_SCALE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _gelu_formula(F, self, approximate: str):
    if approximate == "tanh":
        return 0.5 * self * (1 + F.tanh(_SCALE * (self + _CUBIC * self**3)))
    return self * (1 + F.erf(self / math.sqrt(2))) / 2


def _gelu_backward_formula(F, grad_output, self, approximate: str):
    if approximate == "tanh":
        t = F.tanh(_SCALE * (self + _CUBIC * self**3))
        slope = self * (1 - t * t) * (_SCALE * (1 + 3 * _CUBIC * self**2))
        return grad_output * (1 + t + slope) / 2
    share = (1 + F.erf(self / math.sqrt(2))) / 2
    return grad_output * (share + self * F.exp(-(self**2) / 2) / math.sqrt(2 * math.pi))


def _check_gelu(*args) -> tuple[str]:
    approximate = args[-1]
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return (approximate,)


def _gelu_curve(F, g, grad_output, self, approximate: str):
    """The second derivative of gelu, times both gradients."""
    x = self
    if approximate == "none":
        density = F.exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))
        return g * (grad_output * (density * (2 - x * x)))
    scale, cubic = _SCALE, _CUBIC
    t = F.tanh(scale * (x + cubic * (x * x * x)))
    slope = scale * (1 + 3 * cubic * (x * x))
    rest = 1 - t * t
    bend = 0.5 * x * (6 * scale * cubic * x - 2 * (t * (slope * slope)))
    return g * (grad_output * (rest * (slope + bend)))


backward_op(
    "gelu_backward",
    lambda xp, grad_output, self, *, approximate="none": kernels.gelu_backward(
        xp, grad_output, self, approximate
    ),
    {
        "grad_output": lambda F, g, self, approximate: F.gelu_backward(
            g, self, approximate=approximate
        ),
        "self": _gelu_curve,
    },
    also_saves=("grad_output",),
    real_only=True,
    formula=_gelu_backward_formula,
)
unary(
    "gelu",
    lambda F, g, self, approximate: F.gelu_backward(g, self, approximate=approximate),
    lambda xp, self, *, approximate="none": kernels.gelu(xp, self, approximate),
    method=False,
    inplace=False,
    normalize=_check_gelu,
    samples=lambda make: [
        Sample((make((3, 4)),)),
        Sample((make((3, 4)),), {"approximate": "tanh"}),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)),), RuntimeError, "none or tanh", {"approximate": "erf"})
    ],
    real_only=True,
    doc="x * P(X <= x) of a standard normal X; approximate='tanh': by the usual tanh formula.",
    formula=_gelu_formula,
    spaces="nn.functional",
    out="exact",
    rounding=ONCE,
)


def _halves(F, x, dim: int) -> tuple[Any, Any]:
    size = x.shape[dim] // 2
    return F.narrow(x, dim, 0, size), F.narrow(x, dim, size, size)


def _glu(xp, self, dim: int = -1):
    if self.itemsize == 2:
        return in_float32(_glu, xp, self, dim)
    size = self.shape[dim] // 2
    before = (slice(None),) * dim
    return self[(*before, slice(0, size))] * kernels.sigmoid(xp, self[(*before, slice(size, None))])


def _glu_along(F, t_self, self, dim: int):
    half = self.shape[dim] // 2
    (a, b), (t_a, t_b) = (
        (F.slice(x, dim, 0, half, 1), F.slice(x, dim, half, 2 * half, 1)) for x in (self, t_self)
    )
    gate = F.sigmoid(b)
    return gate * (t_a + a * (1 - gate) * t_b)


def _glu_rule(F, g, self, dim: int):
    a, b = _halves(F, self, dim)
    z = F.sigmoid(b)
    return F.cat((g * z, g * (a * (z * (1 - z)))), dim)


def _normal_glu(self, dim) -> tuple[int]:
    dim = wrap(dim, self.ndim)
    if self.ndim == 0 or self.shape[dim] % 2:
        size = self.shape[dim] if self.ndim else 1
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    return (dim,)


op(
    "glu",
    _glu,
    vjp={"self": _glu_rule},
    policy=FLOAT,
    jvp={"self": _glu_along},
    normalize=_normal_glu,
    method=False,
    samples=lambda make: [Sample((make((3, 4)),)), Sample((make((4, 3)), 0))],
    errors=lambda make: [ErrorSample((make((3,)),), RuntimeError, "must be even")],
    real_only=True,
    doc="a * sigmoid(b) of the two halves a and b of `dim`, whose size must be even.",
    spaces="nn.functional",
)
