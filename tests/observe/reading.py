"""Reading a recorder back as tables and texts."""

from __future__ import annotations

from typing import Any

from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.columns import Chunk, Tables


def tables(recorder: Recorder) -> Tables:
    """All that the recorder keeps, joined."""
    chunks = recorder.chunks()
    return Chunk.joined(chunks).tables if chunks else {}


def texts(recorder: Recorder, table: str, column: str) -> list[str]:
    """A string column as text."""
    found = recorder.encoder.strings.texts
    return [found[i] for i in tables(recorder).get(table, {}).get(column, [])]


def rows(recorder: Recorder) -> dict[str, list[dict[str, Any]]]:
    """All that the recorder keeps as rows; columns of strings as text."""
    found = recorder.encoder.strings.texts

    def values(table: str, column: str, array: Any) -> list[Any]:
        text = schema.TABLES[table][column].of == "string"
        return [found[i] for i in array] if text else array.tolist()

    return {
        table: [
            dict(zip(columns, row, strict=True))
            for row in zip(*(values(table, c, a) for c, a in columns.items()), strict=True)
        ]
        for table, columns in tables(recorder).items()
    }
