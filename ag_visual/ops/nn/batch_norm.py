"""Batch and instance normalization."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.record import CHANNELS, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap_layers import normed_by_channel

# Layers -------------------------------------------------------------------------------------------
from ag_visual.ops.nn.normalization import _moments, _statistics, _sum, input_gradient, wide


def _channels(x: Any, like: Any) -> Any:
    """A value per channel, shaped to broadcast over (N, C, ...)."""
    return x.reshape((1, -1) + (1,) * (like.ndim - 2))


def _others(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def affine(x: Any, weight: Any, bias: Any) -> Any:
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
    x = wide(xp, input)
    mean, rstd = _moments(xp, x, _others(x.ndim), eps)
    result = affine((x - mean) * rstd, weight, bias).astype(input.dtype, copy=False)
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
    x = wide(xp, input)
    rstd = 1 / xp.sqrt(running_var + eps)
    normal = (x - _channels(running_mean, x)) * _channels(rstd, x)
    empty = xp.zeros((0,), x.dtype)
    return affine(normal, weight, bias).astype(input.dtype, copy=False), empty, empty.copy()


def per_channel(F: Any, g: Any, normal: Any, needs: Any) -> tuple[Any, Any]:
    dims = _others(g.ndim)
    d_weight = _sum(F, g * normal, dims) if needs[1] else None
    return d_weight, _sum(F, g, dims) if needs[2] else None


def _train_rule(
    F: Any, g: Any, input: Any, weight: Any, eps: float, result1: Any, result2: Any, needs: Any
) -> tuple[Any, Any, Any]:
    dims = _others(input.ndim)
    if not F.traced:
        mean, rstd = _channels(result1, input), _channels(result2, input)
    else:
        mean, rstd = _statistics(F, input, dims, eps)
    normal = (input - mean) * rstd
    d_input = None
    if needs[0]:
        scaled = g if weight is None else g * _channels(weight, g)
        d_input = input_gradient(F, scaled, normal, rstd, dims)
    return (d_input, *per_channel(F, g, normal, needs))


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
    return (d_input, *per_channel(F, g, normal, needs))


def _train_along(F: Any, t_input: Any, input: Any, weight: Any, eps: float) -> Any:
    dims = _others(input.ndim)
    mean, rstd = _statistics(F, input, dims, eps)
    moved = input_gradient(F, t_input, (input - mean) * rstd, rstd, dims)
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


def bias_along(F: Any, t_bias: Any, input: Any) -> Any:
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
            "bias": bias_along,
        },
        inputs=("input", "weight", "bias", "running_mean", "running_var"),
        outputs=("result0", "result1", "result2"),
        differentiable=(0,),
        layout=CHANNELS,
        public=False,
        node="NativeBatchNormBackward0",
        public_name="batch_norm",
        dtype_check=dtype_errors.parameters_of_batches,
        oracle="native_batch_norm",
        batch=normed_by_channel,
        real_only=True,
        also_saves=keeps,
        fused=("input", "weight"),
        samples=_batch_samples(training),
    )


_batch_op(
    "batch_norm_train", _batch_train, _train_rule, True, ("running_mean", "running_var", "training")
)
_batch_op("batch_norm_eval", _batch_eval, _eval_rule, False, ("result1", "result2", "training"))


@composite("batch_norm", method=False, spaces="torch nn.functional")
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
    if not input.numel():
        # Nothing to take statistics of; as in torch a node of the result all the same.
        result = F.clone(input)
        result = result if weight is None else result * weight[0]
        return result if bias is None else result + bias[0]
    if input.dtype.category < 2:
        raise NotImplementedError(f"\"batch_norm\" not implemented for '{input.dtype.scalar_name}'")
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
        _move(input, running_mean, running_var, mean, rstd, momentum, eps)
    return result


def _move(
    input: Any, running_mean: Any, running_var: Any, mean: Any, rstd: Any, momentum: Any, eps: float
) -> None:
    """Let the running statistics follow those of a batch, the variance without its bias."""
    _follow(running_mean, mean._array, momentum)
    count = input._array.size // input.shape[1]
    var = (1 / (rstd._array * rstd._array) - eps) * (count / max(count - 1, 1))
    _follow(running_var, var, momentum)


def _follow(running: Any, now: Any, momentum: float) -> None:
    """Move a running statistic. As in torch this counts as no write: the node may have saved it."""
    if running is not None:
        array = running._array
        array[...] = (1 - momentum) * array + momentum * now


@composite("native_batch_norm", method=False, out=True)
def _native_batch_norm(
    F: Any,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """batch_norm with torch's order of arguments: the result, the means and 1 / deviations used."""
    given = (input, weight, bias, running_mean, running_var, bool(training), momentum, eps)
    if not training:
        return tuple(F.batch_norm_eval(*given))
    found = F.batch_norm_train(*given)
    _move(input, running_mean, running_var, found[1], found[2], momentum, eps)
    return tuple(found)


@composite("instance_norm", method=False, spaces="torch nn.functional")
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
    """Normalise each channel of each example of (N, C, d1, ...).

    With use_input_stats the running statistics, if given, follow the mean over the examples.
    """
    if use_input_stats and math.prod(tuple(input.shape)[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    shape = tuple(input.shape)
    rows, channels = shape[:2]

    def repeated(x: Any) -> Any:
        return None if x is None else F.repeat(x, (rows,))

    flat = F.view(F.contiguous(input), (1, rows * channels, *shape[2:]))
    mean, var = repeated(running_mean), repeated(running_var)
    scale = (repeated(weight), repeated(bias))
    normal = F.batch_norm(flat, mean, var, *scale, bool(use_input_stats), momentum, eps)
    if use_input_stats:
        for running, now in ((running_mean, mean), (running_var, var)):
            if running is not None:
                running.copy_(now.detach().reshape(rows, channels).mean(0))
    return F.view(normal, shape)
