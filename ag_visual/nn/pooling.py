"""Pooling: largest values, means, norms, and the way back."""

from __future__ import annotations

from typing import Any

from ag_visual.nn import functional
from ag_visual.nn.module import Module
from ag_visual.nn.tuples import each


class _Pool(Module):
    """Base: `function` is the function's name and `count` the number of spatial dimensions."""

    count: int
    function: str
    shown: tuple[str, ...]

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(functional, self.function)(*args, **kwargs)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class _MaxPoolNd(_Pool):
    """The largest value of each window; return_indices: and where it was."""

    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        return self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPoolNd):
    """The largest value of each window of (N, C, L); return_indices: and where it was."""

    count, function = 1, "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest value of each window of (N, C, H, W); return_indices: and where it was."""

    count, function = 2, "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest value of each window of (N, C, D, H, W); return_indices: and where it was."""

    count, function = 3, "max_pool3d"


class AvgPool1d(_Pool):
    """The mean of each window of (N, C, L)."""

    count, function = 1, "avg_pool1d"
    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = each(kernel_size, 1)
        self.stride = each(kernel_size if stride is None else stride, 1)
        self.padding = each(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        return self._call(
            *(input, self.kernel_size, self.stride, self.padding),
            *(self.ceil_mode, self.count_include_pad),
        )


class _AvgPool(_Pool):
    """The mean of each window, or its sum over `divisor_override`."""

    shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        return self._call(
            *(input, self.kernel_size, self.stride, self.padding),
            *(self.ceil_mode, self.count_include_pad, self.divisor_override),
        )


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    count, function = 2, "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W)."""

    count, function = 3, "avg_pool3d"


class _LPPool(_Pool):
    """(sum x^p)^(1/p) of each window."""

    shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Any) -> Any:
        return self._call(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPool):
    """(sum x^p)^(1/p) of each window of (N, C, L)."""

    count, function = 1, "lp_pool1d"


class LPPool2d(_LPPool):
    """(sum x^p)^(1/p) of each window of (N, C, H, W)."""

    count, function = 2, "lp_pool2d"


class LPPool3d(_LPPool):
    """(sum x^p)^(1/p) of each window of (N, C, D, H, W)."""

    count, function = 3, "lp_pool3d"


class _AdaptiveAvgPool(_Pool):
    """Means of as many windows as the output has."""

    shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        return self._call(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of `output_size` windows of (N, C, L)."""

    count, function = 1, "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of `output_size` windows of (N, C, H, W)."""

    count, function = 2, "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of `output_size` windows of (N, C, D, H, W)."""

    count, function = 3, "adaptive_avg_pool3d"


class _AdaptiveMaxPool(_Pool):
    """Largest values of as many windows as the output has."""

    shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Any) -> Any:
        return self._call(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Largest values of `output_size` windows of (N, C, L)."""

    count, function = 1, "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Largest values of `output_size` windows of (N, C, H, W)."""

    count, function = 2, "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Largest values of `output_size` windows of (N, C, D, H, W)."""

    count, function = 3, "adaptive_max_pool3d"


class _MaxUnpool(_Pool):
    """Puts the values of a max pool back where they came from, and zeros elsewhere."""

    shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = each(kernel_size, self.count)
        self.stride = each(kernel_size if stride is None else stride, self.count)
        self.padding = each(padding, self.count)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return self._call(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """Puts the values of `MaxPool1d` back where they came from, and zeros elsewhere."""

    count, function = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """Puts the values of `MaxPool2d` back where they came from, and zeros elsewhere."""

    count, function = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """Puts the values of `MaxPool3d` back where they came from, and zeros elsewhere."""

    count, function = 3, "max_unpool3d"


class _FractionalMaxPool(_Pool):
    """Largest values of windows at random places. Graham, "Fractional max-pooling" (2014)."""

    shown = ()

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = each(kernel_size, self.count)
        self.output_size = None if output_size is None else each(output_size, self.count)
        self.output_ratio = output_ratio
        if isinstance(output_ratio, float):
            self.output_ratio = (output_ratio,) * self.count
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Any) -> Any:
        return self._call(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Largest values of windows of (N, C, H, W) at random places. Graham (2014)."""

    count, function = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Largest values of windows of (N, C, D, H, W) at random places. Graham (2014)."""

    count, function = 3, "fractional_max_pool3d"
