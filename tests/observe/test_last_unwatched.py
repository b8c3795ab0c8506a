"""After many backwards in one cell, of which few are watched, the last one is told all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import ag_visual as torch
from ag_visual.observe.record.recorder import Recorder
from ag_visual.session.session import current
from tests.observe.reading import tables, texts
from tests.observe.test_recorder import leaf, ones


@pytest.fixture
def unwatched(recorder: Recorder) -> Recorder:
    """A recorder that pages look at and whose time is spent."""
    recorder.watch_newest(True)
    recorder.allowance.grows = True
    recorder.allowance.share = 0.0
    recorder.allowance.spend(recorder.allowance.most)
    return recorder


def step(x: torch.Tensor) -> None:
    (x * x).exp().sum().backward()


def test_the_last_of_a_loop_is_told_with_its_graph_and_how_many_are_missing(unwatched):
    x = leaf(1.0, 2.0)
    for _ in range(30):
        step(x)  # its tensors are gone when it returns
    assert unwatched.waiting == 0
    unwatched.cell_ended()
    found = tables(unwatched)
    assert found["missed"]["passes"].tolist() == [29]
    assert found["tasks"]["ended"].tolist() == [0, 1]
    assert found["tasks"]["total"].tolist() == [4, 0]
    names = texts(unwatched, "nodes", "name")
    assert sorted(names) == ["ExpBackward0", "MulBackward0", "SumBackward0"]
    # In the order in which they ran: of nothing else there was anybody to tell.
    seqs = found["runs"]["seq"].tolist()
    leaves = found["leaves"]["seq"].tolist()
    assert seqs == [*sorted(found["nodes"]["seq"].tolist(), reverse=True), *leaves]
    assert found["runs"]["norm"].tolist() == [-2.0] * 4
    assert unwatched.missed == 0


def test_the_order_is_the_engines(unwatched):
    """Leaves as soon as they are ready, else the node made last."""

    def program() -> torch.Tensor:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        a = x * y
        b = y.exp()
        return ((a + b) * x).sum()

    program().backward()
    unwatched.cell_ended()
    told = tables(unwatched)["runs"]["seq"]
    unwatched.start()
    program().backward()
    unwatched.stop()
    seen = tables(unwatched)["runs"]["seq"][len(told) :]
    assert np.argsort(np.argsort(told)).tolist() == np.argsort(np.argsort(seen)).tolist()


def test_of_inputs_alone_only_what_led_to_them_has_run(unwatched):
    x, y = leaf(1.0), leaf(2.0)
    torch.autograd.grad((x.exp() * y.sin()).sum(), [x])
    unwatched.cell_ended()
    found = tables(unwatched)
    assert len(found["nodes"]["seq"]) == 4
    assert len(found["runs"]["seq"]) == 3  # not the sine, and no leaf


def failing() -> None:
    y = leaf(1.0) * 2

    def fail(g: torch.Tensor) -> None:
        raise ValueError("told")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="told"):
        y.sum().backward()


def gone() -> None:
    """One that keeps its graph, which nobody holds any more."""
    (leaf(1.0) * 2).sum().backward(retain_graph=True)


@pytest.mark.parametrize("program", [failing, gone])
def test_what_failed_or_is_gone_is_counted_alone(unwatched, program: Callable[[], None]):
    step(leaf(1.0))
    program()
    unwatched.cell_ended()
    assert "tasks" not in tables(unwatched)
    assert unwatched.missed == 2


def test_a_graph_that_is_retained_is_told_while_the_program_holds_it(unwatched):
    loss = leaf(1.0).exp().sum()
    loss.backward(retain_graph=True)
    unwatched.cell_ended()
    assert tables(unwatched)["tasks"]["ended"].tolist() == [0, 1]


def test_nothing_is_told_twice_or_of_a_pass_that_was_watched(unwatched):
    x = leaf(1.0)
    step(x)
    unwatched.allowance.once_more()
    step(x)
    for _ in range(2):
        unwatched.cell_ended()
    found = tables(unwatched)
    assert found["missed"]["passes"].tolist() == [1]
    assert (found["runs"]["norm"] >= 0).all()


@pytest.mark.parametrize("looked", [True, False])
def test_a_graph_lives_on_until_its_cell_ends_where_a_page_looks(unwatched, looked: bool):
    unwatched.allowance.grows = looked
    nodes = []

    def program() -> None:
        loss = leaf(1.0).exp()
        nodes.append(weakref.ref(loss.grad_fn))
        loss.backward(ones(loss))

    program()
    gc.collect()
    assert (nodes[0]() is not None) == looked
    unwatched.cell_ended()
    gc.collect()
    assert nodes[0]() is None


def test_the_state_counts_what_nobody_watched(unwatched):
    gone()
    session = current()
    before, session.recorder = session.recorder, unwatched
    try:
        assert session.state()["missed"] == 1
        unwatched.start()
        assert session.state()["missed"] == 0
    finally:
        session.recorder = before
        unwatched.stop()
