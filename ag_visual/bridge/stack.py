"""The watcher's function mode on torch's stack of modes: out of it, and in again at its place."""

from __future__ import annotations

from itertools import repeat, starmap
from typing import Any, Final

import torch

from ag_visual.bridge.forward import Forward

left: Final[list[Forward]] = []
"""Modes that do nothing any more and may be on the stack: torch takes a mode off while it runs what
the mode was asked about, and puts it back."""


def leave_all() -> None:
    """Take modes that do nothing any more out of this thread's stack, as far as they are on it."""
    for mode in left:
        while leave(mode) is not None:
            pass
    del left[:-8]


def leave(mode: Forward) -> int | None:
    """Take a mode out of this thread's stack, wherever in it it is; how many are above it.

    None where it was not there.
    """
    stack, height = torch._C._get_function_stack_at, torch._C._len_torch_function_stack()
    above = next((n for n in range(height) if stack(height - 1 - n) is mode), None)
    if above is None:
        return None
    # Each in one call of C, or an interrupt would come between what goes together.
    taken: list[Any] = []
    again = map(torch._C._push_on_torch_function_stack, taken)
    try:
        taken.extend(starmap(torch._C._pop_torch_function_stack, repeat((), above + 1)))
    finally:
        del taken[above:]
        try:
            taken.reverse()
        finally:
            any(again)
    return above


def enter(mode: Forward) -> None:
    """Put a mode into this thread's stack, below those of the program: a block of one of them that
    it is in ends by taking out the highest. The one of `set_default_device` stays the lowest.
    """
    height = torch._C._len_torch_function_stack()
    default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    if height and torch._C._get_function_stack_at(0) is default:
        height -= 1
    put_back(mode, height)


def put_back(mode: Forward, above: int) -> None:
    """Put a mode into this thread's stack again, below so many others."""
    taken: list[Any] = []
    again = map(torch._C._push_on_torch_function_stack, taken)
    try:
        taken.extend(starmap(torch._C._pop_torch_function_stack, repeat((), above)))
    finally:
        taken.append(mode)
        try:
            taken.reverse()
        finally:
            any(again)
