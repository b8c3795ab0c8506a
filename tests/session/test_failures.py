"""An error inside the observer ends the recording, not the program that it watches."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.session.session import current


def test_an_output_that_cannot_be_told_is_left_behind_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Output:
        def __init__(self, broken: bool) -> None:
            self.broken = broken
            self.told = 0

        def began(self, task: Any) -> None:
            self.told += 1
            if self.broken:
                raise OSError("its comm is closed")

    session = current()
    outputs = [Output(broken) for broken in (True, False, True, False)]
    session.followers.update(outputs)
    x = ag.tensor([2.0], requires_grad=True)
    try:
        with caplog.at_level(logging.CRITICAL), ag.record() as recorded:
            (x * x).sum().backward()
            assert session.recorder.on
            (x * x).sum().backward()
        assert recorded.recording.rows("tasks") == 2
        assert [output.told for output in outputs] == [1, 2, 1, 2]
        assert [output in session.followers for output in outputs] == [False, True, False, True]
        assert session.message == ""
    finally:
        session.followers.difference_update(outputs)
        session.clear()


@pytest.mark.parametrize("name", ["began", "ended"])
def test_the_watched_backward_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("injected")

    session = current()
    x = ag.tensor([2.0], requires_grad=True)
    with caplog.at_level(logging.CRITICAL), ag.record():
        monkeypatch.setattr(session.recorder, name, fail)
        (x * x).sum().backward()
        monkeypatch.undo()
    assert x.grad.tolist() == [4.0]
    assert not session.recorder.on
    assert "injected" in session.message
    session.clear()
    assert session.message == ""
