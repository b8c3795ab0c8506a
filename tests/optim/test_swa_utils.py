"""Averaged models, the statistics of their batch norms, and SWALR against torch's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.programs import agree


def _swa(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.optim.swa_utils")


def _model(t: Any) -> Any:
    model = t.nn.Linear(2, 3).double()
    with t.no_grad():
        model.weight.copy_(t.arange(6.0).reshape(3, 2))
        model.bias.copy_(t.arange(3.0))
    return model


@pytest.mark.parametrize("kind", ["mean", "ema", "function"])
def test_averages(kind: str) -> None:
    def program(t: Any) -> Any:
        swa = _swa(t)
        rule = {
            "mean": None,
            "ema": swa.get_ema_avg_fn(0.9),
            "function": lambda average, value, n: average * 0.5 + value / (n + 2),
        }[kind]
        model = _model(t)
        averaged = swa.AveragedModel(model, avg_fn=rule)
        optimizer = t.optim.SGD(model.parameters(), lr=0.05)
        x = t.ones(4, 2, dtype=t.float64)
        for _ in range(21):
            optimizer.zero_grad()
            model(x).pow(2).sum().sqrt().backward()
            optimizer.step()
            averaged.update_parameters(model)
        state = averaged.state_dict()
        return [averaged(x), list(state), *state.values()]

    agree(program)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 6])
def test_rates(strategy: str, epochs: int) -> None:
    def program(t: Any) -> Any:
        model = _model(t)
        optimizer = t.optim.SGD(model.parameters(), lr=0.5)
        scheduler = _swa(t).SWALR(optimizer, 0.05, epochs, strategy)
        seen = []
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            seen.append(scheduler.get_last_lr())
        return seen

    agree(program)
