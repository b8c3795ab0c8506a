"""What `ag.watch(torch)` costs: medians over turns of ratios to torch that is not watched.

Forward and backward are timed apart. What waits to be encoded is encoded between turns, as a page
or the end of a recording does it. Printed is the time of what runs in the program's thread.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import ag_visual as ag
from ag_visual.session.session import current

from .cases import CHAIN

Parts = Callable[[], tuple[float, float]]
"""Runs a program once: seconds of its forward, seconds of its backward."""

WAYS: dict[str, dict[str, Any] | None] = {
    "unwatched": None,
    "recorded": {},
    "problems only": {"problems_only": True},
}


def chain(torch: Any) -> Parts:
    """CHAIN multiplications of 4 elements."""
    x, y, one = torch.ones(4, requires_grad=True), torch.ones(4), torch.ones(4)

    def run() -> tuple[float, float]:
        began = time.thread_time()
        h = x
        for _ in range(CHAIN):
            h = h * y
        middle = time.thread_time()
        h.backward(one)
        return middle - began, time.thread_time() - middle

    return run


def network(torch: Any) -> Parts:
    """Six layers of 512 x 512 on 96 rows: operations of about a millisecond."""
    torch.manual_seed(0)
    layers = [m for _ in range(6) for m in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
    net, x = torch.nn.Sequential(*layers), torch.randn(96, 512)

    def run() -> tuple[float, float]:
        net.zero_grad()
        began = time.thread_time()
        loss = net(x).square().mean()
        middle = time.thread_time()
        loss.backward()
        return middle - began, time.thread_time() - middle

    return run


CASES: dict[str, tuple[Callable[[Any], Parts], int]] = {
    "chain": (chain, CHAIN),
    "network": (network, 1),
}


def _turn(torch: Any, run: Parts, how: dict[str, Any] | None, times: int) -> tuple[float, ...]:
    """The medians of one turn."""
    watched = None if how is None else ag.watch(torch, **how)
    gc.disable()
    try:
        run()
        found = [run() for _ in range(times)]
    finally:
        gc.enable()
        if watched is not None:
            watched.stop()
            current().clear()
    sums = [(forward, backward, forward + backward) for forward, backward in found]
    return tuple(statistics.median(column) for column in zip(*sums, strict=True))


def measure(torch: Any, seconds: float, times: int = 10) -> None:
    """Print the ratios."""
    gc.collect()
    gc.freeze()
    for label, (make, per) in CASES.items():
        run = make(torch)
        turns: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for way, how in WAYS.items():
                turns[way].append(_turn(torch, run, how, times))
        for way, found in turns.items():
            pairs = list(zip(found, turns["unwatched"], strict=True))
            told = [f"{label}, {way} ({len(found)} turns)"]
            for at, part in enumerate(("forward", "backward", "both")):
                took = statistics.median(mine[at] for mine in found) / per * 1e6
                ratio = statistics.median(mine[at] / other[at] for mine, other in pairs)
                told.append(f"{part} {took:.2f} us, ratio {ratio:.2f}")
            print("; ".join(told), flush=True)
