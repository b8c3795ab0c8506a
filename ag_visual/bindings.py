"""torch._C's names: of what lies below torch's Python code, what programs and libraries use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ag_visual import devices as _devices
from ag_visual.core import modes
from ag_visual.core.tensor import Tensor
from ag_visual.devices import device
from ag_visual.dtypes import dtype

TensorBase = Tensor
_TensorMeta = type(Tensor)


def _disabled_torch_function_impl(
    func: Callable[..., Any],
    types: Any = (),
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """What a subclass of Tensor names as its `__torch_function__`, to have none."""
    return func(*args, **(kwargs or {}))


def _are_functorch_transforms_active() -> bool:
    """Whether this runs inside of `vmap`, `grad` or `jvp`."""
    return bool(modes.state.levels)


def _get_default_device() -> str:
    """The type of the device on which tensors are made."""
    return device(_devices.default or "cpu").type


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted."""


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """What the arguments of `Tensor.to` mean: device, dtype, non_blocking and memory format."""
    where, kind, form = kwargs.get("device"), kwargs.get("dtype"), kwargs.get("memory_format")
    blocking = [value for value in args if isinstance(value, bool)]
    for value in args:
        if isinstance(value, Tensor):
            where, kind = value.device, value.dtype
        elif isinstance(value, dtype):
            kind = value
        elif isinstance(value, device | str | int) and not isinstance(value, bool):
            where = value
    where = None if where is None else device(where)
    return where, kind, bool(blocking[0] if blocking else kwargs.get("non_blocking")), form
