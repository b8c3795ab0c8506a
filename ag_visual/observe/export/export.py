"""Recordings as files: a versioned JSON (gzip) to load again, and a standalone HTML page.

Both hold the same record. Reading checks everything and never evaluates anything.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import html
import io
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from ag_visual import files
from ag_visual.errors import FormatError
from ag_visual.observe.export.redact import without_names, without_numbers
from ag_visual.observe.formulas.card_export import cards_of_living
from ag_visual.observe.record.details import Sharing, node_details
from ag_visual.observe.record.held_values import NotKeptError, values_of
from ag_visual.observe.record.leaf_names import Scope
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.batch import BatchStream, check_numbers, decode_tables
from ag_visual.observe.wire.check import check_fields
from ag_visual.observe.wire.columns import Chunk, Tables
from ag_visual.observe.wire.records import RECORDS
from ag_visual.observe.wire.text import fit, fit_all

BATCH_BYTES: Final = 1_000_000
LARGEST: Final = 2**30
"""Bytes of JSON that a recording may have: what a small gzip file may grow to when it is read."""

MOST_DETAILS: Final = 2000
"""Nodes whose details (and values) go into a file."""

VALUE_LIMIT: Final = 8192
VALUE_ELEMENTS: Final = 200_000
VALUE_SECONDS: Final = 1.0
"""A file keeps at most this many bytes per tensor, of this many elements, found in this time of the
processor: what else the machine does leaves nothing out."""

LANES: Final = 8
LANE_LIMIT: Final = 3000
"""Lanes of what a vmap holds that a file keeps one by one, and bytes of each."""


class Recording:
    """What was recorded, apart from the program: `record` is the JSON that files hold.

    buffers: those of the batches, where they are not in it yet. Most recordings are never written,
    and as text their columns would cost a fifth of what recording them did.
    """

    renderer: ClassVar[Callable[[Recording], Any] | None] = None
    """Makes a mime bundle for notebooks; set by the display layer."""

    def __init__(self, record: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        self._record = record
        self._buffers = buffers

    @property
    def record(self) -> dict[str, Any]:
        """The JSON that files hold (schema `Recording`)."""
        for batch, buffer in zip(self._record["batches"], self._buffers, strict=False):
            batch["buffer"] = base64.b64encode(buffer).decode()
        self._buffers = ()
        return self._record

    @property
    def tables(self) -> Tables:
        """All batches' tables joined, as arrays by table and column."""
        batches = self._record["batches"]
        buffers = self._buffers or [base64.b64decode(batch["buffer"]) for batch in batches]
        chunks = [
            Chunk(decode_tables(batch["header"], buffer))
            for batch, buffer in zip(batches, buffers, strict=True)
        ]
        return Chunk.joined(chunks).tables if chunks else {}

    @property
    def name(self) -> str:
        """As its author gave it, else empty."""
        return str(self._record.get("name", ""))

    def named(self, name: str) -> Recording:
        """The same with this name, unless that is empty."""
        return Recording(self._record | {"name": name}, self._buffers) if name else self

    def count(self, table: str) -> int:
        """Rows of a table as the batches' headers tell: no column is read."""
        headers = [batch["header"]["tables"] for batch in self._record["batches"]]
        return sum(tables[table]["rows"] for tables in headers if table in tables)

    @property
    def weight(self) -> int:
        """Bytes that it takes in memory, about and rather too many."""
        record = self._record
        columns = sum(map(len, self._buffers))
        columns += sum(len(batch.get("buffer", "")) for batch in record["batches"])
        texts = sum(len(text) for batch in record["batches"] for text in batch["header"]["strings"])
        return columns + texts + 2048 * len(record["details"]) + VALUE_LIMIT * len(record["values"])

    @property
    def strings(self) -> list[str]:
        """What ids of strings mean."""
        return [s for batch in self._record["batches"] for s in batch["header"]["strings"]]

    @property
    def sites(self) -> list[Any]:
        """What ids of sites mean."""
        return [s for batch in self._record["batches"] for s in batch["header"]["sites"]]

    def rows(self, table: str) -> int:
        """How many entries a table has; of "tasks", how many backward passes (each has two rows:
        its begin and its end).
        """
        columns = self.tables.get(table)
        if columns is None:
            return 0
        if table == "tasks":
            return len(np.unique(columns["task"]))
        return len(next(iter(columns.values())))

    def __repr__(self) -> str:
        nodes, runs = self.rows("nodes"), self.rows("runs")
        called = f" {self.name!r}" if self.name else ""
        made = self._record["created"]
        return f"<ag_visual recording{called} of {nodes} nodes, {runs} runs, {made}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        renderer = type(self).renderer
        return {"text/plain": repr(self)} if renderer is None else renderer(self)

    def without(self, *, values: bool = True, source: bool = True) -> Recording:
        """The recording to give away: values=True leaves out all numbers of tensors but norms of
        gradients, source=True the text and names of your code.
        """
        if not (values or source):
            return self
        record = without_numbers(self.record) if values else self.record
        record = without_names(record) if source else record
        other = (record.get("beside") or {}).get("recording")
        if other is not None:
            left = Recording(other).without(values=values, source=source).record
            record = {**record, "beside": {**record["beside"], "recording": left}}
        return Recording(record)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recording for `load_recording`."""
        text = json.dumps(self.record, separators=(",", ":"), allow_nan=False)
        return files.write(path, gzip.compress(text.encode(), 6, mtime=0))


def take(
    recorder: Recorder,
    *,
    session: str = "",
    problems: list[dict[str, Any]] | None = None,
    values: bool = False,
    source: bool = True,
    version: str = "",
    scopes: Iterable[Scope] = (),
    scalars: dict[str, Any] | None = None,
    jacobians: Sequence[dict[str, Any]] = (),
    name: str = "",
) -> Recording:
    """Everything that is kept, as a recording. values: also summaries of living saved tensors.

    source=False leaves text and names of the user's code out, values=False all numbers of tensors
    but norms.
    scopes: where variables on the same storage are looked for. scalars: a `Scalars` record.
    jacobians: `Jacobian` records. name: what it is called.
    """
    chunks = recorder.chunks()
    stream = BatchStream(session, 1, recorder.encoder, source=source)
    stream.dropped.add(recorder.store.dropped)
    pieces = pieces_of(chunks, BATCH_BYTES) or [Chunk({})]
    state = {
        "recording": False,
        "scope": "off",
        "every": 1,
        "paused": None,
        "breakpoints": [],
        "pause_next": False,
        "control": False,
        "jacobians": len(jacobians),
        "message": "",
    }
    batches: list[dict[str, Any]] = []
    buffers = []
    for i, piece in enumerate(pieces):
        header, buffer = stream.next(piece, state, (problems or []) if i == 0 else ())
        batches.append({"header": header})
        buffers.append(buffer)
    details, summaries = _about_living(recorder, values, scopes)
    cards, card_of, numbered = cards_of_living(recorder, values)
    record = {
        "format": schema.RECORDING_FORMAT,
        "v": schema.VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "package_version": version,
        "batches": batches,
        "details": fit_all(details),
        "values": summaries,
        "cards": cards,
        "card_of": card_of,
        "numbers": numbered,
    }
    if scalars is not None:
        record["scalars"] = scalars
    if values:
        record["weights"] = recorder.parameters.weights()
    if jacobians:
        record["jacobians"] = list(jacobians)
    return Recording(record, buffers).named(fit(name)).without(values=not values, source=not source)


def pieces_of(chunks: list[Chunk], size: int) -> list[Chunk]:
    """The chunks joined to pieces of about `size` bytes."""
    pieces: list[Chunk] = []
    waiting: list[Chunk] = []
    for chunk in chunks:
        if waiting and sum(c.nbytes for c in waiting) + chunk.nbytes > size:
            pieces.append(Chunk.joined(waiting))
            waiting = []
        waiting.append(chunk)
    if waiting:
        pieces.append(Chunk.joined(waiting))
    return pieces


def _about_living(
    recorder: Recorder, values: bool, scopes: Iterable[Scope]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Details of the newest living nodes; summaries of their values for as long as time allows."""
    found = (recorder.node(int(seq)) for seq in recorder.alive()[::-1][:MOST_DETAILS])
    nodes = [node for node in found if node is not None]
    sharing = Sharing(scopes if nodes else ())
    for node in nodes:
        sharing.add(node)
    details = {str(node.seq): node_details(recorder, node.seq, sharing=sharing) for node in nodes}
    if not values:
        for one in details.values():
            one["values"] = []
        return details, {}
    summaries: dict[str, Any] = {
        f"{seq} {which}": found for (seq, which), found in recorder.tangents.found.items()
    }
    end = time.thread_time() + VALUE_SECONDS
    for seq, one in details.items():
        wanted = [f"saved:{saved['name']}" for saved in one["saved"] if not saved["freed"]]
        if one["variable"] is not None or not one["next"]:
            wanted += ["variable", "grad"]
        for which in wanted:
            if time.thread_time() > end:
                return details, summaries
            with contextlib.suppress(NotKeptError):
                summary = values_of(recorder, int(seq), which, VALUE_LIMIT, VALUE_ELEMENTS)
                summaries[f"{seq} {which}"] = summary
                for lane in range(min(math.prod(summary.get("lanes", [0])), LANES)):
                    place = f"{which}@{lane}"
                    summary = values_of(recorder, int(seq), place, LANE_LIMIT, VALUE_ELEMENTS)
                    summaries[f"{seq} {place}"] = summary
    return details, summaries


