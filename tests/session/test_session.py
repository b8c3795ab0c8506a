"""The session without Jupyter: scripts, problems, pages that vanish, forks, requests."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

import ag_visual as ag
from ag_visual.core.bell import Bell
from ag_visual.events import instrument
from ag_visual.observe.export import bundle
from ag_visual.observe.record import recorder
from ag_visual.session import api
from ag_visual.session.commands import handle
from ag_visual.session.session import MOST_PAGES, Session, current

from .waiting import PATIENCE, until


@pytest.fixture
def session():
    """A session of its own, closed afterwards, with the instrumentation hooks as they were."""
    names = ("sink", "gate", "begin", "end", "problem")
    before = {name: getattr(instrument, name) for name in names}
    found = Session()
    yield found
    found.close()
    for name in names:
        setattr(instrument, name, before[name])


def leaf(*values):
    return ag.tensor(list(values) or [1.0], requires_grad=True)


def ask(session, command, **args):
    replies = []
    handle(session, {"id": "1", "command": command, **args}, replies.append)
    until(lambda: replies)
    return replies[0]


def test_what_sending_the_newest_pass_took_is_counted(session):
    session.open_page("p", lambda data, buffers: None)
    allowance = session.recorder.allowance = recorder.Allowance(seconds=60.0)
    session.watch_newest(True)
    x = ag.ones(3, requires_grad=True)
    (x * x).sum().backward()
    left = allowance._left
    session.flush()
    assert allowance._left < left


def test_one_pass_that_took_long_stops_others_for_seconds_and_not_for_minutes():
    allowance = recorder.Allowance(share=0.01, grows=True)
    now = recorder.perf_counter_ns()
    assert allowance.any_left(now)
    allowance.spend(60e9)
    assert not allowance.any_left(now + 1_000_000_000)
    assert allowance.any_left(now + 11_000_000_000)


def test_the_newest_backward_is_sent_at_once(session):
    sent = []
    session.open_page("p", lambda data, buffers: sent.append(data))
    reply = ask(session, "watch", newest=True)
    assert (reply["result"]["scope"], reply["result"]["recording"]) == ("newest", False)
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    until(lambda: any("runs" in data.get("tables", ()) for data in sent))
    assert ask(session, "watch", newest=False)["result"]["scope"] == "off"


def test_a_backward_too_large_to_be_watched_is_said(session, monkeypatch):
    monkeypatch.setattr(recorder, "NEWEST_NODES", 1)
    session.watch_newest(True)
    x = leaf(1.0)
    (x * x).sum().backward()
    assert "3 nodes is watched only when asked for" in session.state()["message"]
    ask(session, "record", on=True)
    assert session.state()["message"] == ""


def test_record_block_in_a_script():
    x = leaf(2.0)
    with ag.record() as recorded:
        y = x * x
        y.backward()
    assert instrument.sink is None
    y = x * x
    assert recorded.recording.rows("nodes") == 1
    assert recorded.recording.rows("runs") == 2
    assert "x" in recorded.recording.strings
    assert repr(recorded.recording).startswith("<ag_visual recording of 1 nodes, 2 runs")


def test_record_keeps_nothing_alive_after_the_block():
    x = leaf(2.0)
    with ag.record() as recorded:
        y = x * x
        ref = weakref.ref(y)
        y.backward()
        del y
        gc.collect()
        assert ref() is None
    assert recorded.recording.rows("freed") == 2


def test_a_new_block_begins_afresh_unless_asked_not_to():
    x = leaf()
    with ag.record():
        (x * x).backward()
    with ag.record(fresh=False) as second:
        (x * x).backward()
    assert second.recording.rows("nodes") == 2
    with ag.record() as third:
        (x * x).backward()
    assert third.recording.rows("nodes") == 1


def test_an_inner_block_does_not_end_the_outer_one():
    x = leaf()
    with ag.record() as outer:
        with ag.record() as inner:
            (x * x).backward()
        (x * x).backward()
    assert inner.recording.rows("nodes") == 1
    assert outer.recording.rows("nodes") == 2


def test_an_error_in_the_block_ends_the_recording():
    with pytest.raises(ZeroDivisionError), ag.record():
        1 / 0  # noqa: B018 - the error is the point
    assert instrument.sink is None


def test_every():
    x = leaf()
    with ag.record(every=5) as recorded:
        for _ in range(10):
            (x * x).backward()
    assert recorded.recording.rows("nodes") == 2
    with pytest.raises(ValueError, match="every should be 1 or more"):
        ag.record(every=0)


def test_saving_and_loading(tmp_path, monkeypatch):
    script = tmp_path / "inspector.js"
    script.write_text("export function mount() {}")
    monkeypatch.setattr(bundle, "PATH", script)
    x = leaf()
    with ag.record() as recorded:
        y = x * x
    page = recorded.save(tmp_path / "run.html")
    assert page.read_text().startswith("<!doctype html>")
    path = ag.save_recording(tmp_path / "run.agv")
    assert ag.load_recording(path).rows("nodes") == 1
    assert y is not None


def test_saving_a_page_without_the_built_front_end_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "PATH", tmp_path / "none.js")
    with pytest.raises(FileNotFoundError, match="front end is not built"):
        ag.save_recording(tmp_path / "run.html")


def test_debugger_outside_of_a_kernel_warns_and_stops_nowhere():
    x = leaf()
    with pytest.warns(UserWarning, match="Nothing could end a pause here"), ag.debugger():
        (x * x).backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    ("stop", "error"), [(3.5, TypeError), ([None], TypeError), (ag.tensor([1.0]), ValueError)]
)
def test_debugger_refuses_what_cannot_be_stopped_at(stop, error):
    with pytest.raises(error):
        api.debugger(stop)


def test_a_plain_script(tmp_path):
    """The whole way without Jupyter: record, save, exit; nothing hangs and nothing is printed."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, ag_visual as ag\n"
        "x = ag.tensor([1.0], requires_grad=True)\n"
        "with ag.record() as recorded:\n    (x * x).backward()\n"
        "recorded.save('run.agv')\n"
        "assert not {'IPython', 'ipykernel', 'anywidget', 'plotly', 'cupy'} & set(sys.modules)\n"
    )
    root = os.path.dirname(os.path.dirname(ag.__file__))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=root),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ag.load_recording(tmp_path / "run.agv").rows("runs") == 2


