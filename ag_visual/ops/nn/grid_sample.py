"""Sampling images at the places of a grid (grid_sample), and grids of affine maps (affine_grid).

Forward and backward share one list of taps: which pixel, with which weight, and the weight's
derivative by the place. Everything is written on `F`, so that gradients have gradients.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any, NamedTuple

from ag_visual import dtypes
from ag_visual.arrays.kernels import sampling as kernels
from ag_visual.arrays.kernels.modes import (
    BICUBIC,
    BILINEAR,
    BORDER,
    NEAREST,
    REFLECTION,
    ZEROS,
)
from ag_visual.core.level import all_values, anywhere
from ag_visual.core.source import warn
from ag_visual.dispatch.record import LINEAR, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op, raw
from ag_visual.dispatch.vmap import folded
from ag_visual.ops.tensor.ranges import evenly

_MODES = {"bilinear": BILINEAR, "nearest": NEAREST, "bicubic": BICUBIC}
_PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}
_CUBIC = -0.75
# Further out than any image, inside every integer type: what nan and inf become.
_NOWHERE, _FAR = -100.0, 2.0**31 - 2


class Tap(NamedTuple):
    """Of one dimension, for each place: the pixel, its weight (0 outside), the weight's slope,
    and where there is such a pixel (None: everywhere).
    """

    index: Any
    weight: Any
    slope: Any
    there: Any


def _reflected(F, x, n: int, align: bool):
    """Folded back at the borders (the centres of the corner pixels, or their edges)."""
    low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
    if span == 0:
        return x * 0.0
    away = F.abs(x - low)
    turns = F.floor(away / span)
    extra = away - turns * span
    odd = turns - 2 * F.floor(turns / 2)
    return F.where(odd == 0, extra + low, span - extra + low)


def _inside(F, x, n: int, padding: int, align: bool):
    """The place where the padding has its value from; as it is for zeros."""
    if padding == ZEROS:
        return x
    if padding == REFLECTION:
        x = _reflected(F, x, n, align)
    # Beyond the border, and on it, the slope is 0.
    x = F.where(x <= 0, 0.0, x)
    return F.where(x >= n - 1, float(n - 1), x)


def _known(F, x):
    return F.where(F.abs(x) <= _FAR, x, _NOWHERE)


def _placed(F, at, n: int) -> tuple[Any, Any]:
    """Whole places as indices that exist, and 1 where they are in the image."""
    there = (at >= 0) & (at <= n - 1)
    index = F.where(there, at, 0.0)
    return F.cast(index, dtypes.int64.np), there if anywhere(there == 0) else None


def _only(F, there, x):
    return x if there is None else F.where(there, x, 0.0)


def _fused(F, x, scale: float, shift: float):
    """x * scale - shift rounded once: torch's code is compiled so, and where places fall on
    pixels the last digit decides between two slopes. `scale` is a small multiple of 1/2.
    """
    kind = getattr(x, "_array", x).dtype
    if kind == dtypes.float32.np:
        return F.cast(F.cast(x, dtypes.float64.np) * scale - shift, kind)
    if kind != dtypes.float64.np:
        return x * scale - shift
    # Of so few bits that its product is exact, and the rest, whose product is exact, too.
    high = F.cast(F.cast(x, dtypes.float32.np), kind)
    rest = F.where(x == high, 0.0, x - high)  # of infinity, too
    return (high * scale - shift) + rest * scale


def _pixels(F, place, n: int, align: bool, rank: int):
    """Places from -1 to 1 in pixels, with the roundings of torch's images and of its volumes."""
    if rank == 2:
        return (place + 1) * ((n - 1) / 2) if align else _fused(F, place + 1, n / 2, 0.5)
    return (place + 1) / 2 * (n - 1) if align else ((place + 1) * n - 1) / 2


def _taps(F, place, n: int, mode: int, padding: int, align: bool, rank: int) -> list[Tap]:
    """The taps along one of `rank` dimensions, of n pixels; `place` goes from -1 to 1."""
    scale = (n - 1) / 2 if align else n / 2
    x = _pixels(F, place, n, align, rank)
    if mode == BICUBIC:
        return _cubic_taps(F, x, n, padding, align, scale)
    inner = _known(F, _inside(F, x, n, padding, align))
    if mode == NEAREST:
        index, there = _placed(F, F.round(inner), n)
        return [Tap(index, _only(F, there, inner * 0 + 1), None, there)]
    move = _slope(F, x, n, padding, align) * scale
    first = F.floor(inner)
    taps = []
    for at, weight, sign in ((first, first + 1 - inner, -1.0), (first + 1, inner - first, 1.0)):
        index, there = _placed(F, at, n)
        taps.append(Tap(index, _only(F, there, weight), _only(F, there, sign * move), there))
    return taps


