"""Normalization over the batch, over each sample, or over groups of channels."""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.table import functions as F
from ag_visual.nn import functional
from ag_visual.nn.module import Module
from ag_visual.nn.parameter import Parameter


class _Affine(Module):
    """Base: a weight of ones and a bias of zeros, each None where it is not asked for."""

    def _set_affine(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, fill, asked in (("weight", "ones", weight), ("bias", "zeros", bias)):
            value = Parameter(F[fill](shape, device=device, dtype=dtype)) if asked else None
            self.register_parameter(name, value)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            self.weight.detach().fill_(1)
        if self.bias is not None:
            self.bias.detach().zero_()


class _NormBase(_Affine):
    """Base of batch and instance norms: running statistics, weight and bias of each channel."""

    _version = 2  # of the saved state: 2 has num_batches_tracked
    dims: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        kind = {"device": device, "dtype": dtype}
        self._set_affine(num_features, affine, affine and bias, **kind)
        tracked = track_running_stats
        self.register_buffer("running_mean", F["zeros"](num_features, **kind) if tracked else None)
        self.register_buffer("running_var", F["ones"](num_features, **kind) if tracked else None)
        count = F["tensor"](0, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the statistics of the beginning."""
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        old = local_metadata.get("version", None) is None or local_metadata["version"] < 2
        if old and self.track_running_stats and key not in state_dict:
            own = self.num_batches_tracked
            state_dict[key] = F["tensor"](0) if own is None else own
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def _check(self, input: Any) -> None:
        if input.dim() not in self.dims:
            expected = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    """(x - mean) / sqrt(var + eps) over batch and positions, times weight plus bias."""

    def forward(self, input: Any) -> Any:
        self._check(input)
        factor = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / self.num_batches_tracked.item()
        mean, var = self.running_mean, self.running_var
        of_batch = self.training or (mean is None and var is None)
        # Statistics that the module keeps, but does not track now, stay out of it.
        if self.training and not self.track_running_stats:
            mean = var = None
        return functional.batch_norm(
            input, mean, var, self.weight, self.bias, of_batch, factor, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L). Ioffe and Szegedy (2015)."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W). Ioffe and Szegedy (2015)."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of (N, C, D, H, W). Ioffe and Szegedy (2015)."""

    dims = (5,)


class _InstanceNorm(_NormBase):
    """Batch norm of each sample for itself."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        options = (affine, track_running_stats, device, dtype)
        super().__init__(num_features, eps, momentum, *options, bias=bias)

    def forward(self, input: Any) -> Any:
        self._check(input)
        single = input.dim() == self.dims[0]
        channels = input.shape[0 if single else 1]
        if self.affine and channels != self.num_features:
            raise ValueError(
                f"expected input's size at dim={0 if single else 1} to match num_features "
                f"({self.num_features}), but got: {channels}."
            )
        result = functional.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (C, L) or (N, C, L). Ulyanov et al. (2016)."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (C, H, W) or (N, C, H, W). Ulyanov et al. (2016)."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of (C, D, H, W) or (N, C, D, H, W). Ulyanov et al. (2016)."""

    dims = (4, 5)


class LayerNorm(_Affine):
    """Normalizes over the last dimensions. Ba, Kiros and Hinton (2016)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        shifted = elementwise_affine and bias
        self._set_affine(self.normalized_shape, elementwise_affine, shifted, device, dtype)

    def forward(self, input: Any) -> Any:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}"
        return f"{text}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last dimensions. Zhang and Sennrich (2019)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = None
        if elementwise_affine:
            weight = Parameter(F["ones"](self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", weight)

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            self.weight.detach().fill_(1)

    def forward(self, x: Any) -> Any:
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Normalizes groups of channels. Wu and He (2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._set_affine(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Any) -> Any:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class CrossMapLRN2d(Module):
    """x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta of (N, C, H, W).

    As in torch, the first channel is a neighbour of all that follow it. Krizhevsky et al. (2012).
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        channels = input.shape[1]
        reach = int((self.size - 1) / 2 + 1)
        at = F["arange"](channels, device=input.device)
        far = (at[:, None] - at).abs() >= reach
        near = (~far | ((at == 0) & (at[:, None] >= reach))).to(input.dtype)
        sums = F["einsum"]("dc,nchw->ndhw", near, input.square())
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(Module):
    """Each channel over the energy of its neighbours. Krizhevsky et al. (2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
