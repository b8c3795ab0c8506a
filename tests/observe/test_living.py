"""Which nodes live is told by their records, and a node is sought when somebody asks for it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.core.node import Node
from ag_visual.observe.record import living
from ag_visual.observe.record.recorder import Recorder


@pytest.fixture
def recorder() -> Any:
    recorder = Recorder()
    recorder.start()
    yield recorder
    recorder.stop()


def leaf() -> Any:
    return ag.ones(3, requires_grad=True)


@pytest.mark.parametrize("old", [False, True])
def test_a_node_is_found_by_its_number_whether_it_is_young_or_old(recorder, old):
    x = leaf()
    first = x * 2
    second = first * x
    if old:
        gc.collect()
    recorder.drain()
    assert recorder.node(first.grad_fn.seq) is first.grad_fn
    assert recorder.node(second.grad_fn.seq) is second.grad_fn
    assert {first.grad_fn.seq, second.grad_fn.seq} <= set(recorder.alive().tolist())


@pytest.mark.parametrize("asked", [False, True])
def test_a_node_that_dies_is_gone_whether_somebody_asked_for_it_or_not(recorder, asked):
    x = leaf()
    y = x * 2
    seq = y.grad_fn.seq
    recorder.drain()
    if asked:
        assert recorder.node(seq) is y.grad_fn
    assert seq in recorder.alive()
    del y
    assert recorder.node(seq) is None
    z = x * 3
    recorder.drain()
    assert recorder.alive().tolist().count(seq) == 0
    assert z.grad_fn.seq in recorder.alive()


def test_a_node_that_its_consumers_outlive_is_found_and_one_that_outlives_them(recorder):
    x = leaf()
    y = x * 2
    z = y * x
    inner = y.grad_fn.seq
    del y
    recorder.drain()
    node = recorder.node(inner)
    assert node is z.grad_fn.next_functions[0][0]
    del node
    kept = x * 5
    (kept * x).sum()
    recorder.drain()
    assert recorder.node(kept.grad_fn.seq) is kept.grad_fn


def test_of_very_many_living_nodes_all_that_died_are_told_after_some_looks(recorder, monkeypatch):
    monkeypatch.setattr(living, "LOOKED_AT", 8)
    x = leaf()
    made = [x * i for i in range(50)]
    recorder.drain()
    seqs = [y.grad_fn.seq for y in made]
    kept = made[::7]
    del made
    for _ in range(7):
        x * 1
        recorder.drain()
    alive = set(recorder.alive().tolist())
    assert alive.intersection(seqs) == {y.grad_fn.seq for y in kept}


def test_a_graph_that_somebody_else_reads_stays_known(recorder):
    x = leaf()
    y = x * 2
    recorder.drain()
    other = Recorder()
    other.add_graph([y.grad_fn])
    other.drain()
    y.sum()
    recorder.drain()
    assert y.grad_fn.seq in recorder.alive()
    assert y.grad_fn.seq in other.alive()
    assert other.node(y.grad_fn.seq) is recorder.node(y.grad_fn.seq) is y.grad_fn


def test_a_cleared_recording_knows_the_nodes_that_it_is_told_again(recorder):
    x = leaf()
    y = x * 2
    recorder.drain()
    recorder.clear()
    assert recorder.node(y.grad_fn.seq) is None
    z = y * 3
    recorder.drain()
    assert recorder.node(y.grad_fn.seq) is y.grad_fn
    assert recorder.node(z.grad_fn.seq) is z.grad_fn


def test_built_code_costs_a_recording_no_reference(recorder):
    x = leaf()
    (x * 2).relu().sum()
    assert len(recorder._log.refs) == 1  # the leaf's


def test_nothing_of_an_object_is_run_that_is_looked_at_by_the_way(recorder):
    ran = []

    class Odd:
        @property
        def __class__(self) -> Any:
            ran.append("class")
            return Node

        def __getattr__(self, name: str) -> Any:
            ran.append(name)
            raise AttributeError(name)

        __hash__ = None  # type: ignore[assignment]

    kept = [Odd() for _ in range(3)]
    x = leaf()
    y = x * 2
    gc.collect()
    recorder.drain()
    ran.clear()
    assert recorder.node(y.grad_fn.seq) is y.grad_fn
    assert ran == []
    assert len(kept) == 3


def test_numbers_are_each_once_and_sorted(recorder):
    x = leaf()
    made = [x * i for i in range(20)]
    recorder.drain()
    recorder.node(made[4].grad_fn.seq)
    alive = recorder.alive()
    assert (np.diff(alive.astype(np.int64)) > 0).all()
    assert {y.grad_fn.seq for y in made} <= set(alive.tolist())
