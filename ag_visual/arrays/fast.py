"""The compiled kernels (extra `fast`: Numba): whether they are used, and their first use.

Layer 1, and `ag_visual.backends.fast` by its public name. Numba is imported by the first call that
a compiled kernel is for; what cannot be imported or compiled is told once, and NumPy computes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import util
from typing import Any, Final

import numpy

from ag_visual.arrays.backend import Array
from ag_visual.names import only

enabled = os.environ.get("AG_VISUAL_FAST", "1") != "0"
"""Whether compiled kernels are used where there are any; the environment says how it begins."""

LEAST: Final = 1 << 12
"""Arrays of fewer elements are NumPy's: there a call costs as much as what is computed."""

_KINDS: Final = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))
first_use: Callable[[], AbstractContextManager[Any]] = nullcontext
"""What stands around the first use of a kernel, which takes long: the profiler sets it."""

# What has been asked for: a function, or None where it cannot be had.
_known: dict[tuple[str, Any], Callable[..., Any] | None] = {}


def is_available() -> bool:
    """Whether Numba is installed; asking does not import it."""
    return util.find_spec("numba") is not None


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A block with this switch."""
    space = globals()
    before = space["enabled"]
    space["enabled"] = enabled
    try:
        yield
    finally:
        space["enabled"] = before


def wanted(xp: Any, size: int) -> bool:
    """Whether arrays of `size` elements are computed by compiled kernels, if they fit."""
    return size >= LEAST and enabled and xp is numpy


def kernel(name: str, *arrays: Array | None) -> Callable[..., Any] | None:
    """The compiled kernel for arrays; None where NumPy is to compute.

    They are of one dtype, float32 or float64, and row by row in memory that may be written.
    """
    kind = arrays[0].dtype  # type: ignore[union-attr]
    for array in arrays:
        if array is not None and not (array.dtype == kind and array.flags.carray):
            return None
    try:  # `compiled`, without its call
        return _known[name, kind]
    except KeyError:
        return compiled(name, kind)


def compiled(name: str, kind: Any) -> Callable[..., Any] | None:
    """The compiled kernel for a dtype; None where there is none."""
    key = name, kind
    try:
        return _known[key]
    except KeyError:
        pass
    if kind not in _KINDS:
        return _known.setdefault(key, None)
    with first_use():
        return _known.setdefault(key, _first(name, kind))


def _first(name: str, kind: Any) -> Callable[..., Any] | None:
    """The kernel, from the disk or compiled now, which is told."""
    if not is_available():
        return None
    try:
        from ag_visual.arrays.kernels import compiled

        return compiled.function(name, kind, lambda folder: _report(name, kind, folder))
    except Exception as problem:
        _warn(
            "%s of %s is left to NumPy: Numba failed with %s: %s. Without this line: "
            "AG_VISUAL_FAST=0, or uninstall numba.",
            *(name, kind, type(problem).__name__, str(problem).partition("\n")[0]),
        )
        return None


def _warn(text: str, *values: Any) -> None:
    import logging  # by those alone who have something to report

    logging.getLogger("ag_visual.fast").warning(text, *values)


def _report(name: str, kind: Any, folder: str | None) -> None:
    kept = f"kept in {folder}" if folder else "anew in each program: no folder may be written"
    _warn("Numba compiles %s of %s, which takes some seconds; %s", name, kind, kept)


__dir__ = only(["enabled", "flags", "is_available"], __name__)
