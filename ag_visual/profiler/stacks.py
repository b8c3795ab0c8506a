"""A profile for speedscope: spans as they open and close, one profile for each thread."""

from __future__ import annotations

import json
from typing import Any

from ag_visual.files import write
from ag_visual.profiler.columns import Columns

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(path: Any, columns: Columns) -> None:
    """Write the file; times are nanoseconds since the profile began."""
    write(path, json.dumps(speedscope_of(columns)).encode())


def speedscope_of(columns: Columns) -> dict[str, Any]:
    """The file as what JSON is made of."""
    profiles = []
    for number, (_, name) in enumerate(columns.threads):
        rows = columns.spans[columns.spans["thread"] == number]
        events: list[dict[str, Any]] = []
        opened: list[tuple[int, int]] = []

        def close(depth: int, events: Any = events, opened: Any = opened) -> None:
            while len(opened) > depth:
                frame, end = opened.pop()
                events.append({"type": "C", "frame": frame, "at": end})

        for row in rows:
            close(int(row["depth"]))
            frame, start = int(row["name"]), int(row["start"]) - columns.start
            events.append({"type": "O", "frame": frame, "at": start})
            opened.append((frame, int(row["end"]) - columns.start))
        close(0)
        length = columns.end - columns.start
        kind = {"type": "evented", "name": name, "unit": "nanoseconds"}
        profiles.append({**kind, "startValue": 0, "endValue": length, "events": events})
    return {
        "$schema": SCHEMA,
        "shared": {"frames": [{"name": name} for name in columns.names]},
        "profiles": profiles,
        "exporter": "ag_visual",
    }
