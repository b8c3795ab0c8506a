"""Training steps, the same program in both engines: the same losses, and the time to torch's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy

import ag_visual as ag

from ..page import Machine, check
from .exchange import cuda_torch

Step = Callable[[], Any]
TURNS = 9
BOUND = 1.3
"""The most that a step of the large MLP may take, in steps of torch's (float32, TF32 off)."""


def mlp(engine: Any, device: str, width: int, batch: int) -> Step:
    """SGD on three layers of `width`, float32."""
    random = numpy.random.default_rng(0)
    nn = engine.nn
    net = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    return _trained(engine, net, device, random, (batch, width))


def conv_net(engine: Any, device: str, width: int, batch: int) -> Step:
    """SGD on two convolutions and a layer, images of 32 x 32."""
    random = numpy.random.default_rng(0)
    nn = engine.nn
    net = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 10),
    )
    return _trained(engine, net, device, random, (batch, 3, 32, 32))


def lstm(engine: Any, device: str, width: int, batch: int) -> Step:
    """SGD on an LSTM over 32 steps and a layer."""
    nn = engine.nn
    random = numpy.random.default_rng(0)

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(width, width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][-1])

    return _trained(engine, Net(), device, random, (32, batch, width), batch)


def _trained(
    engine: Any, net: Any, device: str, random: Any, shape: tuple[int, ...], batch: int = 0
) -> Step:
    """One step of SGD on random data; both engines begin with the same parameters."""
    with engine.no_grad():
        for p in net.parameters():
            bound = (1 / p.shape[-1] if p.ndim > 1 else 0.01) ** 0.5
            p.copy_(engine.from_numpy(random.uniform(-bound, bound, p.shape).astype("float32")))
    net = net.to(device)
    x = engine.from_numpy(random.standard_normal(shape).astype("float32")).to(device)
    y = engine.from_numpy(random.integers(0, 10, batch or shape[0])).to(device)
    optimizer = engine.optim.SGD(net.parameters(), lr=0.01)

    def step() -> Any:
        optimizer.zero_grad()
        loss = engine.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def losses_agree(ours: Step, theirs: Step, steps: int = 3) -> None:
    """The losses of the first steps are those of torch."""
    for at in range(steps):
        found, wanted = ours().item(), theirs().item()
        assert abs(found - wanted) <= 1e-3 * abs(wanted), f"step {at}: {found}, torch {wanted}"


def ratio(machine: Machine, ours: Step, theirs: Step, wait: Callable[[], None]) -> float:
    """The median over turns of our time for a step to torch's, taken in turns."""

    def took(step: Step, times: int) -> float:
        wait()
        begun = time.perf_counter()
        for _ in range(times):
            step()
        wait()
        return (time.perf_counter() - begun) / times

    for step in (ours, theirs):
        took(step, 3)
    times = max(1, int(machine.seconds / (2 * TURNS * max(took(ours, 2), took(theirs, 2)))))
    return statistics.median(took(ours, times) / took(theirs, times) for _ in range(TURNS))


def _compared(machine: Machine, make: Callable[..., Step], width: int, batch: int) -> str:
    if not machine.real:  # the code of the step, against torch on the host
        import torch

        losses_agree(make(ag, machine.device, 8, 4), make(torch, "cpu", 8, 4))
        return "losses alone"
    torch = cuda_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    ours, theirs = make(ag, machine.device, width, batch), make(torch, "cuda", width, batch)
    losses_agree(ours, theirs)

    def wait() -> None:
        ag.cuda.synchronize()
        torch.cuda.synchronize()

    return f"{ratio(machine, ours, theirs, wait):.2f} of torch's time"


@check("ratios")
def step_of_an_mlp_of_width_1024(machine: Machine) -> str:
    """Batch 1024, at most BOUND of torch's time."""
    return _bounded(_compared(machine, mlp, 1024, 1024))


@check("ratios")
def step_of_an_mlp_of_width_4096(machine: Machine) -> str:
    """Batch 1024, at most BOUND of torch's time."""
    return _bounded(_compared(machine, mlp, 4096, 1024))


def _bounded(found: str) -> str:
    figure = found.partition(" ")[0]
    if figure[:1].isdigit() and float(figure) > BOUND:
        raise AssertionError(f"{found}, more than {BOUND}")
    return found


@check("ratios")
def step_of_a_small_mlp(machine: Machine) -> str:
    """Width 64, batch 64: what a launch and Python cost; told, without a bound."""
    return _compared(machine, mlp, 64, 64)


@check("ratios")
def step_of_a_conv_net(machine: Machine) -> str:
    """64 images; CuPy has no cuDNN: told, without a bound."""
    return _compared(machine, conv_net, 32, 64)


@check("ratios")
def step_of_an_lstm(machine: Machine) -> str:
    """Width 128, batch 64; told, without a bound."""
    return _compared(machine, lstm, 128, 64)
