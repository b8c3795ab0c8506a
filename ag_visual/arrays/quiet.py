"""What NumPy does of infinities and NaN, switched in one call each way.

`numpy.errstate` takes several, and an interrupt between two of them leaves its setting behind.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy

P = ParamSpec("P")
R = TypeVar("R")


class _ByNames:
    """The setting as NumPy's public functions tell and take it."""

    def get(self) -> Any:
        return numpy.geterr()

    def set(self, setting: Any) -> None:
        numpy.seterr(**setting)


def _settings() -> tuple[Any, Any]:
    """What holds this thread's setting, and the setting that ignores everything."""
    with numpy.errstate(all="ignore"):
        for variable, value in contextvars.copy_context().items():
            if variable.name == "numpy.ufunc.extobj":
                return variable, value
        return _ByNames(), numpy.geterr()


errors, IGNORE = _settings()


def quietly(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`function(*args, **kwargs)` without warnings of infinities and NaN, as torch gives none."""
    numpy_errors = errors.get()
    try:
        errors.set(IGNORE)
        return function(*args, **kwargs)
    finally:
        errors.set(numpy_errors)


def silent(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: each call of the function is made `quietly`."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        return quietly(function, *args, **kwargs)

    return wrapped
