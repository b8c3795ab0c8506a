"""Patches of images: unfold and fold, and shuffles between channels and pixels."""

from __future__ import annotations

import math

from ag_visual.arrays.backend import of_namespace
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.record import OWN, ErrorSample, Sample
from ag_visual.dispatch.rules import calls
from ag_visual.dispatch.table import composite
from ag_visual.dispatch.vmap import folded, leading
from ag_visual.ops.nn.convolution import Ints

# Sliding blocks -----------------------------------------------------------------------------------

Options = tuple[Ints, Ints, Ints, Ints]


def _check_options(kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> None:
    for what, values, short in (
        ("kernel size", kernel, "kernel"),
        ("stride", stride, "stride"),
        ("dilation", dilation, "dilation"),
    ):
        if min(values) <= 0:
            raise RuntimeError(
                f"{what} should be greater than zero, but got {short}_height: {values[0]} "
                f"{short}_width: {values[1]}"
            )
    if min(padding) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: "
            f"{padding[1]}"
        )


def _blocks(size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Ints:
    """How many blocks fit, along each dimension."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    )


def _im2col(xp, self, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints):
    _check_options(kernel_size, dilation, padding, stride)
    if self.ndim not in (3, 4) or not all(self.shape[-3:]):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(self.shape)}"
        )
    size = self.shape[-2:]
    count = _blocks(size, kernel_size, dilation, padding, stride)
    if min(count) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(size)}, kernel_size={kernel_size}, dilation="
            f"{dilation}, padding={padding}, calculated shape of the array of sliding blocks as "
            f"{count}, but its components must be at least one."
        )
    lead = self.shape[:-2]
    (height, width), (top, left) = size, padding
    padded = xp.zeros((*lead, height + 2 * top, width + 2 * left), self.dtype)
    padded[..., top : top + height, left : left + width] = self
    steps = padded.strides[-2:]
    strides = (
        *padded.strides[:-2],
        *(d * b for d, b in zip(dilation, steps, strict=True)),
        *(s * b for s, b in zip(stride, steps, strict=True)),
    )
    windows = of_namespace(xp).as_strided(padded, (*lead, *kernel_size, *count), strides)
    rows = self.shape[-3] * math.prod(kernel_size)
    return windows.reshape((*self.shape[:-3], rows, math.prod(count)))


def _col2im(
    xp, self, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
):
    _check_options(kernel_size, dilation, padding, stride)
    _check_columns(self, output_size, kernel_size, dilation, padding, stride)
    count = _blocks(output_size, kernel_size, dilation, padding, stride)
    lead = (*self.shape[:-2], self.shape[-2] // math.prod(kernel_size))
    columns = self.reshape((*lead, *kernel_size, *count))
    (height, width), (top, left) = output_size, padding
    padded = xp.zeros((*lead, height + 2 * top, width + 2 * left), self.dtype)
    for row in range(kernel_size[0]):
        for column in range(kernel_size[1]):
            reach = tuple(
                slice(at * d, at * d + s * (n - 1) + 1, s)
                for at, d, s, n in zip((row, column), dilation, stride, count, strict=True)
            )
            padded[(..., *reach)] += columns[..., row, column, :, :]
    return xp.ascontiguousarray(padded[..., top : top + height, left : left + width])


def _check_columns(
    self, output_size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> None:
    if self.ndim not in (2, 3) or not all(self.shape[-2:]):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(self.shape)}"
        )
    rows = self.shape[-2]
    if rows % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={rows} and kernel_size={kernel}."
        )
    count = _blocks(output_size, kernel, dilation, padding, stride)
    if self.shape[-1] != math.prod(count) or min(count) < 1:
        raise RuntimeError(
            f"Given output_size={output_size}, kernel_size={kernel}, dilation={dilation}, padding="
            f"{padding}, stride={stride}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {count[0]} * {count[1]} = {math.prod(count)}, "
            f"but got input.size(2)={self.shape[-1]}."
        )


_OPTIONS: tuple[Options, ...] = (
    ((2, 3), (1, 1), (0, 0), (1, 1)),
    ((2, 2), (2, 1), (1, 2), (2, 1)),
)


def _im2col_samples(make):
    for options in _OPTIONS:
        yield Sample((make((2, 3, 4, 5)), *options))
    yield Sample((make((2, 4, 3)), *_OPTIONS[0]))
    yield Sample((make((1, 2, 3)), (2, 3), (1, 1), (0, 0), (1, 1)))


def _col2im_samples(make):
    for kernel, *options in _OPTIONS:
        count = math.prod(_blocks((4, 5), kernel, *options))
        yield Sample((make((2, 3 * math.prod(kernel), count)), (4, 5), kernel, *options))
    yield Sample((make((8, 4)), (2, 5), (2, 2), (1, 1), (0, 0), (1, 1)))


def _im2col_rule(
    F, g, self_shape: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
):
    return F.col2im(g, tuple(self_shape[-2:]), kernel_size, dilation, padding, stride)


structural(
    "im2col",
    _im2col,
    vjp={"self": _im2col_rule},
    public=False,
    public_name="unfold",
    profiled=OWN,
    oracle="ops.aten.im2col",
    node="Im2ColBackward0",
    batch=folded("self", least=4),
    samples=_im2col_samples,
    errors=lambda make: [
        ErrorSample(
            (make((1, 1, 2, 2)), (3, 3), (1, 1), (0, 0), (1, 1)),
            RuntimeError,
            "its components must be at least one",
        ),
        ErrorSample(
            (make((1, 1, 2, 2)), (2, 2), (1, 1), (0, 0), (0, 1)),
            RuntimeError,
            "stride should be greater than zero, but got stride_height: 0 stride_width: 1",
        ),
    ],
)
structural(
    "col2im",
    _col2im,
    vjp={"self": calls("im2col", "g", "kernel_size", "dilation", "padding", "stride")},
    public=False,
    public_name="fold",
    profiled=OWN,
    oracle="ops.aten.col2im",
    node="Col2ImBackward0",
    batch=folded("self", least=3),
    samples=_col2im_samples,
    errors=lambda make: [
        ErrorSample(
            (make((1, 5, 4)), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
            RuntimeError,
            "to be divisible by the product of kernel_size",
        ),
        ErrorSample(
            (make((1, 4, 5)), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
            RuntimeError,
            "number of sliding blocks 2 * 2 = 4, but got input.size(2)=5",
        ),
    ],
)


def _two(name: str, what: str, value) -> Ints:
    value = checked(name, what, kind_named("SomeDims"), value)
    return (value, value) if isinstance(value, int) else value


@composite("im2col_unfold", public=False, spaces="nn.functional.unfold", profiled="im2col")
def unfold(F, input, kernel_size, dilation=1, padding=0, stride=1):
    """The sliding blocks of (N, C, H, W) as the columns of (N, C * kh * kw, blocks)."""
    return F.im2col(
        input,
        _two("unfold", "kernel_size", kernel_size),
        _two("unfold", "dilation", dilation),
        _two("unfold", "padding", padding),
        _two("unfold", "stride", stride),
    )


@composite("fold", method=False, spaces="nn.functional", profiled="col2im")
def _fold(F, input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns (N, C * kh * kw, blocks) added into images (N, C, *output_size)."""
    options = (
        _two("fold", "kernel_size", kernel_size),
        _two("fold", "dilation", dilation),
        _two("fold", "padding", padding),
        _two("fold", "stride", stride),
    )
    return F.col2im(input, _two("fold", "output_size", output_size), *options)


# Shuffles -----------------------------------------------------------------------------------------


def _check_images(name: str, self, factor: int, what: str) -> None:
    if self.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {self.ndim} "
            "dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")


