"""`python -m tests.bench.against CHECKOUT`: this checkout's speed as a ratio to another one's.

Both run in fresh processes that take turns of `--turn` seconds, case by case: what the machine does
meanwhile meets both. Printed is the median over `--turns` turns of each pair's ratio (this / other;
above 1 is slower), with the quartiles; `--pairs` pairs of processes share the turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import THREADS, cases, layers

HERE = Path(__file__).resolve().parents[2]
Make = Callable[[cases.Engine], cases.Case]

CASES: dict[str, Make] = {
    "chain, forward": lambda e: cases.chain(e, False),
    "chain, forward and backward": lambda e: cases.chain(e, True),
    "chain under no_grad": cases.no_grad_chain,
    "double backward": cases.double_backward,
    "RNN of 100 steps": cases.rnn,
    "MLP step": cases.mlp,
    "MLP step, nn and optim": cases.mlp_modules,
    "conv net step": cases.conv_net,
    "convolution 3 x 3": lambda e: cases.convolution(e, 3, 1),
    "convolution 3 x 3, stride 2": lambda e: cases.convolution(e, 3, 2),
    "depthwise convolution": lambda e: cases.convolution(e, 3, 1, 16),
    "attention": cases.attention,
    "softmax, 64 x 128": lambda e: cases.softmax(e, 64, 128),
    "softmax, 32 x 64 x 256": lambda e: cases.softmax(e, 32, 64, 256),
    "layer_norm, 64 x 128": lambda e: cases.layer_norm(e, 64, 128),
    "layer_norm, 32 x 64 x 256": lambda e: cases.layer_norm(e, 32, 64, 256),
    "cross_entropy, 64 x 10": cases.cross_entropy,
    **layers.CASES,
    "1M-element chain": cases.large,
    "retained 100,000-element chain": cases.retained,
}


def serve() -> None:
    """The worker: for each line `case<TAB>seconds`, the seconds of one run over such a turn."""
    import ag_visual

    engine, made = cases.Engine("ag_visual", ag_visual), dict[str, cases.Case]()
    for line in sys.stdin:
        name, _, turn = line.rstrip("\n").partition("\t")
        if name not in made:
            made[name] = CASES[name](engine)
            made[name]()
        run, runs, begun = made[name], 0, time.perf_counter()
        while (spent := time.perf_counter() - begun) < float(turn):
            run()
            runs += 1
        print(spent / max(runs, 1), flush=True)


class Worker:
    """A fresh process with the ag_visual of one checkout, and the cases of this one."""

    def __init__(self, checkout: Path) -> None:
        # The cases are this checkout's, whichever ag_visual they run on.
        start = (
            f"import sys; sys.path[0:0] = [{str(HERE)!r}]\n"
            "from tests.bench.against import serve\n"
            f"sys.path[0] = {str(checkout)!r}\n"
            "import ag_visual\n"
            f"assert ag_visual.__file__.startswith({str(checkout)!r}), ag_visual.__file__\n"
            "serve()"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": THREADS, "PYTHONPATH": ""},
        )

    def turn(self, name: str, seconds: float) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name}\t{seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


def compare(other: Path, turns: int, pairs: int, seconds: float, names: list[str]) -> None:
    """Print each case's median ratio and its quartiles."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for pair in range(pairs):
        workers: dict[str, Any] = {"this": Worker(HERE), "other": Worker(other)}
        for name in names:
            for turn in range(turns // pairs + 1):
                order = ["this", "other"] if (turn + pair) % 2 else ["other", "this"]
                took = {side: workers[side].turn(name, seconds) for side in order}
                if turn:  # the first warms up
                    found[name].append(took["this"] / took["other"])
        for worker in workers.values():
            worker.end()
    for name, ratios in found.items():
        low, median, high = statistics.quantiles(ratios, n=4)
        print(f"{name:34} {median:5.3f}  ({low:5.3f} to {high:5.3f}, {len(ratios)} turns)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.against", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--turn", type=float, default=0.01, help="seconds")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    options = parser.parse_args()
    names = [name for name in CASES if options.only in name]
    compare(options.checkout.resolve(), options.turns, options.pairs, options.turn, names)


if __name__ == "__main__":
    main()
