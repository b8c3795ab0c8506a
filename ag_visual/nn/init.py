"""Initial values, in place and outside of the graph.

Source: https://pytorch.org/docs/2.8/nn.init.html
"""

from __future__ import annotations

import math
from typing import Any

from ..autograd.grad_mode import no_grad


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks to scale the standard deviation."""
    if nonlinearity in ("linear", "sigmoid", "conv1d", "conv2d", "conv3d"):
        return 1.0
    known = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity in known:
        return known[nonlinearity]
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def fans(tensor: Any) -> tuple[int, int]:
    """How many inputs and outputs a weight of shape (out, in, ...) connects."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, but "
            f"got shape {list(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0) -> Any:
    """Fill with values from U(a, b)."""
    return tensor.uniform_(a, b)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    """Fill with values from N(mean, std^2)."""
    return tensor.normal_(mean, std)


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value."""
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    return constant_(tensor, 0.0)


def xavier_uniform_(tensor: Any, gain: float = 1.0) -> Any:
    """Glorot and Bengio, "Understanding the difficulty of training deep networks" (2010)."""
    fan_in, fan_out = fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Any, gain: float = 1.0) -> Any:
    """Glorot and Bengio (2010), with a normal distribution."""
    fan_in, fan_out = fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)))


def _kaiming(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fan = dict(zip(("fan_in", "fan_out"), fans(tensor), strict=True)).get(mode)
    if fan is None:
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Any:
    """He et al., "Delving deep into rectifiers" (2015)."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Any:
    """He et al. (2015), with a normal distribution."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))