def fail(times=1, by=1.0):
    """A leaf that is written in place: a mistake in one line."""
    for _ in range(times):
        w = leaf()
        with pytest.raises(RuntimeError, match="leaf Variable"):
            w -= by


def told(session):
    return [(p["id"], p["times"], p["solved"]) for p in session.problems]


def test_equal_problems_are_one_and_counted(session):
    session.watch()
    fail(3)
    w = leaf()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        w.mul_(2.0)
    assert told(session) == [(1, 3, False), (2, 1, False)]
    fail()  # the one that occurred last stands last
    assert told(session) == [(2, 1, False), (1, 4, False)]
    session.clear()
    assert session.problems == []


def test_a_problem_is_solved_when_its_cell_ran_through_without_it(session):
    session.watch()
    running = "a"
    session.found.cell = lambda: running
    fail()
    session.cell_ended("a", ran_through=True)  # it was caught: it did occur in this run
    assert told(session) == [(1, 1, False)]
    session.cell_ended("b", ran_through=True)
    session.cell_ended("a", ran_through=False)
    assert told(session) == [(1, 1, False)]
    fail()
    session.cell_ended("a", ran_through=True)
    assert told(session) == [(1, 2, False)]
    session.cell_ended("a", ran_through=True)
    assert told(session) == [(1, 2, True)]
    fail()
    assert told(session) == [(1, 3, False)]


def test_outside_of_cells_nothing_is_solved(session):
    session.watch()
    fail()
    session.cell_ended(None, ran_through=True)
    session.cell_ended(None, ran_through=True)
    assert told(session) == [(1, 1, False)]


def test_a_page_whose_channel_breaks_is_let_go(session):
    got = []

    def send(data, buffers):
        got.append(data)
        raise OSError("gone")

    session.open_page("p", send)
    until(lambda: got and not session.pages)
    assert "broke (gone)" in session.state()["message"]


def test_pages_are_bounded(session):
    for i in range(MOST_PAGES + 5):
        session.open_page(str(i), lambda data, buffers: None)
    assert len(session.pages) == MOST_PAGES
    assert str(MOST_PAGES + 4) in session.pages


def test_two_pages_get_the_same(session):
    got = {"a": [], "b": []}
    for name, heard in got.items():
        session.open_page(name, lambda data, buffers, heard=heard: heard.append(data))
    session.start()
    x = leaf()
    y = x * x
    session.stop()
    for heard in got.values():
        assert "MulBackward0" in [s for data in heard for s in data["strings"]]
    assert y is not None


def test_hello_state_and_record(session):
    hello = ask(session, "hello")["result"]
    assert hello["package_version"] == ag.__version__
    assert hello["state"]["scope"] == "off"
    state = ask(session, "record", on=True, scope="every", every=3)["result"]
    assert (state["recording"], state["scope"], state["every"]) == (True, "every", 3)
    assert ask(session, "record", on=False)["result"]["recording"] is False
    assert instrument.sink is None


