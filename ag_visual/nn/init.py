"""Initial values, in place and outside of the graph.

Source: https://pytorch.org/docs/2.8/nn.init.html
"""

from __future__ import annotations

import math
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.source import warn
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.table import functions as F
from ag_visual.names import expose as _expose


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks to scale the standard deviation."""
    known = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    linear = ("linear", "sigmoid", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)))
    known.update(dict.fromkeys(linear, 1.0))
    if nonlinearity in known:
        return known[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs and outputs a weight of shape (out, in, ...) connects."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, but "
            f"got shape {list(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill with values from U(a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with values from N(mean, std^2)."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Fill with values from N(mean, std^2), those outside of [a, b] drawn again.

    By the inverse of the cumulative distribution, of which [a, b] gives a uniform range.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect."
        )
    low, high = ((1 + math.erf((x - mean) / std / math.sqrt(2))) / 2 for x in (a, b))
    tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
    tensor.erfinv_()
    return tensor.mul_(std * math.sqrt(2)).add_(mean).clamp_(a, b)


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value."""
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill with ones."""
    return constant_(tensor, 1.0)


@no_grad()
def zeros_(tensor: Any) -> Any:
    """Fill with zeros."""
    return tensor.zero_()


@no_grad()
def eye_(tensor: Any) -> Any:
    """The identity matrix."""
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, but got {tensor.dim()}")
    return tensor.copy_(F["eye"](*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@no_grad()
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """The weight of a convolution that returns its input, in each group."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(
            f"Only tensors with 3, 4, or 5 dimensions are supported, but got {tensor.dim()}"
        )
    out, channels, *kernel = tensor.shape
    if out % groups:
        raise ValueError(f"dim 0 must be divisible by groups, but got {out} and {groups}")
    tensor.zero_()
    middle = tuple(k // 2 for k in kernel)
    per_group = out // groups
    for group in range(groups):
        for i in range(min(per_group, channels)):
            tensor[(group * per_group + i, i, *middle)] = 1
    return tensor


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Glorot and Bengio, "Understanding the difficulty of training deep networks" (2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Glorot and Bengio (2010), with a normal distribution."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _kaiming(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _empty(tensor: Any) -> bool:
    if 0 not in tensor.shape:
        return False
    warn("Initializing zero-element tensors is a no-op")
    return True


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """He et al., "Delving deep into rectifiers" (2015)."""
    if _empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """He et al. (2015), with a normal distribution."""
    if _empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


@no_grad()
def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A random matrix with orthogonal rows or columns, times gain.

    Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep
    linear networks" (2013). Dimensions after the first are one.
    """
    if tensor.dim() < 2:
        raise ValueError(
            f"Only tensors with 2 or more dimensions are supported, but got {tensor.dim()}"
        )
    if not tensor.numel():
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    backend = backend_of(tensor._array)
    drawn = tensor.new_empty(rows, columns).normal_(0, 1, generator=generator)._array
    q, r = backend.xp.linalg.qr(drawn.T if rows < columns else drawn)
    # The signs that make the decomposition unique, and the matrix uniformly distributed.
    q = q * backend.xp.sign(backend.xp.diagonal(r))
    q = q.T if rows < columns else q
    return tensor.copy_(from_array(q.reshape(tensor.shape))).mul_(gain)


@no_grad()
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """N(0, std^2), and in each column that share of zeros. Martens (2010)."""
    if tensor.dim() != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, but got {tensor.dim()}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        where = F["randperm"](rows, generator=generator)[:zeros]
        tensor[where, column] = 0
    return tensor


def _deprecated(of: Any) -> Any:
    old = of.__name__[:-1]

    def deprecated_init(*args: Any, **kwargs: Any) -> Any:
        warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{of.__name__}`.", FutureWarning
        )
        return of(*args, **kwargs)

    deprecated_init.__name__ = deprecated_init.__qualname__ = old
    deprecated_init.__doc__ = f"The older name of `{of.__name__}`."
    return deprecated_init


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

_expose(__name__)
