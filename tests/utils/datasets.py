"""Datasets for worker processes, which import this module and no more than it does."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.utils.data import IterableDataset, get_worker_info


class Rows:
    """Samples by index, made by either package; what it is asked for may go wrong."""

    def __init__(self, root: str, size: int = 10, wrong: dict[int, str] | None = None) -> None:
        self.root, self.size, self.wrong = root, size, wrong or {}

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        t = sys.modules[self.root]
        way = self.wrong.get(index)
        if way == "value":
            raise ValueError(f"no sample {index}")
        if way == "key":
            raise KeyError(index)
        if way == "odd":
            raise Odd(1, 2)
        if way == "stop":
            raise StopIteration
        if way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if way == "exit":
            os._exit(3)
        if way == "slow":
            time.sleep(60)
        sample = {"x": t.full((40, 60), float(index)), "n": numpy.full(3, index), "i": index}
        return sample, f"sample {index}"


class Odd(Exception):
    """One that cannot be made of a text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


class Numbers(IterableDataset[int]):
    """A stream of which each worker gives a part, or all of it."""

    def __init__(self, size: int = 11, shared: bool = True) -> None:
        self.size, self.shared = size, shared

    def __iter__(self) -> Any:
        info = get_worker_info()
        if info is None or not self.shared:
            return iter(range(self.size))
        return iter(range(info.id, self.size, info.num_workers))


def facts(number: int) -> None:
    """What a worker knows of itself when it begins."""
    info = get_worker_info()
    assert info is not None
    info.dataset.seen = {
        "id": info.id,
        "init": number,
        "of": info.num_workers,
        "seed": info.seed,
        "pid": os.getpid(),
        "draws": [random.random(), numpy.random.rand(), ag.rand(1).item()],
        "here": sorted(
            name
            for name in sys.modules
            if name.startswith(("IPython", "ipykernel", "comm", "ag_visual.session"))
        ),
        "recorded": instrument.sink is not None,
    }


class Seen:
    """A dataset that gives what its worker knew."""

    seen: Any = None

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> str:
        return json.dumps(self.seen)
