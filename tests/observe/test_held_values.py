"""Values of nodes at levels of transforms: all lanes or one, and tangents beside values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.autograd import forward_ad
from ag_visual.events import instrument
from ag_visual.func import grad, hessian, jvp, vmap
from ag_visual.observe.formulas.cards import card
from ag_visual.observe.record.details import node_details
from ag_visual.observe.record.held_values import NotKeptError, array_of, values_of
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire.check import check
from ag_visual.session.node_check import check_node

X = ag.arange(6.0).reshape(3, 2)
W = ag.ones(2, requires_grad=True)


def f(v: Any) -> Any:
    return (v * W).sin().sum()


@pytest.fixture
def at_node(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Looks at a node, of a name, when it is about to run in a program."""
    monkeypatch.setattr(instrument, "losing_tangents", recorder.losing_tangents)

    def look(program: Callable[[], Any], name: str, found: Callable[[Any, Any], Any]) -> Any:
        seen: list[Any] = []

        def gate(task: Any, node: Any, gradients: list[Any]) -> list[Any]:
            if node.name() == name and not seen:
                recorder.drain()
                seen.append(found(node, gradients))
            return gradients

        recorder.start()
        monkeypatch.setattr(instrument, "gate", gate)
        program()
        monkeypatch.setattr(instrument, "gate", None)
        recorder.stop()
        return seen[0]

    return look


def test_a_slice_tells_of_how_many(recorder: Recorder, at_node: Any) -> None:
    def found(node: Any, gradients: Any) -> Any:
        details = node_details(recorder, node.seq)
        check("NodeDetails", details, "details")
        [saved] = details["saved"]
        return saved["shape"], saved["lanes"], saved["bytes"]

    assert at_node(lambda: vmap(grad(f))(X), "SinBackward0", found) == ([2], [3], 24)


def test_all_lanes_are_shown_or_one(recorder: Recorder, at_node: Any) -> None:
    def found(node: Any, gradients: Any) -> Any:
        every = values_of(recorder, node.seq, "saved:self")
        one = values_of(recorder, node.seq, "saved:self@2")
        check("Values", every, "values")
        with pytest.raises(NotKeptError, match="there is no lane 3: it has 3"):
            values_of(recorder, node.seq, "saved:self@3")
        return every["shape"], every["lanes"], one["shape"], one["text"]

    shown = at_node(lambda: vmap(grad(f))(X), "SinBackward0", found)
    assert shown == ([3, 2], [3], [2], "[4, 5]")


def test_a_gradient_that_waits_has_lanes_too(recorder: Recorder, at_node: Any) -> None:
    def found(node: Any, gradients: Any) -> Any:
        one = values_of(recorder, node.seq, "grad@0", arrived=gradients)
        return one["shape"], one["lanes"], one["text"]

    shown = at_node(lambda: vmap(grad(f))(X), "MulBackward0", found)
    assert shown == ([2], [3], "[1, 0.5403]")


def test_lanes_of_vmaps_inside_of_each_other_are_counted_through(
    recorder: Recorder, at_node: Any
) -> None:
    x = ag.arange(24.0).reshape(2, 3, 4)

    def found(node: Any, gradients: Any) -> Any:
        lanes = values_of(recorder, node.seq, "saved:self")["lanes"]
        return lanes, np.array(array_of(recorder, node.seq, "saved:self@5"))

    lanes, last = at_node(
        lambda: vmap(vmap(grad(lambda v: v.sin().sum())))(x), "SinBackward0", found
    )
    assert lanes == [2, 3]
    assert last.tolist() == [20.0, 21.0, 22.0, 23.0]


def test_cards_and_checks_of_a_slice_say_that_it_is_one(recorder: Recorder, at_node: Any) -> None:
    def found(node: Any, gradients: Any) -> Any:
        return card(node), check_node(node).why_not

    shown, why = at_node(lambda: vmap(grad(f))(X), "SinBackward0", found)
    assert shown["note"] == ""
    assert shown["text"] == "result = sin(self)"
    assert why.startswith("SinBackward0 stands for 3 slices at once (vmap)")


def test_what_is_no_slice_has_no_lane(recorder: Recorder) -> None:
    recorder.start()
    y = W.sin()
    recorder.drain()
    with pytest.raises(NotKeptError, match="there is no lane 0: it has 0"):
        values_of(recorder, y.grad_fn.seq, "saved:self@0")
    with pytest.raises(NotKeptError, match="whole number"):
        values_of(recorder, y.grad_fn.seq, "saved:self@x")
    with pytest.raises(NotKeptError, match="no tangent"):
        values_of(recorder, y.grad_fn.seq, "tangent:saved:self")


def test_a_tangent_stands_beside_its_value_while_its_level_is_open(
    recorder: Recorder, at_node: Any
) -> None:
    def program() -> None:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(W, ag.tensor([3.0, 4.0]))
            dual.sin().exp().sum().backward()

    def found(node: Any, gradients: Any) -> Any:
        value = values_of(recorder, node.seq, "saved:result")
        return value["tangent"], array_of(recorder, node.seq, "tangent:saved:result")

    tangent, array = at_node(program, "ExpBackward0", found)
    expected = np.exp(np.sin(1.0)) * np.cos(1.0) * np.array([3.0, 4.0])
    assert tangent is True
    np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_tangents_are_known_after_their_level_has_ended(recorder: Recorder, at_node: Any) -> None:
    seq = 0

    def program() -> None:
        nonlocal seq
        with forward_ad.dual_level():
            y = forward_ad.make_dual(W, ag.tensor([3.0, 4.0])).sin()
            seq = y.grad_fn.seq
            y.sum().backward()

    at_node(program, "SinBackward0", lambda node, gradients: None)
    recorder.drain()
    [saved] = node_details(recorder, seq)["saved"]
    assert (saved["freed"], saved["tangent"]) == (True, True)
    assert values_of(recorder, seq, "saved:self")["text"] == "[1, 1]"
    assert values_of(recorder, seq, "tangent:saved:self")["text"] == "[3, 4]"
    recorder.clear()
    assert not recorder.tangents.found


def test_tangents_without_a_backward_are_described_when_the_level_ends(
    recorder: Recorder, at_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.start()
    out, _ = jvp(f, (X[0],), (X[1],))
    recorder.stop()
    texts = [
        values["text"]
        for (_, what), values in recorder.tangents.found.items()
        if what.startswith("tangent:")
    ]
    assert "[2, 3]" in texts
    assert out.grad_fn is not None


def test_tangents_of_a_hessian_have_lanes_where_their_values_have_none(
    recorder: Recorder, at_node: Any
) -> None:
    def found(node: Any, gradients: Any) -> Any:
        value = values_of(recorder, node.seq, "saved:self")
        tangent = values_of(recorder, node.seq, "tangent:saved:self")
        return value.get("lanes"), value["tangent"], tangent["lanes"], tangent["shape"]

    shown = at_node(lambda: hessian(f)(X[0]), "SinBackward0", found)
    assert shown == (None, True, [2], [2, 2])