def load_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a recording that `save_recording` wrote.

    Raises FormatError for a file that is cut short, foreign, or of another format version, and
    OSError where it cannot be read at all.
    """
    where = os.fspath(path)
    with open(path, "rb") as file:
        data = _at_most(LARGEST, file, where)
    if data[:2] == b"\x1f\x8b":
        data = _unpacked(data, where)
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        cut = schema.RECORDING_FORMAT.encode() in data[:400]
        raise FormatError(
            f"{where} is a recording cut short: its end is missing; save or copy it again"
            if cut
            else f"{where} is not an ag_visual recording"
        ) from error
    if not isinstance(record, dict) or record.get("format") != schema.RECORDING_FORMAT:
        raise FormatError(f"{where} is not an ag_visual recording")
    version = record.get("v")
    if version != schema.VERSION:
        newer = isinstance(version, int) and version > schema.VERSION
        raise FormatError(
            f"{where} has format version {version!r}, this ag_visual reads {schema.VERSION}: "
            + (
                "it was made by a newer version, update ag_visual to open it"
                if newer
                else "open it with the release that wrote it"
            )
        )
    check_fields(RECORDS["Recording"], record, where)
    recording = Recording(record)
    beside = (record.get("beside") or {}).get("recording")
    for one in (recording, *([] if beside is None else [Recording(beside)])):
        try:
            check_numbers(one.tables, one.strings, one.sites)
        except ValueError as error:
            raise FormatError(f"{where} is damaged: {error}") from error
    return recording


def _unpacked(data: bytes, where: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return _at_most(LARGEST, file, where)
    except (EOFError, OSError, zlib.error) as error:
        raise FormatError(
            f"{where} is damaged or cut short ({error}): save or copy it again"
        ) from error


def _at_most(most: int, file: Any, where: str) -> bytes:
    found = files.read_up_to(file, most + 1)
    if len(found) > most:
        raise FormatError(f"{where} has more than {most} bytes: this is not a recording")
    return bytes(found)


_STYLE: Final = "html, body, #ag-visual { height: 100%; margin: 0 }"

_MODULE: Final = """
const bytes = Uint8Array.from(atob('{bundle}'), letter => letter.charCodeAt(0));
const address = URL.createObjectURL(new Blob([bytes], {{ type: 'text/javascript' }}));
const {{ mount }} = await import(address);
URL.revokeObjectURL(address);
const recording = JSON.parse(document.getElementById('{element}').textContent);
mount(document.getElementById('ag-visual'), {{ recording, host: 'standalone' }});
"""

# Only the page's own module and style run: markup of any other kind cannot make a blob's address.
_POLICY: Final = (
    "default-src 'none'; script-src {module} blob:; worker-src blob:; style-src {style}; "
    "form-action 'none'; base-uri 'none'"
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="ag-visual"></div>
<noscript>A script draws this recording: allow scripts for this page.</noscript>
<script type="application/json" id="{element}">{recording}</script>
<script type="module">{module}</script>
</body>
</html>
"""


def title_of(recording: Recording) -> str:
    """What a page with it is called: as its lesson or its author says."""
    lesson = recording.record.get("lesson") or {}
    return str(lesson.get("title", "")) or recording.name or "ag_visual recording"


def to_html(recording: Recording, bundle: str, title: str = "") -> str:
    """One page that needs neither kernel nor network; `bundle` is the renderer's ES module.

    title: of the page; without one, as `title_of` says. Nothing of the recording can become markup:
    its JSON is ASCII without any `<`.
    """
    text = json.dumps(recording.record, separators=(",", ":"), allow_nan=False)
    element = schema.RECORDING_ELEMENT
    module = _MODULE.format(bundle=base64.b64encode(bundle.encode()).decode(), element=element)
    return _PAGE.format(
        title=html.escape(title or title_of(recording)),
        policy=_POLICY.format(module=_hash(module), style=_hash(_STYLE)),
        style=_STYLE,
        element=element,
        recording=text.replace("<", "\\u003c"),
        module=module,
    )


def _hash(text: str) -> str:
    """What a policy calls a script or a style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
