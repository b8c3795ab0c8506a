"""Normalisation: layer, batch, group and instance, and normalize.

The raw backward uses the statistics that the forward saved; the recorded one computes them again
from the input, so that it can be differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels import norm as kernels
from ag_visual.arrays.kernels.rows import summed
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.arguments import Sizes, checked, kind_named
from ag_visual.dispatch.record import CHANNELS, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch
from ag_visual.dispatch.vmap_layers import normed_by_channel, normed_by_layer

# Layers -------------------------------------------------------------------------------------------


def _wide(xp: Any, x: Any) -> Any:
    return x.astype(xp.float32) if x.dtype.itemsize == 2 else x


def _moments(xp: Any, x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """Mean and 1 / sqrt(variance + eps), with the reduced dimensions kept."""
    count = math.prod(x.shape[a] for a in axes)
    mean = summed(xp, x, axes, True) / count
    off = x - mean
    return mean, 1 / xp.sqrt(summed(xp, off * off, axes, True) / count + eps)


def _of_nothing(xp: Any, input: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Rows without elements normalised: torch's means are 0, the inverse deviations NaN."""
    kind = xp.float32 if input.dtype.itemsize == 2 else input.dtype
    return xp.empty_like(input), xp.zeros(shape, kind), xp.full(shape, math.nan, kind)


def _layer_norm(
    xp: Any,
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    width = math.prod(normalized_shape)
    rank = len(normalized_shape)
    shape = input.shape[: input.ndim - rank] + (1,) * rank
    if not width:
        return _of_nothing(xp, input, shape)
    result, mean, rstd = kernels.layer_norm(xp, input, width, weight, bias, eps)
    return result, mean.reshape(shape), rstd.reshape(shape)


def _normal_layer(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, float]:
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


def _statistics(F: Any, x: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """The moments again, of Tensors."""
    mean = F.mean(x, dims, True)
    return mean, F.rsqrt(F.mean((x - mean) * (x - mean), dims, True) + eps)


def _mean(F: Any, x: Any, dims: tuple[int, ...]) -> Any:
    """The mean with its dimensions kept; of arrays without the way through the table."""
    if F.xp is None:
        return F.mean(x, dims, True)
    return summed(F.xp, x, dims, True) / math.prod(x.shape[d] for d in dims)


def _sum(F: Any, x: Any, dims: tuple[int, ...]) -> Any:
    if not dims:
        return x
    return F.sum(x, dims) if F.xp is None else summed(F.xp, x, dims)


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
    if F.xp is not None and input.size:
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
    layout=ROWS,
    normalize=_normal_layer,
    method=False,
    keeps=("bias",),
    fused=("input", "weight", "bias"),
    batch=normed_by_layer,
    samples=_layer_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)), (4,)), RuntimeError, "expected input with shape [*, 4]")]
    ),
    real=True,
    hidden=("eps",),
    called="layer_norm",
    oracle="native_layer_norm",
    alike=dtype_errors.parameters_of_layers,
    doc="`layer_norm` with the means and the inverse deviations that it used.",
    formula="result0 = (input - mean(input)) / sqrt(var(input) + eps) * weight + bias",
)


@composite("layer_norm", method=False)
def _layer_norm_of(
    F: Any,
    input: Any,
    normalized_shape: Sizes,
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
        layout=CHANNELS,
        public=False,
        node="NativeBatchNormBackward0",
        called="batch_norm",
        alike=dtype_errors.parameters_of_batches,
        oracle="native_batch_norm",
        batch=normed_by_channel,
        real=True,
        keeps=keeps,
        fused=("input", "weight"),
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
    if not input.numel():
        # Nothing to take statistics of; as in torch a node of the result all the same.
        result = F.clone(input)
        result = result if weight is None else result * weight[0]
        return result if bias is None else result + bias[0]
    if input.dtype.category < 2:
        raise NotImplementedError(
            f"\"batch_norm\" not implemented for '{dtype_errors.told(input.dtype)}'"
        )
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


def _check_groups(input: Any, num_groups: int, given: dict[str, Any]) -> None:
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if input.shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={num_groups}"
        )
    for name, tensor in given.items():
        if tensor is not None and tuple(tensor.shape) != (input.shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(tensor.shape)} and input of shape "
                f"{list(input.shape)}"
            )


