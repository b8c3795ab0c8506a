"""torch.cpu.amp, the older names of mixed precision: they warn, as in torch."""

from __future__ import annotations

from ag_visual import dtypes
from ag_visual.amp import autocast_mode, grad_scaler
from ag_visual.core.source import warn


def _warn(name: str) -> None:
    warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
    )


class autocast(autocast_mode.autocast):
    """`torch.amp.autocast("cpu", ...)`, by its older name."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        _warn("autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`torch.amp.GradScaler("cpu", ...)`, by its older name."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
