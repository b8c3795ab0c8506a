"""Tracebacks in a notebook: the user's lines, without the frames inside of this package.

What the package raises itself says in its text what went wrong and where; its own lines below those
of the user say nothing more. Anything else (an error of an array library, a fault of this package)
is shown whole, and `%ag_visual traceback` always shows all.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ag_visual.core import source


def shorten(shell: Any) -> None:
    """Let this IPython shell leave the package's frames out of the tracebacks that it shows."""
    formatter = getattr(shell, "InteractiveTB", None)
    if formatter is None:
        return
    whole: Callable[..., list[str]] = formatter.structured_traceback

    def structured_traceback(
        etype: Any = None, evalue: Any = None, etb: Any = None, *args: Any, **kwargs: Any
    ) -> list[str]:
        shown, left_out = None, 0
        if isinstance(etb, TracebackType):
            shown, left_out = users_frames(etb, isinstance(evalue, KeyboardInterrupt))
        if not left_out or evalue is None:
            return whole(etype, evalue, etb, *args, **kwargs)
        suppressed = evalue.__suppress_context__
        try:
            evalue.__suppress_context__ = suppressed or _is_internal(evalue.__context__)
            lines = whole(etype, evalue, shown, *args, **kwargs)
        finally:
            evalue.__suppress_context__ = suppressed
        said = f"{left_out} frame{'s' if left_out > 1 else ''} inside of ag_visual"
        _before_error(lines, etype, f"    [... {said}: %ag_visual traceback]\n")
        return lines

    formatter.structured_traceback = structured_traceback


def users_frames(whole: TracebackType, interrupted: bool = False) -> tuple[TracebackType, int]:
    """A traceback without the frames inside of this package, and how many those are.

    It is another object; that of the exception keeps all. The same with 0 where nothing may be left
    out. interrupted: whatever ran in the package when the user interrupted it says nothing.
    """
    traces = _lines_of(whole)
    ours = [source.is_own(each) for each in traces]
    last = len(ours) - 1 - ours[::-1].index(True) if True in ours else -1
    after = traces[last + 1 :]
    if after:  # of a user's hook or module, or of what a kernel calls
        explained = not all(source.is_of_arrays(each) for each in after)
    else:
        passed = traces[-1].tb_frame.f_code in source.passing
        explained = interrupted or passed or source.ends_in_raise(traces[-1])
    if last < 0 or not explained or all(ours):
        return whole, 0
    shown: TracebackType | None = None
    for each, inside in zip(reversed(traces), reversed(ours), strict=True):
        if not inside:
            shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    assert shown is not None
    return shown, sum(ours)


def _lines_of(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _is_internal(error: BaseException | None) -> bool:
    """Whether an exception never left this package and the array libraries below it."""
    if error is None:
        return False
    lines = _lines_of(error.__traceback__)
    return all(source.is_own(each) or source.is_of_arrays(each) for each in lines)


def last_whole() -> str:
    """The traceback of the last error that a cell ended with, all frames."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return "No cell has ended with an error."
    return "".join(traceback.format_exception(error)).rstrip()


def _before_error(lines: list[str], etype: Any, line: str) -> None:
    """Put a line in front of those that tell the exception itself."""
    name = getattr(etype, "__name__", "")
    for at in range(len(lines) - 1, -1, -1):
        if name in lines[at]:
            lines.insert(at, line)
            return
