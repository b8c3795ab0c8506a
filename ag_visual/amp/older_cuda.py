"""torch.cuda.amp, the older names of mixed precision: they warn, as in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ag_visual import cuda, dtypes
from ag_visual.amp import autocast_mode, grad_scaler
from ag_visual.amp.autocast_mode import _cast as _cast_on
from ag_visual.core.source import warn


def _warn(old: str, new: str) -> None:
    warn(
        f"`torch.cuda.amp.{old}` is deprecated. Please use `torch.amp.{new}` instead.",
        FutureWarning,
    )


class autocast(autocast_mode.autocast):
    """`torch.amp.autocast("cuda", ...)`, by its older name."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.float16,
        cache_enabled: bool = True,
    ) -> None:
        _warn("autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)`, by its older name."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler(args...)", "GradScaler('cuda', args...)")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd(..., device_type="cuda")`, by its older name."""
    _warn("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda")(
        fwd, cast_inputs=cast_inputs
    )


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`torch.amp.custom_bwd(..., device_type="cuda")`, by its older name."""
    _warn("custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return functools.partial(autocast_mode.custom_bwd, device_type="cuda")(bwd)


def _cast(value: Any, dtype: Any) -> Any:
    _warn("autocast_mode._cast(value, dtype)", "autocast_mode._cast(value, 'cuda', dtype)")
    return _cast_on(value, "cuda", dtype)


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not cuda.is_available()
