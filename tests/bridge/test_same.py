"""Nothing of torch changes while it is watched: values, gradients, versions, errors, memory."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.bridge import forward
from ag_visual.events import live

from ..oracle import table, torch
from . import same


@pytest.fixture(autouse=True)
def nothing_missed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An error of the watcher's own is logged: here it fails the test."""
    with caplog.at_level(logging.ERROR, "ag_visual"):
        yield
    assert not caplog.records


@pytest.fixture
def filled() -> Iterator[None]:
    """Memory that nothing was written to holds NaNs, not what was there before."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("problems_only", [False, True])
def test_samples_of_torchs_own_tables(problems_only: bool) -> None:
    """One sample of every twelfth operation, every tenth module and each Function.

    `python -m tests.bridge.same` compares all of them.
    """
    every = int(problems_only)
    operations = table("common_methods_invocations", "op_db")[every::12]
    functions = table("autograd_function_db", "autograd_function_db")
    modules = table("common_modules", "module_db")[every::10]
    for programs, least in (
        (same.ops(operations, 1), 30),
        (same.ops(functions, 1), 8),
        (same.modules(modules, 1), 15),
    ):
        compared, others = same.compare(programs, problems_only=problems_only)
        assert not others
        assert compared >= least


def test_memory_is_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MOST_LINES", 300)  # before it is measured they are that many
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.ones(2, 3)

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    with ag.watch(torch, problems_only=True):
        tracemalloc.start()
        steps(200)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        steps(300)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert grown < 60_000  # what is known of one step, kept, would be ten times as much


class Cube(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def _custom(x: Any) -> Any:
    return Cube.apply(x).sum()


def _checkpointed(x: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda h: h.exp() * h, x * 2, use_reentrant=False).sum()


def _penalty(x: Any) -> Any:
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return g.square().sum()


def _autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x.reshape(2, 2) @ x.reshape(2, 2)).sum().float()


def _transformed(x: Any) -> Any:
    inner = torch.func.grad(lambda v: (v**3).sum())
    return (torch.func.vmap(lambda v: v.sin())(x) * inner(x)).sum()


def _threads(x: Any) -> Any:
    found: list[Any] = []
    workers = [threading.Thread(target=lambda: found.append(x.exp().sum())) for _ in range(3)]
    for worker in workers:
        worker.start()
        worker.join()
    return sum(found)


PROGRAMS = [_custom, _checkpointed, _penalty, _autocast, _transformed, _threads]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_programs_compute_the_same(program: Any) -> None:
    def run() -> Any:
        x = torch.arange(1.0, 5.0).requires_grad_()
        y = program(x)
        y.backward()
        return same.bits(y), same.bits(x.grad)

    alone = run()
    with ag.watch(torch) as watched:
        assert run() == alone
    assert watched.recording.rows("runs") > 2


def test_a_line_is_left_empty_rather_than_guessed() -> None:
    with ThreadPoolExecutor(1) as pool:  # a thread that began before torch was watched
        pool.submit(int).result()
        with ag.watch(torch):
            (engine,) = live.engines
            x = torch.ones(4, requires_grad=True)
            made = Cube.apply(x)
            assert engine.node_of(made).call_site[0] is sys._getframe().f_code
            node = engine.node_of(pool.submit(lambda: x.exp().sum()).result() + 1)
            assert node.call_site is not None
            below = node.next_functions[0][0]
            assert (below.name(), below.call_site) == ("SumBackward0", None)


def test_what_a_checkpoint_packed_is_named_and_not_unpacked() -> None:
    with ag.watch(torch):
        (engine,) = live.engines
        x = torch.ones(2, requires_grad=True)
        calls: list[int] = []

        def unpack(t: Any) -> Any:
            calls.append(1)
            return t

        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = x.exp()
        node = engine.node_of(y)
        assert [(field.name, field.kind) for field in node.saved_fields()] == [("result", "packed")]
        assert node.saved_array("result") is None
        assert not calls
        y.sum().backward()
        assert calls == [1]


def test_errors_of_the_program_pass() -> None:
    def raising(g: Any) -> None:
        raise ValueError("mine")

    with ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        y = x * 3
        y.register_hook(raising)
        with pytest.raises(ValueError, match="mine"):
            y.sum().backward()
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_stop_inside_of_a_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    watched = ag.watch(torch)
    y = x * 3
    y.register_hook(lambda g: watched.stop())
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert not live.engines
    # The mode is out of reach while torch runs in it: it does nothing, and goes the next time.
    watched.stop()
    assert torch._C._len_torch_function_stack() == 0
