"""Questions and handouts: what is said of an answer, what is refused, what a page is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.display.arithmetic import work

SLOPE: dict[str, Any] = dict(answer=6, replies={9: "its height"}, hint="2x", why="2 · 3")


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("6", 6.0),
        (" −2 ", -2.0),
        ("2*3", 6.0),
        ("2 × 3", 6.0),
        ("-2^2", -4.0),
        ("2²", 4.0),
        ("1/4", 0.25),
        ("0,5", 0.5),
        ("1e-3", 0.001),
        ("2(3)", None),
        ("sqrt(36)", 6.0),
        ("SIGMOID(0)", 0.5),
        ("relu(-1)+pi-π", 0.0),
        ("(1", None),
        ("True", None),
        ("'a'", None),
        ("[1]", None),
        ("1 if 1 else 2", None),
        ("().__class__", None),
        ("__import__('os').getcwd()", None),
        ("exp(1, 2)", None),
        ("1j", None),
        ("9^9^9", None),
        ("1/0", None),
        ("log(0)", None),
        ("1e999", None),
        ("", None),
        ("(" * 150, None),
        ("1+" * 150, None),
    ],
)
def test_an_answer_is_arithmetic_and_nothing_else(typed: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError) as refused:
            work(typed)
        assert str(refused.value).endswith(".")
        assert ag.Question("?", answer=6).check(typed).right is None
    else:
        assert work(typed) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("given", "right", "text"),
    [
        ("6", True, "2 · 3"),
        (6.05, True, "2 · 3"),
        (6.07, False, "Too large. 2x"),
        ("3*3", False, "its height"),
        (-6, False, "The size is right, the sign is not. 2x"),
        ("-1", False, "The sign is the other one. 2x"),
        ("1/6", False, "This is 1 divided by the answer. 2x"),
        (0, False, "Too small. 2x"),
    ],
)
def test_a_number_gets_a_reply_of_its_own(given: Any, right: bool, text: str) -> None:
    asked = ag.Question("The slope?", **SLOPE)
    assert asked.check(given) == (right, text)
    assert (asked.right, asked.tries) == (right, 1)


def test_zero_is_zero() -> None:
    asked = ag.Question("?", answer=0)
    assert asked.check("1e-7").right
    assert asked.check(0.001).text == "Too large."


def test_a_choice_is_one_of_those_that_stand_there() -> None:
    asked = ag.Question("Which?", choices=["up", "down"], answer="down", replies={"up": "no"})
    assert asked.check("sideways") == (None, "Choose one of the answers.")
    assert asked.tries == 0
    assert asked.check("up") == (False, "no")
    assert asked.check("down").right
    assert repr(asked) == "Question: Which?\n  - up\n  - down"
    assert asked.shown_answer == "The answer is down."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (dict(answer=float("nan")), "answer should be finite"),
        (dict(answer="six"), "'six' is not a number"),
        (dict(answer=6, replies={6.01: "x"}), "6.01 is the right answer"),
        (dict(answer="a", choices=["a"]), "at least two texts"),
        (dict(answer="a", choices=["a", "a"]), "all different"),
        (dict(answer="c", choices=["a", "b"]), "'c' is none of the choices"),
        (dict(answer="a", choices=["a", "b"], replies={"c": ""}), "replies: 'c' is none"),
        (dict(answer=6, within=1.5), "within should be from 0 to 1"),
        (dict(answer=6, hint="x" * 601), "hint: 601 characters"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as refused:
        ag.Question("?", **given)
    assert told in str(refused.value)


def test_the_page_hears_what_the_kernel_says() -> None:
    pytest.importorskip("anywidget")
    asked = ag.Question("The slope?", **SLOPE)
    data, _ = asked._repr_mimebundle_()
    assert data["text/plain"] == "Question: The slope?"
    assert "application/vnd.jupyter.widget-view+json" in data
    widget = asked._widget
    # Nothing that a page is sent before an answer came holds the right one.
    assert "answer" not in widget.get_state()
    for message, verdict, reply in [
        ({"check": "3*3"}, "wrong", "its height"),
        ({"check": "("}, "unclear", "not understood"),
        ({"show": "("}, "shown", "The answer is 6. 2 · 3"),
        ({"check": "6"}, "right", "2 · 3"),
    ]:
        before = widget.replies
        widget._handle_custom_msg(message, [])
        assert widget.verdict == verdict
        assert reply in widget.reply
        assert widget.replies == before + 1
    for message in ({"check": 6}, {"other": "6"}, "6", None):
        widget._handle_custom_msg(message, [])
    assert widget.replies == before + 1


def test_a_handout_is_one_page_and_a_link_for_each_lesson(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.chdir(tmp_path)
    first = ag.lesson("Look at `x`", hide=["search"])
    second = ag.lesson("Play", step=1)
    ag.lesson()
    x = ag.tensor(3.0, requires_grad=True)
    with ag.record() as recorded:
        (x * x).backward()
    page = ag.Handout("square.html", recorded, first, second)
    assert page.links == [
        "square.html#lesson=Look%20at%20%60x%60&hide=search",
        "square.html#lesson=Play&step=1",
    ]
    assert '"lesson":{"text":"Look at `x`"' in (tmp_path / "square.html").read_text()
    data, _ = page._repr_mimebundle_()
    assert data["text/plain"].splitlines()[:2] == ["Look at `x`", f"  {page.links[0]}"]
    assert page._widget.links == page.links
    with pytest.raises(ValueError, match=r"should end in \.html"):
        ag.Handout("square.agv", recorded, first)
    with pytest.raises(ValueError, match="needs one lesson or more"):
        ag.Handout("square.html", recorded)
