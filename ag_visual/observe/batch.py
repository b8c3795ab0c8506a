"""Chunks to messages and back: a JSON header and one buffer of aligned little-endian columns.

Decoding checks everything it reads: a batch may come from a file that somebody else wrote.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ag_visual.core.source import Site
from ag_visual.observe import schema
from ag_visual.observe.check import FormatError, check
from ag_visual.observe.columns import DTYPES, Chunk, Tables

Header = dict[str, Any]


def site_json(site: Site | None) -> dict[str, Any] | None:
    """A place in the user's code as the page gets it; None when it is unknown."""
    if site is None or not site.line:
        return None
    found = {name: getattr(site, name) for name in schema.RECORDS["Site"]}
    found["execution_count"] = _whole(site.execution_count)
    return found


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def encode_tables(chunk: Chunk) -> tuple[dict[str, Any], bytes]:
    """The header's `tables` and the buffer for one chunk."""
    parts: list[bytes] = []
    offset = 0
    tables: dict[str, Any] = {}
    for table, columns in chunk.tables.items():
        places: dict[str, tuple[int, int]] = {}
        for name, array in columns.items():
            data = array.tobytes()
            places[name] = (offset, len(data))
            padding = -len(data) % schema.ALIGNMENT
            parts.append(data)
            parts.append(b"\0" * padding)
            offset += len(data) + padding
        tables[table] = {"rows": chunk.rows(table), "columns": places}
    return tables, b"".join(parts)


def decode_tables(header: Header, buffer: bytes) -> Tables:
    """The tables of a batch as arrays. Raises FormatError for anything that is not one."""
    check("Header", header, "header")
    if header["v"] != schema.VERSION:
        raise FormatError(
            f"the batch has format version {header['v']}, this ag_visual reads {schema.VERSION}"
        )
    tables: Tables = {}
    for table, about in header["tables"].items():
        if table not in schema.TABLES:
            raise FormatError(f"unknown table {table!r}")
        columns = schema.TABLES[table]
        if set(about["columns"]) != set(columns):
            raise FormatError(f"table {table!r} has the columns {sorted(about['columns'])}")
        tables[table] = {
            name: _column(buffer, about["rows"], about["columns"][name], column, f"{table}.{name}")
            for name, column in columns.items()
        }
    return tables


def _column(
    buffer: bytes, rows: int, place: tuple[int, int], column: schema.Column, name: str
) -> Any:
    dtype = DTYPES[column.type]
    offset, length = place
    if offset < 0 or offset % schema.ALIGNMENT or length != rows * dtype.itemsize:
        raise FormatError(f"column {name}: {rows} rows do not lie at {offset} in {length} bytes")
    if offset + length > len(buffer):
        raise FormatError(f"column {name} ends at {offset + length}, the buffer at {len(buffer)}")
    return np.frombuffer(buffer, dtype, rows, offset)
