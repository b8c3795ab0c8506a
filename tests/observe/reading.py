"""Reading a recorder back as tables and texts."""

from __future__ import annotations

from ag_visual.observe.columns import Chunk, Tables
from ag_visual.observe.recorder import Recorder


def tables(recorder: Recorder) -> Tables:
    """All that the recorder keeps, joined."""
    chunks = recorder.chunks()
    return Chunk.joined(chunks).tables if chunks else {}


def texts(recorder: Recorder, table: str, column: str) -> list[str]:
    """A string column as text."""
    found = recorder.encoder.strings.texts
    return [found[i] for i in tables(recorder).get(table, {}).get(column, [])]
