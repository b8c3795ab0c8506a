"""Tangents of torch's forward mode beside the values that nodes hold, as with our own engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.events import instrument, live
from ag_visual.observe.record.details import node_details
from ag_visual.observe.record.held_values import array_of, values_of
from ag_visual.observe.record.tangents import NotKeptError
from ag_visual.session.session import current

from ..oracle import torch
from .test_record import rows, texts

# torch's first dual tensor compiles decompositions of its own.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

SLOPES = np.array([3.0, 4.0])


def _weight() -> Any:
    return torch.ones(2, requires_grad=True)


def _at_node(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[], Any], name: str, found: Any
) -> Any:
    """What is found at the first node of a name as it is about to run."""
    seen: list[Any] = []

    def gate(task: Any, node: Any, gradients: list[Any]) -> list[Any]:
        if node.name() == name and not seen:
            current().recorder.drain()
            seen.append(found(node))
        return gradients

    monkeypatch.setattr(instrument, "gate", gate)
    program()
    monkeypatch.setattr(instrument, "gate", None)
    return seen[0]


def test_a_tangent_stands_beside_its_value_while_its_level_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def program() -> None:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(_weight(), torch.tensor([3.0, 4.0]))
            dual.sin().exp().sum().backward()

    def found(node: Any) -> Any:
        recorder = current().recorder
        value = values_of(recorder, node.seq, "saved:result")
        return value["tangent"], array_of(recorder, node.seq, "tangent:saved:result")

    with ag.watch(torch):
        tangent, array = _at_node(monkeypatch, program, "ExpBackward0", found)
    assert tangent is True
    expected = np.exp(np.sin(1.0)) * np.cos(1.0) * SLOPES
    np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_tangents_are_known_after_their_level_has_ended() -> None:
    with ag.watch(torch) as watched:
        recorder = current().recorder
        (engine,) = live.engines
        with torch.autograd.forward_ad.dual_level():
            y = torch.autograd.forward_ad.make_dual(_weight(), torch.tensor([3.0, 4.0])).sin()
            y.sum().backward()
            assert engine.duals
        assert not engine.duals
        seq = engine.node_of(y).seq  # type: ignore[union-attr]
        [saved] = node_details(recorder, seq)["saved"]
        assert (saved["freed"], saved["tangent"]) == (True, True)
        assert values_of(recorder, seq, "saved:self")["text"] == "[1, 1]"
        assert values_of(recorder, seq, "tangent:saved:self")["text"] == "[3, 4]"
        assert texts(watched.recording, "levels", "kind") == ["forward mode"]
        plain = _weight().sin()
        recorder.drain()
        with pytest.raises(NotKeptError, match="no tangent"):
            values_of(recorder, engine.node_of(plain).seq, "tangent:saved:self")  # type: ignore[union-attr]


def test_tangents_without_a_backward_are_described_when_the_level_ends() -> None:
    with ag.watch(torch):
        w, before = _weight(), _weight() * 2
        with torch.autograd.forward_ad.dual_level():
            kept = torch.autograd.forward_ad.make_dual(w, torch.tensor([3.0, 4.0])).sin() * before
        found = current().recorder.tangents.found
        told = sorted(values["text"] for (_, what), values in found.items() if "tangent:" in what)
    assert kept.requires_grad
    assert told == ["[1.621, 2.161]", "[3, 4]"]


def test_an_error_leaves_no_level_open() -> None:
    forward_ad = torch.autograd.forward_ad
    with ag.watch(torch):
        with pytest.raises(ValueError, match="mine"), forward_ad.dual_level():
            raise ValueError("mine")
        with pytest.raises(RuntimeError, match="not the last one"):
            forward_ad.exit_dual_level(level=3)
        with forward_ad.dual_level(), pytest.raises(RuntimeError, match="Nested forward mode"):
            forward_ad.enter_dual_level()
        assert forward_ad._current_level == -1
    assert forward_ad.enter_dual_level.__module__ == "torch.autograd.forward_ad"


def test_what_torch_func_computes_has_left_no_graph() -> None:
    w = _weight()
    with ag.watch(torch) as watched:
        x, v = torch.ones(2), torch.tensor([3.0, 4.0])
        _, tangent = torch.func.jvp(lambda x: (x * w).exp().sum(), (x,), (v,))
        mapped = torch.func.vmap(lambda x: (x * w).sum())(torch.ones(3, 2))
        (tangent + mapped.sum()).backward()
        assert "breaks" not in watched.recording.tables
        # Of these two the first is no cut: x has no graph.
        (x.detach() * w + (w * 2).detach() * w).sum().backward()
        assert len(rows(watched.recording, "breaks")) == 1
    assert w.grad.tolist() == pytest.approx((np.e * 2 * SLOPES + 3 + 1 + 2).tolist())
