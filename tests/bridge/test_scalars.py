"""Local derivatives of torch's nodes: those of this package; nothing of the program's is run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.bridge import rule
from ag_visual.bridge.node import TorchNode
from ag_visual.events import live
from ag_visual.observe.formulas.local import reason_against

from ..oracle import torch


def network(engine: Any) -> tuple[Any, list[Any]]:
    x = engine.tensor([[1.0, 2.0]], requires_grad=True)
    W1 = engine.tensor([[0.1, 0.2], [0.3, -0.4]], requires_grad=True)
    b1 = engine.tensor([0.0, 0.1], requires_grad=True)
    W2 = engine.tensor([[0.5], [-0.6]], requires_grad=True)
    h = engine.tanh(x @ W1 + b1)
    y = h @ W2
    low, high = (y * h).split(1, 1)
    return (low.exp() - high).sum(), [x, W1, b1, W2]


def numbers(engine: Any) -> list[dict[str, Any]]:
    with ag.record(scalars=True) as recorded:
        loss, _ = network(engine)
        loss.backward()
    found: dict[str, Any] = recorded.recording.record["scalars"]
    assert found["why"] == ""
    # Leaves by their values, as the two engines number them in another order.
    order = {True: "values", False: "shape"}
    return sorted(
        found["nodes"], key=lambda n: (n["name"], n["outputs"][0][order[not n["inputs"]]], n["seq"])
    )


def close(these: Any, those: Any) -> bool:
    if these is None or those is None:
        return these is those
    return bool(these == pytest.approx(those, rel=1e-5, abs=1e-7))


def test_both_engines_tell_the_same_numbers() -> None:
    ours = numbers(ag)
    with ag.watch(torch):
        theirs = numbers(torch)
    assert [one["name"] for one in ours] == [one["name"] for one in theirs]
    assert all(one["why"] == "" for one in theirs)
    for mine, other in zip(ours, theirs, strict=True):
        for own, its in zip(mine["inputs"], other["inputs"], strict=True):
            assert own["shape"] == its["shape"]
            assert close(own["slopes"], its["slopes"]), (mine["name"], own, its)
            assert close(own["gives"], its["gives"]), (mine["name"], own, its)
        for own, its in zip(mine["outputs"], other["outputs"], strict=True):
            assert close(own["gradient"], its["gradient"]), mine["name"]
            assert its["values"] is None or close(own["values"], its["values"]), mine["name"]
    told = {one["name"] for one in theirs if one["outputs"][0]["values"] is not None}
    assert {"TanhBackward0", "MmBackward0", "ExpBackward0", "AddBackward0", "MulBackward0"} <= told


def test_a_node_is_called_once_for_each_number_and_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, leaves = network(torch)
    plain.backward()
    expected = [leaf.grad for leaf in leaves]
    called: list[str] = []
    handed = rule.handed

    def counting(node: TorchNode, grads: Any) -> Any:
        called.append(node.name())
        return handed(node, grads)

    monkeypatch.setattr(rule, "handed", counting)
    with ag.watch(torch), ag.record(scalars=True):
        loss, leaves = network(torch)
        random = torch.get_rng_state()
        versions = [leaf._version for leaf in leaves]
        loss.backward()
        assert Counter(name.removesuffix("Backward0") for name in called) == {
            "Sum": 1,
            "Sub": 1,
            "Exp": 1,
            "Split": 2,
            "Mul": 2,
            "Tanh": 2,
            "Add": 2,
            "Mm": 3,
        }
        assert torch.equal(random, torch.get_rng_state())
    assert [leaf._version for leaf in leaves] == versions
    for leaf, grad in zip(leaves, expected, strict=True):
        assert torch.equal(leaf.grad, grad)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_nothing_of_the_program_is_run_to_look() -> None:
    ran: list[str] = []

    class Twice(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            ran.append("backward")
            return g * 2

    def unpack(kept: Any) -> Any:
        ran.append("unpack")
        return kept

    with ag.watch(torch), ag.record(scalars=True) as recorded:
        x = torch.ones(2, requires_grad=True)
        y = Twice.apply(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            z = y.exp()
        z.register_hook(lambda g: ran.append("hook"))
        z.grad_fn.register_prehook(lambda g: ran.append("prehook"))
        z.grad_fn.register_hook(lambda *g: ran.append("posthook"))
        w = z.clone()
        w[0] = 3.0
        w.sum().backward()
    assert sorted(ran) == ["backward", "hook", "posthook", "prehook", "unpack"]
    told = {one["name"]: one["why"] for one in recorded.recording.record["scalars"]["nodes"]}
    assert told["TwiceBackward"] == (
        "TwiceBackward may run code of yours: it is not run twice to look."
    )
    assert told["ExpBackward0"].endswith("saved result through hooks of yours, which are not run.")
    assert "CopySlices may run code of yours" in told["torch::autograd::CopySlices"]
    assert told["CloneBackward0"] == told["SumBackward0"] == ""


def test_what_cannot_be_told_has_its_reason() -> None:
    with ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        z = y * y
        loss = z.sum()
        y.add_(1)
        with ag.record(scalars=True) as recorded, pytest.raises(RuntimeError, match="inplace"):
            loss.backward()
        told = {one["name"]: one["why"] for one in recorded.recording.record["scalars"]["nodes"]}
        assert "modified by an inplace operation" in told["MulBackward0"]
        assert told["SumBackward0"] == ""
        w = x.exp()
        w.sum().backward()
        assert reason_against(live.engines[0].node_of(w)).endswith("it has run already.")
