"""Built code: what it takes from the source of rules, and what its tracebacks show."""

from __future__ import annotations

import functools
import inspect
import linecache
import subprocess
import sys
import traceback
import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.dispatch import rules
from ag_visual.dispatch.rules import Carried, call_source, inlined, requesting, requests_of
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
    assert requests_of(requesting("g", "other")(lambda x, y: x)) == ("g", "other")


def test_requests_of_a_method_or_a_wrapped_rule_are_those_of_its_signature():
    def rule(F, g, *, dim):
        twice = g * 2  # a local name is no request
        return twice - g

    class Held:
        def rule(self, F, g):
            return g

    @functools.wraps(rule)
    def wrapping(*args, **kwargs):
        return rule(*args, **kwargs)

    assert requests_of(rule) == requests_of(wrapping) == ("F", "g", "dim")
    assert requests_of(Held().rule) == ("F", "g")
    assert requests_of(functools.partial(rule, None)) == ("g", "dim")
    assert requests_of(lambda *args: args) == ("args",)


_CALLS = {
    "mm": lambda a: a.mm(a),
    "@": lambda a: a @ a,
    "add": lambda a: a + ag.ones(5),
    "sum": lambda a: a.sum(dim=7),
    "exp_": lambda a: a[0].expand(2, 3).exp_(),
    "missing": lambda a: ag.atan2(a),
}


def _frames(call: Any) -> list[tuple[str, str]]:
    with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
        call(ag.ones(2, 3))
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return [(f.name, f.line) for f in traceback.extract_tb(caught.value.__traceback__)[2:]]


def _compare_first_calls() -> None:
    """In a process in which nothing was called yet."""
    for name, call in _CALLS.items():
        built = {file for file in linecache.cache if "<built" in file}
        first, later = _frames(call), _frames(call)
        assert {file for file in linecache.cache if "<built" in file} > built, name
        assert first == later, (name, first, later)
        assert not any("stub" in frame[0] for frame in first), (name, first)


def test_an_error_of_a_first_call_has_the_frames_of_a_later_one():
    code = "from tests.ops.test_built import _compare_first_calls as run; run()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_built_function_has_a_file_of_its_own():
    ag.ones(2, 2).mm(ag.ones(2, 2))
    _ = ag.ones(2, 2) @ ag.ones(2, 2)
    names = {f.__code__.co_filename for f in (ag.mm, ag.Tensor.__matmul__)}
    assert len(names) == 2
    assert all("".join(linecache.getlines(name)).startswith("def mm(") for name in names)


@pytest.mark.parametrize("how", ["raise", "warn"])
def test_in_place_ops_write_once_where_floating_point_errors_are_raised(how: str) -> None:
    large = ag.tensor([3e38, 1.0])
    with numpy.errstate(all=how), warnings.catch_warnings():
        warnings.simplefilter("error")
        x = large.clone()
        assert (x.add_(large).tolist(), x._version) == ([numpy.inf, 2], 1)
        x = large.clone()
        assert (x.add_(large, alpha=1e30)[0].item(), x._version) == (numpy.inf, 1)
        x = ag.ones(100_000)
        assert (x[::2].div_(ag.zeros(50_000)).isinf().all(), x._version) == (True, 1)
    x = ag.ones(3)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.sub_(ag.ones(2, 3))
    assert (x.tolist(), x._version) == ([1, 1, 1], 0)
