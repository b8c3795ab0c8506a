"""A profile as a file for the Time view of the Inspector: its columns (docs/notes/profiler).

`extension/src/model/profile/columns_file.ts` reads it.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from typing import Any

from ag_visual.core import source
from ag_visual.files import write as write_file
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.inputs import Inputs
from ag_visual.profiler.memory import CATEGORIES

FORMAT = "ag_visual-profile"
VERSION = 1
_LONGEST = 12
"""The most arguments of a call that are written."""


def write(path: Any, columns: Columns) -> None:
    """Write the file; packed where the path ends in .gz."""
    data = encoded(columns)
    write_file(path, gzip.compress(data) if os.fspath(path).endswith(".gz") else data)


def encoded(columns: Columns) -> bytes:
    """A line with the format and the bytes of the header, the header as JSON, the columns."""
    sites = [source.resolve(*(each[0] if each else (None, 0))) for each in columns.stacks]
    header = {
        "start": columns.start,
        "end": columns.end,
        "wall": columns.wall,
        "overhead": columns.overhead,
        "names": columns.names,
        "pauses": columns.pauses,
        "threads": [[ident, name] for ident, name in columns.threads],
        "inputs": [inputs_text(each) for each in columns.inputs],
        "stacks": lines(sites),
        "places": [
            [site.cell_id, site.execution_count, site.line, site.source_line]
            if site.cell_id is not None
            else None
            for site in sites
        ],
        "categories": CATEGORIES,
        "spans": _table_header(columns.spans),
        "memory": _table_header(columns.memory),
    }
    text = json.dumps(header).encode()
    parts = [f"{FORMAT} {VERSION} {len(text)}\n".encode(), text]
    for table in (columns.spans, columns.memory):
        parts.extend(table[name].tobytes() for name in table.dtype.names)
    return b"".join(parts)


def lines(sites: Sequence[source.Site]) -> list[str]:
    """'In[3] line 5', 'train.py line 7'; of files with one name the whole path."""
    named: dict[str, set[str]] = {}
    for site in sites:
        named.setdefault(os.path.basename(site.file), set()).add(site.file)
    texts = []
    for site in sites:
        if site.kind == "cell":
            count = "" if site.execution_count is None else site.execution_count
            texts.append(f"In[{count}] line {site.line}")
        else:
            name = os.path.basename(site.file)
            file = site.file if len(named[name]) > 1 else name
            texts.append(f"{file} line {site.line}" if site.line else "")
    return texts


def _table_header(table: Any) -> dict[str, Any]:
    columns = [[name, table.dtype[name].str] for name in table.dtype.names]
    return {"count": len(table), "columns": columns}


def inputs_text(inputs: Inputs) -> str:
    """'float [64,128], long int [64], 2'"""
    dims, types, concrete = (
        each[:_LONGEST] for each in (inputs.dims, inputs.types, inputs.concrete)
    )
    texts = []
    for size, kind, value in zip(dims, types, concrete, strict=True):
        shape = json.dumps(size, separators=(",", ":")) if size else ""
        texts.append(value or f"{kind} {shape}".strip())
    return ", ".join(texts)
