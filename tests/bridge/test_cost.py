"""What watching costs, counted in calls: nothing that can wait is done while a backward runs."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.bridge import arrays, arrival
from ag_visual.bridge.node import TorchNode
from ag_visual.bridge.releases import TELLS
from ag_visual.engine.norms import norm2
from ag_visual.events import live
from ag_visual.session.session import current

from ..oracle import torch
from ..work import counted
from .test_record import rows


def _calls(length: int) -> int:
    """Calls of a watched backward of a chain, those of encoding left out."""
    x, y, one = torch.ones(4, requires_grad=True), torch.ones(4), torch.ones(4)
    h = x
    for _ in range(length):
        h = h * y
    return counted(lambda: h.backward(one))[1]


def test_calls_for_each_node_of_a_recorded_backward() -> None:
    with ag.watch(torch):
        _calls(10)
        current().recorder.reads.spend(1e12)  # what findings read is bounded in time, not in calls
        each = (_calls(110) - _calls(10)) / 100
    # It was 76 with a hook after each node, too, and records made at once.
    assert each < (35 if TELLS else 45)


def test_records_of_nodes_wait_until_somebody_takes_them() -> None:
    with ag.watch(torch) as watched:
        _calls(20)
        recorder = current().recorder
        assert len(recorder._log.late) == 21
        assert recorder.waiting >= 42
        recorder.drain()
        assert recorder.waiting == 0
        found = watched.recording
    assert len(rows(found, "nodes")) == 20
    assert len(rows(found, "runs")) == 21


def test_runs_follow_each_other_and_a_failing_node_has_none() -> None:
    with ag.watch(torch) as watched:
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        z = y * 2
        loss = z.sum()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()
        first = rows(watched.recording, "runs")
        (x * 2).sum().backward()
        later = rows(watched.recording, "runs")[len(first) :]
    assert len(first) == 2  # SumBackward0, MulBackward0
    assert len(later) == 3
    for before, after in itertools.pairwise(later):
        assert before["t0"] <= before["t1"] <= after["t0"]


def test_an_error_of_a_hook_leaves_the_run_before_it() -> None:
    def raising(g: object) -> None:
        raise ValueError("mine")

    with ag.watch(torch) as watched:
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        y.register_hook(raising)
        with pytest.raises(ValueError, match="mine"):
            (y * y).sum().backward()
        runs = rows(watched.recording, "runs")
    assert len(runs) == 2  # SumBackward0, MulBackward0


def test_a_transposed_gradient_is_measured_where_it_lies() -> None:
    array = np.ones((300, 400), dtype=np.float32).T
    tracemalloc.start()
    try:
        assert norm2(array) == 120_000
        assert tracemalloc.get_traced_memory()[1] < array.nbytes / 2
    finally:
        tracemalloc.stop()


def test_a_gradient_that_is_only_given_on_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[object] = []

    def figure(gradient: Any) -> Any:
        measured.append(gradient)
        return arrays.figure(gradient)

    monkeypatch.setattr(arrival, "figure", figure)
    with ag.watch(torch) as watched:
        weight = torch.ones(20, 30, requires_grad=True)
        (weight.t().reshape(600) + 0).cos().sum().backward()
        once = len(measured)
        weight.register_hook(lambda g: g.mul_(2))
        (weight.t().reshape(600) + 0).cos().sum().backward()
        runs = rows(watched.recording, "runs")
    # SumBackward0, CosBackward0, what goes on from AddBackward0 to the weight but for the reshape
    first, second = runs[: len(runs) // 2], runs[len(runs) // 2 :]
    norms = [run["norm"] for run in first]
    total = 600**0.5 * np.sin(1)
    assert norms[2:] == pytest.approx([total] * len(norms[2:]))
    assert once < len(first), "views of what arrived"
    assert [run["norm"] for run in second][:-1] == norms[:-1]
    assert second[-1]["norm"] == pytest.approx(2 * total), "a hook has written to it"


def test_a_loss_is_asked_for_in_the_place_of_the_nodes_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    saved_arrays = TorchNode.saved_arrays
    monkeypatch.setattr(
        TorchNode, "saved_arrays", lambda n, most: read.append(n.name()) or saved_arrays(n, most)
    )
    x, y = torch.ones(4, requires_grad=True), torch.ones(4)
    with ag.watch(torch):
        (x * y * 2).sum().backward()
        assert read == []
        current().recorder.reads.once_more()  # a busy machine may have used it up
        (x * float("inf") * y).sum().backward()
        assert read


def test_what_is_asked_for_and_not_run_is_no_run() -> None:
    with ag.watch(torch) as watched:
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        z = y * y
        loss = z.sum()
        torch.autograd.grad(loss, [y], retain_graph=True)
        assert len(rows(watched.recording, "runs")) == 2  # SumBackward0, MulBackward0
        torch.autograd.grad(loss, [y, x], retain_graph=True)
        assert len(rows(watched.recording, "runs")) == 5  # and ExpBackward0
        loss.backward(inputs=[y], retain_graph=True)
        runs = rows(watched.recording, "runs")
        assert len(runs) == 8  # a backward runs those that it is asked for, too
        assert [run["order"] for run in runs] == [0, 1, 0, 1, 2, 0, 1, 2]
        loss.backward()
    assert len(rows(watched.recording, "runs")) == 12


def test_runs_go_on_after_a_backward_of_the_same_graph_inside() -> None:
    with ag.watch(torch) as watched:
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        z = y * 3
        loss = z.sum()
        inside: list[object] = []

        def once(g: object) -> None:
            if not inside:
                inside.append(g)
                torch.autograd.grad(loss, [x], retain_graph=True)

        z.register_hook(once)
        loss.backward(retain_graph=True)
        tasks = [int(run["task"]) for run in rows(watched.recording, "runs")]
    assert (tasks.count(min(tasks)), tasks.count(max(tasks))) == (4, 3)


def test_what_is_saved_is_read_without_unpacking() -> None:
    unpacked: list[int] = []

    def unpack(kept: object) -> object:
        unpacked.append(1)
        return kept

    with ag.watch(torch) as watched:
        x = torch.ones(2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            packed = x.exp()
        later = x.exp()
        later.grad_fn._raw_saved_result.register_hooks(lambda t: t, unpack)
        plain = x.exp()
        names = [
            [f.kind for f in live.engines[0].node_of(t).saved_fields()] for t in (packed, later)
        ]
        assert names == [["packed"], ["packed"]]
        assert len(watched.recording.tables["saved"]["name"]) == 1
        assert not unpacked
        (packed + later + plain).sum().backward()
        assert len(unpacked) == 2
    assert "register_hooks" in vars(torch._C._autograd.SavedTensor)
    assert torch._C._autograd.SavedTensor.register_hooks.__class__.__name__ == "instancemethod"