def _groups(
    xp: Any,
    input: Any,
    weight: Any = None,
    bias: Any = None,
    N: int = 0,
    C: int = 0,
    HxW: int = 0,
    group: int = 1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    _check_groups(input, group, {"weight": weight, "bias": bias})
    width = C // group * HxW
    if not width:
        return _of_nothing(xp, input, (N, group))
    normal, mean, rstd = kernels.layer_norm(xp, _wide(xp, input), width, None, None, eps)
    found = _affine(normal, weight, bias), mean.reshape(N, group), rstd.reshape(N, group)
    result, mean, rstd = (x.astype(input.dtype, copy=False) for x in found)
    return result, mean, rstd


def _grouped(x: Any, N: int, group: int) -> Any:
    """(N, group, rest); of an empty tensor, too, whose rest -1 would not say."""
    return x.reshape((N, group, math.prod(x.shape[1:]) // group))


def _in_groups(F: Any, input: Any, N: int, group: int, eps: float) -> tuple[Any, Any]:
    """The normalised groups (N, group, rest) and 1 / deviation, of the input as it is."""
    rows = _grouped(input, N, group)
    mean, rstd = _statistics(F, rows, (2,), eps)
    return (rows - mean) * rstd, rstd


def _group_rule(
    F: Any,
    gs: Any,
    input: Any,
    weight: Any,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
    result1: Any,
    result2: Any,
    needs: Any,
) -> tuple[Any, Any, Any]:
    g, shape = gs[0], tuple(input.shape)
    on_arrays = F.xp is not None and input.size
    if on_arrays:
        mean, rstd = result1.reshape(N, group, 1), result2.reshape(N, group, 1)
        if input.dtype.itemsize == 2:  # in which the statistics were rounded
            input = _wide(F.xp, input)
            mean, rstd = _moments(F.xp, _grouped(input, N, group), (2,), eps)
        normal = (_grouped(input, N, group) - mean) * rstd
    else:
        normal, rstd = _in_groups(F, input, N, group, eps)
    d_input = None
    if needs[0] and g is not None:
        upper = g if weight is None else g * _channels(weight, g)
        if on_arrays:
            saved = (input, mean, rstd, None, (True, False, False))
            d_input = kernels.layer_norm_backward(F.xp, upper, *saved)[0]
        else:
            rows = _grouped(upper, N, group)
            d_input = _input_gradient(F, rows, normal, rstd, (2,)).reshape(shape)
    if needs[0] and (gs[1] is not None or gs[2] is not None):
        moved = _through_statistics(F, gs, normal, rstd).reshape(shape)
        d_input = moved if d_input is None else d_input + moved
    if g is None:
        return d_input, None, None
    return (d_input, *_per_channel(F, g, normal.reshape(shape), needs))


def _through_statistics(F: Any, gs: Any, normal: Any, rstd: Any) -> Any:
    """The gradient of the groups from those of their means and inverse deviations."""
    width, total = normal.shape[2], F.zeros_of(normal, tuple(normal.shape))
    if gs[1] is not None:
        total = total + gs[1].reshape(tuple(rstd.shape)) / width
    if gs[2] is not None:
        total = total - gs[2].reshape(tuple(rstd.shape)) * rstd * rstd * normal / width
    return total


def _group_along(
    F: Any, t_input: Any, input: Any, weight: Any, N: int, group: int, eps: float
) -> Any:
    normal, rstd = _in_groups(F, input, N, group, eps)
    rows = _grouped(t_input, N, group)
    moved = _input_gradient(F, rows, normal, rstd, (2,)).reshape(tuple(input.shape))
    moved = moved if weight is None else moved * _channels(weight, moved)
    mean = F.mean(rows, (2,))
    spread = -(F.squeeze(rstd, -1) ** 2) * F.mean(rows * normal, (2,))
    return moved, mean, spread


def _still(F: Any, moved: Any, result1: Any, result2: Any) -> tuple[Any, Any, Any]:
    """The tangents of the results where the statistics have none."""
    return moved, *(F.zeros_of(x, tuple(x.shape)) for x in (result1, result2))


def _group_weight_along(
    F: Any,
    t_weight: Any,
    input: Any,
    N: int,
    group: int,
    eps: float,
    result1: Any,
    result2: Any,
) -> Any:
    normal, _ = _in_groups(F, input, N, group, eps)
    moved = normal.reshape(tuple(input.shape)) * _channels(t_weight, input)
    return _still(F, moved, result1, result2)


def _group_bias_along(F: Any, t_bias: Any, input: Any, result1: Any, result2: Any) -> Any:
    return _still(F, _bias_along(F, t_bias, input), result1, result2)


def _more_rows(batch: Batch) -> Any:
    """The slices are more rows; a batch of weights is applied afterwards."""
    F, x, size = batch.F, batch.full("input"), batch.size
    rows, group = size * batch["N"], batch["group"]
    flat = F.reshape(x, (rows, *tuple(x.shape)[2:]))
    apart = any(n in batch for n in batch.tensors[1:])
    changed = {"weight": None, "bias": None} if apart else {}
    result, mean, rstd = batch.run(input=flat, N=rows, **changed)
    result = F.reshape(result, tuple(x.shape))
    ends = (1,) * (x.ndim - 3)
    if apart and batch["weight"] is not None:
        result = result * F.reshape(batch.full("weight"), (size, 1, -1, *ends))
    if apart and batch["bias"] is not None:
        result = result + F.reshape(batch.full("bias"), (size, 1, -1, *ends))
    shape = (size, batch["N"], group)
    return result, F.reshape(mean, shape), F.reshape(rstd, shape)


def _group_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((2, 4, 3)), make((4,)), make((4,)), 2, 4, 3, 2, 1e-2))
    yield Sample((make((2, 3, 2, 2)), make((3,)), None, 2, 3, 4, 3, 1e-2))
    yield Sample((make((3, 4)), None, None, 3, 4, 1, 1, 1e-2))


op(
    "native_group_norm",
    _groups,
    vjp={("input", "weight", "bias"): _group_rule},
    jvp={"input": _group_along, "weight": _group_weight_along, "bias": _group_bias_along},
    outputs=("result0", "result1", "result2"),
    method=False,
    batch=_more_rows,
    samples=_group_samples,
    errors=lambda make: iter(
        [
            ErrorSample(
                (make((2, 4, 3)), None, None, 2, 4, 3, 3),
                RuntimeError,
                "to be divisible by num_groups",
            )
        ]
    ),
    real=True,
    called="group_norm",
    oracle="native_group_norm",
    alike=dtype_errors.parameters_of_layers,
    doc="`group_norm` with the means and the inverse deviations that it used.",
    formula="result0 = (input - mean(input)) / sqrt(var(input) + eps) * weight + bias",
)


@composite("group_norm", method=False)
def _group_norm(
    F: Any, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Normalise (N, C, ...) within groups of channels; weight and bias per channel."""
    if input.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    _check_groups(input, num_groups, {"weight": weight, "bias": bias})
    rows, channels, *rest = input.shape
    if rows * (channels // num_groups) * math.prod(rest) == 1:
        sizes = [rows * channels // num_groups, num_groups, *rest]
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {sizes}"
        )
    sizes = (rows, channels, math.prod(rest), num_groups)
    return F.native_group_norm(F.contiguous(input), weight, bias, *sizes, eps)[0]


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


@composite("rms_norm", method=False)
def _rms_norm(
    F: Any, input: Any, normalized_shape: Sizes, weight: Any = None, eps: float | None = None
) -> Any:
    """x / sqrt(mean(x^2) + eps) over the last dimensions, times weight; eps: that of the dtype.

    Source: Zhang and Sennrich, Root mean square layer normalization (arXiv:1910.07467).
    """
    shape = normalized_shape
    rank = len(shape)
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


@composite("local_response_norm", method=False)
def _local_response_norm(
    F: Any, input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
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


@composite("normalize", method=False, out=True)
def _normalize(
    F: Any, input: Any, p: float = 2.0, dim: int = 1, eps: float | Tensor = 1e-12
) -> Any:
    """x divided by its p-norm along `dim`, which is not taken below eps."""
    norm = F.clamp_min(F.norm(input, p, dim, True), eps)
    return input / F.expand(norm, tuple(input.shape))
