"""Pages: windows, coalescing with counts, resync, loss. A fake page decodes what it is sent."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.batch import decode_tables
from ag_visual.observe.wire.columns import DTYPES, Chunk
from ag_visual.session import transport
from ag_visual.session.transport import Page

STATE = {"message": ""}


class Reader:
    """What a page understands of the messages it gets."""

    def __init__(self):
        self.headers = []
        self.pings = 0
        self.rows = {}
        self.strings = []
        self.gone = False

    def __call__(self, data, buffers):
        if self.gone:
            raise OSError("closed")
        data = json.loads(json.dumps(data))
        if "ping" in data:
            self.pings += 1
            return
        if not self.headers or data["epoch"] != self.headers[-1]["epoch"]:
            self.rows, self.strings = {}, []
            assert data["batch"] == 1
        else:
            assert data["batch"] == self.headers[-1]["batch"] + 1
        self.headers.append(data)
        self.strings += data["strings"]
        header = data | {"state": FULL_STATE, "problems": []}
        for table, columns in decode_tables(header, buffers[0]).items():
            for name, array in columns.items():
                self.rows.setdefault(table, {}).setdefault(name, []).extend(array.tolist())

    def column(self, table, name):
        return self.rows.get(table, {}).get(name, [])


FULL_STATE = {
    "recording": True,
    "scope": "block",
    "every": 1,
    "paused": None,
    "breakpoints": [],
    "pause_next": False,
    "control": True,
    "message": "",
}


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def recorder():
    return Recorder()


def rows(table, *seqs):
    """A chunk with these numbers in the table's first column."""
    columns = schema.TABLES[table]
    return Chunk(
        {table: {name: np.array(seqs).astype(DTYPES[c.type]) for name, c in columns.items()}}
    )


def page_of(recorder, clock=None):
    reader = Reader()
    return Page("p", reader, recorder, "session", clock or Clock()), reader


def test_everything_arrives_once_and_in_order(recorder):
    page, reader = page_of(recorder)
    for seq in range(5):
        recorder.store.add(rows("nodes", seq))
        page.flush(STATE, [], 0.0)
        page.flush(STATE, [], 0.0)
    assert reader.column("nodes", "seq") == [0, 1, 2, 3, 4]
    assert [h["batch"] for h in reader.headers] == [1, 2, 3, 4, 5]


def test_a_full_window_holds_back_until_an_acknowledgement(recorder):
    page, reader = page_of(recorder)
    for seq in range(20):
        recorder.store.add(rows("nodes", seq))
        page.flush(STATE, [], 0.0)
    assert len(reader.headers) == schema.WINDOW
    page.acknowledge(3)
    page.flush(STATE, [], 0.0)
    assert reader.column("nodes", "seq") == list(range(20))
    assert reader.headers[-1]["coalesced"] == {}


def test_acknowledging_what_was_never_sent_opens_nothing(recorder):
    page, reader = page_of(recorder)
    for seq in range(20):
        recorder.store.add(rows("nodes", seq))
        page.flush(STATE, [], 0.0)
    page.acknowledge(10**6)
    page.flush(STATE, [], 0.0)
    assert len(reader.headers) == schema.WINDOW


def test_a_page_far_behind_loses_only_what_is_dead_and_is_told_how_much(recorder, monkeypatch):
    monkeypatch.setattr(transport, "BEHIND", 5_000)
    page, reader = page_of(recorder)
    for _ in range(schema.WINDOW):
        recorder.store.add(rows("freed", 0))
        page.flush(STATE, [], 0.0)
    alive = [500, 501]
    monkeypatch.setattr(recorder, "alive", lambda: np.array(alive, np.uint32))
    for seq in range(1000):
        recorder.store.add(rows("nodes", seq))
    page.acknowledge(schema.WINDOW)
    while not page.idle:
        page.flush(STATE, [], 0.0)
        page.acknowledge(page._stream.batch)
    got = reader.column("nodes", "seq")
    assert set(alive) <= set(got)
    assert got[-1] == 999, "the newest always comes"
    assert len(got) + reader.headers[-1]["coalesced"]["nodes"] == 1000
    assert recorder.store.dropped.rows == {}, "the recording itself lost nothing"


