"""A program with annotations, as somebody writes it who checks types: it runs, and mypy takes it.

`mypy` reads this file with the package. What the declarations attach to Tensor it knows from
`core/attached.pyi`: the operators by name, the methods as whatever they are.
"""

from __future__ import annotations

import operator
from typing import Any, assert_type

import ag_visual as torch
import ag_visual.nn.functional as F
from ag_visual import nn
from ag_visual.core import tensor as core


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = F.relu(self.first(x))
        return y * 2 + 1


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.BackwardCFunction, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


@torch.no_grad()
def twice(count: int) -> int:
    return 2 * count


def test_runs() -> None:
    x: torch.Tensor = torch.tensor([[1.0, 2.0]], requires_grad=True)
    net = Net()
    loss = net(x).sum() + Square.apply(x).mean()
    assert_type(x * x, torch.Tensor)
    assert_type(x[0] > 1, torch.Tensor)
    assert_type(x.grad, torch.Tensor | None)
    assert_type(x.shape, torch.Size)
    assert_type(x[0]._base, torch.Tensor | None)
    assert_type(next(iter(x)), torch.Tensor)
    assert_type(twice(3), int)
    assert_type(x.relu(), Any)
    assert_type(torch.linalg.norm(F.linear(x, x)), Any)
    (g,) = torch.autograd.grad(loss, x, retain_graph=True)
    assert_type(g, torch.Tensor)
    loss.backward()
    with torch.no_grad():
        x -= 0.1 * g
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.step()
    assert twice(3) == 6
    assert x.grad is not None
    assert x.grad.equal(g)


def test_type_checkers_are_told_what_is_there() -> None:
    """Every operator that is told exists, and every one that exists is told."""
    told = core.__file__.replace("tensor.py", "attached.pyi")
    with open(told, encoding="utf-8") as file:
        names = {line.split("(")[0].split()[1] for line in file if line.startswith("    def ")}
    attached = {name for name in vars(torch.Tensor) if is_operator(name)}
    assert attached - names == set()
    assert {name for name in names - {"__getattr__"} if not hasattr(torch.Tensor, name)} == set()


def is_operator(name: str) -> bool:
    """Whether Python's syntax calls it, and a layer above core attached it."""
    forms = {name, name.replace("__r", "__", 1)}
    found = vars(torch.Tensor)[name]
    above = callable(found) and getattr(found, "__module__", "") != core.__name__
    return name.startswith("__") and above and not forms.isdisjoint(dir(operator))
