"""torch.overrides: libraries ask who else may compute; `__torch_function__` is not called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ag_visual import absent as _absent
from ag_visual.core.tensor import Tensor
from ag_visual.names import expose as _expose


def has_torch_function(relevant_args: Iterable[Any], /) -> bool:
    """False: no operation calls `__torch_function__`."""
    return False


def has_torch_function_unary(obj: Any, /) -> bool:
    """False: no operation calls `__torch_function__`."""
    return False


def has_torch_function_variadic(*objs: Any) -> bool:
    """False: no operation calls `__torch_function__`."""
    return False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> NoReturn:
    """Raises NotImplementedError: ask `has_torch_function` first, which is False."""
    raise NotImplementedError(
        "__torch_function__ is not called here: operations take Tensors and return Tensors."
    )


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a Tensor, or has a `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is a method or property of Tensor."""
    return func in _of_tensor() or getattr(func, "__name__", None) == "__get__"


def _of_tensor() -> list[Any]:
    return [value for name in dir(Tensor) for value in [getattr(Tensor, name)] if callable(value)]


_expose(__name__)

__getattr__ = _absent.asked(__name__, "overrides")