def test_the_course_is_listed_and_written_where_it_is_not_yet(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lessons = ask(session, "course")["result"]
    assert lessons[1]["title"] == "2 · The chain rule by hand"
    assert not list(tmp_path.iterdir())
    refused = ask(session, "course", open="../tour.ipynb")
    assert not refused["ok"]
    assert "the course has no notebook '../tour.ipynb'" in refused["error"]
    assert not list(tmp_path.iterdir())
    (tmp_path / lessons[1]["name"]).write_text("mine")
    assert ask(session, "course", open=lessons[0]["name"])["result"] == lessons
    assert {path.name for path in tmp_path.iterdir()} == {each["name"] for each in lessons}
    assert (tmp_path / lessons[1]["name"]).read_text() == "mine"


def test_a_request_that_nobody_serves_is_answered_late_from_the_recording(session):
    session.start()
    x = leaf()
    y = x * x
    seq = y.grad_fn.seq
    assert ask(session, "node", seq=seq)["result"]["alive"] is False
    assert ask(session, "values", seq=seq, which="saved:self")["error"].startswith("busy")


def test_between_cells_a_request_waits_for_the_kernels_loop(session, monkeypatch):
    monkeypatch.setattr("ag_visual.session.session.STALE_SECONDS", 0.0)
    monkeypatch.setattr("ag_visual.session.session.PATIENT_SECONDS", PATIENCE)
    loop, replies, looks = [], [], []
    answer_older = session._answer_older_than

    def look(seconds, *, busy):
        looks.append(seconds)
        answer_older(seconds, busy=busy)

    monkeypatch.setattr(session, "_answer_older_than", look)
    session.when_idle = loop.append
    session.at_rest = True
    session.start()
    x = leaf()
    y = x * x
    content = {"id": "1", "command": "node", "seq": y.grad_fn.seq}
    handle(session, content, replies.append)
    looks.clear()
    until(lambda: len(looks) > 2)
    assert (replies, set(looks)) == ([], {PATIENCE})
    for call in loop:
        call()
    assert replies[0]["result"]["alive"] is True


def test_a_garbled_request_is_refused(session):
    replies = []
    for content in (
        None,
        [],
        {"id": 3},
        {"id": 3, "command": ["x"]},
        {"id": 3, "command": "hello", "page": []},
        {"id": 3, "command": "node", "seq": "</script>"},
    ):
        handle(session, content, replies.append)
    assert [r["ok"] for r in replies] == [False] * 6


def test_the_flushing_thread_sleeps_when_there_is_nothing_to_do(session):
    limits = []

    class Wake(Bell):
        def wait(self, timeout=None):
            limits.append(timeout)
            return super().wait(timeout)

    session._wake = Wake()
    session.start()
    until(lambda: limits and limits[-1] is not None)
    session.stop()
    session.changed()
    until(lambda: limits[-1] is None)
    assert not session._wake.is_set()  # and nobody will wake it


def looked_at(session):
    """The session with a page; the numbers of nodes in each batch that it gets."""
    batches = []
    rows = lambda header: header["tables"].get("nodes", {}).get("rows", 0)  # noqa: E731
    session.open_page("page", lambda header, buffers: batches.append(rows(header)))
    session.start("every")
    until(lambda: batches)
    return batches


def test_the_end_of_a_backward_is_told_at_once(session, monkeypatch):
    monkeypatch.setattr("ag_visual.session.session.FLUSH_SECONDS", 60.0)
    batches = looked_at(session)
    x = leaf()
    (x * x).backward()
    # No regular flush comes within this minute.
    until(lambda: 1 in batches)


def test_ends_that_follow_each_other_wait_for_the_regular_flush(session, monkeypatch):
    monkeypatch.setattr("ag_visual.session.session.ENDS_SECONDS", 60.0)
    looked_at(session)
    told = []
    monkeypatch.setattr(session, "hurry", lambda: told.append(1))
    x = leaf()
    for _ in range(5):
        (x * x).backward()
    assert told == [1]


def test_nobody_is_told_of_an_end_that_nobody_looks_at(session, monkeypatch):
    session.start("every")
    told = []
    monkeypatch.setattr(session, "hurry", lambda: told.append(1))
    x = leaf()
    (x * x).backward()
    assert told == []


def test_long_recordings_are_drained_while_they_run(session):
    session.start()
    x = leaf()
    end = time.monotonic() + PATIENCE
    while session.recorder.store.nbytes == 0 and time.monotonic() < end:
        (x * x).backward()
    assert session.recorder.store.nbytes > 0


def in_child(answers):
    x = leaf()
    (x * x).backward()
    with ag.record() as recorded:
        (x * x).backward()
    answers.put((x.grad.item(), recorded.recording.rows("runs")))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_begins_without_the_parents_session():
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with ag.record():
        child = context.Process(target=in_child, args=(answers,))
        child.start()
        child.join(PATIENCE)
    assert child.exitcode == 0
    assert answers.get() == (4.0, 2)


def test_one_session_per_process():
    found = []
    threads = [threading.Thread(target=lambda: found.append(current())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
