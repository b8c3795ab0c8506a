"""Real programs of torch, watched and not: the same losses and parameters, and nothing is left."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.bridge.arrays import FEWEST, _memories, memory_of
from ag_visual.events import live
from ag_visual.session.session import current

from ..oracle import torch
from .same import bits

nn, F = torch.nn, torch.nn.functional
PATH = str(Path(ag.__file__).resolve().parents[1])


@pytest.fixture(autouse=True)
def nothing_missed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An error of the watcher's own is logged: here it fails the test."""
    with caplog.at_level(logging.ERROR, "ag_visual"):
        yield
    assert not caplog.records


def trained(model: Any, loss_of: Callable[[Any], Any], steps: int = 3) -> list[Any]:
    """Losses of some steps, and the parameters after them."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    return losses + [bits(parameter) for parameter in model.parameters()]


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])

    def forward(self, x: Any) -> Any:
        h = F.relu(self.norms[0](self.one(x)), inplace=True)
        h = self.norms[1](self.two(h))
        h += x
        return F.relu(h)


def residual_network() -> list[Any]:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x, y = torch.randn(2, 1, 8, 8), torch.tensor([0, 3])
    return trained(model, lambda m: F.cross_entropy(m(x), y))


def transformer() -> list[Any]:
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)  # with dropout
    source, target = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    return trained(model, lambda m: m(source, target).square().mean())


def lstm_loop() -> list[Any]:
    cell, head = nn.LSTMCell(3, 4), nn.Linear(4, 1)
    x = torch.randn(5, 2, 3)

    def loss_of(model: Any) -> Any:
        h = c = torch.zeros(2, 4)
        for step in x:
            h, c = cell(step, (h, c))
        return head(h).square().mean()

    return trained(nn.ModuleList([cell, head]), loss_of)


def gradient_penalty() -> list[Any]:
    critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(4, 3)

    def loss_of(model: Any) -> Any:
        between = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        return model(x).mean() + (slope.norm(dim=1) - 1).square().mean()

    return trained(critic, loss_of)


def checkpointing() -> list[Any]:
    from torch.utils.checkpoint import checkpoint

    first, second = nn.Linear(3, 4), nn.Linear(4, 1)
    x = torch.randn(2, 3)

    def loss_of(model: Any) -> Any:
        h = checkpoint(lambda v: F.dropout(first(v).tanh(), 0.3), x, use_reentrant=False)
        h = checkpoint(lambda v: v * v.exp(), h, use_reentrant=True)
        return second(h).square().mean()

    return trained(nn.ModuleList([first, second]), loss_of)


class Clipped(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1) + 0.1 * g


def custom_function() -> list[Any]:
    x = torch.randn(4, 3)
    return trained(nn.Linear(3, 2), lambda m: Clipped.apply(m(x)).square().sum())


def autocast() -> list[Any]:
    x = torch.randn(4, 3)

    def loss_of(model: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float().square().mean()

    return trained(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), loss_of)


def threads() -> list[Any]:
    """Each with a network and backwards of its own, one after the other begun, all at once."""
    models = [nn.Linear(3, 2) for _ in range(3)]
    x = torch.randn(4, 3)
    found: dict[int, list[Any]] = {}

    def work(at: int) -> None:
        found[at] = trained(models[at], lambda m: m(x).square().mean())

    workers = [threading.Thread(target=work, args=(at,)) for at in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [found[at] for at in range(3)]


def transforms() -> list[Any]:
    def loss_of(w: Any, x: Any) -> Any:
        return (x @ w).tanh().square().sum()

    w, x = torch.randn(3, requires_grad=True), torch.randn(5, 3)
    each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0))(w, x)
    each.square().sum().backward()
    return [bits(each), bits(w.grad), bits(torch.func.hessian(loss_of)(w.detach(), x[0]))]


def compiled() -> list[Any]:
    model = torch.compile(
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), backend="eager"
    )
    x = torch.randn(4, 3)
    return trained(model, lambda m: m(x).square().mean())


class Lightning(nn.Module):  # type: ignore[misc]
    """A module that is trained by what it returns, as pytorch_lightning's are."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))

    def training_step(self, batch: Any, index: int) -> dict[str, Any]:
        x, y = batch
        return {"loss": F.mse_loss(self.net(x).squeeze(1), y) / (index + 1)}

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)


def lightning_like() -> list[Any]:
    model, found = Lightning(), []
    data = torch.utils.data.TensorDataset(torch.randn(8, 3), torch.randn(8))
    optimizer, scheduler = model.configure_optimizers()
    for index, batch in enumerate(torch.utils.data.DataLoader(data, batch_size=4)):
        loss = model.training_step(batch, index)["loss"]

        def closure(loss: Any = loss) -> Any:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

        found.append(bits(optimizer.step(closure)))
        scheduler.step()
    return found + [bits(parameter) for parameter in model.parameters()]


