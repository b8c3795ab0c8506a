"""Normalisation: layer, batch, group and instance, and normalize.

The raw backward uses the statistics that the forward saved; the recorded one computes them again
from the input, so that it can be differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..arrays.kernels import norm as kernels
from .batched_layers import normed_by_channel, normed_by_layer
from .record import ErrorSample, Sample
from .table import composite, op

# Layers -------------------------------------------------------------------------------------------


def _wide(xp: Any, x: Any) -> Any:
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


def _moments(xp: Any, x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """Mean and 1 / sqrt(variance + eps), with the reduced dimensions kept."""
    count = math.prod(x.shape[a] for a in axes)
    mean = x.sum(axis=axes, keepdims=True) / count
    off = x - mean
    return mean, 1 / xp.sqrt((off * off).sum(axis=axes, keepdims=True) / count + eps)


def _layer_norm(
    xp: Any,
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    width = math.prod(normalized_shape)
    result, mean, rstd = kernels.layer_norm(xp, input, width, weight, bias, eps)
    rank = len(normalized_shape)
    shape = input.shape[: input.ndim - rank] + (1,) * rank
    return result, mean.reshape(shape), rstd.reshape(shape)


def _normal_layer(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, float]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
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


def _statistics(F: Any, x: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """The moments again, of Tensors."""
    mean = F.mean(x, dims, True)
    return mean, F.rsqrt(F.mean((x - mean) * (x - mean), dims, True) + eps)


def _mean(F: Any, x: Any, dims: tuple[int, ...]) -> Any:
    """The mean with its dimensions kept; of arrays without the way through the table."""
    if F.xp is None:
        return F.mean(x, dims, True)
    return x.sum(axis=dims, keepdims=True) / math.prod(x.shape[d] for d in dims)


def _sum(F: Any, x: Any, dims: tuple[int, ...]) -> Any:
    if not dims:
        return x
    return F.sum(x, dims) if F.xp is None else x.sum(axis=dims)


def _input_gradient(F: Any, g: Any, normal: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    """The gradient through normal = (x - mean) * rstd of a gradient of `normal`."""
    along = _mean(F, g * normal, dims)
    return rstd * (g - _mean(F, g, dims) - normal * along)


def _layer_rule(
    F: Any,
    g: Any,
    input: Any,
    normalized_shape: Any,
    weight: Any,
    eps: float,
    result1: Any,
    result2: Any,
    needs: Any,
) -> tuple[Any, Any, Any]:
    rank = len(normalized_shape)
    dims = tuple(range(input.ndim - rank, input.ndim))
    lead = tuple(range(input.ndim - rank))
    if F.xp is not None and result1.size:
        found = kernels.layer_norm_backward(F.xp, g, input, result1, result2, weight, needs)
        if rank == 1:
            return found
        return found[0], *(x if x is None else x.reshape(normalized_shape) for x in found[1:])
    mean, rstd = _statistics(F, input, dims, eps)
    normal = (input - mean) * rstd
    d_input = d_weight = d_bias = None
    if needs[0]:
        d_input = _input_gradient(F, g if weight is None else g * weight, normal, rstd, dims)
    if needs[1]:
        d_weight = _sum(F, g * normal, lead)
    if needs[2]:
        d_bias = _sum(F, g, lead)
    return d_input, d_weight, d_bias


def _layer_along(
    F: Any, t_input: Any, input: Any, normalized_shape: Any, weight: Any, eps: float
) -> Any:
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean, rstd = _statistics(F, input, dims, eps)
    # The way from input to normal is symmetric: its tangent is formed as its gradient is.
    moved = _input_gradient(F, t_input, (input - mean) * rstd, rstd, dims)
    return moved if weight is None else moved * weight


def _layer_weight_along(
    F: Any, t_weight: Any, input: Any, normalized_shape: Any, eps: float
) -> Any:
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean, rstd = _statistics(F, input, dims, eps)
    return (input - mean) * rstd * t_weight


def _layer_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 4)), (4,), make((4,)), make((4,))))
    yield Sample((make((2, 3, 4)), (3, 4), make((3, 4)), None, 0.1))
    yield Sample((make((2, 5)), (5,)))


op(
    "native_layer_norm",
    _layer_norm,
    vjp={("input", "weight", "bias"): _layer_rule},
    jvp={
        "input": _layer_along,
        "weight": _layer_weight_along,
        "bias": lambda F, t_bias, input_shape: F.expand(t_bias, input_shape),
    },
    outputs=("result0", "result1", "result2"),
    differentiable=(0,),
    normalize=_normal_layer,
    method=False,
    keeps=("bias",),
    batch=normed_by_layer,
    samples=_layer_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)), (4,)), RuntimeError, "expected input with shape [*, 4]")]
    ),
    real=True,
    hidden=("eps",),
)


@composite("layer_norm", method=False)
def _layer_norm_of(
    F: Any,
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias."""
    return F.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


