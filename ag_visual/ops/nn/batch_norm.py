"""Batch and instance normalization."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.arrays.kernels import channel_norm as kernels
from ag_visual.core import modes
from ag_visual.core.level import all_values, is_batchedtensor
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.record import CHANNELS, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap_layers import normed_by_channel
from ag_visual.ops.nn.normalization import input_gradient, moments_of, statistics_of, sum_over, wide


def by_channel(x, like):
    """A value per channel, shaped to broadcast over (N, C, ...)."""
    return x.reshape((1, -1) + (1,) * (like.ndim - 2))


def _others(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def affine(x, weight, bias):
    if weight is not None:
        x = x * by_channel(weight, x)
    return x if bias is None else x + by_channel(bias, x)


def _batch_train(
    xp,
    input,
    weight=None,
    bias=None,
    running_mean=None,
    running_var=None,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    x = wide(xp, input)
    if kernels.fits(x):
        mean, rstd = kernels.moments(xp, x, 0, eps)
        result = kernels.normed(xp, x, mean, rstd, weight, bias, 0)
        return result.astype(input.dtype, copy=False), mean.reshape(-1), rstd.reshape(-1)
    mean, rstd = moments_of(xp, x, _others(x.ndim), eps)
    result = affine((x - mean) * rstd, weight, bias).astype(input.dtype, copy=False)
    return result, mean.reshape(-1), rstd.reshape(-1)


def _batch_eval(
    xp,
    input,
    weight=None,
    bias=None,
    running_mean=None,
    running_var=None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    x = wide(xp, input)
    rstd = 1 / xp.sqrt(running_var + eps)
    empty = xp.zeros((0,), x.dtype)
    if kernels.fits(x) and x.dtype == rstd.dtype:
        statistics = running_mean.reshape(1, -1), rstd.reshape(1, -1)
        result = kernels.normed(xp, x, *statistics, weight, bias, 0)
        return result.astype(input.dtype, copy=False), empty, empty.copy()
    normal = (x - by_channel(running_mean, x)) * by_channel(rstd, x)
    return affine(normal, weight, bias).astype(input.dtype, copy=False), empty, empty.copy()


def per_channel(F, g, normal, needs) -> tuple[Any, Any]:
    dims = _others(g.ndim)
    d_weight = sum_over(F, g * normal, dims) if needs[1] else None
    return d_weight, sum_over(F, g, dims) if needs[2] else None


def _train_rule(F, g, input, weight, eps: float, result1, result2, needs) -> tuple[Any, Any, Any]:
    dims = _others(input.ndim)
    if not F.traced:
        mean, rstd = result1.reshape(1, -1), result2.reshape(1, -1)
        if kernels.fits(input, g) and kernels.is_near(mean, rstd):
            return kernels.backward(F.xp, g, input, mean, rstd, weight, 0, needs)
        mean, rstd = by_channel(result1, input), by_channel(result2, input)
    else:
        mean, rstd = statistics_of(F, input, dims, eps)
    normal = (input - mean) * rstd
    d_input = None
    if needs[0]:
        scaled = g if weight is None else g * by_channel(weight, g)
        d_input = input_gradient(F, scaled, normal, rstd, dims)
    return (d_input, *per_channel(F, g, normal, needs))


def _eval_rule(
    F, g, input, weight, running_mean, running_var, eps: float, needs
) -> tuple[Any, Any, Any]:
    rstd = by_channel(F.rsqrt(running_var + eps), input)
    normal = (input - by_channel(running_mean, input)) * rstd
    d_input = None
    if needs[0]:
        d_input = rstd * (g if weight is None else g * by_channel(weight, g))
    return (d_input, *per_channel(F, g, normal, needs))


def _train_along(F, t_input, input, weight, eps: float):
    dims = _others(input.ndim)
    mean, rstd = statistics_of(F, input, dims, eps)
    moved = input_gradient(F, t_input, (input - mean) * rstd, rstd, dims)
    return moved if weight is None else moved * by_channel(weight, input)


def _train_weight_along(F, t_weight, input, eps: float):
    mean, rstd = statistics_of(F, input, _others(input.ndim), eps)
    return (input - mean) * rstd * by_channel(t_weight, input)


def _eval_along(F, t_input, weight, running_var, eps: float):
    moved = t_input * by_channel(F.rsqrt(running_var + eps), t_input)
    return moved if weight is None else moved * by_channel(weight, t_input)


def _eval_weight_along(F, t_weight, input, running_mean, running_var, eps: float):
    rstd = by_channel(F.rsqrt(running_var + eps), input)
    return (input - by_channel(running_mean, input)) * rstd * by_channel(t_weight, input)


def bias_along(F, t_bias, input):
    return F.expand(by_channel(t_bias, input), tuple(input.shape))


def _batch_samples(training: bool):
    def samples(make):
        for shape in ((4, 3), (2, 3, 2, 2), (2, 3, 4, 4)):
            running = (make((3,)), make((3,), low=0.5, high=2.0))
            yield Sample((make(shape), make((3,)), make((3,)), *running, training, 0.1, 1e-2))
        yield Sample((make((2, 3, 2)), None, None, *running, training, 0.1, 1e-2))

    return samples


def _batch_op(name: str, kernel, rule, training: bool, keeps: tuple[str, ...]) -> None:
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
    F,
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
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


def _move(input, running_mean, running_var, mean, rstd, momentum, eps: float) -> None:
    """Let the running statistics follow those of a batch, the variance without its bias."""
    if is_batchedtensor(mean) and not is_batchedtensor(input):  # a factor alone has slices
        axes = tuple(dim for dim in range(input.dim()) if dim != 1)
        mean = input.detach().mean(axes)
        rstd = (input.detach().var(axes, correction=0) + eps).rsqrt()
    if is_batchedtensor(mean) or is_batchedtensor(running_mean) or is_batchedtensor(running_var):
        _move_slices(input, (running_mean, running_var), mean, rstd, momentum, eps)
        return
    _follow(running_mean, mean._array, momentum)
    count = input._array.size // input.shape[1]
    var = (1 / (rstd._array * rstd._array) - eps) * (count / max(count - 1, 1))
    _follow(running_var, var, momentum)


def _move_slices(input, running: tuple[Any, Any], mean, rstd, momentum, eps: float) -> None:
    """The same for slices of a vmap: each needs statistics of its own."""
    count = input.numel() // input.shape[1]
    mean, rstd = mean.detach(), rstd.detach()
    var = (1 / (rstd * rstd) - eps) * (count / max(count - 1, 1))
    for old, now in zip(running, (mean, var), strict=True):
        if old is None:
            continue
        array, new = all_values(old), all_values((1 - momentum) * old.detach() + momentum * now)
        if array.shape != new.shape:
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, "
                "which will be updated in place, were not batched.\n"
                "Map over the statistics as well (torch.func.stack_module_state), make the module "
                "with track_running_stats=False, or call its eval() before."
            )
        array[...] = new


def _follow(running, now, momentum: float) -> None:
    """Move a running statistic. As in torch this counts as no write: the node may have saved it."""
    if running is not None:
        array = running._array
        array[...] = (1 - momentum) * array + momentum * now


@composite("native_batch_norm", method=False, out=True)
def _native_batch_norm(
    F, input, weight, bias, running_mean, running_var, training: bool, momentum: float, eps: float
):
    """batch_norm with torch's order of arguments: the result, the means and 1 / deviations used."""
    given = (input, weight, bias, running_mean, running_var, bool(training), momentum, eps)
    if not training:
        return tuple(F.batch_norm_eval(*given))
    found = F.batch_norm_train(*given)
    _move(input, running_mean, running_var, found[1], found[2], momentum, eps)
    return tuple(found)


@composite("instance_norm", method=False, spaces="torch nn.functional")
def _instance_norm(
    F,
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
):
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

    def repeated(x):
        return None if x is None else F.repeat(x, (rows,))

    flat = F.view(F.contiguous(input), (1, rows * channels, *shape[2:]))
    mean, var = repeated(running_mean), repeated(running_var)
    scale = (repeated(weight), repeated(bias))
    normal = F.batch_norm(flat, mean, var, *scale, bool(use_input_stats), momentum, eps)
    if use_input_stats:
        for running, now in ((running_mean, mean), (running_var, var)):
            if running is not None:
                found = now.detach().reshape(rows, channels).mean(0)
                if is_batchedtensor(found) or not modes.state.levels:
                    running.copy_(found)
                else:
                    _follow(running, found._array, 1.0)  # also where a transform captured it
    return F.view(normal, shape)
