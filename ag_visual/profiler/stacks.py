"""A profile for speedscope: spans as they open and close, one profile for each thread."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy

from ag_visual.files import write
from ag_visual.profiler.columns import Columns

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(path: Any, columns: Columns) -> None:
    """Write the file; times are ns since the profile began, without those in which a thread was
    stopped.
    """
    write(path, json.dumps(speedscope_of(columns)).encode())


def speedscope_of(columns: Columns) -> dict[str, Any]:
    """The file as what JSON is made of."""
    profiles = []
    for number, (_, name) in enumerate(columns.threads):
        rows = columns.spans[columns.spans["thread"] == number]
        starts, ends = (_running(columns, number, rows[edge]) for edge in ("start", "end"))
        events: list[dict[str, Any]] = []
        opened: list[tuple[int, int]] = []

        def close(depth: int, at: int, events: Any = events, opened: Any = opened) -> None:
            # A range that goes on while another one begins beside it (of a task of asyncio) is told
            # to there: from then on, what runs is the other's.
            while len(opened) > depth:
                frame, end = opened.pop()
                events.append({"type": "C", "frame": frame, "at": min(end, at)})

        frames, depths = rows["name"].tolist(), rows["depth"].tolist()
        for frame, depth, start, end in zip(frames, depths, starts, ends, strict=True):
            close(depth, start)
            events.append({"type": "O", "frame": frame, "at": start})
            opened.append((frame, end))
        (length,) = _running(columns, number, numpy.array([columns.end]))
        close(0, length)
        kind = {"type": "evented", "name": name, "unit": "nanoseconds"}
        profiles.append({**kind, "startValue": 0, "endValue": length, "events": events})
    return {
        "$schema": SCHEMA,
        "shared": {"frames": [{"name": name} for name in columns.names]},
        "profiles": profiles,
        "exporter": "ag_visual",
    }


def _running(columns: Columns, thread: int, times: Any) -> list[int]:
    """ns since the profile began, of a thread, that it was not stopped."""
    found = times - columns.start - columns.stopped_before(thread, times)
    return cast(list[int], found.tolist())
