"""Where in the user's code: always remembered as (code object, offset), resolved when asked.

Remembering costs about 0.15 us and holds no frame and no locals alive; `resolve` turns it into
file or cell, line and columns with `co_positions`, the exact text included.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import linecache
import os
import sys
import warnings
import weakref
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

from ag_visual.core.diagnosis.source_rewrite import parsed

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class _Inside(dict[str, int]):
    """File name -> is it part of this package (or of what runs Python itself)?"""

    def __missing__(self, filename: str) -> int:
        inside = filename.startswith(tuple(_folders))
        self[filename] = inside
        return inside


_folders = [_PACKAGE, "<frozen"]
inside = _Inside()
LOOP = 2
"""What `inside` says of a file that runs the nodes of a backward: their call site is that of its
task. Every step outwards from there costs 0.1 us, for each node that a backward records."""


class _Caller:
    """The user's code that called last: most often it calls again, which is told at once."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code: CodeType | None = None


caller = _Caller()


def count_in(folder: str, *, counts: bool = True) -> None:
    """Count a folder's files as part of the package, or (counts=False) no longer."""
    if counts and folder not in _folders:
        _folders.append(folder)
    elif not counts and folder in _folders:
        _folders.remove(folder)
    for filename in [name for name in inside if name.startswith(folder)]:
        inside.pop(filename, None)
    caller.code = None


