"""Names of recordings, and the blocks that stay reachable after the next one began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ag_visual as torch
from ag_visual.observe.record.lesson import Lesson
from ag_visual.observe.wire.check import check_fields
from ag_visual.observe.wire.records import RECORDS
from ag_visual.session.commands import handle
from ag_visual.session.runs import Runs
from ag_visual.session.session import current


@pytest.fixture(autouse=True)
def no_runs() -> None:
    current().runs.clear()
    current().clear()


def run(passes: int = 1, **options: Any) -> Any:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.record(**options) as recorded:
        for _ in range(passes):
            (w * 2).relu().sum().backward()
    return recorded


def listed() -> list[tuple[str, int]]:
    return [(one["name"], one["passes"]) for one in current().state()["runs"]]


def asked(number: int) -> dict[str, Any]:
    replies: list[dict[str, Any]] = []
    handle(current(), {"id": 1, "command": "run", "number": number}, replies.append)
    [reply] = replies
    return reply


def test_a_name_is_in_the_recording_its_files_and_the_title_of_its_page(tmp_path: Path) -> None:
    recorded = run(name=" relu,\n lr 0.1 ")
    assert current().state()["name"] == recorded.recording.name == "relu, lr 0.1"
    assert repr(recorded.recording).startswith("<ag_visual recording 'relu, lr 0.1' of 3 nodes")
    assert torch.load_recording(recorded.save(tmp_path / "run.agv")).name == "relu, lr 0.1"
    assert "<title>relu, lr 0.1</title>" in recorded.save(tmp_path / "run.html").read_text()
    lesson = Lesson("Look", title="Chains <1>", author="A. Lovelace", date="Nov 2026")
    page = recorded.save(tmp_path / "lesson.html", lesson=lesson).read_text()
    assert "<title>Chains &lt;1&gt;</title>" in page
    # What must not be read has no name either.
    assert torch.load_recording(recorded.save(tmp_path / "no.agv", source=False)).name == ""


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [("a" * 121, ValueError, "at most 120 characters, but has 121"), (3, TypeError, "is int")],
)
def test_what_is_no_name(name: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        torch.record(name=name)


def test_blocks_stay_reachable_after_the_next_one_began() -> None:
    first = run(name="relu")
    run(passes=2)
    assert listed() == [("relu", 1), ("", 2)]
    check_fields(RECORDS["State"], current().state(), "state")
    reply = asked(current().state()["runs"][0]["number"])
    assert reply["ok"]
    check_fields(RECORDS["Recording"], reply["result"], "recording")
    assert reply["result"]["batches"] == first.recording.record["batches"]
    # A block that goes on holds what was before it: one entry for both.
    run(fresh=False, name="and one more")
    assert listed() == [("relu", 1), ("and one more", 3)]
    # Nothing ran backward: there is nothing to look at.
    with torch.record():
        torch.ones(2)
    assert len(listed()) == 2
    handle(current(), {"id": 2, "command": "clear"}, lambda reply: None)
    assert listed() == []
    assert "not kept any more; kept are: none" in asked(1)["error"]


def test_the_oldest_runs_leave_when_the_room_is_used_up() -> None:
    recording = run().recording
    runs = Runs(limit=recording.weight * 2 + 1, most=20)
    for name in "abc":
        runs.add(recording.named(name))
    assert [(one["number"], one["name"]) for one in runs.listed] == [(2, "b"), (3, "c")]
    few = Runs(most=1)
    few.add(recording)
    few.add(recording)
    assert [one["number"] for one in few.listed] == [2]
    small = Runs(limit=recording.weight - 1)
    small.add(recording)
    assert small.listed == []


def test_a_named_block_within_a_recording_that_goes_on_is_kept_as_it_was() -> None:
    session = current()
    session.start()
    try:
        run()
        assert listed() == []
        run(name="second")
    finally:
        session.stop()
    assert listed() == [("second", 2)]


def test_a_lesson_says_calmly_what_it_is() -> None:
    given = torch.lesson("Is 2 < 3?", hide="export", predict=True, title="One", author="A. L.")
    assert repr(given) == "<lesson 'One', without export>"
    shown = given._repr_html_()
    assert "<b>One</b><br>Is 2 &lt; 3?<br><small>A. L.</small>" in shown
    assert "each gradient is guessed; without export" in shown
    assert given.json()["author"] == "A. L."
    assert "author=A.%20L." in given.fragment
    ended = torch.lesson()
    assert repr(ended) == "<no lesson: the Inspector is as usual>"
    assert "author" not in ended.json()
    with pytest.raises(ValueError, match="title has 121 characters"):
        torch.lesson(title="a" * 121)
