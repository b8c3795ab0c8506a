"""Further pooling: adaptive and fractional maxima, max_unpool, lp_pool."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels import pool, windows
from ag_visual.core.level import all_values, drawn
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.record import LINEAR, UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.rules import calls
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch, folded
from ag_visual.ops.nn.pool_arguments import Ints, adaptive_size, check_not_negative, option
from ag_visual.ops.nn.pooling import distinct, picked
from ag_visual.ops.tensor.generator import source_of


def _check_spatial(name: str, shape: Ints, rank: int) -> None:
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(shape)}"
        )
    # torch takes the first dimension for the batch, also where there is none.
    for dim in range(1, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {dim} being empty"
            )


def _check_kind(name: str, array) -> None:
    if array.dtype.kind not in "fV":
        raise not_implemented(name, dtypes.of_array(array), ". Convert with .float() first.")


def _adaptive(xp, self, output_size) -> tuple[Any, Any]:
    rank = len(output_size)
    name = f"adaptive_max_pool{rank}d"
    _check_spatial(name, self.shape, rank)
    _check_kind(name, self)
    found = windows.adaptive_windows(self.shape[-rank:], output_size)
    return windows.largest(xp, self, found, output_size)


def _fractional(xp, self, kernel_size, output_size, random_samples) -> tuple[Any, Any]:
    rank = len(output_size)
    _check_fractional(self, kernel_size, output_size)
    planes = math.prod(self.shape[:-rank])
    samples = backends.of_namespace(xp).to_numpy(random_samples).reshape(planes, rank)
    # torch numbers the samples of an image x, y but those of a volume t, y, x.
    ordered = samples[:, ::-1] if rank == 2 else samples
    spatial = self.shape[-rank:]
    found = windows.fractional_windows(ordered, spatial, output_size, kernel_size)
    return windows.largest(xp, self, found, output_size)


def _unpool(xp, self, indices, output_size):
    _check_unpool(self, indices, len(output_size))
    return windows.unpool(xp, self, indices, output_size)


def _images(make, rank: int, *lead: int):
    return distinct(make, (*lead, *(5, 4, 3)[:rank]))


def _adaptive_samples(rank: int):
    return lambda make: [
        Sample((_images(make, rank, 2, 3), (3, 4, 2)[:rank])),
        Sample((_images(make, rank, 2), (5, 2, 1)[:rank])),
    ]


def _fractional_samples(rank: int):
    sizes = (2, 2, 1)[:rank], (3, 2, 2)[:rank]
    return lambda make: [
        Sample((_images(make, rank, 2, 3), *sizes, make((2, 3, rank), low=0.0, high=0.99)))
    ]


def _back_samples(rank: int):
    def samples(make):
        x = _images(make, rank, 2, 3)
        _, indices = _adaptive(numpy, x, (3, 4, 2)[:rank])
        yield Sample((make(indices.shape), indices, x.shape, False))

    return samples


def _unpool_samples(rank: int):
    def samples(make):
        pooled, indices = _adaptive(numpy, _images(make, rank, 2, 3), (1,) * rank)
        yield Sample((pooled, indices, (6, 5, 3)[:rank]))

    return samples


def _with_samples(batch: Batch):
    """Fractional pooling of a batch: without a dimension of images there is one of samples."""
    if batch.rank("self") == len(batch.values["output_size"]) + 2:
        return folded("self", "random_samples")(batch)
    x, points = batch.full("self"), batch.full("random_samples")
    return batch.run(self=x, random_samples=batch.F.squeeze(points, 1))


def _declare_ops(rank: int) -> None:
    """Adaptive and fractional max pooling and unpooling of two or three dimensions."""
    adaptive, fractional, unpooled = (
        f"adaptive_max_pool{rank}d",
        f"fractional_max_pool{rank}d",
        f"max_unpool{rank}d",
    )

    def adaptive_rule(F, g, self_shape, result1):
        spatial = zip(self_shape[-rank:], g.shape[-rank:], strict=True)
        disjoint = all(n % out == 0 for n, out in spatial)
        return getattr(F, f"{adaptive}_scattered")(g, result1, self_shape, disjoint)

    def fractional_rule(F, g, self_shape, result1, kernel_size, output_size):
        # Which windows overlap depends on the samples: always add.
        return getattr(F, f"{fractional}_scattered")(g, result1, self_shape, False)

    def scattered(xp, grad_output, indices, size, disjoint: bool):
        return pool.max_pool2d_backward(xp, grad_output, indices, size, rank, disjoint)

    def gathered(F, g, indices):
        return picked(F, g, indices, rank)

    shared: dict[str, Any] = {"public": False, "real_only": True}
    pair: dict[str, Any] = {"outputs": ("result0", "result1"), "differentiable": (0,)}
    op(
        f"{adaptive}_of",
        _adaptive,
        vjp={"self": adaptive_rule},
        jvp={"self": lambda F, t_self, result1: picked(F, t_self, result1, rank)},
        batch=folded("self"),
        node=f"AdaptiveMaxPool{rank}DBackward0",
        public_name=adaptive,
        also_saves=("self",),
        fused=("self",),
        not_exposed=("output_size",),
        oracle=f"_C._nn.{adaptive}",
        samples=_adaptive_samples(rank),
        errors=lambda make: [
            ErrorSample(
                (make((3, 0, 2, 2)[: rank + 1]), (1,) * rank),
                RuntimeError,
                "with dimension 1 being empty",
            ),
            ErrorSample((make((3, 3)), (1,) * rank), RuntimeError, "tensor, but got: [3, 3]"),
        ],
        **pair,
        **shared,
    )
    op(
        f"{fractional}_of",
        _fractional,
        vjp={"self": fractional_rule},
        jvp={"self": lambda F, t_self, result1: picked(F, t_self, result1, rank)},
        batch=_with_samples,
        inputs=("self", "random_samples"),
        node=f"FractionalMaxPool{rank}DBackward0",
        public_name=fractional,
        also_saves=("self",),
        fused=("self",),
        oracle=f"_C._nn.{fractional}",
        samples=_fractional_samples(rank),
        errors=lambda make: [
            ErrorSample(
                (make((1, *(3,) * rank)), (4,) * rank, (2,) * rank, make((1, 1, rank))),
                RuntimeError,
                "4 too large relative to input",
            )
        ],
        **pair,
        **shared,
    )
    for name, title in ((adaptive, "Adaptive"), (fractional, "Fractional")):
        op(
            f"{name}_scattered",
            scattered,
            vjp={"grad_output": gathered},
            batch=folded("grad_output", "indices", sizes=("size",)),
            inputs=("grad_output", "indices"),
            jvp=LINEAR,
            node=f"{title}MaxPool{rank}DBackwardBackward0",
            oracle=False,
            samples=_back_samples(rank),
            **shared,
        )
    op(
        f"{unpooled}_of",
        _unpool,
        vjp={"self": gathered},
        batch=folded("self", "indices"),
        jvp={"self": calls(f"{unpooled}_of", "t_self", "indices", "output_size")},
        inputs=("self", "indices"),
        node=f"MaxUnpool{rank}DBackward0",
        public_name=unpooled,
        oracle=lambda torch, self, indices, size: _torch_unpool(torch, rank, self, indices, size),
        samples=_unpool_samples(rank),
        errors=lambda make: [
            ErrorSample(
                (make((1, *(2,) * rank)), numpy.full((1, *(2,) * rank), 999), (4,) * rank),
                RuntimeError,
                "Found an invalid max index: 999",
            ),
            ErrorSample(
                (make((1, *(2,) * rank)), make((1, *(2,) * rank)), (4,) * rank),
                RuntimeError,
                "elements in indices should be type int64 but got: Double",
            ),
        ],
        **shared,
    )


def _torch_unpool(torch, rank: int, self, indices, size: Ints):
    if rank == 2:
        return torch._C._nn.max_unpool2d(self, indices, size)
    # A volume's unpooling asks for the pooling that it undoes; only the size counts.
    return torch._C._nn.max_unpool3d(self, indices, size, (1, 1, 1), (0, 0, 0))


def _check_fractional(self, kernel: Ints, size: Ints) -> None:
    rank = len(size)
    name = f"fractional_max_pool{rank}d"
    _check_spatial(name, self.shape, rank)
    _check_kind(name, self)
    labels = ("height", "width") if rank == 2 else ("time", "height", "width")
    for label, n, out, k in zip(labels, self.shape[-rank:], size, kernel, strict=True):
        if out + k - 1 > n - (rank - 2):  # torch's bound for volumes is one less
            raise RuntimeError(
                f"{name}{'_out' * (rank - 2)}(): pool {label} {k} too large relative to input "
                f"{label} {n}"
            )


def _check_unpool(self, indices, rank: int) -> None:
    if self.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got "
            f"a tensor with {self.ndim} dimensions."
        )
    if indices.dtype != numpy.int64:
        dtype = dtypes.of_array(indices).scalar_name
        raise RuntimeError(f"elements in indices should be type int64 but got: {dtype}")
    if self.shape != indices.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(self.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )


for _rank in (2, 3):
    _declare_ops(_rank)


def _declare(rank: int) -> None:
    adaptive_name, unpool_name, lp_name = (
        f"adaptive_max_pool{rank}d",
        f"max_unpool{rank}d",
        f"lp_pool{rank}d",
    )

    def adaptive(F, input, output_size, return_indices: bool = False):
        if rank == 1 and input.ndim not in (2, 3):
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {input.ndim}-dimensional tensor for argument "
                "#1 'self' (while checking arguments for adaptive_max_pool1d)"
            )
        size = adaptive_size(adaptive_name, input.shape, output_size, rank)
        _check_spatial(adaptive_name, input.shape, rank)
        check_not_negative(adaptive_name, input.shape, size)
        if rank == 1:
            pair = F.adaptive_max_pool2d_of(F.unsqueeze(input, -2), (1, *size))
            values, indices = (F.squeeze(each, -2) for each in pair)
        else:
            values, indices = getattr(F, f"{adaptive_name}_of")(input, size)
        return (values, indices) if return_indices else values

    def unpool(F, input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel = option(unpool_name, "kernel_size", kernel_size, rank)
        step = kernel if stride is None else option(unpool_name, "stride", stride, rank)
        around = option(unpool_name, "padding", padding, rank)
        if min(step) <= 0 and rank == 3:
            raise RuntimeError(f"strides should be greater than zero, but got stride: {list(step)}")
        size = _unpooled_size(tuple(input.shape), kernel, step, around, output_size)
        if rank == 1:
            wide = F.max_unpool2d_of(F.unsqueeze(input, -1), F.unsqueeze(indices, -1), (*size, 1))
            return F.squeeze(wide, -1)
        return getattr(F, f"{unpool_name}_of")(input, indices, size)

    def lp_pool(F, input, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False):
        kernel = option(lp_name, "kernel_size", kernel_size, rank)
        powers = F.pow(input, norm_type)
        means = getattr(F, f"avg_pool{rank}d")(powers, kernel_size, stride, 0, ceil_mode)
        sums = F.mul(F.mul(F.sign(means), F.relu(F.abs(means))), math.prod(kernel))
        return F.pow(sums, 1.0 / norm_type)

    adaptive.__doc__ = f"Maxima of windows such that the last {rank} size(s) are output_size."
    unpool.__doc__ = (
        f"Zeros with the elements at the indices of max_pool{rank}d, whose inverse this partly is."
    )
    lp_pool.__doc__ = f"(sum of x^p)^(1 / p) of each window of the last {rank} dimension(s)."
    spaces = "torch nn.functional" if rank == 1 else "nn.functional"
    casts = "cpu float32" if rank == 3 else ""
    composite(adaptive_name, method=False, spaces=spaces, autocast=casts)(adaptive)
    casts = "cpu float32"
    profiled = UNSEEN if rank == 1 else ""
    composite(unpool_name, method=False, spaces="nn.functional", autocast=casts, profiled=profiled)(
        unpool
    )
    composite(lp_name, method=False, spaces="nn.functional", profiled=UNSEEN)(lp_pool)


def _unpooled_size(shape: Ints, kernel: Ints, stride: Ints, padding: Ints, output_size) -> Ints:
    rank = len(kernel)
    parts = zip(shape[-rank:], kernel, stride, padding, strict=True)
    usual = tuple((n - 1) * s + k - 2 * p for n, k, s, p in parts)
    if output_size is None:
        return usual
    size = tuple(output_size)
    if len(size) == rank + 2:
        size = size[2:]
    if len(size) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it "
            f"has a length of '{len(size)}'"
        )
    for at, (n, expected, s) in enumerate(zip(size, usual, stride, strict=True)):
        if not expected - s < n < expected + s:
            raise ValueError(
                f'invalid output_size "{size}" (dim {at} must be between {expected - s} and '
                f"{expected + s})"
            )
    return size


for _rank in (1, 2, 3):
    _declare(_rank)


def _each(name: str, value, rank: int, what: str) -> Ints:
    if isinstance(value, (tuple, list)) and len(value) not in (1, rank):
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of Ints")
    return option(name, what, value, rank)


def _declare_fractional(rank: int) -> None:
    name = f"fractional_max_pool{rank}d"

    def fractional(
        F,
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices: bool = False,
        _random_samples=None,
    ):
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if input.ndim < rank + 1:
            _check_spatial(name, input.shape, rank)
        if output_size is None:
            ratios = (output_ratio,) * rank if isinstance(output_ratio, float) else output_ratio
            if len(ratios) != rank:
                raise IndexError(
                    f"{name}(): output_ratio has {len(ratios)} numbers, one for each of {rank} "
                    "dimensions is needed"
                )
            spatial = tuple(input.shape)[-rank:]
            output_size = tuple(int(n * r) for n, r in zip(spatial, ratios, strict=True))
        kernel = _each(name, kernel_size, rank, "kernel_size")
        size = _each(name, output_size, rank, "output_size")
        if _random_samples is None:
            lead = tuple(input.shape)[: input.ndim - rank]
            lead = (1, *lead) if len(lead) == 1 else lead
            dtype, source = input._array.dtype, source_of(backends.backend_of(all_values(input)))
            _random_samples = drawn((*lead, rank), lambda whole: source.rand(whole, dtype))
        pair = getattr(F, f"{name}_of")(input, kernel, size, _random_samples)
        return tuple(pair) if return_indices else pair[0]

    fractional.__doc__ = (
        f"Maxima of windows at random starts, as many as output_size says (or output_ratio times "
        f"the last {rank} sizes). Source: Graham, arXiv:1412.6071."
    )
    spaces = "nn.functional"
    composite(name, method=False, spaces=spaces, autocast="cpu float32")(fractional)


for _rank in (2, 3):
    _declare_fractional(_rank)
