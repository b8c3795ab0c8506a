"""autocast: ops choose their precision inside; and its decorators for custom functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy

from ag_visual import cuda, dtypes
from ag_visual.amp import state
from ag_visual.amp.state import is_autocast_available
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.names import only as _only


class autocast:
    """Ops choose their precision inside: products the lower one, sums and losses float32.

    device_type: 'cpu', 'cuda', ...: tensors on other devices are not touched. dtype: the lower
    precision, bfloat16 or float16 (default: bfloat16 on the CPU, float16 on CUDA). enabled=False
    switches mixed precision off inside of another block. cache_enabled: whether a leaf that
    requires grad is cast once in a block, not at each use. A context manager and a decorator; on a
    device that is not there it warns and does nothing.

    >>> import ag_visual as ag
    >>> x = ag.ones(2, 2)
    >>> with ag.autocast("cpu"):
    ...     y = x @ x
    >>> y.dtype
    torch.bfloat16

    Raises:
        ValueError: the device type is not a string.
        RuntimeError: there is no mixed precision on that type of device.
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`: write "
                "device.type"
            )
        self.device = device_type
        self.fast_dtype = state.get_autocast_dtype(device_type) if dtype is None else dtype
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self._cache_enabled = (
            state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        if enabled and device_type == "cuda" and not cuda.is_available():
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            enabled = False
        elif enabled and self.fast_dtype not in (dtypes.bfloat16, dtypes.float16):
            name = device_type.upper()
            warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[bool, bool, dtypes.dtype]] = []

    def __enter__(self) -> autocast:
        kind = self.device
        self._before.append(
            (
                state.is_autocast_cache_enabled(),
                state.is_autocast_enabled(kind),
                state.get_autocast_dtype(kind),
            )
        )
        state.set_autocast_enabled(kind, self._enabled)
        state.set_autocast_dtype(kind, self.fast_dtype)
        state.autocast_increment_nesting()
        state.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, *_: object) -> None:
        cached, enabled, dtype = self._before.pop()
        if state.autocast_decrement_nesting() == 0:
            state.clear_autocast_cache()
        state.set_autocast_enabled(self.device, enabled)
        state.set_autocast_dtype(self.device, dtype)
        state.set_autocast_cache_enabled(cached)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you "
                "mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Any:
    """A function that runs in a block of `autocast_instance`."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


def _cast(value: Any, device_type: str, dtype: dtypes.dtype) -> Any:
    """Floating-point tensors of a device in another dtype, in containers too; not float64."""
    if isinstance(value, Tensor):
        kind = value.dtype
        eligible = kind.is_floating_point and kind is not dtypes.float64
        return value.to(dtype) if eligible and value.device.type == device_type else value
    if isinstance(value, str | bytes | numpy.ndarray):
        return value
    if isinstance(value, Mapping):
        known: Any = type(value)
        return known(
            {
                _cast(name, device_type, dtype): _cast(each, device_type, dtype)
                for name, each in value.items()
            }
        )
    if isinstance(value, Iterable):
        items = (_cast(each, device_type, dtype) for each in value)
        made: Any = type(value)
        return made(items) if isinstance(value, list | tuple) else items
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtypes.dtype | None = None,
) -> Any:
    """A decorator for `forward` of a custom autograd function that autocast shall know of.

    cast_inputs: in a block of autocast, floating-point inputs are given in this dtype, and autocast
    is off inside; by default `forward` runs as any code of the block does. Outside of one it
    changes nothing.
    """
    _check_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        on = state.is_autocast_enabled(device_type)
        args[0]._dtype = state.get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return forward(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return forward(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """A decorator for `backward` of a custom autograd function: autocast as its forward had it."""
    _check_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return backward(*args, **kwargs)

    return decorate_bwd


def _check_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = _only(__all__, __name__)
