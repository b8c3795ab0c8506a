"""Lessons: what a teacher can set, how it is written in an address, where it travels."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs

from ag_visual.observe.record.lesson import Lesson
from ag_visual.observe.wire.check import check_fields
from ag_visual.observe.wire.records import RECORDS

CHECKOUT = Path(__file__).parents[2]


def test_a_fragment_says_what_was_set_and_nothing_else() -> None:
    assert Lesson("Go").fragment == "#lesson=Go"
    lesson = Lesson(
        "Why ∂L/∂w & b?",
        hide=("search", "export"),
        node="W1",
        step=3,
        predict=True,
        scalars=True,
        speed=0.5,
        direction="back",
    )
    assert parse_qs(lesson.fragment.removeprefix("#")) == {
        "lesson": ["Why ∂L/∂w & b?"],
        "hide": ["search,export"],
        "node": ["W1"],
        "step": ["3"],
        "predict": ["on"],
        "scalars": ["on"],
        "speed": ["0.5"],
        "direction": ["back"],
    }
    check_fields(RECORDS["Lesson"], lesson.json(), "lesson")
