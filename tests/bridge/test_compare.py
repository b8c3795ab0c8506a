"""One program on torch and on this engine: the recordings side by side, the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ag_visual as ag

from ..oracle import torch

RNG = np.random.default_rng(0)
X, W = (RNG.normal(size=size).astype(np.float32) for size in ((4, 3), (3, 2)))


def program(t: Any, slope: float = 1.0) -> None:
    w = t.from_numpy(W.copy()).requires_grad_()
    h = (t.from_numpy(X) @ w).tanh()
    (h * h + h.exp() * t.tensor(slope)).sum().backward()


@pytest.fixture(scope="module")
def of_torch() -> Any:
    with ag.watch(torch) as watched:
        program(torch)
    return watched.recording


def test_the_same_program_has_the_same_graph_and_gradients(of_torch: Any) -> None:
    with ag.record() as ours:
        program(ag)
    found = ag.compare(of_torch, ours.recording)
    assert found.same, found.summary
    assert "gradient change" not in found.summary


def test_where_the_gradients_part_is_found(of_torch: Any) -> None:
    with ag.record() as ours:
        program(ag, slope=4.0)
    found = ag.compare(of_torch, ours.recording)
    assert "largest gradient change at ExpBackward0" in found.summary
    assert "4 times larger" in found.summary