def _slope(F, x, n: int, padding: int, align: bool):
    """The derivative of `_inside`: 1, -1 where it is folded an odd number of times, or 0."""
    one = x * 0 + 1
    if padding == ZEROS:
        return one
    if padding == REFLECTION:
        low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
        if span == 0:
            return one * 0
        turns = F.floor(F.abs(x - low) / span)
        odd = turns - 2 * F.floor(turns / 2)
        folded = F.where(odd == 0, one, -one)
        one = F.where(x < low, -folded, folded)
        x = _reflected(F, x, n, align)
    return F.where((x > 0) & (x < n - 1), one, 0.0)


def _cubic_taps(F, x, n: int, padding: int, align: bool, scale: float) -> list[Tap]:
    x = _known(F, x)
    first = F.floor(x)
    t = x - first
    taps = []
    for number, (weight, slope) in enumerate(_cubic(t)):
        at = _known(F, _inside(F, first + (number - 1), n, padding, align))
        index, there = _placed(F, F.round(at), n)
        taps.append(Tap(index, _only(F, there, weight), _only(F, there, slope * scale), there))
    return taps


def _cubic(t) -> list[tuple[Any, Any]]:
    """Keys' four weights for the part t behind the second pixel, and their slopes."""
    a = _CUBIC
    found = []
    for away, sign in ((t, 1), (1 - t, -1)):
        weight = ((a + 2) * away - (a + 3)) * away * away + 1
        found.append((weight, sign * ((3 * (a + 2) * away - 2 * (a + 3)) * away)))
    for away, sign in ((t + 1, 1), (2 - t, -1)):
        weight = ((away - 5) * away + 8) * away * a - 4 * a
        found.append((weight, sign * (((3 * away - 10) * away + 8) * a)))
    second, third, first, fourth = found
    return [first, second, third, fourth]


def _sizes(input) -> tuple[int, ...]:
    return tuple(input.shape[2:])


def _all_taps(
    F, grid, sizes: tuple[int, ...], mode: int, padding: int, align: bool
) -> list[list[Tap]]:
    """The taps of every dimension, for the places of the grid in one row."""
    flat = grid.reshape((-1, len(sizes)))
    # The last number of a place is that of the first dimension (z of x, y, z).
    return [
        _taps(F, flat[:, len(sizes) - 1 - at], n, mode, padding, align, len(sizes))
        for at, n in enumerate(sizes)
    ]


def _rows(F, input):
    """(N, C, ...) as pixels: (N * pixels, C)."""
    n, channels, *sizes = input.shape  # no -1: there may be no channels
    pixels = n * math.prod(sizes)
    return F.permute(input, (0, *range(2, input.ndim), 1)).reshape((pixels, channels))


def _starts(F, grid, sizes: tuple[int, ...]):
    """Where the pixels of each place's image begin among all rows."""
    pixels, places = math.prod(sizes), math.prod(grid.shape[1:-1])
    numbers = [n * pixels for n in range(grid.shape[0])]
    return F.repeat_interleave(F.index_of(grid, numbers), places)


def _row_numbers(F, chosen: tuple[Tap, ...], sizes: tuple[int, ...], starts):
    number = starts
    for at, tap in enumerate(chosen):
        number = number + tap.index * math.prod(sizes[at + 1 :])
    return number


def _finite(x) -> bool:
    return math.isfinite(float(all_values(x).sum()))


def _within(F, chosen: tuple[Tap, ...], x, finite: bool):
    """x (for each place, or a row of channels) where the chosen pixel exists, 0 elsewhere: the
    weight of 0 would make NaN of what is not finite there.
    """
    masks = [] if finite else [tap.there for tap in chosen if tap.there is not None]
    if not masks:
        return x
    there = functools.reduce(operator.and_, masks)
    return F.where(there.reshape((-1, 1)) if x.ndim > 1 else there, x, 0.0)


def _product(factors: list[Any]):
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _check(name: str, input, grid, mode: int) -> None:
    def sizes_of(array) -> str:
        return f"{list(array.shape)}"

    rank = input.ndim - 2
    sizes = f"got input with sizes {sizes_of(input)} and grid with sizes {sizes_of(grid)}"
    if input.shape[:1] != grid.shape[:1]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but {sizes}"
        )
    if grid.shape[-1] != rank:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {rank} in last dimension, but got grid "
            f"with sizes {sizes_of(grid)}"
        )
    for at in range(2, input.ndim):
        if input.shape[at] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {sizes_of(input)} with dimension {at} being empty"
            )
    if rank not in (2, 3) or grid.ndim != input.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"{sizes}"
        )
    if rank == 3 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype:
        kinds = [dtypes.of_array(a).scalar_name for a in (input, grid)]
        raise RuntimeError(f"expected scalar type {kinds[0]} but found {kinds[1]}")


