"""A profile that runs is followed: what its pieces say, put together, is what the profile says."""

from __future__ import annotations

import base64
import gc
import threading
import weakref

import numpy
import pytest

import ag_visual as ag
from ag_visual.events.spans import STEP
from ag_visual.observe.wire.check import check_fields
from ag_visual.observe.wire.records import RECORDS
from ag_visual.profiler import ProfilerActivity, live, profile, record_function
from ag_visual.session.commands import handle
from ag_visual.session.session import Session

from .waiting import PATIENCE, until

COLUMNS = (("start", "<f8"), ("end", "<f8"), ("seq", "<f8"), ("label", "<i4"), ("thread", "<i4"))


@pytest.fixture
def session():
    found = Session()
    found.watch()
    yield found
    found.close()


def asked(session, since, number=None):
    """The next piece, as a page gets it."""
    replies = []
    wanted = session.state()["profile"] if number is None else number
    request = {"id": "1", "command": "profile", "number": wanted, "since": since}
    handle(session, request, replies.append)
    (reply,) = replies
    if not reply["ok"]:
        raise ValueError(reply["error"])
    check_fields(RECORDS["ProfilePiece"], reply["result"], "piece")
    return reply["result"]


def rows(piece, *, ended=True):
    """(name, kind, start, end, seq, thread, line) of each slice of a piece."""
    data, count, at, columns = base64.b64decode(piece["rows"]), piece["count"], 0, []
    for _, kind in (*COLUMNS, ("facts", "<i4")):
        columns.append(numpy.frombuffer(data, kind, count, at).tolist())
        at += count * numpy.dtype(kind).itemsize
    assert at == len(data)
    found = [
        (*piece["labels"][str(label)], start, end, seq, thread, piece["facts"][str(facts)]["line"])
        for start, end, seq, label, thread, facts in zip(*columns, strict=True)
    ]
    return found[: count - piece["open"]] if ended else found[count - piece["open"] :]


def step(x):
    (x * x).sum().backward()


def test_pieces_are_the_profile(session):
    x = ag.ones(3, requires_grad=True)
    told, since, done = [], 0, False
    with profile(with_stack=True, record_shapes=True) as found:
        for _ in range(3):
            step(x)
            piece = asked(session, since)
            assert not piece["done"]
            assert piece["left_out"] == 0
            told += rows(piece)
            since = piece["next"]
        step(x)
    while not done:
        piece = asked(session, since)
        told, since, done = told + rows(piece), piece["next"], piece["done"]
    columns = found.columns
    spans = columns.spans
    names = [columns.names[i] for i in spans["name"]]
    starts, ends = (
        (spans["start"] - columns.start).tolist(),
        (spans["end"] - columns.start).tolist(),
    )
    expected = sorted(zip(names, spans["kind"].tolist(), starts, ends, spans["seq"], strict=True))
    assert sorted(each[:5] for each in told) == expected
    lines = {name: line for name, *_, line in told}
    assert lines["aten::mul"].startswith("test_followed_profile.py line ")
    assert {each["inputs"] for each in piece["facts"].values()} >= {"float [3], float [3]"}


def test_what_has_not_ended_is_there_until_now(session):
    x = ag.ones(3)
    with profile(activities=[ProfilerActivity.CPU]), record_function("ProfilerStep#0"):
        x.exp()
        piece = asked(session, 0)
        assert [each[0] for each in rows(piece)] == ["aten::exp"]
        (unended,) = rows(piece, ended=False)
        assert unended[:2] == ("ProfilerStep#0", STEP)
        assert unended[3] == piece["now"]
    piece = asked(session, piece["next"])
    assert [each[0] for each in rows(piece)] == ["ProfilerStep#0"]
    assert piece["open"] == 0


def test_a_page_that_is_slow_is_told_what_it_lost(session, monkeypatch):
    monkeypatch.setattr(live, "MOST", 10)
    x = ag.ones(3)
    with profile():
        for _ in range(25):
            x.exp()
        piece = asked(session, 0)
        assert (piece["count"], piece["left_out"], piece["next"]) == (10, 15, 25)
        for _ in range(13):
            x.sin()
    piece = asked(session, 25)
    assert (piece["count"], piece["left_out"], piece["next"]) == (10, 3, 38)
    assert piece["done"]
    assert asked(session, 38)["count"] == 0


def test_nothing_is_kept_of_what_nobody_follows(session):
    with profile():
        ag.ones(3).exp()
    assert session.state()["profile"] is None
    with profile() as found:
        ag.ones(3).exp()
        asked(session, 0)
    followed = weakref.ref(session.profile)
    number = session.state()["profile"]
    del found
    assert asked(session, 0)["done"]
    session.clear()
    assert session.state()["profile"] is None
    gc.collect()
    assert followed() is None
    with pytest.raises(ValueError, match="not here any more"):
        asked(session, 0, number)


def test_of_several_the_newest_is_followed_and_pieces_leave_out_what_was_switched_off(session):
    x = ag.ones(3)
    with profile():
        x.exp()
        with profile() as inner:
            x.sin()
            inner.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
            x.cos()
            inner.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
            x.tan()
            assert [each[0] for each in rows(asked(session, 0))] == ["aten::sin", "aten::tan"]


def test_a_stop_that_lasts_is_told(session):
    """What stands still now counts as little as what stood still before."""
    x = ag.ones(3, requires_grad=True)
    y = (x * x).sum()
    session.gate.patience = PATIENCE
    with profile():
        work = threading.Thread(target=y.backward, daemon=True)
        (x * 2).sum()
        session.gate.ask_pause()
        work.start()
        until(lambda: session.gate.paused)
        session.gate.step()
        until(lambda: session.gate.paused and session.gate.paused.order == 1)
        piece = asked(session, 0)
        first, lasting = piece["pauses"]
        assert first[1] <= lasting[0] < lasting[1] == piece["now"]
        session.gate.go_on()
        work.join(PATIENCE)
