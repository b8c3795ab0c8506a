"""Usual programs meet built code at levels, and ops ask for levels only while there are any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.core import modes
from ag_visual.dispatch import entry, levels

W, B = ag.ones((3, 2)), ag.ones(2)


def net(x: Any) -> Any:
    return ag.tanh(x @ W + B).sum() * 2


CALLS: dict[str, Callable[[Any], Any]] = {
    "grad": ag.func.grad(net),
    "jvp": lambda x: ag.func.jvp(net, (x,), (x,)),
    "jvp of jvp": lambda x: ag.func.jvp(lambda y: ag.func.jvp(net, (y,), (x,))[1], (x,), (x,)),
    "jvp of grad": lambda x: ag.func.jvp(ag.func.grad(net), (x,), (x,)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_op_of_a_small_net_is_interpreted(
    call: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreted: list[str] = []

    def at_level(op: Any, args: list[Any]) -> Any:
        interpreted.append(op.name)
        return levels.at_level(op, args)

    monkeypatch.setattr(entry, "at_level", at_level)
    call(ag.ones(3))
    assert interpreted == []


LEFT = {**CALLS, "linearize": lambda x: ag.func.linearize(net, x)}


@pytest.mark.parametrize("call", LEFT.values(), ids=LEFT)
def test_nothing_of_a_level_is_left(call: Callable[[Any], Any]) -> None:
    before = modes.levelled
    kept = call(ag.ones(3))
    assert modes.levelled == before
    assert kept is not None


def test_a_level_is_there_as_long_as_a_tensor_of_it() -> None:
    before = modes.levelled
    kept: list[Any] = []
    ag.func.grad(lambda x: (kept.append(x), x.sum())[1])(ag.ones(3))
    assert modes.levelled == before + 1
    assert (kept[0] * 2).tolist() == [2, 2, 2]
    kept.clear()
    assert modes.levelled == before