PROGRAMS = [
    *(residual_network, transformer, lstm_loop, gradient_penalty, checkpointing, custom_function),
    *(autocast, threads, transforms, compiled, lightning_like),
]


def left() -> Any:
    """What a watcher puts into torch."""
    module = torch.nn.modules.module
    return (
        *(torch.autograd._engine_run_backward, vars(torch.autograd.Function)["apply"]),
        *(torch._C._len_torch_function_stack(), len(module._global_forward_pre_hooks)),
        *(len(module._global_forward_hooks), len(live.engines)),
    )


@pytest.mark.parametrize("problems_only", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_losses_and_parameters(program: Any, problems_only: bool) -> None:
    def run() -> list[Any]:
        torch.manual_seed(0)
        if program is compiled:
            torch.compiler.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program()  # type: ignore[no-any-return]

    before, alone = left(), run()
    with ag.watch(torch, problems_only=problems_only) as watched:
        assert run() == alone
    assert left() == before
    if not problems_only:
        assert watched.recording.rows("runs") > 2
    assert run() == alone


def flat(steps: int) -> int:
    """Bytes by which so many recorded steps grow, after those that fill what has a limit."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.ones(2, 3)

    def train(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            current().recorder.drain()
            current().recorder.store.clear()

    def held() -> int:
        gc.collect()
        _memories.leave_out_dead()  # they go by hundreds: how many wait for it is chance
        return tracemalloc.get_traced_memory()[0]

    with ag.watch(torch):
        tracemalloc.start()
        try:
            train(200)
            before = held()
            train(steps)
            return held() - before
        finally:
            tracemalloc.stop()


def test_memory_of_the_watcher_is_flat_while_everything_is_recorded() -> None:
    assert flat(300) < 90_000  # a tenth of what the nodes would have that it came across


def test_the_number_of_a_storage_that_is_gone_is_given_to_no_other() -> None:
    with ag.watch(torch):
        kept = [torch.ones(2) for _ in range(50)]
        numbers = [memory_of(each).number for each in kept]  # type: ignore[union-attr]
        for _ in range(3000):
            numbers.append(memory_of(torch.ones(2)).number)  # type: ignore[union-attr]
        gone = [torch.ones(2) for _ in range(2 * FEWEST)]
        numbers += [memory_of(each).number for each in gone]  # type: ignore[union-attr]
        gone.clear()
        _memories.leave_out_dead()
        assert len(set(numbers)) == len(numbers)
        assert len(_memories) < FEWEST
        assert [memory_of(each).number for each in kept] == numbers[:50]  # type: ignore[union-attr]


def test_stop_inside_of_a_hook_of_every_kind() -> None:
    for kind in ("tensor", "node", "module", "accumulate"):
        before = left()
        watched = ag.watch(torch)
        model = nn.Linear(3, 1)
        x = torch.ones(2, 3, requires_grad=True)

        def stop(*_: Any, watched: Any = watched) -> None:
            watched.stop()

        y = x * 2
        if kind == "tensor":
            y.register_hook(stop)
        elif kind == "node":
            y.grad_fn.register_hook(stop)
        elif kind == "module":
            model.register_forward_hook(stop)
        else:
            x.register_post_accumulate_grad_hook(stop)
        model(y).sum().backward()
        assert x.grad is not None
        watched.stop()
        assert left() == before, kind


def test_an_error_of_the_program_leaves_nothing() -> None:
    x = torch.ones(3, requires_grad=True)
    before = left()
    with pytest.raises(RuntimeError, match="mat1 and mat2"), ag.watch(torch):
        nn.Linear(4, 2)(x)
    assert left() == before
    with ag.watch(torch):
        y = (x * 2).sum()
        end = weakref.ref(y)
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.backward()
    assert left() == before
    del y
    gc.collect()
    assert end() is None


FORKS = """
import os
import ag_visual as ag
import torch

def gradient():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    return x.grad.tolist()

with ag.watch(torch) as watched:
    assert gradient() == [2.0, 4.0]
    runs = watched.recording.rows("runs")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if gradient() == [2.0, 4.0] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gradient() == [2.0, 4.0]
    print(watched.recording.rows("runs") == 2 * runs)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_computes_and_the_parent_goes_on() -> None:
    """In a process of its own: torch's backward refuses to run in the fork of one with threads."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=dict(os.environ, PYTHONPATH=PATH),
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