def test_state_and_problems_are_sent_when_they_change(recorder):
    page, reader = page_of(recorder)
    page.flush({"message": "a"}, [], 0.0)
    page.flush({"message": "a"}, [], 0.0)
    assert len(reader.headers) == 1
    page.flush({"message": "b"}, [{"id": 1}], 0.0)
    page.flush({"message": "b"}, [{"id": 1}, {"id": 2}], 0.0)
    assert [h["state"]["message"] for h in reader.headers] == ["a", "b", "b"]
    page.flush({"message": "b"}, [{"id": 2}, {"id": 1, "solved": True}], 0.0)
    assert [[p["id"] for p in h["problems"]] for h in reader.headers] == [[], [1], [2], [1]]


def test_resync_sends_all_again_in_a_new_epoch(recorder):
    page, reader = page_of(recorder)
    recorder.encoder.strings["name"]
    recorder.store.add(rows("nodes", 1, 2))
    page.flush(STATE, [{"id": 1}], 0.0)
    first = page.epoch
    page.ask_restart()
    assert not page.idle
    page.flush(STATE, [{"id": 1}], 0.0)
    assert page.epoch > first
    assert reader.column("nodes", "seq") == [1, 2]
    assert reader.strings == ["", "name"]
    assert reader.headers[-1]["problems"] == [{"id": 1}]


def test_resync_frees_a_window_that_a_reloaded_page_left_full(recorder):
    page, reader = page_of(recorder)
    for seq in range(schema.WINDOW + 3):
        recorder.store.add(rows("nodes", seq))
        page.flush(STATE, [], 0.0)
    page.ask_restart()
    page.flush(STATE, [], 0.0)
    assert reader.column("nodes", "seq") == list(range(schema.WINDOW + 3))


def test_clearing_begins_a_new_epoch(recorder):
    page, reader = page_of(recorder)
    recorder.store.add(rows("nodes", 1))
    page.flush(STATE, [], 0.0)
    recorder.clear()
    page.flush(STATE, [], 0.0)
    assert len({h["epoch"] for h in reader.headers}) == 2
    assert reader.column("nodes", "seq") == []


def test_what_the_ring_dropped_under_a_page_makes_it_begin_again(recorder):
    recorder.store.limit = 2_000
    page, reader = page_of(recorder)
    recorder.store.add(rows("nodes", 0))
    page.flush(STATE, [], 0.0)
    for seq in range(1, 200):
        recorder.store.add(rows("nodes", seq))
        if recorder.store.full:
            recorder.store.make_room(np.array([7], np.uint32))
    page.flush(STATE, [], 0.0)
    got = reader.column("nodes", "seq")
    assert 7 in got
    assert got[-1] == 199
    assert len(got) == len(set(got))
    assert len(got) + reader.headers[-1]["coalesced"]["nodes"] == 200


def test_batches_are_not_larger_than_they_should_be(recorder):
    page, reader = page_of(recorder)
    for start in range(0, 60_000, 1000):
        recorder.store.add(rows("nodes", *range(start, start + 1000)))
    sizes = []
    page._send = lambda data, buffers: (reader(data, buffers), sizes.append(len(buffers[0])))
    page.flush(STATE, [], 0.0)
    assert reader.column("nodes", "seq") == list(range(60_000))
    assert max(sizes) < 1_000_000
    assert len(sizes) < 10


def test_quiet_pages_are_pinged(recorder):
    clock = Clock()
    page, reader = page_of(recorder, clock)
    page.flush(STATE, [], 0.0)
    clock.now += 4
    page.flush(STATE, [], 0.0)
    assert reader.pings == 0
    clock.now += 4
    page.flush(STATE, [], 0.0)
    page.flush(STATE, [], 0.0)
    assert reader.pings == 1
    page.acknowledge(0)
    assert page.heard == clock.now