def _pixel_shuffle(xp, self, upscale_factor: int):
    r = upscale_factor
    _check_images("pixel_shuffle", self, r, "upscale_factor")
    *lead, channels, height, width = self.shape
    if r * r >= 2**63:
        raise ValueError(
            "upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor="
            f"{upscale_factor}"
        )
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    inner = self.reshape((math.prod(lead), channels // (r * r), r, r, height, width))
    shape = (*lead, channels // (r * r), height * r, width * r)
    return _copied(xp, inner.transpose(0, 1, 4, 2, 5, 3), shape)


def _pixel_unshuffle(xp, self, downscale_factor: int):
    r = downscale_factor
    _check_images("pixel_unshuffle", self, r, "downscale_factor")
    *lead, channels, height, width = self.shape
    for what, n, at in (("height", height, -2), ("width", width, -1)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but "
                f"input.size({at})={n} is not divisible by {r}"
            )
    inner = self.reshape((math.prod(lead), channels, height // r, r, width // r, r))
    shape = (*lead, channels * r * r, height // r, width // r)
    return _copied(xp, inner.transpose(0, 1, 3, 5, 2, 4), shape)


def _channel_shuffle(xp, self, groups: int):
    if self.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(self.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    rows, channels, *rest = self.shape
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        )
    inner = self.reshape((rows, groups, channels // groups, *rest))
    return _copied(xp, inner.swapaxes(1, 2), self.shape)


def _copied(xp, array, shape: Ints):
    """Its elements in this shape, in memory of their own."""
    return xp.array(array, order="C", copy=True).reshape(shape)


structural(
    "pixel_shuffle",
    _pixel_shuffle,
    vjp={"self": lambda F, g, upscale_factor: F.pixel_unshuffle(g, upscale_factor)},
    method=False,
    batch=leading(),
    samples=lambda make: [
        Sample((make(shape), r)) for shape, r in (((2, 8, 2, 3), 2), ((4, 1, 2), 2), ((1, 2, 2), 1))
    ],
    errors=lambda make: [
        ErrorSample((make((3, 2, 2)), 2), RuntimeError, "is not divisible by 4"),
        ErrorSample((make((2, 2)), 2), RuntimeError, "at least 3 dimensions"),
        ErrorSample((make((4, 2, 2)), 0), RuntimeError, "a positive upscale_factor"),
    ],
    doc="Channels (..., C r^2, H, W) as pixels (..., C, H r, W r).",
    spaces="torch nn.functional",
)
structural(
    "pixel_unshuffle",
    _pixel_unshuffle,
    vjp={"self": lambda F, g, downscale_factor: F.pixel_shuffle(g, downscale_factor)},
    method=False,
    batch=leading(),
    samples=lambda make: [Sample((make((2, 2, 4, 6)), 2)), Sample((make((1, 3, 3)), 3))],
    errors=lambda make: [
        ErrorSample((make((1, 3, 4)), 2), RuntimeError, "height to be divisible"),
        ErrorSample((make((1, 4, 3)), 2), RuntimeError, "width to be divisible"),
    ],
    doc="Pixels (..., C, H r, W r) as channels (..., C r^2, H, W).",
    spaces="torch nn.functional",
)
structural(
    "channel_shuffle",
    _channel_shuffle,
    vjp={"self": lambda F, g, groups: F.channel_shuffle(g, g.shape[1] // groups)},
    method=False,
    batch=folded("self"),
    samples=lambda make: [Sample((make((2, 6, 2, 2)), 2)), Sample((make((1, 6, 2)), 3))],
    errors=lambda make: [
        ErrorSample((make((1, 3, 2)), 2), RuntimeError, "must be divisible by groups"),
        ErrorSample((make((3, 2)), 2), RuntimeError, "input with > 2 dims"),
        ErrorSample((make((1, 3, 2)), 0), RuntimeError, "must be positive"),
    ],
    doc="The channels of equal groups taken from each group in turn.",
    spaces="torch nn.functional",
    # torch's own shuffle for CPUs, which it does not differentiate.
    aliases=("native_channel_shuffle",),
)
