"""Recordings as files: round trip, damage, foreign files, safety of the page."""

from __future__ import annotations

import gzip
import html.parser
import json
import os

import pytest

import ag_visual as ag
from ag_visual.errors import FormatError
from ag_visual.observe.export import export
from ag_visual.observe.export.export import load_recording, pieces_of, take, to_html
from ag_visual.observe.wire.check import check


@pytest.fixture
def recording(recorder):
    """A small graph that is still alive, recorded with values."""
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    recorder.start()
    y = x * x
    z = y * y
    z.backward(ag.tensor([1.0, 1.0]), retain_graph=True)
    return take(recorder, session="s", values=True, version="1.2")


def test_round_trip(recording, tmp_path):
    path = recording.save(tmp_path / "run.agv")
    found = load_recording(path)
    assert found.record == json.loads(json.dumps(recording.record))
    check("Recording", found.record, "recording")
    assert found.rows("nodes") == 2
    assert found.strings == recording.strings
    assert any(key.endswith("saved:self") for key in found.record["values"])


def test_tables_are_there_before_and_after_the_text(recording):
    def read():
        return {
            table: {name: values.tolist() for name, values in columns.items()}
            for table, columns in recording.tables.items()
        }

    assert recording.rows("runs") == 3
    before = read()
    batches = recording.without(values=False, source=False).record["batches"]
    assert [set(batch) for batch in batches] == [{"header", "buffer"}] * len(batches)
    assert read() == before
    assert recording.record["batches"] == batches


def test_rows_of_tasks_are_backward_passes(recorder):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    recorder.start()
    for _ in range(3):
        (x * x).sum().backward()
    found = take(recorder)
    assert found.rows("tasks") == 3
    assert len(found.tables["tasks"]["task"]) == 6
    assert take(recorder).rows("no such table") == 0


def test_plain_json_is_read_too(recording, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(recording.record))
    assert load_recording(path).rows("runs") == 3


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_truncated_file_is_refused(recording, tmp_path, part):
    path = recording.save(tmp_path / "run.agv")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(FormatError, match=r"cut short|not an ag_visual recording"):
        load_recording(path)


def test_truncated_json_says_that_its_end_is_missing(recording, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(recording.record)[:-20])
    with pytest.raises(FormatError, match="its end is missing"):
        load_recording(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"[1, 2]",
        b'{"format": "chrome-trace"}',
        b"\x80\x04\x95pickle",
        gzip.compress(b"nothing"),
        b"[" * 100_000,
    ],
    ids=["empty", "text", "list", "foreign", "pickle", "gzip", "deep"],
)
def test_foreign_file_is_refused(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(FormatError, match="is not an ag_visual recording"):
        load_recording(path)


def test_other_version_is_refused(recording, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(recording.record | {"v": 2}))
    with pytest.raises(FormatError, match="format version 2, this ag_visual reads 1"):
        load_recording(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.pop("batches"),
        lambda r: r["batches"][0].pop("header"),
        lambda r: r["batches"][0].update(buffer="AAAA"),
        lambda r: r["batches"][0].update(buffer="%%%"),
        lambda r: r["batches"][0]["header"].update(strings=[1]),
        lambda r: r.update(details=[]),
    ],
)
def test_damaged_record_is_refused(recording, tmp_path, damage):
    record = json.loads(json.dumps(recording.record))
    damage(record)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record))
    with pytest.raises(FormatError):
        load_recording(path)


def test_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "LARGEST", 1000)
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(FormatError, match="has more than 1000 bytes"):
        load_recording(path)


def test_without_values_and_source(recorder):
    secret_variable = ag.tensor([123456.0], requires_grad=True)
    recorder.start()
    y = secret_variable * 654321.0
    found = json.dumps(take(recorder, values=False, source=False).record)
    assert "654321" not in found
    assert "123456" not in found
    assert "y = secret" not in found
    assert os.path.dirname(__file__) not in found
    full = json.dumps(take(recorder, values=True).record)
    assert "654321" in full
    assert "123456" in full
    assert y is not None


class Scripts(html.parser.HTMLParser):
    """Collects tags, and the text of the recording's element."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.text = ""
        self.inside = False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("id") == "ag-visual-recording"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.text += data


def test_nothing_in_a_recording_can_become_markup(recording):
    evil = "</script><img src=x onerror=alert(1)><!--\u2028]]>"
    recording.record["batches"][0]["header"]["strings"].append(evil)
    page = to_html(recording, "export const mount = '</script>';", title="</title><b>")
    reader = Scripts()
    reader.feed(page)
    assert [tag for tag, _ in reader.tags if tag in ("img", "b")] == []
    found = json.loads(reader.text)
    assert found["batches"][0]["header"]["strings"][-1] == evil
    assert page.isascii()


def test_page_asks_the_network_for_nothing(recording):
    page = to_html(recording, "export const mount = 1")
    reader = Scripts()
    reader.feed(page)
    assert not [a for _, a in reader.tags if {"src", "href"} & a.keys()]
    policy = next(a["content"] for _, a in reader.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy


def test_pieces_hold_all_chunks_in_order(recorder):
    x = ag.tensor([1.0], requires_grad=True)
    recorder.start()
    for _ in range(10):
        y = x * x
        recorder.drain()
    chunks = recorder.chunks()
    pieces = pieces_of(chunks, 1000)
    assert 1 < len(pieces) < len(chunks)
    joined = [s for piece in pieces for s in piece.tables["nodes"]["seq"].tolist()]
    assert joined == [s for chunk in chunks for s in chunk.tables["nodes"]["seq"].tolist()]
    assert y is not None
