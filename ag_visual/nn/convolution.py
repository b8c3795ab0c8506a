"""Convolutions and transposed convolutions of one to three dimensions."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.nn import functional
from ag_visual.nn.linear import Weighted
from ag_visual.nn.tuples import each

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Weighted):
    """Base: the weight, the bias and the repr."""

    count: int
    function: str
    transposed = False

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, but got {groups}")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(
                    f"{name} must be divisible by groups, but got {channels} and {groups}"
                )
        count = self.count
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = each(kernel_size, count), each(stride, count)
        self.dilation, self.output_padding = each(dilation, count), each(output_padding, count)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of same, valid"
                )
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {PADDING_MODES}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.padding = padding if isinstance(padding, str) else each(padding, count)
        self.padding_mode = padding_mode
        first, second = out_channels, in_channels
        if self.transposed:
            first, second = second, first
        shape = (first, second // groups, *self.kernel_size)
        self._make(shape, out_channels, bias, device, dtype)

    def _fan_in(self) -> int:
        return self.weight.shape[1] * math.prod(self.kernel_size)

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        zero, one = (0,) * self.count, (1,) * self.count
        usual = {"padding": zero, "dilation": one, "output_padding": zero, "groups": 1}
        parts += [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_ConvNd):
    """Cross-correlation with a weight of shape (out, in / groups, kernel...)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_up(
            *(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups),
            *(bias, padding_mode, device, dtype),
        )

    def _around(self) -> list[int]:
        """The padding in the order of `functional.pad`: last dimension first, both sides."""
        if isinstance(self.padding, tuple):
            return [p for p in reversed(self.padding) for _ in range(2)]
        total = [
            d * (k - 1) if self.padding == "same" else 0
            for d, k in zip(self.dilation, self.kernel_size, strict=True)
        ]
        return [side for t in reversed(total) for side in (t // 2, t - t // 2)]

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        """The layer with another weight and bias: what subclasses call and replace."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._around(), self.padding_mode)
            padding = 0
        return getattr(functional, self.function)(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Conv):
    """Cross-correlation of (N, C, L) with (out, C / groups, k)."""

    count, function = 1, "conv1d"


class Conv2d(_Conv):
    """Cross-correlation of (N, C, H, W) with (out, C / groups, kH, kW)."""

    count, function = 2, "conv2d"


class Conv3d(_Conv):
    """Cross-correlation of (N, C, D, H, W) with (out, C / groups, kD, kH, kW)."""

    count, function = 3, "conv3d"


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution with respect to its input, as a layer."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, but got '
                f"{padding_mode!r}"
            )
        self._set_up(
            *(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation),
            *(groups, bias, padding_mode, device, dtype),
        )

    def forward(self, input: Any, output_size: Any = None) -> Any:
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra(input, list(output_size))
        return getattr(functional, self.function)(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )

    def _extra(self, input: Any, output_size: list[int]) -> tuple[int, ...]:
        """The output padding that gives the asked size."""
        count = self.count
        leading = input.dim() - count
        if len(output_size) == leading + count:
            output_size = output_size[leading:]
        if len(output_size) != count:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {count} "
                f"or {leading + count} elements (got {len(output_size)})"
            )
        sizes = input.shape[leading:]
        least = [
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, stride, padding, dilation, kernel in zip(
                sizes, self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [low + stride - 1 for low, stride in zip(least, self.stride, strict=True)]
        for size, low, high in zip(output_size, least, most, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from "
                    f"{least} to {most} (for an input of {list(sizes)})"
                )
        return tuple(size - low for size, low in zip(output_size, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, C, L) with (C, out / groups, k)."""

    count, function = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, C, H, W) with (C, out / groups, kH, kW)."""

    count, function = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, C, D, H, W) with (C, out / groups, kD, kH, kW)."""

    count, function = 3, "conv_transpose3d"
