"""Dead units of rectifiers against counts that are known."""

from __future__ import annotations

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.nn import functional as F
from ag_visual.observe.diagnose.dead_units import dead_units
from ag_visual.observe.record.held_values import array_of
from ag_visual.observe.record.recorder import Recorder


def relu_of(values: np.ndarray) -> ag.Tensor:
    return ag.tensor(values, requires_grad=True).relu()


def test_units_are_the_last_dimension() -> None:
    values = np.ones((5, 64))
    values[:, 7:] = -1
    values[2, 9] = 0.5
    out = relu_of(values)
    assert dead_units(out.grad_fn, "saved:result", out.detach().numpy()) == [56, 64]


def test_units_of_images_are_channels() -> None:
    values = np.ones((2, 3, 4, 4))
    values[:, 1] = -1
    out = relu_of(values)
    assert dead_units(out.grad_fn, "saved:result", out.detach().numpy()) == [1, 3]


def test_a_threshold_counts_by_its_own_input() -> None:
    x = ag.tensor([[1.0, 5.0], [2.0, 6.0]], requires_grad=True)
    out = F.threshold(x, 3.0, 20.0)
    assert dead_units(out.grad_fn, "saved:self", x.detach().numpy()) == [1, 2]


def test_nan_is_not_dead() -> None:
    array = np.array([[0.0, np.nan], [0.0, 0.0]])
    assert dead_units(relu_of(np.ones((2, 2))).grad_fn, "saved:result", array) == [1, 2]


@pytest.mark.parametrize("shape", [(), (4,), (1, 4), (0, 4)])
def test_nothing_follows_from_a_single_row(shape: tuple[int, ...]) -> None:
    out = relu_of(-np.ones(shape))
    assert dead_units(out.grad_fn, "saved:result", out.detach().numpy()) is None


def test_other_nodes_have_no_units() -> None:
    out = ag.tensor(-np.ones((3, 3)), requires_grad=True).exp()
    assert dead_units(out.grad_fn, "saved:result", out.detach().numpy()) is None
    assert dead_units(None, "saved:result", np.zeros((3, 3))) is None


def test_a_recorded_node_tells_its_dead_units() -> None:
    recorder = Recorder()
    recorder.start()
    try:
        out = relu_of(np.array([[1.0, -1.0, -2.0], [2.0, -1.0, -3.0]]))
    finally:
        recorder.stop()
    recorder.drain()
    seq = out.grad_fn.seq
    array = array_of(recorder, seq, "saved:result")
    assert dead_units(recorder.node(seq), "saved:result", array) == [2, 3]
