"""Under autocast layers and losses take the built path, in 16 bits and with mixed dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.dispatch import entry, interpreted

nn, F = ag.nn, ag.nn.functional


def _network() -> Callable[[], Any]:
    layers = (nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU())
    model, x = nn.Sequential(*layers, nn.Linear(8, 3)), ag.randn(4, 8)
    return lambda: F.cross_entropy(model(x) * 0.5 + 0.1, ag.tensor([0, 1, 2, 0]))


def _convolutions() -> Callable[[], Any]:
    layers = (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), nn.MaxPool2d(2))
    model, x = nn.Sequential(*layers, nn.Flatten(), nn.Sigmoid()), ag.randn(2, 2, 6, 6)
    return lambda: model(x).float().pow(2).mean()


@pytest.mark.parametrize("make", [_network, _convolutions])
@pytest.mark.parametrize("kind", [ag.bfloat16, ag.float16])
def test_no_call_is_interpreted(
    make: Callable[[], Callable[[], Any]], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = make()
    slow: list[str] = []

    def watched(op: Any, args: list[Any]) -> Any:
        slow.append(op.name)
        return interpreted.run(op, args)

    monkeypatch.setattr(entry, "run", watched)
    with ag.autocast("cpu", dtype=kind):
        loss = step()
    loss.backward()
    assert slow == []
    with ag.autograd.set_detect_anomaly(True), ag.autocast("cpu", dtype=kind):
        assert step().item() == loss.item()
    assert slow  # there every call is
