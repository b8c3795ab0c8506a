"""Modules that move values between space and channels, or change the resolution."""

from __future__ import annotations

from functools import partial
from typing import Any

from ag_visual.nn import functional
from ag_visual.nn.module import Module
from ag_visual.nn.of_function import of_function

_moved = partial(of_function, __name__)

PixelShuffle = _moved(
    "PixelShuffle",
    "pixel_shuffle",
    "(N, C r^2, H, W) to (N, C, H r, W r). Shi et al. (2016).",
    upscale_factor=...,
)
PixelUnshuffle = _moved(
    "PixelUnshuffle",
    "pixel_unshuffle",
    "(N, C, H r, W r) to (N, C r^2, H, W).",
    downscale_factor=...,
)
ChannelShuffle = _moved(
    "ChannelShuffle",
    "channel_shuffle",
    'Interleaves groups of channels. Zhang et al., "ShuffleNet" (2018).',
    groups=...,
)
Unfold = _moved(
    "Unfold",
    "unfold",
    "Blocks of (N, C, H, W) as columns (N, C kH kW, L).",
    kernel_size=...,
    dilation=1,
    padding=0,
    stride=1,
)
Fold = _moved(
    "Fold",
    "fold",
    "Columns (N, C kH kW, L) summed up to (N, C, H, W).",
    output_size=...,
    kernel_size=...,
    dilation=1,
    padding=0,
    stride=1,
)


class Upsample(Module):
    """A finer or coarser grid by repetition or interpolation."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        return functional.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of (N, C, H, W) by repetition."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of (N, C, H, W) by interpolation between corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
