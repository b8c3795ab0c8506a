"""foreach: one pass over the parameters of a group gives what a step of each gives, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.optim import together
from ag_visual.optim.optimizer import Optimizer
from tests.oracle import torch
from tests.programs import raised

from .test_rules import NAMES, RULES

SHAPES = [(), (3,), (4, 5), (2, 3, 4), (40,), (0,), (7,), (6, 6)]


def _stepped(name: str, options: dict[str, Any], foreach: bool | None) -> list[Any]:
    """Parameters, versions and state after four steps; one parameter joins in later."""
    rng = numpy.random.default_rng(0)
    kinds = ["float32", "float64", "float32"]
    params = [
        ag.tensor(rng.normal(size=shape).astype(kinds[i % 3])).requires_grad_()
        for i, shape in enumerate(SHAPES * 2)
    ]
    params.append(ag.tensor(rng.normal(size=(5, 4)).astype("float32")).t().requires_grad_())
    optimizer = getattr(ag.optim, name)(params, foreach=foreach, **options)
    for step in range(4):
        for i, p in enumerate(params):
            kind = p.detach().numpy().dtype
            g = ag.tensor(rng.normal(size=tuple(p.shape)).astype(kind))
            p.grad = None if i == 1 and step < 2 else g
        optimizer.step()
    found: list[Any] = [(p.detach().numpy().tobytes(), p._version) for p in params]
    for p in params:
        state = optimizer.state.get(p, {})
        found.append({k: (v.numpy().tobytes(), v._version) for k, v in state.items()})
    return found


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of these tests are joined, go alone, and go by parts."""
    monkeypatch.setattr(together, "SMALL", 24)
    monkeypatch.setattr(together, "PART", 32)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("rule", RULES)
def test_one_pass_gives_what_the_loop_gives(rule: str) -> None:
    one_by_one = _stepped(*RULES[rule], False)
    assert _stepped(*RULES[rule], True) == one_by_one
    assert _stepped(*RULES[rule], None) == one_by_one


@pytest.mark.usefixtures("small_parts")
def test_parameters_on_one_memory_are_changed_one_after_the_other() -> None:
    found = []
    for foreach in (False, True):
        w = ag.ones(6)
        params = [w[:4].detach().requires_grad_(), w[2:].detach().requires_grad_()]
        for p in params:
            p.grad = ag.ones(4)
        ag.optim.Adam(params, lr=0.1, foreach=foreach).step()
        found.append(w.tolist())
    assert found[0] == found[1]
    assert found[0][2] < found[0][0], "both have moved what they share"


def test_a_programs_own_rule_sees_each_parameter_as_a_whole() -> None:
    class Normed(ag.optim.SGD):
        def update(self, F: Any, p: Any, g: Any, state: Any, group: Any, n: float) -> None:
            p -= group["lr"] * g / float(numpy.abs(g).max())

    params = [ag.zeros(2, requires_grad=True) for _ in range(2)]
    for i, p in enumerate(params):
        p.grad = ag.full((2,), 10.0**i)
    Normed(params, lr=1.0, momentum=0.9).step()
    assert Optimizer.elementwise is Normed.elementwise is False
    assert [p.tolist() for p in params] == [[-1.0, -1.0]] * 2


@pytest.mark.parametrize("name", NAMES)
def test_foreach_and_differentiable(name: str) -> None:
    def step(t: Any) -> None:
        p = t.ones(2, requires_grad=True)
        optimizer = getattr(t.optim, name)([p * 1], foreach=True, differentiable=True)
        optimizer.param_groups[0]["params"][0].grad = t.ones(2)
        optimizer.step()

    wanted, found = raised(lambda: step(torch)), raised(lambda: step(ag))
    assert found[0] == wanted[0]


@pytest.mark.parametrize("options", [{"lr": 0.1}, {"betas": (0.9, 0.99)}])
def test_tensors_as_options_of_foreach(options: dict[str, Any]) -> None:
    def make(t: Any) -> None:
        given: dict[str, Any] = {
            k: tuple(map(t.tensor, v)) if isinstance(v, tuple) else t.tensor(v)
            for k, v in options.items()
        }
        t.optim.Adam([t.ones(2, requires_grad=True)], foreach=True, **given)

    wanted, found = raised(lambda: make(torch)), raised(lambda: make(ag))
    assert found[0] == wanted[0] == "ValueError"
    assert found[1].startswith(wanted[1])


def test_momentum_of_a_parameter_without_dimensions_is_an_array() -> None:
    p = ag.tensor(1.0, requires_grad=True)
    p.grad = ag.tensor(2.0)
    optimizer = ag.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.5)
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].numpy().tolist() == 2.5