def _sampler(xp, input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    _check("grid_sampler", input, grid, interpolation_mode)
    how = interpolation_mode, padding_mode, align_corners
    done = kernels.grid_sample(xp, input, grid, *how)
    if done is not None:
        return done
    F, sizes = raw(xp), _sizes(input)
    taps = _all_taps(F, grid, sizes, *how)
    rows, starts, finite = _rows(F, input), _starts(F, grid, sizes), _finite(input)
    result = xp.zeros((starts.shape[0], input.shape[1]), input.dtype)
    for chosen in itertools.product(*taps):
        weight = _product([tap.weight for tap in chosen])
        value = xp.take(rows, _row_numbers(F, chosen, sizes, starts), axis=0)
        result += _within(F, chosen, value, finite) * weight.reshape((-1, 1))
    shaped = result.reshape((*grid.shape[:-1], input.shape[1]))
    return xp.ascontiguousarray(xp.moveaxis(shaped, -1, 1))


def _sampler_rule(
    F, g, input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool, needs
) -> tuple[Any, Any]:
    how = interpolation_mode, padding_mode, align_corners
    if not F.traced:
        done = kernels.grid_sample_backward(F.xp, g, input, grid, *how, needs)
        if done is not None:
            return done
    sizes, channels = _sizes(input), input.shape[1]
    taps = _all_taps(F, grid, sizes, *how)
    starts = _starts(F, grid, sizes)
    rows, g_rows = _rows(F, input), _rows(F, g)
    count, finite = rows.shape[0], _finite(input) and _finite(g)
    d_rows = F.zeros_of(rows, (count, channels)) if needs[0] else None
    slopes: list[Any] = [None] * len(sizes)
    for chosen in itertools.product(*taps):
        numbers = _row_numbers(F, chosen, sizes, starts)
        if needs[0]:
            weight = _product([tap.weight for tap in chosen])
            share = _within(F, chosen, g_rows, finite) * weight.reshape((-1, 1))
            d_rows = F.index_add(d_rows, 0, numbers, share)
        if needs[1] and interpolation_mode != NEAREST:
            along = F.sum(g_rows * F.index_select(rows, 0, numbers), 1)
            along = _within(F, chosen, along, finite)
            for at, tap in enumerate(chosen):
                others = [o.weight for i, o in enumerate(chosen) if i != at]
                part = along * tap.slope * _product(others)
                slopes[at] = part if slopes[at] is None else slopes[at] + part
    d_input = d_grid = None
    if needs[0]:
        shaped = d_rows.reshape((input.shape[0], *sizes, channels))
        d_input = F.permute(shaped, (0, input.ndim - 1, *range(1, input.ndim - 1)))
    if needs[1]:
        if interpolation_mode == NEAREST:
            d_grid = F.zeros_of(grid, tuple(grid.shape))
        else:
            d_grid = F.stack(slopes[::-1], -1).reshape(tuple(grid.shape))
    return d_input, d_grid


def _sampler_samples(rank: int):
    shape, places = (
        ((2, 2, 4, 3), (2, 2, 3, 2)) if rank == 2 else ((1, 2, 3, 2, 4), (1, 2, 1, 2, 3))
    )
    modes = (BILINEAR, NEAREST, BICUBIC) if rank == 2 else (BILINEAR, NEAREST)

    def samples(make):
        for mode in modes:
            for padding in (ZEROS, BORDER, REFLECTION):
                for align in (False, True):
                    grid = make(places, low=-1.4, high=1.4)
                    yield Sample((make(shape), grid, mode, padding, align))

    return samples


def _sampler_errors(rank: int):
    def errors(make):
        shape = (1, 2, *(3,) * rank)
        options = (0, 0, False)
        grid = make((1, *(2,) * rank, rank))
        text = f"expected grid to have size {rank} in last dimension"
        yield ErrorSample((make(shape), make((1, *(2,) * rank, 4)), *options), RuntimeError, text)
        text = "expected grid and input to have same batch size"
        yield ErrorSample((make((2, *shape[1:])), grid, *options), RuntimeError, text)
        text = "to have non-empty spatial dimensions"
        yield ErrorSample((make((1, 2, 0, *shape[3:])), grid, *options), RuntimeError, text)
        text = "expected scalar type Double but found Float"
        yield ErrorSample((make(shape), grid.astype("float32"), *options), RuntimeError, text)

    return errors


for _rank in (2, 3):
    op(
        f"grid_sampler_{_rank}d",
        _sampler,
        vjp={("input", "grid"): _sampler_rule},
        batch=folded("input", "grid"),
        method=False,
        fused=("input", "grid"),
        node=f"GridSampler{_rank}DBackward0",
        samples=_sampler_samples(_rank),
        errors=_sampler_errors(_rank),
        real_only=True,
        autocast="cpu float32",
        doc="The image read at the places of a grid, between its pixels by interpolation.",
    )


@composite("grid_sampler", method=False, autocast="cpu float32, cuda widest")
def _grid_sampler(F, input, grid, interpolation_mode: int, padding_mode: int, align_corners: bool):
    """grid_sample with torch's numbers for the modes."""
    if input.ndim not in (4, 5):
        _check("grid_sampler", input, grid, interpolation_mode)
    sampler = getattr(F, f"grid_sampler_{input.ndim - 2}d")
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _aligned(align_corners: bool | None) -> bool:
    """The choice, or today's default: a program of before torch 1.3 meant the other one."""
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details."
        )
    return bool(align_corners)


