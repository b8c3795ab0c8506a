"""Built code: what it takes from the source of rules."""

from __future__ import annotations

import inspect
from typing import Any

import numpy
import pytest

from ag_visual.dispatch import rules
from ag_visual.dispatch.rules import Carried, asks, call_source, inlined, requests_of
from ag_visual.dispatch.table import ops


def _functions() -> list[Any]:
    found = [op.kernel for op in ops.values()]
    found += [rule.function for op in ops.values() for rule in op.rules]
    found += [rule.derivative for rule in found if isinstance(rule, Carried)]
    return list({id(f): f for f in found if hasattr(f, "inlined")}.values())


@pytest.mark.parametrize("function", _functions(), ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_an_inlined_function_is_one_return(function):
    passed = list(inspect.signature(function).parameters)
    assert "f(" not in call_source(function, "f", passed, scope := {}), "it stayed a call"
    assert "f" not in scope


def _sine(x: Any) -> Any:
    return numpy.sin(x)


@inlined
def _planted(F: Any, g: Any, self: Any) -> Any:
    return F.sin(g) if F.xp is None else _sine(g) * self


def test_an_expression_has_what_is_passed_in_place_of_parameters():
    text = call_source(_planted, "f", ["F", "g + 1", "x"], scope := {})
    assert text == "(f__sine(g + 1) * x)"
    assert scope == {"f__sine": _sine}


def test_without_its_own_source_a_function_stays_a_call(monkeypatch):
    changed = inspect.getsource(_planted).replace("* self", "/ self")
    monkeypatch.setattr(rules.inspect, "getsource", lambda function: changed)
    assert call_source(_planted, "f", ["F", "g", "x"], {}) == "f(F, g, x)"

    def missing(function):
        raise OSError

    monkeypatch.setattr(rules.inspect, "getsource", missing)
    assert call_source(_planted, "f", ["F", "g", "x"], scope := {}) == "f(F, g, x)"
    assert scope == {"f": _planted}


def test_requests_are_parameter_names_unless_said_apart():
    assert requests_of(lambda F, g, self: g) == ("F", "g", "self")
    assert requests_of(asks("g", "other")(lambda x, y: x)) == ("g", "other")
