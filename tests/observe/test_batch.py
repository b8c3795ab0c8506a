"""Batches on the wire: what is encoded comes back, what is damaged is refused."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ag_visual.errors import FormatError
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.batch import BatchStream, decode_tables, encode_tables, without_source
from ag_visual.observe.wire.check import check
from ag_visual.observe.wire.columns import DTYPES, Chunk, Encoder
from ag_visual.observe.wire.records import RECORDS
from ag_visual.observe.wire.store import thin

STATE = {
    "recording": True,
    "scope": "block",
    "every": 1,
    "paused": None,
    "breakpoints": [],
    "pause_next": False,
    "control": True,
    "message": "",
}


@st.composite
def chunks(draw):
    """Any rows in any tables."""
    tables = {}
    for table in draw(st.sets(st.sampled_from(sorted(schema.TABLES)), min_size=1)):
        rows = draw(st.integers(1, 5))
        tables[table] = {
            name: (np.arange(rows) + draw(st.integers(0, 100))).astype(DTYPES[column.type])
            for name, column in schema.TABLES[table].items()
        }
    return Chunk(tables)


@given(chunks())
def test_round_trip(chunk):
    header, buffer = BatchStream("s", 1, Encoder(0)).next(chunk, STATE)
    text = json.dumps(header, allow_nan=False)
    check("Header", json.loads(text), "header")
    found = decode_tables(json.loads(text), buffer)
    assert found.keys() == chunk.tables.keys()
    for table, columns in chunk.tables.items():
        for name, array in columns.items():
            assert found[table][name].dtype == array.dtype
            assert found[table][name].tolist() == array.tolist()


@given(chunks())
def test_columns_are_aligned_and_do_not_overlap(chunk):
    tables, buffer = encode_tables(chunk)
    places = sorted(p for about in tables.values() for p in about["columns"].values())
    assert all(offset % schema.ALIGNMENT == 0 for offset, _ in places)
    for (offset, length), (following, _) in itertools.pairwise(places):
        assert offset + length <= following
    assert places[-1][0] + places[-1][1] <= len(buffer)


@given(chunks(), st.data())
def test_a_damaged_header_is_refused_not_misread(chunk, data):
    header, buffer = BatchStream("s", 1, Encoder(0)).next(chunk, STATE)
    header = json.loads(json.dumps(header))
    table = data.draw(st.sampled_from(sorted(header["tables"])))
    columns = header["tables"][table]["columns"]
    column = data.draw(st.sampled_from(sorted(columns)))
    damage = data.draw(st.sampled_from(["offset", "length", "rows", "missing", "table", "v"]))
    if damage == "offset":
        columns[column][0] = len(buffer) + 8
    elif damage == "length":
        columns[column][1] += 1
    elif damage == "rows":
        header["tables"][table]["rows"] += 1
    elif damage == "missing":
        del columns[column]
    elif damage == "table":
        header["tables"]["gradients"] = header["tables"].pop(table)
    else:
        header["v"] = 2
    with pytest.raises(FormatError):
        decode_tables(header, buffer)


def test_strings_and_sites_go_once():
    encoder = Encoder(0)
    stream = BatchStream("s", 1, encoder)
    encoder.strings["a"]
    assert stream.next(Chunk({}), STATE)[0]["strings"] == ["", "a"]
    encoder.strings["b"]
    encoder.strings["a"]
    header, _ = stream.next(Chunk({}), STATE)
    assert (header["batch"], header["strings"]) == (2, ["b"])
    assert BatchStream("s", 2, encoder).next(Chunk({}), STATE)[0]["strings"] == ["", "a", "b"]


def test_joined_chunks_hold_the_rows_of_all():
    one = Chunk({"freed": {"seq": np.array([1], "u4"), "t": np.array([1.0])}})
    two = Chunk({"labels": {"seq": np.array([2], "u4"), "label": np.array([3], "u4")}})
    both = Chunk.joined([one, two, one])
    assert (both.rows("freed"), both.rows("labels"), both.rows("nodes")) == (2, 1, 0)


@given(chunks(), st.sets(st.integers(0, 110)))
def test_thinning_keeps_all_of_the_living_and_counts_the_rest(chunk, alive):
    kept, dropped = thin(chunk, np.array(sorted(alive), np.uint32))
    for table in chunk.tables:
        assert kept.rows(table) + dropped.rows[table] == chunk.rows(table)
    for table, column in (("nodes", "seq"), ("leaves", "seq"), ("edges", "src"), ("saved", "node")):
        if table in chunk.tables:
            want = [s for s in chunk.tables[table][column].tolist() if s in alive]
            assert kept.tables.get(table, {}).get(column, np.array([])).tolist() == want


def test_source_text_is_left_out_wherever_it_stands():
    secret = "secret = 1"
    site = dict.fromkeys(RECORDS["Site"], 1) | {
        "file": "/home/me/secret/train.py",
        "text": secret,
        "source_line": secret,
    }
    names = [name.rstrip("?") for name in RECORDS["Problem"]]
    problem = dict.fromkeys(names, secret) | {
        "title": "A leaf was changed",
        "node_name": "",
        "saved_name": "",
        "kind": "other",
        "where": site,
        "made": site,
        "first": site,
        "tensor": {"name": "w"},
        "writes": [{"site": site}],
        "saved": {"site": site},
    }
    shown = json.dumps(without_source({"problems": [problem], "site": site}))
    numbers = ("version_then", "version_now", "id", "node_seq", "more_writes", "times", "solved")
    for field in numbers:
        shown = shown.replace(f'"{field}": "{secret}"', "")
    assert "secret" not in shown
    assert "train.py" in shown
