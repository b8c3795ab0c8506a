"""Activations, each made from the function of its name in `nn.functional`."""

from __future__ import annotations

from functools import partial
from typing import Any

from ag_visual.core.source import warn
from ag_visual.dispatch.table import functions as F
from ag_visual.nn import functional
from ag_visual.nn.module import Module
from ag_visual.nn.of_function import of_function
from ag_visual.nn.parameter import Parameter

_activation = partial(of_function, __name__)

ReLU = _activation("ReLU", "relu", "max(x, 0).", inplace=False)
ReLU6 = _activation("ReLU6", "relu6", "min(max(x, 0), 6).", inplace=False)
Threshold = _activation(
    "Threshold",
    "threshold",
    "x above the threshold, else the value.",
    threshold=...,
    value=...,
    inplace=False,
)
Sigmoid = _activation("Sigmoid", "sigmoid", "1 / (1 + exp(-x)).")
Tanh = _activation("Tanh", "tanh", "The hyperbolic tangent.")
LogSigmoid = _activation("LogSigmoid", "logsigmoid", "log(1 / (1 + exp(-x))).")
Hardsigmoid = _activation("Hardsigmoid", "hardsigmoid", "relu6(x + 3) / 6.", inplace=False)
Hardswish = _activation("Hardswish", "hardswish", "x relu6(x + 3) / 6.", inplace=False)
SiLU = _activation("SiLU", "silu", "x sigmoid(x).", inplace=False)
Mish = _activation("Mish", "mish", "x tanh(softplus(x)).", inplace=False)
GELU = _activation(
    "GELU",
    "gelu",
    "x times the normal distribution's cumulative function, or its tanh approximation.",
    approximate="none",
)
ELU = _activation(
    "ELU", "elu", "x where positive, else alpha (exp(x) - 1).", alpha=1.0, inplace=False
)
CELU = _activation(
    "CELU", "celu", "x where positive, else alpha (exp(x / alpha) - 1).", alpha=1.0, inplace=False
)
SELU = _activation("SELU", "selu", "A scaled ELU that keeps mean and variance.", inplace=False)
LeakyReLU = _activation(
    "LeakyReLU", "leaky_relu", "x where positive, else slope x.", negative_slope=0.01, inplace=False
)
Softplus = _activation(
    "Softplus",
    "softplus",
    "log(1 + exp(beta x)) / beta, and x itself beyond the threshold.",
    beta=1.0,
    threshold=20.0,
)
Softsign = _activation("Softsign", "softsign", "x / (1 + |x|).")
Tanhshrink = _activation("Tanhshrink", "tanhshrink", "x - tanh(x).")
Softshrink = _activation(
    "Softshrink", "softshrink", "x moved towards 0 by lambd.", bare=True, lambd=0.5
)
Hardshrink = _activation(
    "Hardshrink", "hardshrink", "x where |x| > lambd, else 0.", bare=True, lambd=0.5
)
GLU = _activation("GLU", "glu", "The first half times the sigmoid of the second.", dim=-1)
Softmax = _activation("Softmax", "softmax", "exp(x) / sum(exp(x)) along a dimension.", dim=None)
Softmin = _activation("Softmin", "softmin", "softmax(-x) along a dimension.", dim=None)
LogSoftmax = _activation(
    "LogSoftmax", "log_softmax", "log(softmax(x)) along a dimension.", dim=None
)


class Hardtanh(Module):
    """x between two bounds (min_value and max_value are their old names)."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new in ((min_value, "min_val"), (max_value, "max_val")):
            if old is not None:
                warn(
                    f"keyword argument `{new}ue` is deprecated and rename to `{new}`", FutureWarning
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"max_val must be larger than min_val, got {self.max_val} and {self.min_val}"
            )

    def forward(self, input: Any) -> Any:
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + ", inplace=True" * self.inplace


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return functional.softmax(input, -3)


class RReLU(Module):
    """x where positive, else x times a slope drawn between the bounds (their mean in eval)."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Any) -> Any:
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + ", inplace=True" * self.inplace


class PReLU(Module):
    """x where positive, else x times a learned slope (one, or one for each channel).

    He et al., "Delving deep into rectifiers" (2015).
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(F["full"]((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """The slope of the beginning."""
        self.weight.detach().fill_(self.init)  # type: ignore[attr-defined]

    def forward(self, input: Any) -> Any:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
