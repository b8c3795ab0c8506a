"""The numbers that a backward takes down, read by other threads while it runs."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.session.commands import handle
from ag_visual.session.session import current

from .waiting import PATIENCE, until


def test_a_record_that_somebody_holds_is_not_written_to_when_gradients_arrive() -> None:
    log = current().numbers
    held: dict[int, Any] = {}
    before: dict[int, Any] = {}
    x = ag.tensor([3.0], requires_grad=True)
    y = x * x

    def look(g: Any) -> None:
        held.update(log.found)
        before.update(copy.deepcopy(held))

    y.register_hook(look)
    seq = y.grad_fn.seq
    try:
        with ag.record(scalars=True):
            y.sum().backward()
        assert held == before
        assert held[seq]["outputs"][0]["gradient"] is None
        assert log.found[seq]["outputs"][0]["gradient"] == [1.0]
        assert log.found[seq]["inputs"][0]["gives"] == [3.0]
    finally:
        current().clear()


@pytest.mark.parametrize("command", ["local", "scalars"])
def test_an_answer_at_a_pause_leaves_the_backwards_own_record(command: str) -> None:
    session = current()
    gate, log = session.gate, session.numbers
    x = ag.tensor([3.0], requires_grad=True)
    y = x * x
    seq = y.grad_fn.seq
    gate.add(seq=seq)
    replies: list[Any] = []

    def run() -> None:
        with ag.record(scalars=True):
            y.sum().backward()

    backward = threading.Thread(target=run, daemon=True)
    backward.start()
    try:
        until(lambda: gate.paused is not None)
        for name, more in (
            ("edit", {"how": "scale", "value": 10.0}),
            (command, {"seq": seq} if command == "local" else {"seqs": [seq]}),
        ):
            count = len(replies)
            handle(session, {"id": name, "command": name, **more}, replies.append)
            until(lambda count=count: len(replies) > count)
        assert all(reply["ok"] for reply in replies), replies
        result = replies[-1]["result"]
        told = result if command == "local" else result["nodes"][0]
        assert told["outputs"][0]["gradient"] == [10.0]
        assert log.found[seq]["outputs"][0]["gradient"] == [1.0]
    finally:
        gate.breakpoints_off()
        gate.go_on()
        backward.join(PATIENCE)
        found = log.found.get(seq)
        session.clear()
    assert found["outputs"][0]["gradient"] == [10.0], "what it went on with"
    assert x.grad.tolist() == [60.0]
