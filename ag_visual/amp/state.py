"""Where mixed precision is on in this thread, and with which dtype: torch's functions by name."""

from __future__ import annotations

import threading
from typing import Any

from ag_visual import dtypes
from ag_visual.core import modes
from ag_visual.devices import device as Device
from ag_visual.dispatch.autocast import cache

_HALF = ("cuda", "mtia", "xpu", "ipu", "mps", "privateuseone")
_BRAIN = ("cpu", "maia", "hpu", "xla")


class _Settings(threading.local):
    """The dtype by device type, and in how many blocks the thread is."""

    nesting: int = 0

    def __init__(self) -> None:
        self.dtype = {
            **dict.fromkeys(_HALF, dtypes.float16),
            **dict.fromkeys(_BRAIN, dtypes.bfloat16),
        }


_settings = _Settings()


def is_autocast_available(device_type: str) -> bool:
    """Whether mixed precision is known for a type of device."""
    return Device(device_type).type in _settings.dtype


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether mixed precision is on in this thread for a type of device."""
    return _known(device_type) in (modes.state.autocast or {})


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch mixed precision for a type of device (given a bool alone: for CUDA)."""
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    kind = _known(str(device_type))
    on = dict(modes.state.autocast or {})
    on.pop(kind, None)
    if enabled:
        on[kind] = _settings.dtype[kind]
    modes.set_autocast(on or None)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The lower precision of a type of device."""
    kind = Device(device_type).type
    if kind not in _settings.dtype:
        raise RuntimeError(f"unsupported scalarType: {kind!r} has no mixed precision")
    return _settings.dtype[kind]


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Choose the lower precision of a type of device."""
    kind = _known(device_type)
    _settings.dtype[kind] = dtype
    on = modes.state.autocast
    if on is not None and kind in on:
        modes.set_autocast({**on, kind: dtype})


def is_autocast_cache_enabled() -> bool:
    """Whether a leaf that requires grad is cast once in a block."""
    return cache.on


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Switch the cache of casts."""
    cache.on = enabled


def clear_autocast_cache() -> None:
    """Forget the casts of leaves."""
    cache.copies.clear()


def autocast_increment_nesting() -> int:
    """Note that a block begins; returns in how many the thread is."""
    _settings.nesting += 1
    return _settings.nesting


def autocast_decrement_nesting() -> int:
    """Note that a block ends; returns in how many the thread still is."""
    _settings.nesting -= 1
    return _settings.nesting


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`, by its older name."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`, by its older name."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """`get_autocast_dtype("cpu")`, by its older name."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """`set_autocast_dtype("cpu", dtype)`, by its older name."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """`get_autocast_dtype("cuda")`, by its older name."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """`set_autocast_dtype("cuda", dtype)`, by its older name."""
    set_autocast_dtype("cuda", dtype)


def _known(device_type: Any) -> str:
    kind = Device(device_type).type
    if kind not in _settings.dtype:
        raise RuntimeError(
            "unknown device type for autocast in get_autocast_dispatch_key_from_device_type: "
            f"{kind!r}"
        )
    return kind
