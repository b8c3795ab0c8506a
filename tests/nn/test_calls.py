"""Every module tells an observer when its forward begins and ends, also when called indirectly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.events.log import RANGE, EventLog

from .cases import CASES, Case, label
from .test_modules import _built, _inputs


def _calls(run: Callable[[], Any]) -> list[tuple[str, str, int]]:
    """(name, class, depth) of each module call of a run, each of which ended."""
    log = EventLog()
    previous, instrument.sink = instrument.sink, log
    try:
        run()
    except ZeroDivisionError:
        pass
    finally:
        instrument.sink = previous
    found, open_ = [], []
    for kind, _, _, number, parent, *told in (e for e in log.events if e[0] == RANGE):
        assert kind == RANGE
        if parent == -1:
            assert open_.pop() == number
            continue
        assert parent == (open_[-1] if open_ else 0)
        name, cls, _ = told
        found.append((name, cls, len(open_)))
        open_.append(number)
    assert not open_
    return found


@pytest.mark.parametrize("case", CASES, ids=label)
def test_every_module_is_seen(case: Case) -> None:
    module, inputs = _built(ag, case).eval(), _inputs(ag, case)
    call = {k: v(ag) if callable(v) else v for k, v in case.call.items()}
    first, *inside = _calls(lambda: module(*inputs, **call))
    assert first == (type(module).__name__, type(module).__name__, 0)
    paths = [f".{path}" for path, _ in module.named_modules()]
    assert all(any(p.endswith(f".{name}") for p in paths) for name, _, _ in inside)


def test_names_below_containers() -> None:
    class Net(ag.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = ag.nn.ModuleList([ag.nn.Linear(2, 2) for _ in range(2)])
            self.heads = ag.nn.ModuleDict({"a": ag.nn.Sequential(ag.nn.Tanh(), ag.nn.ReLU())})

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.heads["a"](x)

    net = Net()
    net.layers[1].register_forward_hook(lambda *args: None)
    assert _calls(lambda: net(ag.ones(2))) == [
        ("Net", "Net", 0),
        ("layers.0", "Linear", 1),
        ("layers.1", "Linear", 1),
        ("heads.a", "Sequential", 1),
        ("0", "Tanh", 2),
        ("1", "ReLU", 2),
    ]


def test_a_forward_that_raises_ends_its_call() -> None:
    class Failing(ag.nn.Module):
        def forward(self, x: Any) -> Any:
            return x / 0

    net = ag.nn.Sequential(ag.nn.Identity(), Failing())
    assert [name for name, _, _ in _calls(lambda: net(1))] == ["Sequential", "0", "1"]
