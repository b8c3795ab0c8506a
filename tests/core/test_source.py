"""Every node knows the place in the user's code, also nodes that generated functions made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import nn
from ag_visual.core import source

F = nn.functional


def _elsewhere(root: Any) -> set[str]:
    """The nodes below `root` whose place is not in this file."""
    found, seen, pending = set(), set(), [root]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        pending += [below for below, _ in node.next_functions]
        if node.code is not None and node.code.co_filename != __file__:
            found.add(f"{node.name()} in {node.code.co_filename}")
    return found


@pytest.mark.parametrize(
    "name", ["relu", "silu", "mish", "elu", "leaky_relu", "hardtanh", "hardswish", "celu", "relu6"]
)
def test_functions_with_inplace_are_no_users_code(name: str) -> None:
    x = ag.randn(3, requires_grad=True)
    function = getattr(F, name)
    assert _elsewhere(function(x).grad_fn) == set()
    assert _elsewhere(function(x * 1, inplace=True).grad_fn) == set()
    assert function.__name__ == name


def test_an_activation_module_is_no_users_code() -> None:
    x = ag.randn(3, requires_grad=True)
    y = nn.Sequential(nn.ReLU(), nn.LeakyReLU(0.2))(x)
    assert _elsewhere(y.grad_fn) == set()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.sin(),
        lambda x: x * x,
        lambda x: x**3,
        lambda x: ag.addcmul(x, x, x),
        lambda x: F.gelu(x),
        lambda x: F.huber_loss(x, ag.zeros(3, 4)),
        lambda x: F.conv2d(x[None, None], ag.ones(1, 1, 2, 2)),
        lambda x: F.linear(x, x, ag.zeros(3)),
    ],
)
def test_nodes_of_a_recorded_backward_are_the_users(make: Callable[[Any], Any]) -> None:
    x = ag.randn(3, 4, requires_grad=True)
    (grad,) = ag.autograd.grad(make(x).sum(), x, create_graph=True)
    assert grad.grad_fn is None or _elsewhere(grad.grad_fn) == set()


def test_code_that_counts_as_the_packages_is_no_users_from_then_on() -> None:
    x = ag.randn(3, requires_grad=True)
    space: dict[str, Any] = {}
    exec(compile("def twice(x):\n    return x * 2", "/counted/in.py", "exec"), space)
    twice = space["twice"]
    assert twice(x).grad_fn.code is twice.__code__
    source.count_in("/counted/")
    try:
        assert twice(x).grad_fn.code.co_filename == __file__
    finally:
        source.count_in("/counted/", counts=False)
    assert twice(x).grad_fn.code is twice.__code__
