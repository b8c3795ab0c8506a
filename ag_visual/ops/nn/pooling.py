"""Pooling: max with indices, average, adaptive average; and their backward ops.

As in torch there are ops for two and for three dimensions; one dimension is two of which one has
size 1.
"""

from __future__ import annotations

import math
from typing import Any

from ag_visual.arrays.kernels import average, pool
from ag_visual.arrays.kernels.rows import weighted_sums
from ag_visual.dispatch.record import LINEAR, OWN, ErrorSample, Sample
from ag_visual.dispatch.rules import calls
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import folded
from ag_visual.ops.nn.pool_arguments import (
    Ints,
    adaptive_size,
    check_not_negative,
    check_one,
    check_rank,
    check_results,
    check_windows,
    option,
    steps,
)


def _max_pool(
    xp, self, kernel_size, stride, padding, dilation, ceil_mode: bool = False
) -> tuple[Any, Any]:
    spatial = self.shape[-len(kernel_size) :]
    name = f"max_pool{len(kernel_size)}d"
    check_windows(name, self.shape, kernel_size, stride, padding, dilation)
    out = pool.pooled_size(spatial, kernel_size, stride, padding, dilation, ceil_mode)
    check_results(self.shape, out)
    return pool.max_pool2d(xp, self, kernel_size, stride, padding, dilation, ceil_mode)


