"""Chunks to messages and back: a JSON header and one buffer of aligned little-endian columns.

Decoding checks everything it reads: a batch may come from a file that somebody else wrote.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ag_visual.core.source import UNKNOWN, Site
from ag_visual.errors import FormatError
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.check import check
from ag_visual.observe.wire.columns import DTYPES, Chunk, Encoder, Tables
from ag_visual.observe.wire.records import RECORDS
from ag_visual.observe.wire.store import Dropped
from ag_visual.observe.wire.text import fit_all
from ag_visual.observe.wire.written import written

Header = dict[str, Any]

NOWHERE: Final = dataclasses.replace(UNKNOWN, line=1)
"""Stands in the list of sites for a place whose line is not known, so that ids go on."""


def site_json(site: Site | None) -> dict[str, Any] | None:
    """A location in the user's source as the page gets it; None when it is unknown."""
    if site is None or not site.line:
        return None
    found = {name: getattr(site, name) for name in RECORDS["Site"] if not name.endswith("?")}
    found["execution_count"] = _whole(site.execution_count)
    found["written"] = written(site.text, site.source_line)
    fitted: dict[str, Any] = fit_all(found)
    return fitted


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def encode_tables(chunk: Chunk) -> tuple[dict[str, Any], bytes]:
    """The header's `tables` and the buffer for one chunk."""
    parts: list[bytes | memoryview] = []
    offset = 0
    tables: dict[str, Any] = {}
    for table, columns in chunk.tables.items():
        places: dict[str, tuple[int, int]] = {}
        for name, array in columns.items():
            length = array.nbytes
            places[name] = (offset, length)
            padding = -length % schema.ALIGNMENT
            parts.append(array.data)
            parts.append(b"\0" * padding)
            offset += length + padding
        tables[table] = {"rows": chunk.rows(table), "columns": places}
    return tables, b"".join(parts)


class BatchStream:
    """The numbered batches of one epoch for one reader, who gets every string and site once."""

    def __init__(self, session: str, epoch: int, encoder: Encoder, *, source: bool = True) -> None:
        self.session = session
        self.epoch = epoch
        self.encoder = encoder
        self.source = source  # False: leave the text of the user's code out
        self.batch = 0
        self.dropped = Dropped()
        self._strings = 0
        self._sites = 0

    def next(
        self,
        chunk: Chunk,
        state: dict[str, Any],
        problems: Sequence[dict[str, Any]] = (),
        t: float = 0.0,
    ) -> tuple[Header, bytes]:
        """The next batch: this chunk, what is new about strings and sites, and the state."""
        tables, buffer = encode_tables(chunk)
        self.batch += 1
        strings, sites = self.encoder.strings.texts, self.encoder.sites.found
        header: Header = {
            "v": schema.VERSION,
            "session": self.session,
            "epoch": self.epoch,
            "batch": self.batch,
            "t": t,
            "coalesced": dict(self.dropped.rows),
            "dropped_steps": self.dropped.steps,
            "strings": strings[self._strings :],
            "sites": [self._site(site) for site in sites[self._sites :]],
            "tables": tables,
            "state": state,
            "problems": list(problems) if self.source else [without_source(p) for p in problems],
        }
        self._strings, self._sites = len(strings), len(sites)
        return header, buffer

    def _site(self, site: Site) -> dict[str, Any]:
        found = site_json(site) or site_json(NOWHERE)
        assert found is not None
        return found if self.source else without_source(found)


def without_source(value: Any) -> Any:
    """The same JSON without text of the user's code and without folder names."""
    if isinstance(value, list):
        return [without_source(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {key: without_source(part) for key, part in value.items()}
    if "source_line" in kept:  # a Site
        kept |= {"text": "", "source_line": "", "file": os.path.basename(kept["file"])}
        kept["written"] = None
    if "repair" in kept:  # a Problem
        kept |= {"text": "", "detail": "", "repair": None, "aliases": [], "holders": []}
    return kept


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
    if not all(isinstance(number, int) for number in (offset, length, rows)):
        raise FormatError(f"column {name}: its place {place} is not of whole numbers")
    if offset < 0 or rows < 0 or offset % schema.ALIGNMENT or length != rows * dtype.itemsize:
        raise FormatError(f"column {name}: {rows} rows do not lie at {offset} in {length} bytes")
    if offset + length > len(buffer):
        raise FormatError(f"column {name} ends at {offset + length}, the buffer at {len(buffer)}")
    return np.frombuffer(buffer, dtype, rows, offset)


def check_numbers(tables: Tables, strings: Sequence[str], sites: Sequence[Any]) -> None:
    """Raise FormatError where a column's numbers point behind the strings or sites that there are.

    For tables that were read as a whole: in a stream a batch may be lost.
    """
    known = {"string": len(strings), "site": len(sites)}
    for table, columns in tables.items():
        for name, values in columns.items():
            of = schema.TABLES[table][name].of
            if of:
                ids = values if of == "string" else values[values != schema.NONE]
                if len(ids) and int(ids.max()) >= known[of]:
                    raise FormatError(f"column {table}.{name}: {of} {ids.max()} of {known[of]}")