def outside(frame: FrameType | None) -> FrameType | None:
    """The nearest frame outside the package, starting with `frame`."""
    while frame is not None and inside[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that led here; all warnings of the package come here.

    Raises the warning where filters make it an error.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and inside[frame.f_code.co_filename]:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


_RAISE = dis.opmap["RAISE_VARARGS"]
_ARRAY_LIBRARIES = frozenset({"numpy", "scipy", "cupy", "cupyx", "numba"})


def is_inside(trace: TracebackType) -> bool:
    """Whether a line of a traceback is one of this package's."""
    return bool(inside[trace.tb_frame.f_code.co_filename])


def is_own(trace: TracebackType) -> bool:
    """Whether it is one of this package's files, not of what `count_in` has counted to it."""
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def is_of_arrays(trace: TracebackType) -> bool:
    """Whether a line of a traceback is one of an array library's."""
    name = str(trace.tb_frame.f_globals.get("__name__"))
    return name.partition(".")[0] in _ARRAY_LIBRARIES


passing: set[CodeType] = set()
"""Code that passes a call on to another library: what that raises is told in its words."""


def ends_in_raise(trace: TracebackType) -> bool:
    """Whether the exception was raised by a `raise` of this package, at the end of a traceback."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return is_inside(trace) and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


def call_site_of(frame: FrameType | None) -> tuple[CodeType, int] | None:
    # `outside`, written out: each write in place comes by.
    while frame is not None and inside[frame.f_code.co_filename]:
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def here() -> tuple[CodeType, int] | None:
    """The call site in the user's code: what called into the package."""
    return call_site_of(sys._getframe(1))


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The frame's variables, without leaving a snapshot of them behind.

    Before Python 3.13 `f_locals` of a function is a dict that its frame keeps: tensors in it would
    live until the function returns. It is emptied again, unless the user holds it (`locals()`).
    """
    kept = frame.f_locals
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return kept
    found = dict(kept)
    if sys.getrefcount(kept) <= _HELD_BY_FRAME:
        kept.clear()
    return found


def _probe() -> int:
    kept = sys._getframe().f_locals
    return sys.getrefcount(kept)


# What sys.getrefcount counts for a snapshot that only its frame and one variable hold.
_HELD_BY_FRAME = _probe()


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a notebook cell: its source as it ran."""

    cell_id: str | None
    execution_count: int | None
    source: str

    @property
    def label(self) -> str:
        return f"cell In[{self.execution_count if self.execution_count is not None else ' '}]"


@dataclass(frozen=True, slots=True)
class Site:
    """A location in the user's source. Lines count from 1, columns from 0 (in characters)."""

    file: str
    kind: str
    cell_id: str | None
    execution_count: int | None
    line: int
    col: int
    end_line: int
    end_col: int
    function: str
    text: str
    source_line: str

    @property
    def where(self) -> str:
        """The location as displayed: 'cell In[7], line 3' or 'train.py, line 3'."""
        if self.kind == "cell":
            count = " " if self.execution_count is None else self.execution_count
            return f"cell In[{count}], line {self.line}"
        return f"{os.path.basename(self.file) or self.file}, line {self.line}"

    def with_text(self, quote: str = "", after: str = "") -> str:
        """The location and what stands there: 'train.py, line 3: y.exp()', then what comes after.

        The text is left out where nobody kept it, as of code that `exec` was given.
        """
        text = "  ".join(filter(None, (self.text and quote + self.text + quote, after)))
        return f"{self.where}: {text}" if text else self.where


UNKNOWN = Site("<unknown>", "file", None, None, 0, 0, 0, 0, "", "", "")

_by_file: dict[str, Cell] = {}
_by_code: dict[int, tuple[weakref.ref[CodeType], Cell]] = {}


def register_cell(filename: str, cell: Cell) -> None:
    """Say that code compiled under `filename` from now on belongs to `cell`."""
    _by_file[filename] = cell
    linecache.cache[filename] = (
        len(cell.source),
        None,
        cell.source.splitlines(keepends=True),
        filename,
    )


def register_code(code: CodeType, cell: Cell) -> None:
    """Say that `code` and all code nested in it came from `cell`.

    Needed because two runs of the same cell text share one compiled file name.
    """
    pending = [code]
    while pending:
        current = pending.pop()
        key = id(current)
        ref = weakref.ref(current, lambda _, key=key: _by_code.pop(key, None))  # type: ignore[misc]
        _by_code[key] = (ref, cell)
        pending.extend(const for const in current.co_consts if isinstance(const, CodeType))


def cell_of(code: CodeType) -> Cell | None:
    entry = _by_code.get(id(code))
    if entry is not None and entry[0]() is code:
        return entry[1]
    return _by_file.get(code.co_filename)


def _characters(line: str, column: int) -> int:
    """A column in characters from `co_positions`' column in UTF-8 bytes."""
    if line.isascii():
        return column
    return len(line.encode()[:column].decode(errors="ignore"))


_STORE_SUBSCR = dis.opmap["STORE_SUBSCR"]


def _end_of_store(line: str, start: int) -> int | None:
    """Where `b[1] = 2` ends, of which Python marks only `b[1]`; None when not on this line."""
    tree = parsed(line[start:])
    if tree is None or not tree.body or tree.body[0].end_lineno != 1:
        return None
    return start + _characters(line[start:], tree.body[0].end_col_offset or 0)


def resolve(code: CodeType | None, lasti: int) -> Site:
    """File or cell, line, columns and exact text of an instruction."""
    if code is None:
        return UNKNOWN
    position = next(itertools.islice(code.co_positions(), lasti // 2, None), None)
    line, end_line, col, end_col = position or (None, None, None, None)
    line = line or code.co_firstlineno
    end_line = end_line or line
    cell = cell_of(code)
    lines = cell.source.splitlines() if cell else linecache.getlines(code.co_filename)
    found = [text.rstrip("\n") for text in lines[line - 1 : end_line]]
    text = source_line = found[0].strip() if found else ""
    start, end = 0, 0
    if found and col is not None and end_col is not None:
        start, end = _characters(found[0], col), _characters(found[-1], end_col)
        if code.co_code[lasti] == _STORE_SUBSCR and len(found) == 1:
            end = _end_of_store(found[0], start) or end
        piece = list(found)
        piece[-1] = piece[-1][:end]
        piece[0] = piece[0][start:]
        text = "\n".join(piece)
    return Site(
        file=code.co_filename,
        kind="cell" if cell else "file",
        cell_id=cell.cell_id if cell else None,
        execution_count=cell.execution_count if cell else None,
        line=line,
        col=start,
        end_line=end_line,
        end_col=end,
        function=code.co_qualname,
        text=text,
        source_line=source_line,
    )


def last_return(function: Any) -> tuple[CodeType, int] | None:
    """The location of the last `return` of a Python function."""
    code = getattr(function, "__code__", None)
    return None if code is None else (code, _last_return_of(code))


@functools.lru_cache(maxsize=256)
def _last_return_of(code: CodeType) -> int:
    ends = [each.offset for each in dis.get_instructions(code) if each.opname[:6] == "RETURN"]
    return ends[-1] if ends else 0


def resolve_call_site(call_site: tuple[CodeType, int] | None) -> Site:
    return UNKNOWN if call_site is None else resolve(*call_site)