def _avg_pool(
    xp,
    self,
    kernel_size,
    stride,
    padding,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override=None,
):
    spatial = self.shape[-len(kernel_size) :]
    ones = (1,) * len(kernel_size)
    name = f"avg_pool{len(kernel_size)}d"
    check_windows(name, self.shape, kernel_size, stride, padding, ones)
    out = pool.pooled_size(spatial, kernel_size, stride, padding, ones, ceil_mode)
    check_results(self.shape, out)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    return average.avg_pool(
        xp, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_pool_backward(
    xp,
    grad_output,
    size,
    kernel_size,
    stride,
    padding,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override,
):
    return average.avg_pool_backward(
        xp, grad_output, size, kernel_size, stride, padding, count_include_pad, divisor_override
    )


def _shares(xp, n: int, out: int, dtype):
    """(out, n): 1 / length where window i, [floor(i n / out), ceil((i + 1) n / out)), is."""
    rows = []
    for i in range(out):
        start, end = i * n // out, -((-(i + 1) * n) // out)
        rows.append([1 / (end - start) if start <= at < end else 0.0 for at in range(n)])
    return xp.asarray(rows, dtype=dtype).reshape(out, n)


def _windows(sizes: Ints, outs: Ints) -> Ints | None:
    """The windows' sizes where all are as large and none meet; None elsewhere."""
    if any(out == 0 or n % out for n, out in zip(sizes, outs, strict=True)):
        return None
    return tuple(n // out for n, out in zip(sizes, outs, strict=True))


def _adaptive(xp, self, output_size):
    """A product with a matrix of window shares along each dimension."""
    rank, kind = len(output_size), self.dtype
    if 0 in self.shape[-rank:]:
        dim = self.ndim - rank + self.shape[-rank:].index(0)
        raise RuntimeError(
            f"adaptive_avg_pool{rank}d(): Expected input to have non-zero size for non-batch "
            f"dimensions, but input has sizes {list(self.shape)} with dimension {dim} being empty"
        )
    kernel = _windows(self.shape[-rank:], output_size)
    if kernel is not None:
        return average.avg_pool(xp, self, kernel, kernel, (0,) * rank, False, True, None)
    for at, out in enumerate(output_size):
        axis = self.ndim - rank + at
        shares = _shares(xp, self.shape[axis], out, self.dtype)
        self = weighted_sums(xp, shares, self, axis)
    return xp.ascontiguousarray(self).astype(kind, copy=False)


def _adaptive_backward(xp, grad_output, size):
    rank = len(size)
    kernel = _windows(size, grad_output.shape[-rank:])
    if kernel is not None:
        shape = (*grad_output.shape[:-rank], *size)
        rest = (0,) * rank, True, None
        return average.avg_pool_backward(xp, grad_output, shape, kernel, kernel, *rest)
    for at, n in enumerate(size):
        axis = grad_output.ndim - rank + at
        shares = _shares(xp, n, grad_output.shape[axis], grad_output.dtype)
        grad_output = weighted_sums(xp, shares.T, grad_output, axis)
    return xp.ascontiguousarray(grad_output)


def picked(F, g, indices, rank: int):
    """g at the places that the indices name within its spatial part."""
    shape, places = tuple(g.shape), tuple(indices.shape)
    lead, volume = shape[: g.ndim - rank], math.prod(shape[g.ndim - rank :])
    chosen = indices.reshape((*lead, math.prod(places[len(lead) :])))
    flat = F.gather(g.reshape((*lead, volume)), len(lead), chosen)
    return flat.reshape(places)


def distinct(make, shape: Ints):
    """Values for a maximum: no two of them closer than a step of finite differences."""
    order = make((math.prod(shape),)).argsort()
    return (order * 0.21 - 1.7).reshape(shape)


_AVG_OPTIONS = (
    "kernel_size",
    "stride",
    "padding",
    "ceil_mode",
    "count_include_pad",
    "divisor_override",
)
_MAX_CASES: dict[int, tuple[Any, ...]] = {
    2: (
        ((2, 3, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), False),
        ((1, 2, 5, 6), (3, 2), (2, 1), (1, 0), (1, 1), False),
        ((2, 5, 5), (2, 2), (2, 2), (0, 0), (1, 2), True),
    ),
    3: (((2, 3, 2, 4), (2, 1, 2), (1, 1, 2), (1, 0, 0), (1, 1, 1), False),),
}
_AVG_CASES: dict[int, tuple[Any, ...]] = {
    2: (
        ((2, 3, 4, 4), (2, 2), (2, 2), (0, 0), False, True, None),
        ((1, 2, 5, 6), (3, 2), (2, 1), (1, 1), True, True, None),
        ((1, 2, 5, 6), (3, 2), (2, 3), (1, 0), True, False, None),
        ((2, 5, 5), (2, 2), (1, 2), (0, 0), False, True, 3),
    ),
    3: (((2, 3, 4, 4), (2, 2, 3), (2, 1, 1), (0, 1, 0), False, True, None),),
}


def _cases(cases, values=None):
    return lambda make: [Sample(((values or _plain)(make, shape), *args)) for shape, *args in cases]


def _plain(make, shape: Ints):
    return make(shape)


def _avg_back_samples(rank: int):
    def samples(make):
        for shape, kernel, stride, padding, ceil_mode, *rest in _AVG_CASES[rank]:
            ones = (1,) * rank
            out = pool.pooled_size(shape[-rank:], kernel, stride, padding, ones, ceil_mode)
            g = make((*shape[:-rank], *out))
            yield Sample((g, shape, kernel, stride, padding, ceil_mode, *rest))

    return samples


def _max_back_samples(rank: int):
    def samples(make):
        import numpy

        for shape, *args in _MAX_CASES[rank]:
            _, indices = _max_pool(numpy, distinct(make, shape), *args)
            yield Sample((make(indices.shape), indices, shape, False))

    return samples


def _declare_ops(rank: int) -> None:
    """The ops of two or three dimensions, each with its backward op."""
    maxed, averaged, adapted = (
        f"max_pool{rank}d_with_indices",
        f"avg_pool{rank}d_of",
        f"adaptive_avg_pool{rank}d_of",
    )

    def max_rule(F, g, self_shape, result1, kernel_size, stride, dilation):
        disjoint = pool.windows_are_disjoint(kernel_size, stride, dilation)
        return getattr(F, f"{maxed}_scattered")(g, result1, self_shape, disjoint)

    def max_backward(xp, grad_output, indices, size, disjoint: bool):
        return pool.max_pool2d_backward(xp, grad_output, indices, size, rank, disjoint)

    def adaptive_rule(F, g, self_shape):
        return getattr(F, f"{adapted}_backward")(g, tuple(self_shape[-rank:]))

    def adaptive_again(F, g, grad_output_shape):
        return getattr(F, adapted)(g, tuple(grad_output_shape[-rank:]))

    shared: dict[str, Any] = {"public": False, "real_only": True}
    op(
        maxed,
        _max_pool,
        vjp={"self": max_rule},
        jvp={"self": lambda F, t_self, result1: picked(F, t_self, result1, rank)},
        batch=folded("self"),
        outputs=("result0", "result1"),
        differentiable=(0,),
        node=f"MaxPool{rank}DWithIndicesBackward0",
        public_name=f"max_pool{rank}d",
        profiled=OWN,
        oracle=f"_C._nn.max_pool{rank}d_with_indices",
        also_saves=("self", "padding", "ceil_mode"),
        fused=("self",),
        samples=_cases(_MAX_CASES[rank], distinct),
        errors=lambda make: [
            ErrorSample((make((1, 3, 3)), (9, 9), (1, 1), (0, 0), (1, 1)), RuntimeError, "small")
        ],
        formula="result0[p] = Max(r, self[p * stride + r])",
        **shared,
    )
    op(
        f"{maxed}_scattered",
        max_backward,
        symbol=f"max_pool{rank}d_backward",
        vjp={"grad_output": lambda F, g, indices: picked(F, g, indices, rank)},
        batch=folded("grad_output", "indices", sizes=("size",)),
        inputs=("grad_output", "indices"),
        jvp=LINEAR,
        node=f"MaxPool{rank}DWithIndicesBackwardBackward0",
        oracle=False,
        samples=_max_back_samples(rank),
        formula="result[q] = Sum(p, grad_output[p] * (indices[p] == q))",
        **shared,
    )
    op(
        averaged,
        _avg_pool,
        vjp={"self": calls(f"{averaged}_backward", "g", "self_shape", *_AVG_OPTIONS)},
        batch=folded("self"),
        jvp=LINEAR,
        node=f"AvgPool{rank}DBackward0",
        public_name=f"avg_pool{rank}d",
        also_saves=("self",),
        fused=("self",),
        samples=_cases(_AVG_CASES[rank]),
        formula="result[p] = Sum(r, self[p * stride + r]) / n",
        **shared,
    )
    op(
        f"{averaged}_backward",
        _avg_pool_backward,
        vjp={"grad_output": calls(averaged, "g", *_AVG_OPTIONS)},
        batch=folded("grad_output", sizes=("size",)),
        jvp=LINEAR,
        node=f"AvgPool{rank}DBackwardBackward0",
        samples=_avg_back_samples(rank),
        formula="result[q] = Sum(p, grad_output[p] * within(q, window(p))) / n",
        **shared,
    )
    op(
        adapted,
        _adaptive,
        vjp={"self": adaptive_rule},
        batch=folded("self"),
        jvp=LINEAR,
        node=f"AdaptiveAvgPool{rank}DBackward0",
        public_name=f"adaptive_avg_pool{rank}d",
        also_saves=("self",),
        fused=("self",),
        samples=lambda make: [Sample((make((2, 3, 5, 4)), (2, 3, 2)[-rank:]))],
        **shared,
    )
    op(
        f"{adapted}_backward",
        _adaptive_backward,
        vjp={"grad_output": adaptive_again},
        batch=folded("grad_output"),
        jvp=LINEAR,
        node=f"AdaptiveAvgPool{rank}DBackwardBackward0",
        samples=lambda make: [Sample((make((2, 2, 3, 2)), (3, 5, 4)[-rank:]))],
        **shared,
    )


for _rank in (2, 3):
    _declare_ops(_rank)


def _flat(options: tuple[Ints, ...], filler: Ints) -> tuple[Ints, ...]:
    """The options of one dimension as those of two, of which the first has size 1."""
    return tuple((fill, *option) for fill, option in zip(filler, options, strict=True))


def _declare(rank: int) -> None:
    max_name, avg_name = f"max_pool{rank}d", f"avg_pool{rank}d"

    def max_pool(
        F,
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ):
        check_rank(max_name, input.shape, rank)
        kernel = option(max_name, "kernel_size", kernel_size, rank)
        options = (
            kernel,
            steps(max_name, stride, kernel),
            option(max_name, "padding", padding, rank),
            option(max_name, "dilation", dilation, rank),
        )
        if rank == 1:
            check_one(max_name, input.shape, options)
            wide = _flat(options, (1, 1, 0, 1))
            pair = F.max_pool2d_with_indices(F.unsqueeze(input, -2), *wide, bool(ceil_mode))
            values, indices = (F.squeeze(each, -2) for each in pair)
        else:
            pooled = getattr(F, f"{max_name}_with_indices")
            values, indices = pooled(input, *options, bool(ceil_mode))
        return (values, indices) if return_indices else values

    def avg_pool(
        F,
        input,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        check_rank(avg_name, input.shape, rank)
        kernel = option(avg_name, "kernel_size", kernel_size, rank)
        options = (
            kernel,
            steps(avg_name, stride, kernel),
            option(avg_name, "padding", padding, rank),
        )
        rest = (bool(ceil_mode), bool(count_include_pad), divisor_override)
        if rank == 1:
            wide = F.avg_pool2d_of(F.unsqueeze(input, -2), *_flat(options, (1, 1, 0)), *rest)
            return F.squeeze(wide, -2)
        return getattr(F, f"{avg_name}_of")(input, *options, *rest)

    max_pool.__doc__ = f"The largest element of each window of the last {rank} dimension(s)."
    avg_pool.__doc__ = f"The mean of each window of the last {rank} dimension(s)."
    spaces = "torch nn.functional" if rank == 1 else "nn.functional"
    casts = "cpu float32" if rank == 3 else ""
    composite(max_name, method=False, spaces="torch nn.functional", autocast=casts)(max_pool)
    composite(avg_name, method=False, out=True, spaces=spaces, autocast=casts)(avg_pool)
    name = f"adaptive_avg_pool{rank}d"

    def adaptive(F, input, output_size):
        if rank == 1:
            check_rank(name, input.shape, rank)
        size = adaptive_size(name, input.shape, output_size, rank)
        check_not_negative(name, input.shape, size)
        if rank > 1 and input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {list(input.shape)}"
            )
        if rank == 1:
            wide = F.adaptive_avg_pool2d(F.unsqueeze(input, -2), (1, *size))
            return F.squeeze(wide, -2)
        if all(o == 1 for o in size):
            return F.mean(input, tuple(range(-1, -rank - 1, -1)), True)
        return getattr(F, f"{name}_of")(input, size)

    adaptive.__doc__ = f"Means of windows such that the last {rank} size(s) are output_size."
    composite(name, method=False, spaces=spaces, autocast=casts)(adaptive)


for _rank in (1, 2, 3):
    _declare(_rank)


@composite("max_pool2d_with_indices_backward", method=False, spaces="")
def _max_pool2d_backward(
    F, grad_output, self, kernel_size, stride, padding, dilation, ceil_mode: bool, indices
):
    """The gradient of max_pool2d for `self`, from that of its values and their indices."""
    kernel = option("max_pool2d", "kernel_size", kernel_size, 2)
    disjoint = pool.windows_are_disjoint(
        kernel, steps("max_pool2d", stride, kernel), option("max_pool2d", "dilation", dilation, 2)
    )
    shape = tuple(self.shape)
    return F.max_pool2d_with_indices_scattered(grad_output, indices, shape, disjoint)
