"""Layer and root-mean-square normalization, local response normalization, and normalize.

The raw backward uses the statistics that the forward saved; the recorded one computes them again
from the input, so that it can be differentiated.
"""

from __future__ import annotations

import math
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels import norm as kernels
from ag_visual.arrays.kernels.rows import summed
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.arguments import Sizes, checked, kind_named
from ag_visual.dispatch.record import OWN, ROWS, UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap_layers import normed_by_layer


def wide(xp, x):
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


def moments_of(xp, x, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """Mean and 1 / sqrt(variance + eps), with the reduced dimensions kept."""
    count = math.prod(x.shape[a] for a in axes)
    mean = summed(xp, x, axes, True) / count
    off = x - mean
    return mean, 1 / xp.sqrt(summed(xp, off * off, axes, True) / count + eps)


def of_nothing(xp, input, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Rows without elements normalised: torch's means are 0, the inverse deviations NaN."""
    kind = xp.float32 if input.dtype.itemsize == 2 else input.dtype
    return xp.empty_like(input), xp.zeros(shape, kind), xp.full(shape, math.nan, kind)


def _layer_norm(
    xp, input, normalized_shape, weight=None, bias=None, eps: float = 1e-5
) -> tuple[Any, Any, Any]:
    width = math.prod(normalized_shape)
    rank = len(normalized_shape)
    shape = input.shape[: input.ndim - rank] + (1,) * rank
    if not width:
        return of_nothing(xp, input, shape)
    result, mean, rstd = kernels.layer_norm(xp, input, width, weight, bias, eps)
    return result, mean.reshape(shape), rstd.reshape(shape)


def _normal_layer(input, normalized_shape, weight, bias, eps: float) -> tuple[Any, float]:
    shape = normalized_shape
    if type(shape) is not tuple:
        shape = checked("layer_norm", "normalized_shape", kind_named("Sizes"), shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        stars = ", ".join(["*", *map(str, shape)])
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{stars}], but got "
            f"input of size{list(input.shape)}"
        )
    for name, array in (("weight", weight), ("bias", bias)):
        if array is not None and tuple(array.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(array.shape)} and normalized_shape = {list(shape)}"
            )
    return shape, eps


def statistics_of(F, x, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """The moments again, of Tensors."""
    mean = F.mean(x, dims, True)
    return mean, F.rsqrt(F.mean((x - mean) * (x - mean), dims, True) + eps)


def _mean(F, x, dims: tuple[int, ...]):
    """The mean with its dimensions kept; of arrays without the way through the table."""
    if F.traced:
        return F.mean(x, dims, True)
    return summed(F.xp, x, dims, True) / math.prod(x.shape[d] for d in dims)


def sum_over(F, x, dims: tuple[int, ...]):
    if not dims:
        return x
    return F.sum(x, dims) if F.traced else summed(F.xp, x, dims)


def input_gradient(F, g, normal, rstd, dims: tuple[int, ...]):
    """The gradient through normal = (x - mean) * rstd of a gradient of `normal`."""
    along = _mean(F, g * normal, dims)
    return rstd * (g - _mean(F, g, dims) - normal * along)


def _layer_rule(
    F, g, input, normalized_shape, weight, eps: float, result1, result2, needs
) -> tuple[Any, Any, Any]:
    rank = len(normalized_shape)
    dims = tuple(range(input.ndim - rank, input.ndim))
    lead = tuple(range(input.ndim - rank))
    if not F.traced and input.size:
        found = kernels.layer_norm_backward(F.xp, g, input, result1, result2, weight, needs)
        if rank == 1:
            return found
        return found[0], *(x if x is None else x.reshape(normalized_shape) for x in found[1:])
    mean, rstd = statistics_of(F, input, dims, eps)
    normal = (input - mean) * rstd
    d_input = d_weight = d_bias = None
    if needs[0]:
        d_input = input_gradient(F, g if weight is None else g * weight, normal, rstd, dims)
    if needs[1]:
        d_weight = sum_over(F, g * normal, lead)
    if needs[2]:
        d_bias = sum_over(F, g, lead)
    return d_input, d_weight, d_bias


def _layer_along(F, t_input, input, normalized_shape, weight, eps: float):
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean, rstd = statistics_of(F, input, dims, eps)
    # The way from input to normal is symmetric: its tangent is formed as its gradient is.
    moved = input_gradient(F, t_input, (input - mean) * rstd, rstd, dims)
    return moved if weight is None else moved * weight


def _layer_weight_along(F, t_weight, input, normalized_shape, eps: float):
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean, rstd = statistics_of(F, input, dims, eps)
    return (input - mean) * rstd * t_weight


op(
    "native_layer_norm",
    _layer_norm,
    profiled=OWN,
    vjp={("input", "weight", "bias"): _layer_rule},
    jvp={
        "input": _layer_along,
        "weight": _layer_weight_along,
        "bias": lambda F, t_bias, input_shape: F.expand(t_bias, input_shape),
    },
    outputs=("result0", "result1", "result2"),
    differentiable=(0,),
    layout=ROWS,
    normalize=_normal_layer,
    method=False,
    also_saves=("bias",),
    fused=("input", "weight", "bias"),
    batch=normed_by_layer,
    samples=lambda make: [
        Sample((make((3, 4)), (4,), make((4,)), make((4,)))),
        Sample((make((2, 3, 4)), (3, 4), make((3, 4)), None, 0.1)),
        Sample((make((2, 5)), (5,))),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), (4,)), RuntimeError, "expected input with shape [*, 4]")
    ],
    real_only=True,
    not_exposed=("eps",),
    public_name="layer_norm",
    oracle="native_layer_norm",
    dtype_check=dtype_errors.parameters_of_layers,
    doc="(x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias.",
    formula="result0 = (input - mean(input)) / sqrt(var(input) + eps) * weight + bias",
    autocast="cuda float32",
)