# Batches ------------------------------------------------------------------------------------------


def _channels(x: Any, like: Any) -> Any:
    """A value per channel, shaped to broadcast over (N, C, ...)."""
    return x.reshape((1, -1) + (1,) * (like.ndim - 2))


def _others(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        x = x * _channels(weight, x)
    return x if bias is None else x + _channels(bias, x)


def _batch_train(
    xp: Any,
    input: Any,
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    x = _wide(xp, input)
    mean, rstd = _moments(xp, x, _others(x.ndim), eps)
    result = _affine((x - mean) * rstd, weight, bias).astype(input.dtype, copy=False)
    return result, mean.reshape(-1), rstd.reshape(-1)


def _batch_eval(
    xp: Any,
    input: Any,
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    x = _wide(xp, input)
    rstd = 1 / xp.sqrt(running_var + eps)
    normal = (x - _channels(running_mean, x)) * _channels(rstd, x)
    empty = xp.zeros((0,), x.dtype)
    return _affine(normal, weight, bias).astype(input.dtype, copy=False), empty, empty.copy()


def _per_channel(F: Any, g: Any, normal: Any, needs: Any) -> tuple[Any, Any]:
    dims = _others(g.ndim)
    d_weight = _sum(F, g * normal, dims) if needs[1] else None
    return d_weight, _sum(F, g, dims) if needs[2] else None


def _train_rule(
    F: Any, g: Any, input: Any, weight: Any, eps: float, result1: Any, result2: Any, needs: Any
) -> tuple[Any, Any, Any]:
    dims = _others(input.ndim)
    if F.xp:
        mean, rstd = _channels(result1, input), _channels(result2, input)
    else:
        mean, rstd = _statistics(F, input, dims, eps)
    normal = (input - mean) * rstd
    d_input = None
    if needs[0]:
        scaled = g if weight is None else g * _channels(weight, g)
        d_input = _input_gradient(F, scaled, normal, rstd, dims)
    return (d_input, *_per_channel(F, g, normal, needs))


def _eval_rule(
    F: Any,
    g: Any,
    input: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    eps: float,
    needs: Any,
) -> tuple[Any, Any, Any]:
    rstd = _channels(F.rsqrt(running_var + eps), input)
    normal = (input - _channels(running_mean, input)) * rstd
    d_input = None
    if needs[0]:
        d_input = rstd * (g if weight is None else g * _channels(weight, g))
    return (d_input, *_per_channel(F, g, normal, needs))


def _train_along(F: Any, t_input: Any, input: Any, weight: Any, eps: float) -> Any:
    dims = _others(input.ndim)
    mean, rstd = _statistics(F, input, dims, eps)
    moved = _input_gradient(F, t_input, (input - mean) * rstd, rstd, dims)
    return moved if weight is None else moved * _channels(weight, input)


def _train_weight_along(F: Any, t_weight: Any, input: Any, eps: float) -> Any:
    mean, rstd = _statistics(F, input, _others(input.ndim), eps)
    return (input - mean) * rstd * _channels(t_weight, input)


def _eval_along(F: Any, t_input: Any, weight: Any, running_var: Any, eps: float) -> Any:
    moved = t_input * _channels(F.rsqrt(running_var + eps), t_input)
    return moved if weight is None else moved * _channels(weight, t_input)


def _eval_weight_along(
    F: Any, t_weight: Any, input: Any, running_mean: Any, running_var: Any, eps: float
) -> Any:
    rstd = _channels(F.rsqrt(running_var + eps), input)
    return (input - _channels(running_mean, input)) * rstd * _channels(t_weight, input)


def _bias_along(F: Any, t_bias: Any, input: Any) -> Any:
    return F.expand(_channels(t_bias, input), tuple(input.shape))


def _batch_samples(training: bool) -> Any:
    def samples(make: Any) -> Iterator[Sample]:
        for shape in ((4, 3), (2, 3, 2, 2)):
            running = (make((3,)), make((3,), low=0.5, high=2.0))
            yield Sample((make(shape), make((3,)), make((3,)), *running, training, 0.1, 1e-2))
        yield Sample((make((2, 3, 2)), None, None, *running, training, 0.1, 1e-2))

    return samples


def _batch_op(name: str, kernel: Any, rule: Any, training: bool, keeps: tuple[str, ...]) -> None:
    op(
        name,
        kernel,
        vjp={("input", "weight", "bias"): rule},
        jvp={
            "input": _train_along if training else _eval_along,
            "weight": _train_weight_along if training else _eval_weight_along,
            "bias": _bias_along,
        },
        inputs=("input", "weight", "bias", "running_mean", "running_var"),
        outputs=("result0", "result1", "result2"),
        differentiable=(0,),
        public=False,
        node="NativeBatchNormBackward0",
        called="batch_norm",
        oracle="native_batch_norm",
        batch=normed_by_channel,
        keeps=keeps,
        samples=_batch_samples(training),
    )


_batch_op(
    "batch_norm_train", _batch_train, _train_rule, True, ("running_mean", "running_var", "training")
)
_batch_op("batch_norm_eval", _batch_eval, _eval_rule, False, ("result1", "result2", "training"))


@composite("batch_norm", method=False)
def _batch_norm(
    F: Any,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """(x - mean) / sqrt(var + eps) per channel (dimension 1), times weight, plus bias.

    training: with the statistics of this batch, which also move the running ones; otherwise with
    the running ones.
    """
    if input.ndim < 2:
        raise ValueError(f"batch_norm expects at least 2 dimensions, got {input.ndim}")
    channels = input.shape[1]
    given = {
        "running_mean": running_mean,
        "running_var": running_var,
        "weight": weight,
        "bias": bias,
    }
    for name, tensor in given.items():
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {tensor.numel()}")
    if training:
        if math.prod(input.shape) == channels:
            raise ValueError(
                "Expected more than 1 value per channel when training, got input size "
                f"{input.shape}"
            )
    elif running_mean is None or running_var is None:
        raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
    chosen = F.batch_norm_train if training else F.batch_norm_eval
    momentum = 0.0 if momentum is None else momentum
    result, mean, rstd = chosen(
        input, weight, bias, running_mean, running_var, bool(training), momentum, eps
    )
    if training:
        _follow(running_mean, mean._array, momentum)
        count = input._array.size // channels
        var = (1 / (rstd._array * rstd._array) - eps) * (count / max(count - 1, 1))
        _follow(running_var, var, momentum)
    return result


def _follow(running: Any, now: Any, momentum: float) -> None:
    """Move a running statistic. As in torch this counts as no write: the node may have saved it."""
    if running is not None:
        array = running._array
        array[...] = (1 - momentum) * array + momentum * now


@composite("group_norm", method=False)
def _group_norm(
    F: Any, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalise (N, C, ...) within groups of channels; weight and bias per channel."""
    if input.ndim < 2 or input.shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={num_groups}"
        )
    shape = tuple(input.shape)
    rest = math.prod(shape[1:]) // num_groups
    grouped = F.reshape(input, (shape[0], num_groups, rest))
    normal = F.reshape(F.layer_norm(grouped, (rest,), None, None, eps), shape)
    return _affine_of(F, normal, weight, bias)


def _affine_of(F: Any, x: Any, weight: Any, bias: Any) -> Any:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if weight is not None:
        x = x * F.reshape(weight, shape)
    return x if bias is None else x + F.reshape(bias, shape)


@composite("instance_norm", method=False)
def _instance_norm(
    F: Any,
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalise each channel of each example of (N, C, d1, ...)."""
    if not use_input_stats:
        return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None:
        raise NotImplementedError("instance_norm with running statistics is not supported")
    shape = tuple(input.shape)
    flat = F.reshape(input, (1, shape[0] * shape[1], *shape[2:]))
    normal = F.reshape(F.batch_norm(flat, None, None, None, None, True, momentum, eps), shape)
    return _affine_of(F, normal, weight, bias)


@composite("normalize", method=False, out=True)
def _normalize(F: Any, input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """x divided by its p-norm along `dim`, which is not taken below eps."""
    norm = F.clamp_min(F.norm(input, p, dim, True), eps)
    return input / F.expand(norm, tuple(input.shape))
