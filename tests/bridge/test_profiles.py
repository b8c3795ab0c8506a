"""A profile of torch's own profiler, taken while torch is watched: what the Time view is told."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.profiler.live import MOST
from ag_visual.session.session import current

from ..oracle import torch


class Told:
    """The newest profile, as the page gets it."""

    def __init__(self) -> None:
        live = current().profile
        assert live is not None
        piece = live.piece(0)
        count, raw = piece["count"], base64.b64decode(piece["rows"])
        self.piece = piece
        self.start = live.start
        self.begins, self.ends, self.seqs = numpy.frombuffer(raw[: 24 * count]).reshape(3, count)
        labels, self.tracks, facts = numpy.frombuffer(raw[24 * count :], "<i4").reshape(3, count)
        self.labels = [tuple(piece["labels"][str(i)]) for i in labels]
        self.inputs = [piece["facts"][str(i)]["inputs"] for i in facts]

    def rows(self, name: str) -> list[int]:
        return [i for i, (known, _) in enumerate(self.labels) if known == name]


@pytest.fixture
def watched() -> Iterator[Any]:
    with ag.watch(torch) as watch:
        yield watch


def profile(**options: Any) -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def number(tensor: Any) -> int:
    from ag_visual.events.live import engine_of

    found: int = engine_of(tensor).node_of(tensor).seq
    return found


@pytest.mark.oracle
def test_ops_and_nodes_have_the_numbers_of_the_graph(watched: Any) -> None:
    w = torch.ones(4, 4, requires_grad=True)
    before = time.perf_counter_ns()
    with profile(record_shapes=True) as taken:
        with torch.profiler.record_function("mine"):
            made_no_node = torch.ones(2) + 1
            y = w.mm(w)
            loss = y.sum()
        loss.backward()
    after = time.perf_counter_ns()
    told = Told()
    assert told.piece["done"]
    assert before <= told.start <= after
    assert (told.begins >= 0).all()
    assert (told.begins <= told.ends).all()
    assert (told.ends <= after - told.start).all()
    (mine,) = told.rows("mine")
    mm = next(i for i in told.rows("aten::mm") if told.seqs[i] >= 0)
    assert told.begins[mine] <= told.begins[mm] <= told.ends[mm] <= told.ends[mine]
    assert told.seqs[mm] == number(y)
    assert told.inputs[mm] == "float [4,4], float [4,4]"
    assert [told.seqs[i] for i in told.rows("aten::add")] == [-1], made_no_node
    assert told.seqs[told.rows("MmBackward0")[0]] == number(y)
    assert told.seqs[told.rows("SumBackward0")[0]] == number(loss)
    kinds = dict(told.labels)
    assert kinds["mine"] == 3
    assert kinds["MmBackward0"] == 2
    assert {name for name, _ in told.labels} == {event.name for event in taken.events()}


@pytest.mark.oracle
def test_of_two_threads_that_count_alike_nothing_is_guessed(watched: Any) -> None:
    import threading

    w = torch.ones(2, requires_grad=True)
    with profile():
        kept = [w * 2]
        other = threading.Thread(target=lambda: kept.append(w * 3))
        other.start()
        other.join()
        sum(kept).sum().backward()
    told = Told()
    of = {int(told.seqs[i]) for i in told.rows("MulBackward0")} - {-1}
    assert of <= {number(each) for each in kept}


@pytest.mark.oracle
def test_schedules_and_errors_are_told_and_the_newest_rows_kept(watched: Any) -> None:
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=1)
    with profile(schedule=schedule) as running:
        for _ in range(3):
            torch.ones(2).add(1)
            running.step()
    assert [name for name, kind in Told().labels if kind == 4] == ["ProfilerStep#2"]

    def fails() -> None:
        with profile():
            torch.ones(2).exp()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert Told().rows("aten::exp")
    with profile():
        x = torch.ones(2)
        for _ in range(MOST + 10):
            x.neg()
    told = Told()
    assert told.piece["count"] == MOST
    assert len(told.rows("aten::neg")) == MOST


@pytest.mark.oracle
def test_torchs_profiler_is_its_own_again_afterwards() -> None:
    before = dict(vars(torch.autograd.profiler.profile))
    with ag.watch(torch), profile():
        torch.ones(2).neg()
    assert dict(vars(torch.autograd.profiler.profile)) == before
    newest = current().profile
    with profile():
        torch.ones(2).exp()
    assert current().profile is newest
