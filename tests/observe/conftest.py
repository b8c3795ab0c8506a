"""A recorder on the real engine, with the instrumentation hooks restored after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ag_visual.events import instrument
from ag_visual.observe.record.recorder import Recorder

HOOKS = ("sink", "gate", "begin", "end", "problem", "losing_tangents", "jacobian")


@pytest.fixture(autouse=True)
def clean_hooks() -> Iterator[None]:
    """No test leaves an observer behind (and none finds one)."""
    before = {name: getattr(instrument, name) for name in HOOKS}
    yield
    left = [name for name in HOOKS if getattr(instrument, name) != before[name]]
    for name in HOOKS:
        setattr(instrument, name, before[name])
    assert not left


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """A recorder that hears of backwards, not started yet."""
    found = Recorder()

    def begin(task: Any) -> None:
        found.began(task, sys._getframe(1))

    monkeypatch.setattr(instrument, "begin", begin)
    monkeypatch.setattr(instrument, "end", found.ended)
    yield found
    found.stop()
