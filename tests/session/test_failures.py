"""An error inside the observer ends the recording, not the program that it watches."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.session.session import current


@pytest.mark.parametrize("name", ["began", "ended"])
def test_the_watched_backward_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("planted")

    session = current()
    x = ag.tensor([2.0], requires_grad=True)
    with caplog.at_level(logging.CRITICAL), ag.record():
        monkeypatch.setattr(session.recorder, name, fail)
        (x * x).sum().backward()
        monkeypatch.undo()
    assert x.grad.tolist() == [4.0]
    assert not session.recorder.on
    assert "planted" in session.message
    session.clear()
    assert session.message == ""
