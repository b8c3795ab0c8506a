"""A backward that is nested too deep goes on in a thread of its own, with an empty stack."""

from __future__ import annotations

import ctypes
from _thread import start_new_thread
from collections.abc import Callable
from sys import _current_frames
from threading import get_ident
from typing import Any

from ag_visual.core import modes
from ag_visual.core.bell import Bell


def in_fresh_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """The result of `work`, run in a thread with this one's modes and an empty stack.

    What interrupts this thread goes on to that one: the backward has ended there before it is
    raised here.
    """
    inherited = modes.snapshot()
    outcome: list[tuple[list[Any], BaseException | None]] = []
    ended = Bell()
    idents: list[int] = []
    interrupts: list[BaseException] = []

    def run() -> None:
        found: tuple[list[Any], BaseException | None]
        try:
            idents.append(get_ident())
            modes.take_over(inherited)
            found = work(), None
        except BaseException as error:
            found = [], error
        outcome.append(found)
        ended.set()

    try:
        # Not by `threading.Thread`, whose `start` an interrupt can leave half done.
        start_new_thread(run, ())
    except Exception:
        raise
    except BaseException as interrupt:
        interrupts.append(interrupt)
    passed_on = 0
    # That thread may end without an outcome, where an interrupt met it at its end.
    while not outcome and (not interrupts or not idents or idents[0] in _current_frames()):
        try:
            if passed_on < len(interrupts) and idents:
                target, kind = ctypes.c_ulong(idents[0]), ctypes.py_object(type(interrupts[-1]))
                passed_on = len(interrupts)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, kind)
            ended.wait(0.01 if interrupts else None)
        except BaseException as interrupt:
            interrupts.append(interrupt)
    result, error = outcome[0] if outcome else ([], None)
    if error is None and interrupts:
        error = interrupts[0]
    if error is not None:
        raise error
    return result
