"""Nodes of PyTorch are checked by finite differences: torch's rules against our kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.bridge.node import TorchNode
from ag_visual.bridge.saved import kinds
from ag_visual.events.live import engine_of

from ..oracle import torch

PROGRAMS = """
x.sin()
x * y
torch.add(x, y, alpha=3)
x / y
x @ y.T
torch.tanh(x) @ y.T + w
F.linear(x, y, w)
x.sum(-1)
x.mean(0, keepdim=True)
x.softmax(-1)
F.gelu(x)
torch.cat([x, y], -2)
torch.stack([x, y], -1)
x.exp().log1p()
x.pow(3)
F.leaky_relu(x, 0.1)
x.clamp(-0.5, 0.5)
x.max(1)[0]
x.amax(-1)
x.var(-1)
x.norm()
x.cumsum(-1)
x[:, 1:]
x.unsqueeze(-2).expand(-1, 2, -1)
torch.where(x > 0, x, y)
F.mse_loss(x, y)
F.cross_entropy(x, torch.tensor([0, 1, 2, 0, 1]))
F.conv1d(x.unsqueeze(0), torch.ones(2, 5, 2, requires_grad=True))
F.max_pool1d(x.unsqueeze(0), 2)
F.avg_pool1d(x.unsqueeze(0), 2)
F.dropout(x, 0.5)
F.embedding(torch.tensor([0, 2]), x)
x.gather(1, torch.tensor([[0], [1], [2], [0], [1]]))
F.silu(x) * x.sigmoid()
torch.einsum("ij,kj->ik", x, y)
x.prod(-1)
torch.linalg.solve(x[:3], y[:3])
x.to(torch.bfloat16).exp()
torch.complex(x, y).abs()
torch.complex(x, y) * torch.complex(y, x)
torch.logsumexp(x, -1)
F.batch_norm(x, None, None, v, v, True)
F.binary_cross_entropy_with_logits(x, y.detach().sigmoid())
x.flip(0).roll(1, -1).tril()
x.sort(-1)[0]
F.pad(x, (1, 1))
F.batch_norm(x, v.detach(), v.detach().exp(), v, v, False)
torch.logaddexp(x, torch.where(y > 0, y, -torch.inf))
""".strip().splitlines()


@pytest.fixture(autouse=True)
def _watched() -> Iterator[None]:
    torch.manual_seed(0)
    with ag.watch(torch):
        yield


def _space() -> dict[str, Any]:
    def leaf(*shape: int) -> Any:
        return torch.randn(shape, requires_grad=True)

    space = {"x": leaf(5, 3), "y": leaf(5, 3), "w": leaf(5), "v": leaf(3)}
    return space | {"torch": torch, "F": torch.nn.functional}


def _nodes(out: Any) -> list[Any]:
    """All nodes of a graph, leaves left out, the last one first."""
    engine = engine_of(out)
    assert engine is not None
    found: list[Any] = []
    todo: list[Any] = [engine.node_of(out)]
    while todo:
        node = todo.pop()
        if node is not None and node not in found and not node.leaf:
            found.append(node)
            todo += [below for below, _ in node.next_functions]
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives_of_torchs_agree_with_differences(program: str) -> None:
    out = eval(program, _space())
    nodes = _nodes(out)
    assert nodes
    for node in nodes:
        found = ag.check_node(node)
        assert found.verdict == "agrees", found
        assert all(one.compared for one in found.inputs)


def test_a_number_that_a_release_does_not_tell_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    out = eval("F.group_norm(x.unsqueeze(0), 5)", _space())
    kind = kinds[type(out.grad_fn)]
    if torch.__version__ < (2, 14):  # newer nodes do not tell it
        assert ag.check_node(out).verdict == "agrees"
    monkeypatch.setattr(kind, "values", tuple(each for each in kind.values if each[0] != "eps"))
    found = ag.check_node(out)
    assert found.verdict == "unknown"
    assert "NativeGroupNormBackward0 does not tell its 'eps'" in str(found)


@pytest.mark.parametrize(
    ("program", "at", "input"),
    [
        ("x * y", 1, "other"),
        ("F.mse_loss(x, y)", 0, "self"),
        ("x.softmax(-1)", 0, "self"),
        ("x @ y.T", 1, "mat2"),
        ("torch.cat([x, y])", 1, "tensors[1]"),
    ],
)
def test_a_wrong_derivative_is_found(
    program: str, at: int, input: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = eval(program, _space())
    original = TorchNode.handed

    def wrong(self: Any, grads: Any) -> Any:
        found = original(self, grads)
        found[at] = found[at] * 1.1
        return found

    monkeypatch.setattr(TorchNode, "handed", wrong)
    found = ag.check_node(out)
    assert found.verdict == "differs"
    assert [one.name for one in found.inputs if not one.ok] == [input]


def test_nothing_of_the_program_is_touched() -> None:
    space = _space()
    x, y = space["x"], space["y"]
    called: list[Any] = []
    z = torch.tanh(x * y)
    z.register_hook(called.append)
    x.register_hook(called.append)
    z.grad_fn.register_prehook(lambda grads: called.append(grads))
    state, version = torch.get_rng_state(), x._version
    held = x.detach().clone()
    for node in _nodes(z):
        assert ag.check_node(node)
    assert called == []
    assert torch.equal(torch.get_rng_state(), state)
    assert (x._version, x.grad) == (version, None)
    assert torch.equal(x, held)
    z.sum().backward()
    assert len(called) == 3
    want = (1 - torch.tanh(held * y.detach()) ** 2) * y.detach()
    assert np.allclose(x.grad.numpy(), want.numpy())


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise AssertionError("code of the program's was run to look")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("Double.apply(x)", "may run code of yours"),
        ("F.layer_norm(x, (3,), v, v)", "does not tell its 'eps'"),
        ("torch.normal(x, y.exp())", "random numbers, which count as constants"),
        ("torch.linalg.pinv(x * 0)", "has no slope"),
    ],
)
def test_what_cannot_be_checked_says_why(program: str, why: str) -> None:
    found = ag.check_node(eval(program, _space() | {"Double": _Double}))
    assert found.verdict == "unknown"
    assert why in found.why_not


def test_a_freed_node_says_that_it_has_run() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.sum().backward()
    found = ag.check_node(y)
    assert found.verdict == "unknown"
    assert "it has run already" in found.why_not


def test_a_tensor_without_a_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="Tensor without one"):
        ag.check_node(torch.ones(2))
