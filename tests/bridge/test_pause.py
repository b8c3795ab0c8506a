"""A backward of the real torch stops, is stepped through, and goes on with other gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.session.session import current

from ..oracle import torch


def asked(*answers: str) -> Callable[[str], str]:
    given = iter(answers)
    return lambda prompt: next(given)


def test_an_edited_gradient_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with ag.watch(torch), ag.debugger("MulBackward0", ask=asked("p", "scale 10", "c")):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]
    said = capsys.readouterr().out
    assert "step 2 of 3: MulBackward0, test_pause.py, line" in said
    assert "2 float32, from 1 to 1" in said


def test_steps_conditions_and_saved_values() -> None:
    stops: list[tuple[str, Any]] = []

    def answer(prompt: str) -> str:
        paused = current().gate.paused
        assert paused is not None
        node = paused.node
        stops.append((node.name().rpartition("::")[2], node.saved_array("result")))
        return "n"

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with ag.watch(torch):
        y = x.exp()
        with ag.debugger(y, ask=answer):
            (y * 100).sum().backward()
        assert [name for name, _ in stops] == ["ExpBackward0", "AccumulateGrad"]
        assert stops[0][1].tolist() == y.tolist()
        stops.clear()
        with ag.debugger(norm_above=100.0, ask=lambda prompt: answer(prompt) and "c"):
            (x * 100).sum().backward()
        assert [name for name, _ in stops] == ["AccumulateGrad"]


def test_an_interrupt_ends_the_pause() -> None:
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    x = torch.ones(2, requires_grad=True)
    with ag.watch(torch), ag.debugger("MulBackward0", ask=interrupt):
        with pytest.raises(KeyboardInterrupt):
            (x * 2).sum().backward()
        assert x.grad is None
        assert current().gate.paused is None


def test_a_written_saved_tensor_is_told_before_its_node_runs() -> None:
    told: list[str] = []

    def answer(prompt: str) -> str:
        paused = current().gate.paused
        assert paused is not None
        told.append(paused.problem)
        return "c"

    with ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        y.add_(1)
        with (
            ag.debugger("ExpBackward0", ask=answer),
            pytest.raises(RuntimeError, match="modified by an inplace"),
        ):
            y.sum().backward()
    assert told == [
        "Its saved tensor result was overwritten: saved at version 0, now at version 1."
    ]


def test_what_has_run_is_told_where_a_backward_stops() -> None:
    told: list[tuple[int, int]] = []

    def answer(prompt: str) -> str:
        session = current()
        session.recorder.drain()
        paused = session.gate.paused
        assert paused is not None
        runs = sum(chunk.rows("runs") for chunk in session.recorder.store.all())
        told.append((paused.order, runs))
        return "n"

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with ag.watch(torch):
        y = x.exp()
        with ag.debugger(y, ask=answer):
            (y * 100).sum().backward()
        # The sum and the product; then the exponential, too.
        assert told == [(2, 2), (3, 3)]
        current().recorder.drain()
        assert sum(chunk.rows("runs") for chunk in current().recorder.store.all()) == 4
