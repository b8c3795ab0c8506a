"""Classes, modes and callables of the program see what it computes, and nothing of the watcher."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.events import instrument

from ..oracle import torch
from .same import seen
from .test_blame import _marked, run


def name(func: Any) -> str:
    return f"{getattr(func, '__name__', func)} {getattr(func, '__self__', '')}"


def of_functions() -> list[str]:
    """What a class of tensors with a `__torch_function__` is told."""
    told: list[str] = []

    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append(name(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.arange(4.0).as_subclass(Told).requires_grad_()
    y = x * 2
    y.add_(1)
    z = torch.nn.functional.relu(y.sin(), inplace=True)
    z.detach()
    z.data.mul_(1)
    torch.split(z, 2)
    torch.cat([torch.ones(1), z])
    y.register_hook(lambda gradient: None)
    with torch.no_grad():
        _ = x + 1
    ((x * x).sum() + (y * 1).sum()).backward()
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    return told


def wrapped(told: list[str]) -> Any:
    """A leaf of a class that has tensors inside and a `__torch_dispatch__`."""

    class Told(torch.Tensor):
        inner: Any
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, inner: Any, **how: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, **how)

        def __init__(self, inner: Any, **how: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append(str(func))
            given = [each.inner if isinstance(each, Told) else each for each in args]
            return Told(func(*given, **(kwargs or {})))

    return Told(torch.ones(3), requires_grad=True)


def of_dispatch() -> list[str]:
    """What such a class is told."""
    told: list[str] = []
    x = wrapped(told)
    for _ in range(2):
        y = (x * 2).sin()
        (y * y).sum().backward()
    return told


def of_silent_writes() -> list[str]:
    """What a mode is told while a write through `.data` is found."""
    told: list[str] = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, requires_grad=True)
    with Mode():
        y = x.exp()
        y.data.mul_(2)
        y.sum().backward()
    return told


@pytest.mark.filterwarnings("ignore::ag_visual.errors.SilentWriteWarning")
@pytest.mark.parametrize("problems_only", [False, True])
@pytest.mark.parametrize("program", [of_functions, of_dispatch, of_silent_writes])
def test_they_are_told_the_same(
    program: Callable[[], list[str]], problems_only: bool, caplog: pytest.LogCaptureFixture
) -> None:
    alone = program()
    assert len(alone) > 5
    with ag.watch(torch, problems_only=problems_only):
        assert program() == alone
    assert not caplog.records


def test_a_backward_stops_at_gradients_whose_values_are_not_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stops: list[str] = []

    def gate(task: Any, node: Any, grads: Any) -> Any:
        stops.append(node.name().rpartition("::")[2])
        return grads

    with ag.watch(torch):
        loss = (wrapped([]) * 2).sum()
        instrument.gate = gate
        try:
            loss.backward()
        finally:
            instrument.gate = None
    assert stops == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert not caplog.records


OF_A_CLASS = """
import torch
class Mine(torch.Tensor): pass
x = torch.ones(3).as_subclass(Mine).requires_grad_()
y = x.exp()  #SAVE
y.mul_(2)  #GUILTY
y.sum().backward()
"""


@pytest.mark.parametrize("problems_only", [False, True])
def test_both_lines_of_a_class_whose_results_are_views(problems_only: bool, tmp_path: Path) -> None:
    error: Any = run(OF_A_CLASS, tmp_path / "program.py", problems_only=problems_only)
    assert error.fields["saved"]["site"].line in _marked(OF_A_CLASS, "SAVE")
    lines = {write["site"].line for write in error.fields["writes"]}
    assert lines & set(_marked(OF_A_CLASS, "GUILTY"))


def test_a_lazy_module_is_watched_without_a_complaint(caplog: pytest.LogCaptureFixture) -> None:
    with ag.watch(torch):
        model = torch.nn.LazyLinear(2)
        model(torch.ones(3, 4)).sum().backward()
    assert model.weight.grad is not None
    assert not caplog.records


def test_functions_without_a_module_and_callables_without_a_hash() -> None:
    class Unhashable:
        def __eq__(self, other: object) -> bool:
            return True

        def __call__(self, x: Any) -> Any:
            if torch.overrides.has_torch_function_unary(x):
                return torch.overrides.handle_torch_function(self, (x,), x)
            return x * 3

    def twice(x: Any) -> Any:
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(twice, (x,), x)
        return x * 2

    twice.__module__ = None  # type: ignore[assignment]  # as what `exec` makes
    x = torch.ones(3, requires_grad=True)
    for function in (twice, Unhashable()):
        with ag.watch(torch):
            watched = seen(lambda: function(x), lambda: [x])  # noqa: B023
        x.grad = None
        assert watched == seen(lambda: function(x), lambda: [x])  # noqa: B023
        x.grad = None


def test_a_block_that_it_is_called_in_ends_as_it_does() -> None:
    def device() -> str:
        return torch.ones(1).device.type

    with torch.device("meta"):
        watched = ag.watch(torch)
        assert device() == "meta"
    assert (device(), torch._C._len_torch_function_stack()) == ("cpu", 1)
    watched.stop()
    assert torch._C._len_torch_function_stack() == 0
    torch.set_default_device("meta")
    try:
        watched = ag.watch(torch)
        assert device() == "meta"
    finally:
        torch.set_default_device(None)
    assert device() == "cpu"
    watched.stop()
    assert torch._C._len_torch_function_stack() == 0
