"""The numbers that a backward takes down, read by other threads while it runs."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.observe.record.allowance import Allowance
from ag_visual.observe.record.scalars import ScalarLog
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


@pytest.mark.parametrize("scope", ["every", "newest"])
def test_a_watched_backward_keeps_the_numbers_of_a_small_graph(scope: str) -> None:
    session = current()
    page = session.open_page("reader", lambda message, buffers: None)
    try:
        if scope == "every":
            session.start("every", 1)
        else:
            session.watch_newest(True)
            session.recorder.allowance = Allowance(seconds=60.0)
        session.numbers.allowance = Allowance(seconds=60.0)
        x = ag.tensor([2.0, 3.0], requires_grad=True)
        y = (x * x).sum()
        seqs = sorted([y.grad_fn.seq, y.grad_fn.next_functions[0][0].seq])
        y.backward()
        del y
        nodes = session.numbers.graph(seqs, session.recorder, [])["nodes"]
        assert [one["inputs"][0]["slopes"] for one in nodes] == [[2.0, 0.0, 0.0, 3.0], [1.0, 1.0]]
        assert nodes[0]["outputs"][0] == {
            "shape": [2],
            "values": [4.0, 9.0],
            "gradient": [1.0, 1.0],
        }

        # A long training is not held up: what may be spent is bounded.
        session.numbers.allowance = Allowance(seconds=0.0)
        known = set(session.numbers.found)
        (x * x).sum().backward()
        assert set(session.numbers.found) == known
    finally:
        session.stop()
        session.watch_newest(False)
        session.close_page(page)
        session.recorder.allowance = Allowance()
        session.numbers = ScalarLog()
        session.clear()


def test_without_a_panel_nothing_is_run_to_look() -> None:
    session = current()
    try:
        with ag.record():
            (ag.tensor([2.0], requires_grad=True) ** 2).sum().backward()
        assert session.numbers.found == {}
    finally:
        session.clear()
