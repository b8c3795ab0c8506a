"""Parameter: a leaf that a Module finds and an optimizer changes."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor, from_array
from ..ops.build import fast_types


class Parameter(Tensor):
    """A tensor that is a module parameter: it requires grad unless told otherwise."""

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            from ..ops.table import functions

            data = functions["empty"](0)
        return from_array(data.detach()._array, requires_grad, cls)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


fast_types.add(Parameter)
