"""Problem cards from real errors of the engine."""

from __future__ import annotations

import json
import warnings

import pytest

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.observe.diagnose.problems import op_word, problem
from ag_visual.observe.wire.check import check


@pytest.fixture
def told(monkeypatch):
    """What observers are told of problems, as cards."""
    cards = []

    def hear(error, fields):
        cards.append(problem(len(cards) + 1, fields, fields.get("text") or str(error)))

    monkeypatch.setattr(instrument, "problem", hear)
    return cards


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("MulBackward0", "mul"),
        ("LogSoftmaxBackward0", "log_softmax"),
        ("torch::autograd::AccumulateGrad", "accumulate_grad"),
        ("CopySlices", "copy_slices"),
        ("", "an op"),
    ],
)
def test_op_word(name, word):
    assert op_word(name) == word


def test_modified_output(told):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    out = x.exp()
    out += x
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward(ag.tensor([1.0, 1.0]))
    (card,) = told
    check("Problem", card, "problem")
    json.dumps(card, allow_nan=False)
    assert card["kind"] == "modified-by-inplace"
    assert card["title"] == "The output of exp was overwritten before backward could use it"
    assert card["detail"].startswith("out, float32 [2]. ExpBackward0")
    assert card["saved"]["site"]["text"] == "x.exp()"
    assert [w["site"]["text"] for w in card["writes"]] == ["out += x"]
    assert (card["version_then"], card["version_now"]) == (0, 1)
    assert card["repair"]["code"] == "out = out + x"
    assert card["where"]["source_line"].startswith("out.backward(")


def test_leaf(told):
    w = ag.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        w -= 0.1
    (card,) = told
    check("Problem", card, "problem")
    assert card["kind"] == "leaf-inplace"
    assert card["repair"]["code"] == "with ag.no_grad():\n    w -= 0.1"


def test_second_backward(told):
    x = ag.tensor([1.0], requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    (card,) = told
    check("Problem", card, "problem")
    assert card["kind"] == "second-backward"
    assert "MulBackward0 gave its saved tensors back" in card["detail"]
    assert "test_blame.py, line" in card["detail"]


def test_silent_write(told):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    out = x.exp()
    out.data.mul_(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.backward(ag.tensor([1.0, 1.0]))
    (card,) = told
    check("Problem", card, "problem")
    assert card["kind"] == "silent"
    assert "through .data" in card["title"]
    assert card["repair"]["code"] == "out.detach().mul_(0.0)"


def test_fields_of_an_unknown_kind_still_make_a_card():
    card = problem(3, {"kind": "new"}, "first line\nsecond line")
    check("Problem", card, "problem")
    assert (card["kind"], card["title"]) == ("other", "first line")
