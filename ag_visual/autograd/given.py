"""What a custom Function's forward was given, kept without keeping it alive: to run it again.

Layer 5: `custom_function` fills it in, what checks a backward reads it.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ag_visual.core.tensor import Tensor
from ag_visual.devices import device
from ag_visual.dtypes import dtype
from ag_visual.layouts import layout, memory_format

# What no forward can change.
_PLAIN: Final = (
    *(bool, int, float, complex, str, bytes, type(None), type(...), type, slice, range),
    *(dtype, device, layout, memory_format, np.generic, np.dtype),
)


class Given:
    """One argument: a tensor or another object by weak reference, a plain value itself."""

    __slots__ = ("_ref", "_stamp", "_value", "kind")

    kind: str
    """The class of another object, which belongs to the program; empty for the rest."""

    def __init__(self, value: object) -> None:
        self._ref: Callable[[], object] | None = None
        self._value: object = None
        self._stamp: tuple[int, int] | None = None
        self.kind = ""
        if _plain(value):
            self._value = value
            return
        try:
            self._ref = weakref.ref(value)
        except TypeError:
            self._ref = _nobody
        if isinstance(value, Tensor):
            self._stamp = value._storage.snapshot
        else:
            self.kind = type(value).__name__

    @property
    def value(self) -> Any:
        """The argument, or None when it is gone."""
        return self._value if self._ref is None else self._ref()

    @property
    def gone(self) -> bool:
        return self._ref is not None and self._ref() is None

    @property
    def written(self) -> bool:
        """Whether a tensor has other numbers than when it was given."""
        value = self.value
        return isinstance(value, Tensor) and value._storage.snapshot != self._stamp


def _nobody() -> None:
    return None


def _plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_plain, value))
    return isinstance(value, _PLAIN)


def argument_name(cls: type[Any], position: int) -> str:
    """What the user's forward calls an argument: `x`, or `input[2]` among `*args`."""
    parameters = list(inspect.signature(cls.forward).parameters.values())
    if not cls._separate():
        parameters = parameters[1:]
    if position < len(parameters):
        found = parameters[position]
        if found.kind in (found.POSITIONAL_ONLY, found.POSITIONAL_OR_KEYWORD):
            return found.name
    return f"input[{position}]"
