"""Pooling: max with indices, average, adaptive average; and their backward ops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..arrays.kernels import average, pool
from .convolution import Ints, ints
from .record import LINEAR, ErrorSample, Sample
from .table import composite, op


def _check_size(name: str, self: Any, kernel: Ints, stride: Ints, padding: Ints, out: Ints) -> None:
    if min(stride) <= 0:
        raise RuntimeError("stride should not be zero")
    for p, k in zip(padding, kernel, strict=True):
        if p < 0 or p > k // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation=1"
            )
    if min(out, default=1) < 1:
        size = "x".join(map(str, self.shape[-len(kernel) - 1 :]))
        result = "x".join(map(str, (self.shape[-len(kernel) - 1], *out)))
        raise RuntimeError(
            f"Given input size: ({size}). Calculated output size: ({result}). Output size is too "
            "small"
        )


def _max_pool(
    xp: Any,
    self: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    spatial = self.shape[-len(kernel_size) :]
    out = pool.pooled_size(spatial, kernel_size, stride, padding, dilation, ceil_mode)
    _check_size("max_pool", self, kernel_size, stride, padding, out)
    return pool.max_pool2d(xp, self, kernel_size, stride, padding, dilation, ceil_mode)


def _max_pool_backward(
    xp: Any, grad_output: Any, indices: Any, size: Any, rank: int, disjoint: bool
) -> Any:
    return pool.max_pool2d_backward(xp, grad_output, indices, size, rank, disjoint)


def _max_pool_rule(
    F: Any, g: Any, self_shape: Any, result1: Any, kernel_size: Any, stride: Any, dilation: Any
) -> Any:
    disjoint = pool.windows_are_disjoint(kernel_size, stride, dilation)
    return F.max_pool_backward(g, result1, self_shape, len(kernel_size), disjoint)


def _picked(F: Any, g: Any, indices: Any, rank: int) -> Any:
    """g at the places that the indices name within its spatial part."""
    lead = tuple(g.shape)[: g.ndim - rank]
    flat = F.taken(g.reshape((*lead, -1)), indices.reshape((*lead, -1)), len(lead))
    return flat.reshape(tuple(indices.shape))


def _distinct(make: Any, shape: Ints) -> Any:
    order = make((math.prod(shape),)).argsort()
    return (order * 0.21 - 1.7).reshape(shape)


def _max_pool_samples(make: Any) -> Iterator[Sample]:
    yield Sample((_distinct(make, (2, 3, 4, 4)), (2, 2), (2, 2), (0, 0), (1, 1), False))
    yield Sample((_distinct(make, (1, 2, 5, 6)), (3, 2), (2, 1), (1, 0), (1, 1), False))
    yield Sample((_distinct(make, (2, 5, 5)), (2, 2), (2, 2), (0, 0), (1, 2), True))


def _max_back_samples(make: Any) -> Iterator[Sample]:
    import numpy

    indices = numpy.array([[[0, 3], [9, 10]], [[4, 2], [8, 15]]])
    yield Sample((make((2, 2, 2)), indices, (2, 4, 4), 2, True))


op(
    "max_pool2d_with_indices",
    _max_pool,
    vjp={"self": _max_pool_rule},
    outputs=("result0", "result1"),
    differentiable=(0,),
    public=False,
    node="MaxPool2DWithIndicesBackward0",
    called="max_pool2d",
    keeps=("self",),
    samples=_max_pool_samples,
    errors=lambda make: iter(
        [
            ErrorSample(
                (make((1, 3, 3)), (9, 9), (1, 1), (0, 0), (1, 1)), RuntimeError, "is too small"
            )
        ]
    ),
    real=True,
)
op(
    "max_pool_backward",
    _max_pool_backward,
    vjp={"grad_output": lambda F, g, indices, rank: _picked(F, g, indices, rank)},
    inputs=("grad_output", "indices"),
    jvp=LINEAR,
    public=False,
    node="MaxPool2DWithIndicesBackwardBackward0",
    samples=_max_back_samples,
    real=True,
)


def _avg_pool(
    xp: Any,
    self: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Any:
    spatial = self.shape[-len(kernel_size) :]
    ones = (1,) * len(kernel_size)
    out = pool.pooled_size(spatial, kernel_size, stride, padding, ones, ceil_mode)
    _check_size("avg_pool", self, kernel_size, stride, padding, out)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    return average.avg_pool(
        xp, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_pool_backward(
    xp: Any,
    grad_output: Any,
    size: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    return average.avg_pool_backward(
        xp, grad_output, size, kernel_size, stride, padding, count_include_pad, divisor_override
    )


def _avg_rule(
    F: Any,
    g: Any,
    self_shape: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    return F.avg_pool_backward(
        g, self_shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_again(
    F: Any,
    g: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    return F.avg_pool_of(
        g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((2, 3, 4, 4)), (2, 2), (2, 2), (0, 0), False, True, None))
    yield Sample((make((1, 2, 5, 6)), (3, 2), (2, 1), (1, 1), True, True, None))
    yield Sample((make((1, 2, 5, 6)), (3, 2), (2, 3), (1, 0), True, False, None))
    yield Sample((make((2, 5)), (2,), (1,), (0,), False, True, 3))


def _avg_back_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 2, 2)), (3, 4, 4), (2, 2), (2, 2), (0, 0), False, True, None))
    yield Sample((make((1, 3, 5)), (1, 5, 6), (3, 2), (2, 1), (1, 0), True, False, None))


op(
    "avg_pool_of",
    _avg_pool,
    vjp={"self": _avg_rule},
    jvp=LINEAR,
    public=False,
    node="AvgPool2DBackward0",
    called="avg_pool2d",
    keeps=("self",),
    samples=_avg_samples,
    real=True,
)
op(
    "avg_pool_backward",
    _avg_pool_backward,
    vjp={"grad_output": _avg_again},
    jvp=LINEAR,
    public=False,
    node="AvgPool2DBackwardBackward0",
    samples=_avg_back_samples,
    real=True,
)


def _check_rank(name: str, input: Any, rank: int) -> None:
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input, but got "
            f"input of size: {list(input.shape)}"
        )


def _declare(rank: int) -> None:
    max_name, avg_name = f"max_pool{rank}d", f"avg_pool{rank}d"

    def max_pool(
        F: Any,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        _check_rank(max_name, input, rank)
        kernel = ints(max_name, kernel_size, rank, "kernel_size")
        steps = ints(max_name, stride or kernel, rank, "stride")
        values, indices = F.max_pool2d_with_indices(
            input,
            kernel,
            steps,
            ints(max_name, padding, rank, "padding"),
            ints(max_name, dilation, rank, "dilation"),
            bool(ceil_mode),
        )
        return (values, indices) if return_indices else values

    def avg_pool(
        F: Any,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        _check_rank(avg_name, input, rank)
        kernel = ints(avg_name, kernel_size, rank, "kernel_size")
        return F.avg_pool_of(
            input,
            kernel,
            ints(avg_name, stride or kernel, rank, "stride"),
            ints(avg_name, padding, rank, "padding"),
            bool(ceil_mode),
            bool(count_include_pad),
            divisor_override,
        )

    max_pool.__doc__ = f"The largest element of each window of the last {rank} dimension(s)."
    avg_pool.__doc__ = f"The mean of each window of the last {rank} dimension(s)."
    composite(max_name, method=False)(max_pool)
    composite(avg_name, method=False)(avg_pool)


for _rank in (1, 2, 3):
    _declare(_rank)


# Adaptive pooling: a product with a matrix of window shares along each dimension ------------------


def _shares(xp: Any, n: int, out: int, dtype: Any) -> Any:
    """(out, n): 1 / length where window i, [floor(i n / out), ceil((i + 1) n / out)), is."""
    rows = []
    for i in range(out):
        start, end = i * n // out, -((-(i + 1) * n) // out)
        rows.append([1 / (end - start) if start <= at < end else 0.0 for at in range(n)])
    return xp.asarray(rows, dtype=dtype).reshape(out, n)


def _adaptive(xp: Any, self: Any, output_size: Any) -> Any:
    rank = len(output_size)
    for at, out in enumerate(output_size):
        axis = self.ndim - rank + at
        shares = _shares(xp, self.shape[axis], out, self.dtype)
        self = xp.moveaxis(xp.matmul(xp.moveaxis(self, axis, -1), shares.T), -1, axis)
    return xp.ascontiguousarray(self)


def _adaptive_backward(xp: Any, grad_output: Any, size: Any) -> Any:
    rank = len(size)
    for at, n in enumerate(size):
        axis = grad_output.ndim - rank + at
        shares = _shares(xp, n, grad_output.shape[axis], grad_output.dtype)
        moved = xp.matmul(xp.moveaxis(grad_output, axis, -1), shares)
        grad_output = xp.moveaxis(moved, -1, axis)
    return xp.ascontiguousarray(grad_output)


op(
    "adaptive_avg_pool_of",
    _adaptive,
    vjp={
        "self": lambda F, g, self_shape, output_size: F.adaptive_avg_pool_backward(
            g, tuple(self_shape[-len(output_size) :])
        )
    },
    jvp=LINEAR,
    public=False,
    node="AdaptiveAvgPool2DBackward0",
    called="adaptive_avg_pool2d",
    keeps=("self",),
    samples=lambda make: iter([Sample((make((2, 3, 5, 4)), (3, 2))), Sample((make((2, 7)), (3,)))]),
    real=True,
)
op(
    "adaptive_avg_pool_backward",
    _adaptive_backward,
    vjp={
        "grad_output": lambda F, g, grad_output_shape, size: F.adaptive_avg_pool_of(
            g, tuple(grad_output_shape[-len(size) :])
        )
    },
    jvp=LINEAR,
    public=False,
    node="AdaptiveAvgPool2DBackwardBackward0",
    samples=lambda make: iter([Sample((make((2, 3, 2)), (5, 4)))]),
    real=True,
)


def _declare_adaptive(rank: int) -> None:
    name = f"adaptive_avg_pool{rank}d"

    def body(F: Any, input: Any, output_size: Any) -> Any:
        _check_rank(name, input, rank)
        wanted = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
        spatial = tuple(input.shape)[-rank:]
        size = tuple(n if o is None else o for o, n in zip(wanted, spatial, strict=True))
        if all(o == 1 for o in size):
            return F.mean(input, tuple(range(-1, -rank - 1, -1)), True)
        return F.adaptive_avg_pool_of(input, size)

    body.__doc__ = f"Averages of windows chosen so that the last {rank} size(s) are output_size."
    composite(name, method=False)(body)


for _rank in (1, 2, 3):
    _declare_adaptive(_rank)
