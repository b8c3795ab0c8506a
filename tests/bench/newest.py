"""What watching the newest backward costs while a panel is open: medians over turns of the ratio to
the same program with *Watch: off*, in processor time of all threads.

The time that may be spent at once, as a cell begins, is spent before: what is measured goes on for
as long as the program does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.observe.record.allowance import Allowance
from ag_visual.session.session import Session, current

from . import cases
from .cases import Case, Engine


def long_step(engine: Engine) -> Case:
    """One training step of a 512-512-512-10 network on 512 rows: about 10 ms."""
    t = engine.t
    t.manual_seed(0)
    layer = t.nn.Linear
    net = t.nn.Sequential(
        layer(512, 512), t.nn.ReLU(), layer(512, 512), t.nn.ReLU(), layer(512, 10)
    )
    rng = numpy.random.default_rng(0)
    x, target = engine.tensor(rng.random((512, 512))), t.from_numpy(rng.integers(0, 10, 512))
    optimizer, loss_of = t.optim.SGD(net.parameters(), lr=0.01), t.nn.CrossEntropyLoss()

    def run() -> None:
        optimizer.zero_grad()
        loss_of(net(x), target).backward()
        optimizer.step()

    return run


CASES: dict[str, tuple[Callable[[Engine], Case], int]] = {
    "chain": (lambda e: cases.chain(e, True), 200),
    "RNN of 100 steps": (cases.rnn, 50),
    "MLP step": (cases.mlp, 1000),
    "step of 10 ms": (long_step, 15),
}
"""What is watched, and how often in one turn."""


def measure(engine: Engine, seconds: float) -> None:
    """Print the ratios."""
    session = current()

    def send(header: dict[str, Any], buffers: list[bytes]) -> None:
        page.acknowledge(header.get("batch", 0))

    page = session.open_page("bench", send)
    for label, (make, times) in CASES.items():
        run = make(engine)
        for watched in (False, True):
            _turn(session, run, times, watched)
        ratios = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            took = {watched: _turn(session, run, times, watched) for watched in (False, True)}
            ratios.append(took[True] / took[False])
        quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        told = ", ".join(f"{ratio:.3f}" for ratio in quarters)
        print(f"{label}, newest watched / not watched ({len(ratios)} turns): {told}", flush=True)
    session.watch_newest(False)
    session.close_page(page)


def _spent(share: float) -> Allowance:
    allowance = Allowance(share=share, grows=True)
    allowance.spend(allowance.most)
    return allowance


def _turn(session: Session, run: Case, times: int, watched: bool) -> float:
    """Seconds of the processor for so many runs."""
    session.watch_newest(watched)
    recorder, numbers = session.recorder, session.numbers
    for owner, name in ((recorder, "allowance"), (recorder, "looks"), (numbers, "allowance")):
        setattr(owner, name, _spent(getattr(owner, name).share))
    began = time.process_time()
    for _ in range(times):
        run()
    session.flush()
    took = time.process_time() - began
    session.watch_newest(False)
    return took