@composite("grid_sample", method=False, spaces="nn.functional", profiled="grid_sampler")
def _grid_sample(
    F,
    input,
    grid,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
):
    """The values of (N, C, H, W) or (N, C, D, H, W) at the places of `grid`, between -1 and 1.

    grid: (N, ..., 2 or 3), each place as (x, y) or (x, y, z). mode: 'bilinear', 'nearest',
    'bicubic'; padding_mode: 'zeros', 'border', 'reflection'. align_corners: -1 and 1 are the
    centres of the corner pixels, not their edges.
    """
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    numbers = (_MODES[mode], _PADDINGS[padding_mode], _aligned(align_corners))
    return F.grid_sampler(input, grid, *numbers)


# Affine maps --------------------------------------------------------------------------------------


def _base(xp, size, align: bool, dtype):
    """(pixels, rank + 1): the place of each pixel between -1 and 1, and a 1."""
    spatial = tuple(size[2:])
    lines = []
    for n in spatial:
        line = evenly(xp, -1, 1, n, dtype) if n > 1 else xp.zeros((1,), dtype)
        lines.append(line if align else line * (n - 1) / n)
    base = xp.ones((*spatial, len(spatial) + 1), dtype)
    for at, line in enumerate(lines):
        base[..., len(spatial) - 1 - at] = line.reshape((-1,) + (1,) * (len(spatial) - at - 1))
    return base.reshape((-1, len(spatial) + 1))


def _generator(xp, theta, size, align_corners: bool):
    base = _base(xp, size, align_corners, theta.dtype)
    return xp.matmul(base, theta.swapaxes(1, 2)).reshape((size[0], *size[2:], len(size) - 2))


def _generator_back(xp, grad_output, size, align_corners: bool):
    base = _base(xp, size, align_corners, grad_output.dtype)
    flat = grad_output.reshape((grad_output.shape[0], -1, len(size) - 2))
    return xp.matmul(flat.swapaxes(1, 2), base)


op(
    "affine_grid_generator",
    _generator,
    vjp={
        "theta": lambda F, g, size, align_corners: F.affine_grid_transposed(g, size, align_corners)
    },
    jvp=LINEAR,
    method=False,
    batch=folded("theta", sizes=("size",)),
    samples=lambda make: [
        Sample((make((2, 2, 3)), (2, 3, 4, 5), False)),
        Sample((make((1, 3, 4)), (1, 2, 2, 1, 3), True)),
    ],
    real_only=True,
    doc="The grid of places at which affine maps read an image.",
)
op(
    "affine_grid_transposed",
    _generator_back,
    doc="The gradient of affine maps from that of their sampling grid.",
    vjp={
        "grad_output": lambda F, g, size, align_corners: F.affine_grid_generator(
            g, size, align_corners
        )
    },
    jvp=LINEAR,
    public=False,
    batch=folded("grad_output", sizes=("size",)),
    samples=lambda make: [Sample((make((2, 4, 5, 2)), (2, 3, 4, 5), False))],
    real_only=True,
)


@composite("affine_grid", method=False, spaces="nn.functional", profiled="affine_grid_generator")
def _affine_grid(F, theta, size, align_corners: bool | None = None):
    """The grid on which grid_sample maps an image of `size` by the matrices theta.

    theta: (N, 2, 3) for size (N, C, H, W), (N, 3, 4) for (N, C, D, H, W).
    """
    size = tuple(size)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    rank = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return F.affine_grid_generator(theta, size, _aligned(align_corners))
