"""Group normalization."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.arrays.kernels import channel_norm as channels, norm as kernels
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.record import OWN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.nn.batch_norm import affine, bias_along, by_channel, per_channel
from ag_visual.ops.nn.normalization import (
    input_gradient,
    moments_of,
    of_nothing,
    statistics_of,
    wide,
)


def _check_groups(input, num_groups: int, given: dict[str, Any]) -> None:
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
    xp,
    input,
    weight=None,
    bias=None,
    N: int = 0,
    C: int = 0,
    HxW: int = 0,
    group: int = 1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    _check_groups(input, group, {"weight": weight, "bias": bias})
    width = C // group * HxW
    if not width:
        return of_nothing(xp, input, (N, group))
    x = wide(xp, input)
    if channels.fits(x):
        result, mean, rstd = channels.group_norm(xp, x, weight, bias, group, eps)
    else:
        normal, mean, rstd = kernels.layer_norm(xp, x, width, None, None, eps)
        result = affine(normal, weight, bias)
    found = result, mean.reshape(N, group), rstd.reshape(N, group)
    result, mean, rstd = (x.astype(input.dtype, copy=False) for x in found)
    return result, mean, rstd


def _grouped(x, N: int, group: int):
    """(N, group, rest); of an empty tensor, too, whose rest -1 would not say."""
    return x.reshape((N, group, math.prod(x.shape[1:]) // group))


def _in_groups(F, input, N: int, group: int, eps: float) -> tuple[Any, Any]:
    """The normalised groups (N, group, rest) and 1 / deviation, of the input as it is."""
    rows = _grouped(input, N, group)
    mean, rstd = statistics_of(F, rows, (2,), eps)
    return (rows - mean) * rstd, rstd


def _group_rule(
    F, gs, input, weight, N: int, C: int, HxW: int, group: int, eps: float, result1, result2, needs
) -> tuple[Any, Any, Any]:
    g, shape = gs[0], tuple(input.shape)
    on_arrays = not F.traced and input.size
    if on_arrays and g is not None and gs[1] is None and gs[2] is None and channels.fits(input, g):
        mean, rstd = result1.reshape(N, group, 1), result2.reshape(N, group, 1)
        given = (F.xp, g, input, mean, rstd, weight, group, needs)
        found = channels.group_norm_backward(*given)
        if found is not None:
            return found
        if channels.is_near(mean, rstd):
            return channels.backward(*given)
    if on_arrays:
        mean, rstd = result1.reshape(N, group, 1), result2.reshape(N, group, 1)
        if input.dtype.itemsize == 2:  # in which the statistics were rounded
            input = wide(F.xp, input)
            mean, rstd = moments_of(F.xp, _grouped(input, N, group), (2,), eps)
        normal = (_grouped(input, N, group) - mean) * rstd
    else:
        normal, rstd = _in_groups(F, input, N, group, eps)
    d_input = None
    if needs[0] and g is not None:
        upper = g if weight is None else g * by_channel(weight, g)
        if on_arrays:
            saved = (input, mean, rstd, None, (True, False, False))
            d_input = kernels.layer_norm_backward(F.xp, upper, *saved)[0]
        else:
            rows = _grouped(upper, N, group)
            d_input = input_gradient(F, rows, normal, rstd, (2,)).reshape(shape)
    if needs[0] and (gs[1] is not None or gs[2] is not None):
        moved = _through_statistics(F, gs, normal, rstd).reshape(shape)
        d_input = moved if d_input is None else d_input + moved
    if g is None:
        return d_input, None, None
    return (d_input, *per_channel(F, g, normal.reshape(shape), needs))


def _through_statistics(F, gs, normal, rstd):
    """The gradient of the groups from those of their means and inverse deviations."""
    width, total = normal.shape[2], F.zeros_of(normal, tuple(normal.shape))
    if gs[1] is not None:
        total = total + gs[1].reshape(tuple(rstd.shape)) / width
    if gs[2] is not None:
        total = total - gs[2].reshape(tuple(rstd.shape)) * rstd * rstd * normal / width
    return total


def _group_along(F, t_input, input, weight, N: int, group: int, eps: float):
    normal, rstd = _in_groups(F, input, N, group, eps)
    rows = _grouped(t_input, N, group)
    moved = input_gradient(F, rows, normal, rstd, (2,)).reshape(tuple(input.shape))
    moved = moved if weight is None else moved * by_channel(weight, moved)
    mean = F.mean(rows, (2,))
    spread = -(F.squeeze(rstd, -1) ** 2) * F.mean(rows * normal, (2,))
    return moved, mean, spread


def _still(F, moved, result1, result2) -> tuple[Any, Any, Any]:
    """The tangents of the results where the statistics have none."""
    return moved, *(F.zeros_of(x, tuple(x.shape)) for x in (result1, result2))


def _group_weight_along(F, t_weight, input, N: int, group: int, eps: float, result1, result2):
    normal, _ = _in_groups(F, input, N, group, eps)
    moved = normal.reshape(tuple(input.shape)) * by_channel(t_weight, input)
    return _still(F, moved, result1, result2)


def _group_bias_along(F, t_bias, input, result1, result2):
    return _still(F, bias_along(F, t_bias, input), result1, result2)


def _more_rows(batch: Batch):
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


op(
    "native_group_norm",
    _groups,
    profiled=OWN,
    vjp={("input", "weight", "bias"): _group_rule},
    jvp={"input": _group_along, "weight": _group_weight_along, "bias": _group_bias_along},
    outputs=("result0", "result1", "result2"),
    method=False,
    batch=_more_rows,
    samples=lambda make: [
        Sample((make((2, 4, 3)), make((4,)), make((4,)), 2, 4, 3, 2, 1e-2)),
        Sample((make((2, 3, 2, 2)), make((3,)), None, 2, 3, 4, 3, 1e-2)),
        Sample((make((3, 4)), None, None, 3, 4, 1, 1, 1e-2)),
        Sample((make((2, 4, 4, 4)), make((4,)), make((4,)), 2, 4, 16, 2, 1e-2)),
    ],
    errors=lambda make: [
        ErrorSample(
            (make((2, 4, 3)), None, None, 2, 4, 3, 3), RuntimeError, "to be divisible by num_groups"
        )
    ],
    real_only=True,
    public_name="group_norm",
    oracle="native_group_norm",
    dtype_check=dtype_errors.parameters_of_layers,
    doc="(x - mean) / sqrt(var + eps) within groups of channels, times weight, plus bias.",
    formula="result0 = (input - mean(input)) / sqrt(var(input) + eps) * weight + bias",
)


@composite("group_norm", method=False, spaces="torch nn.functional", autocast="cuda float32")
def _group_norm(F, input, num_groups: int, weight=None, bias=None, eps: float = 1e-5):
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
