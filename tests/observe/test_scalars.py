"""Every number of a tiny graph: local derivatives, values, and the chain rule that joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ag_visual as torch
from ag_visual.observe.formulas.local import NUMBERS
from ag_visual.observe.record.graph import walk
from ag_visual.observe.record.scalars import beyond, of_living

Net = Callable[[], tuple[Any, dict[str, Any]]]


def leaf(*rows: Any) -> Any:
    return torch.tensor(list(rows), requires_grad=True)


def textbook() -> tuple[Any, dict[str, Any]]:
    x, W1, b1 = leaf([1.0, 2.0]), leaf([0.1, 0.2], [0.3, 0.4]), leaf(0.0, 0.1)
    W2 = leaf([0.5], [-0.6])
    h = torch.tanh(x @ W1 + b1)
    return ((h @ W2 - 1) ** 2).sum(), {"x": x, "W1": W1, "b1": b1, "W2": W2, "h": h}


def shared() -> tuple[Any, dict[str, Any]]:
    """One leaf used three times, a broadcast, a maximum, several outputs."""
    x, c = leaf(0.5, -1.5, 2.0), leaf(3.0)
    first, second = (x * x * c).split([1, 2])
    return (first.exp().sum() + second.relu().sum() * x.max()).log(), {"x": x, "c": c}


def layer() -> tuple[Any, dict[str, Any]]:
    x, W = leaf([1.0, -2.0], [0.5, 0.25]), leaf([0.3, -0.2], [0.7, 0.1])
    b = leaf(0.1, 0.2)
    out = torch.nn.functional.linear(x, W, b).sigmoid().softmax(1)
    return torch.nn.functional.mse_loss(out, torch.zeros(2, 2)), {"x": x, "W": W, "b": b}


def numbers(loss: Any, scope: dict[str, Any]) -> dict[int, Any]:
    found = of_living(walk([loss.grad_fn]), [scope])
    assert found["why"] == ""
    return {one["seq"]: one for one in found["nodes"]}


@pytest.mark.parametrize("net", [textbook, shared, layer])
def test_gradients_by_the_chain_rule_are_those_of_backward(net: Net) -> None:
    loss, leaves = net()
    found = numbers(loss, leaves)
    loss.backward()
    checked = 0
    for name, tensor in leaves.items():
        if not tensor.is_leaf:
            continue
        [one] = [n for n in found.values() if n["label"] == name]
        np.testing.assert_allclose(one["outputs"][0]["values"], tensor.detach().numpy().ravel())
        np.testing.assert_allclose(
            one["outputs"][0]["gradient"], tensor.grad.numpy().ravel(), rtol=1e-4, atol=1e-6
        )
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize("net", [textbook, shared, layer])
def test_each_gradient_is_the_sum_of_slope_times_gradient(net: Net) -> None:
    found = numbers(*net())
    sums: dict[tuple[int, int], Any] = {}
    for one in found.values():
        above = np.concatenate([np.array(o["gradient"], float) for o in one["outputs"]])
        for edge in one["inputs"]:
            if edge["seq"] is not None:
                table = np.array(edge["slopes"], float).reshape(len(above), -1)
                place = edge["seq"], edge["index"]
                sums[place] = sums.get(place, 0.0) + above @ table
    for (seq, index), total in sums.items():
        np.testing.assert_allclose(found[seq]["outputs"][index]["gradient"], total, rtol=1e-6)
    assert sums


def test_slopes_are_those_of_finite_differences() -> None:
    x = leaf(0.3, -0.7)
    y = torch.tanh(x)
    found = numbers((y * y).sum(), {})
    [tanh] = [n for n in found.values() if n["name"] == "TanhBackward0"]
    step = 1e-4
    at = np.array([0.3, -0.7])
    wanted = np.diag((np.tanh(at + step) - np.tanh(at - step)) / (2 * step))
    np.testing.assert_allclose(np.reshape(tanh["inputs"][0]["slopes"], (2, 2)), wanted, atol=1e-4)


def test_values_that_nobody_saved_are_found() -> None:
    loss, scope = textbook()
    values = {n["name"]: n["outputs"][0]["values"] for n in numbers(loss, scope).values()}
    x, W1, b1 = (scope[name].detach().numpy() for name in ("x", "W1", "b1"))
    np.testing.assert_allclose(values["AddBackward0"], (x @ W1 + b1).ravel(), rtol=1e-6)
    np.testing.assert_allclose(values["SumBackward0"], [loss.item()], rtol=1e-6)


def test_what_was_overwritten_is_not_told() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    found = numbers(z.sum(), {})
    [mul] = [n for n in found.values() if n["inputs"] and "overwritten" in n["why"]]
    assert mul["inputs"][0]["slopes"] is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_large_graph_says_which_node_it_is() -> None:
    x = torch.ones(40, requires_grad=True)
    y = x.exp()
    found = of_living(walk([y.sum().grad_fn]))
    assert found["nodes"] == []
    assert found["seq"] == y.grad_fn.seq
    assert "ExpBackward0" in found["why"]
    assert "80 numbers" in found["why"]
    assert str(NUMBERS) in found["why"]
    long = x[0]
    for _ in range(200):
        long = long * 2
    assert "nodes" in of_living(walk([long.grad_fn]))["why"]


def test_looking_leaves_the_graph_and_its_hooks_alone() -> None:
    class Twice(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            Twice.calls += 1
            return g * 2

    x = leaf(1.0, 2.0)
    seen: list[Any] = []
    x.register_hook(seen.append)
    loss = (Twice.apply(x) ** 2).sum()
    found = numbers(loss, {})
    assert (Twice.calls, seen, x.grad) == (0, [], None)
    [own] = [n for n in found.values() if n["name"].startswith("Twice")]
    assert "not run twice" in own["why"]
    loss.backward()
    assert Twice.calls == 1
    assert x.grad.tolist() == [8.0, 16.0]


@pytest.mark.filterwarnings("error")
def test_complex_numbers_are_refused_and_never_drawn_as_their_real_parts() -> None:
    z = torch.tensor([-3 + 4j, 8 - 6j], requires_grad=True)
    w = z * 1
    loss = w.abs().sum()
    found = {one["name"]: one for one in numbers(loss, {"z": z, "w": w}).values()}
    refused = "{} works on complex numbers, which are not drawn one by one."
    leaf_name = "torch::autograd::AccumulateGrad"
    for name in ("AbsBackward0", "MulBackward0", leaf_name):
        assert found[name]["why"] == refused.format(name)
        assert all(one["slopes"] is None for one in found[name]["inputs"])
    assert found["AbsBackward0"]["outputs"][0]["values"] is None
    assert found["AbsBackward0"]["outputs"][0]["gradient"] == [1.0, 1.0]
    for name in ("MulBackward0", leaf_name):
        assert found[name]["outputs"] == [{"shape": [2], "values": None, "gradient": None}]
    assert found["SumBackward0"]["why"] == ""


@pytest.mark.filterwarnings("error")
def test_the_complex_gradient_of_a_large_node_is_not_drawn() -> None:
    z = torch.tensor([-3 + 4j, 8 - 6j], requires_grad=True)
    told = beyond((z * z).grad_fn, [torch.tensor([1j, 2 + 0j])])
    assert told["outputs"][0]["gradient"] is None
    assert "complex numbers" in told["why"]


def test_a_picture_carries_its_numbers_unless_values_are_left_out() -> None:
    loss, _ = textbook()
    shown = torch.show(loss, scalars=True).recording.record
    assert len(shown["scalars"]["nodes"]) == 11
    assert shown["lesson"]["scalars"] is True
    assert "scalars" not in torch.show(loss, values=False).recording.record
    with pytest.raises(ValueError, match="values=False"):
        torch.show(loss, values=False, scalars=True)
