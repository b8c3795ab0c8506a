"""Parameter: a leaf that a Module finds and an optimizer changes. Buffer: its other state."""

from __future__ import annotations

from typing import Any

from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.codegen.scope import take_fast
from ag_visual.errors import type_name
from ag_visual.names import only as _only
from ag_visual.ops.tensor.make import NEEDS_FLOAT


def _check(name: str, data: Any) -> None:
    if not isinstance(data, Tensor):
        raise TypeError(f"{name}(): argument 'data' must be Tensor, not {type_name(data)}")


class Parameter(Tensor):
    """A tensor that is a module parameter: it requires grad unless told otherwise."""

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            from ag_visual.dispatch.table import functions

            data = functions["empty"](0)
        _check("Parameter", data)
        if requires_grad and not (data.dtype.is_floating_point or data.dtype.is_complex):
            raise RuntimeError(
                f"{NEEDS_FLOAT}, but these are {data.dtype}: pass requires_grad=False"
            )
        # It refuses what may not require grad here, as inference tensors.
        seen = data.detach().requires_grad_(requires_grad)
        result = from_array(seen._array, requires_grad, cls)
        result._store, result._memory = seen._store, seen._memory
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A copy of the values alone: as in torch, without `.grad` and attributes."""
        if id(self) not in memo:
            memo[id(self)] = from_array(self._array.copy(), self._rg, type(self))
        return memo[id(self)]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class _MarkedAsBuffer(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_MarkedAsBuffer):
    """A plain tensor that a Module registers as a buffer when it is assigned.

    persistent: whether it is a part of `state_dict`.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            from ag_visual.dispatch.table import functions

            data = functions["empty"](0)
        _check("Buffer", data)
        result = data.detach().requires_grad_(data.requires_grad)
        result.persistent, result._is_buffer = persistent, True
        return result


take_fast(Parameter)

__all__ = ["Buffer", "Parameter"]
__dir__ = _only(__all__, __name__)
