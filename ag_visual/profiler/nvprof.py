"""Reads what nvprof wrote: an SQLite file with markers, calls of the runtime, and kernels.

Times there are nanoseconds, events have microseconds. Names of kernels are numbers of strings.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from ag_visual.profiler.event_lists import EventList
from ag_visual.profiler.function_events import FunctionEvent

_LAUNCHES = 211
"""The number of cudaLaunchKernel among the runtime's calls."""

_STRINGS = "SELECT _id_, value FROM StringTable"
_MARKERS = """
SELECT begun.id, begun.name, begun.timestamp, ended.timestamp
FROM CUPTI_ACTIVITY_KIND_MARKER AS begun JOIN CUPTI_ACTIVITY_KIND_MARKER AS ended
ON begun.id = ended.id WHERE begun.name != 0 AND ended.name = 0
ORDER BY begun.timestamp, ended.timestamp DESC
"""
_KERNELS = """
SELECT call.start, call.end, call.cbid, kernel.name, kernel.end - kernel.start
FROM CUPTI_ACTIVITY_KIND_RUNTIME AS call JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel
ON call.correlationId = kernel.correlationId ORDER BY call.start
"""


class MissingTableError(sqlite3.OperationalError):
    """A file of SQLite that nvprof has not written, or not with these activities."""

    def __init__(self, path: str, table: str) -> None:
        super().__init__(f"no such table: {table}, in {path}: was it written by nvprof?")
        self.path = path
        self.table = table


def load_nvprof(path: Any) -> EventList:
    """The ranges of a file of nvprof, as a list that prints as a table.

    Raises:
        FileNotFoundError: there is no such file (and none is made).
        MissingTableError: it is none of nvprof's.
    """
    return EventList(parse_nvprof_trace(path), use_device="cuda")


def parse_nvprof_trace(path: Any) -> list[FunctionEvent]:
    """The ranges of a file of nvprof, each with the kernels that were launched in it.

    A kernel belongs to all ranges around its launch. Raises what `load_nvprof` raises.
    """
    name = os.fspath(path)
    if not Path(name).is_file():
        raise FileNotFoundError(f"No such file of nvprof: {name}")
    # Opened for reading: it is not ours to change, nor to lock.
    with contextlib.closing(
        sqlite3.connect(f"{Path(name).resolve().as_uri()}?mode=ro", uri=True)
    ) as file:
        strings = dict(_rows(file, name, _STRINGS, "StringTable"))
        markers = _rows(file, name, _MARKERS, "CUPTI_ACTIVITY_KIND_MARKER")
        kernels = _rows(file, name, _KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME")
    events: dict[int, FunctionEvent] = {}
    for marker, text, start, end in markers:
        if marker in events:
            raise RuntimeError(f"duplicate key: {marker}, of two ranges in {name}")
        events[marker] = FunctionEvent(
            id=marker,
            name=strings[text],
            thread=0,
            start_us=start / 1000,
            end_us=end / 1000,
            node_id=0,
            is_legacy=True,
            use_device="cuda",
            input_shapes=[],
            stack=[],
            flops=0,
        )
    for start, end, call, kernel, length in kernels:
        text = strings.get(kernel, str(kernel))
        text = text if call == _LAUNCHES else f"{text} (call {call} of the runtime)"
        for event in events.values():
            if event.time_range.start > start / 1000:
                break
            if end / 1000 <= event.time_range.end:
                event.append_kernel(text, 0, length / 1000)
    return list(events.values())


def _rows(file: sqlite3.Connection, path: str, query: str, table: str) -> list[Any]:
    try:
        return file.execute(query).fetchall()
    except sqlite3.OperationalError as error:
        found = str(error).partition("no such table: ")[2]
        if not found:
            raise
        raise MissingTableError(path, found or table) from error
