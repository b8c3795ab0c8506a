"""What is told of how an expression reads: what it calls, on what, and who gets its result."""

from __future__ import annotations

import pytest

import ag_visual as torch
from ag_visual.core import source
from ag_visual.observe.formulas.cards import card
from ag_visual.observe.wire.batch import site_json, without_source
from ag_visual.observe.wire.written import LONGEST, MOST, written


def read(text, line=""):
    found = written(text, line)
    return found and (found["how"], found["call"], found["on"], found["args"], found["target"])


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        (
            "torch.sin(x) * x",
            "y = torch.sin(x) * x",
            ("operator", "mul", "", ["torch.sin(x)", "x"], "y"),
        ),
        ("torch.sin(x)", "y = torch.sin(x) * x", ("call", "sin", "torch", ["x"], "")),
        ("h.sum(0)", "loss: T = h.sum(0)  # all", ("call", "sum", "h", ["0"], "loss")),
        ("x += a @ b", "x += a @ b", ("operator", "add", "", ["x", "a @ b"], "x")),
        ("-x", "z = (-x)", ("operator", "neg", "", ["x"], "z")),
        ("w.T", "y = x @ w.T", ("attribute", "T", "w", [], "")),
        ("x[0, :]", "q = x[0, :]", ("operator", "getitem", "", ["x", "0, :"], "q")),
        ("f(\n  a,\n  b)", "f(", ("call", "f", "", ["a", "b"], "")),
        ("f(*both)", "", ("call", "f", "", [], "")),
        ("a, b = f(x)", "a, b = f(x)", None),
        ("x", "y = x", None),
        ("if x:", "if x:", None),
        ("", "", None),
    ],
)
def test_an_expression_is_read_as_it_stands(text, line, wanted):
    assert read(text, line) == wanted


def test_named_arguments_are_told_and_long_ones_left_out():
    found = written("x.sum(dim=0, keepdim=k)", "")
    assert found["named"] == [{"name": "dim", "text": "0"}, {"name": "keepdim", "text": "k"}]
    assert len(written(f"f({', '.join('abcdefghijkl')})", "")["args"]) == MOST
    assert written(f"f({'x' * LONGEST})", "") is None


def test_a_place_says_how_it_reads_unless_source_is_left_out():
    x = torch.tensor(2.0, requires_grad=True)
    y = x.sin() * x
    site = site_json(source.resolve(*y.grad_fn.call_site))
    assert site["written"]["args"] == ["x.sin()", "x"]
    assert site["written"]["target"] == "y"
    assert without_source({"written": {"args": ["x"]}, "source_line": "x", "file": "f"}) == {
        "written": None,
        "source_line": "",
        "text": "",
        "file": "f",
    }


def test_a_number_that_an_argument_makes_is_said_by_its_name():
    x = torch.tensor(2.0, requires_grad=True)
    (one,) = card((x**2).grad_fn)["derivatives"]
    assert one["text"].endswith("= grad · exponent · self^(exponent − 1)")
