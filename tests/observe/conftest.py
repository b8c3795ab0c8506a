"""A recorder on the real engine, with the seam restored after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ag_visual.events import seam
from ag_visual.observe.record.recorder import Recorder

HOOKS = ("sink", "gate", "begin", "end", "problem")


@pytest.fixture(autouse=True)
def clean_seam() -> Iterator[None]:
    """No test leaves an observer behind (and none finds one)."""
    before = {name: getattr(seam, name) for name in HOOKS}
    yield
    left = {name: getattr(seam, name) for name in HOOKS if getattr(seam, name) != before[name]}
    for name in HOOKS:
        setattr(seam, name, before[name])
    assert not left


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """A recorder that hears of backwards, not started yet."""
    found = Recorder()

    def begin(task: Any) -> None:
        found.began(task, sys._getframe(1))

    monkeypatch.setattr(seam, "begin", begin)
    monkeypatch.setattr(seam, "end", found.ended)
    yield found
    found.stop()