@composite("layer_norm", method=False, spaces="torch nn.functional", autocast="cuda float32")
def _layer_norm_of(F, input, normalized_shape: Sizes, weight=None, bias=None, eps: float = 1e-5):
    """(x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias."""
    return F.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@composite("rms_norm", method=False, spaces="torch nn.functional", autocast="cuda float32")
def _rms_norm(F, input, normalized_shape: Sizes, weight=None, eps: float | None = None):
    """x / sqrt(mean(x^2) + eps) over the last dimensions, times weight; eps: that of the dtype.

    Source: Zhang and Sennrich, Root mean square layer normalization (arXiv:1910.07467).
    """
    shape = normalized_shape
    rank = len(shape)
    if input.ndim < rank:
        raise ValueError(
            f"Input tensor must have at least {rank} dimensions, but got {input.ndim}: those of "
            f"normalized_shape={list(shape)}"
        )
    if not rank or tuple(input.shape)[input.ndim - rank :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*{', '.join(map(str, shape))}], but got input of size{list(input.shape)}"
        )
    if weight is not None and tuple(weight.shape) != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {list(shape)}"
        )
    narrow = input.dtype.np.itemsize == 2
    x = input.float() if narrow else input
    least = float(dtypes.finfo(x.dtype).eps) if eps is None else eps
    dims = tuple(range(input.ndim - rank, input.ndim))
    normal = F.mul(x, F.rsqrt(F.mean(F.pow(x, 2), dims, True) + least))
    result = normal.to(input.dtype) if narrow else normal
    return result if weight is None else F.mul(result, weight)


@composite("local_response_norm", method=False, spaces="nn.functional", profiled=UNSEEN)
def _local_response_norm(
    F, input, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
):
    """x / (k + alpha mean(x^2 over `size` neighbouring channels))^beta of (N, C, d1, ...).

    Source: Krizhevsky et al., ImageNet classification (2012), section 3.3.
    """
    if input.ndim < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          input (got "
            f"{input.ndim} dimensions)"
        )
    if not input.numel():
        return input
    shape = tuple(input.shape)
    squares = F.mul(input, input)
    around = (size // 2, (size - 1) // 2)
    if input.ndim == 3:
        padded = F.pad(F.unsqueeze(squares, 1), (0, 0, *around))
        means = F.squeeze(F.avg_pool2d(padded, (size, 1), 1), 1)
    else:
        apart = F.view(squares, (shape[0], 1, shape[1], shape[2], -1))
        padded = F.pad(apart, (0, 0, 0, 0, *around))
        means = F.view(F.squeeze(F.avg_pool3d(padded, (size, 1, 1), 1), 1), shape)
    return F.div(input, F.pow(F.add(F.mul(means, alpha), k), beta))


@composite(
    "normalize", method=False, out="casts check_overlap", spaces="nn.functional", profiled=UNSEEN
)
def _normalize(F, input, p: float = 2.0, dim: int = 1, eps: float | Tensor = 1e-12):
    """x divided by its p-norm along `dim`, which is not taken below eps."""
    norm = F.clamp_min(F.norm(input, p, dim, True), eps)
    return input / F.expand_as(norm, input)
