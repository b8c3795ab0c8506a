"""What a profile costs, and how long its answers take: `python -m tests.bench --profile`."""

from __future__ import annotations

import gc
import importlib
import sys
import time
from typing import Any

from . import cases

EVENTS = 100_000
MEGABYTE = 1 << 20


def _profile(engine: cases.Engine) -> Any:
    return importlib.import_module(f"{engine.t.__name__}.autograd.profiler").profile


def _plain(engine: cases.Engine, run: cases.Case) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _inside(engine: cases.Engine, run: cases.Case) -> float:
    with _profile(engine)(use_kineto=True) if engine.name == "torch" else _profile(engine)():
        return _plain(engine, run)


def _whole(engine: cases.Engine, run: cases.Case) -> float:
    start = time.perf_counter()
    _inside(engine, run)
    return time.perf_counter() - start


def measure(ours: cases.Engine, theirs: cases.Engine, seconds: float) -> None:
    """Print what a chain costs profiled and not, in turns, the quickest of each."""
    kinds = {"not profiled": _plain, "inside the block": _inside, "the whole with": _whole}
    found: dict[tuple[str, str], float] = {}
    runs = {each.name: cases.chain(each, True) for each in (ours, theirs)}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for kind, timed in kinds.items():
            for engine in (ours, theirs):
                key = engine.name, kind
                found[key] = min(found.get(key, 1e9), timed(engine, runs[engine.name]))
    for kind in kinds:
        mine, other = found["ag_visual", kind], found["torch", kind]
        alone = mine / found["ag_visual", "not profiled"]
        print(
            f"chain, {kind:20} {mine / cases.CHAIN * 1e6:8.2f} us  torch "
            f"{other / cases.CHAIN * 1e6:8.2f} us, ratio {mine / other:5.2f}, to not profiled "
            f"{alone:5.2f}",
            flush=True,
        )
    _answers(ours)


def _answers(ours: cases.Engine) -> None:
    """How long a profile of EVENTS events takes to answer, and what it holds before that."""
    run = cases.chain(ours, True)
    rows = 0
    with _profile(ours)() as prof:
        while rows < EVENTS:
            run()
            rows += 4 * cases.CHAIN
    raw = prof._collection._rows
    numbers = {id(each): sys.getsizeof(each) for each in raw}
    size = (sys.getsizeof(raw) + sum(numbers.values())) / MEGABYTE
    gc.collect()
    averages = _plain(ours, prof.key_averages)
    events = _plain(ours, lambda: prof.function_events)
    print(f"{rows} events: {size:.1f} MB, averages {averages:.2f} s, events {events:.2f} s")
