"""`python -m tests.bench`: ratios to torch and to HIPS autograd, measured in turns in one run.

`--seconds N` is spent on each row, in turns of `--turn N` seconds (0: run by run, where
each finds the caches full of the other's data). `--panel` adds the time to first paint in a real
browser. Others measure something else instead: `--timeline` opening a profile of a million slices
in a browser, and moving in it; `--transforms` function transforms, forward mode and gradcheck;
`--profile` what a profile costs; `--recording` what a recording costs, as medians over turns;
`--newest` what watching the newest backward costs; `--watching` what `ag.watch(torch)` costs
torch; `--layers [PATTERN]` the layers of real programs with the extra `fast` and with NumPy alone,
as medians over turns in the time of the thread, beside what is wanted, those alone in whose name
the pattern is found; `--endurance MINUTES` a panel beside two notebooks that train, one of which
loses its kernel again and again.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable

import numpy

import ag_visual
from ag_visual.dispatch import table
from ag_visual.dispatch.codegen.forward import forward
from ag_visual.session.session import current

from . import THREADS, cases, layers, newest, profiles, transforms, watching


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _recorded(run: cases.Case, times: int) -> cases.Case:
    """The same so many times inside one record block, with everything encoded at its end."""

    def recorded() -> None:
        with ag_visual.record():
            for _ in range(times):
                run()

    return recorded


def _often(run: cases.Case, times: int) -> cases.Case:
    def often() -> None:
        for _ in range(times):
            run()

    return often


def _waiting(run: cases.Case, times: int) -> cases.Case:
    """The same while a recording runs that nobody looks at: events wait to be encoded."""
    session = current()

    def waiting() -> None:
        session.start()
        try:
            for _ in range(times):
                run()
        finally:
            session.recorder.stop()
            session.clear()

    return waiting


def _without_places(make: Callable[[cases.Engine], cases.Case], engine: cases.Engine) -> cases.Case:
    """The chain on a multiplication that does not remember where it was called."""
    plain = forward(table.ops["mul"], call_sites=False)
    tensor_type = type(engine.tensor(numpy.ones(1)))
    run = make(engine)

    def untracked() -> None:
        tracked = tensor_type.__mul__
        tensor_type.__mul__ = plain
        try:
            run()
        finally:
            tensor_type.__mul__ = tracked

    return untracked


def _print(label: str, found: dict[str, float], per: int) -> None:
    ours = found["ag_visual"]
    row = [f"{label:34}", f"{ours / per * 1e6:10.2f} us"]
    for name, seconds in found.items():
        if name != "ag_visual":
            row.append(f"{name} {seconds / per * 1e6:10.2f} us, ratio {ours / seconds:5.2f}")
    print("  ".join(row), flush=True)


RECORDED: dict[str, tuple[Callable[[cases.Engine], cases.Case], int]] = {
    "chain": (lambda e: cases.chain(e, True), 20),
    "RNN of 100 steps": (cases.rnn, 10),
    "MLP step": (cases.mlp, 200),
}
"""What is recorded, and how often in one block."""


def _recordings(ours: cases.Engine, theirs: cases.Engine, seconds: float) -> None:
    """The median over turns of what each way of recording takes, against its neighbours."""
    for label, (make, times) in RECORDED.items():
        runs = {
            "not recorded": _often(make(ours), times),
            "not looked at": _waiting(make(ours), times),
            "recorded": _recorded(make(ours), times),
            "torch": _often(make(theirs), times),
        }
        found = cases.turns(runs, seconds, time.process_time)
        for how in ("not looked at", "recorded"):
            told = f"{label}, {how} ({len(found[how])} turns)"
            for other in ("not recorded", "torch"):
                pairs = zip(found[how], found[other], strict=True)
                told += f", / {other} {statistics.median(a / b for a, b in pairs):.3f}"
            print(told, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turn", type=float, default=cases.TURN, help="seconds; 0: cold caches")
    parser.add_argument("--panel", action="store_true")
    parser.add_argument("--timeline", action="store_true")
    parser.add_argument("--transforms", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--recording", action="store_true")
    parser.add_argument("--newest", action="store_true")
    parser.add_argument("--watching", action="store_true")
    parser.add_argument("--layers", nargs="?", const="", metavar="PATTERN")
    parser.add_argument("--endurance", type=float, metavar="MINUTES")
    options = parser.parse_args()
    if options.timeline:
        from . import timeline

        timeline.main()
        return
    if options.endurance is not None:
        from . import endurance

        raise SystemExit(endurance.main(options.endurance))

    import torch

    torch.set_num_threads(int(THREADS))
    ours, theirs = cases.Engine("ag_visual", ag_visual), cases.Engine("torch", torch)
    print(f"ag_visual {_commit()}, torch {torch.__version__}, numpy {numpy.__version__}")

    def both(make: Callable[[cases.Engine], cases.Case]) -> dict[str, cases.Case]:
        return {"ag_visual": make(ours), "torch": make(theirs)}

    def show(label: str, runs: dict[str, cases.Case], per: int = 1) -> None:
        _print(label, cases.best(runs, options.seconds, options.turn), per)

    if options.profile:
        profiles.measure(ours, theirs, options.seconds)
        return
    if options.recording:
        _recordings(ours, theirs, options.seconds)
        return
    if options.newest:
        newest.measure(ours, options.seconds)
        return
    if options.watching:
        watching.measure(torch, options.seconds)
        return
    if options.layers is not None:
        layers.measure(ours, theirs, options.seconds, options.turn, options.layers)
        return
    if options.transforms:
        for name, make in transforms.CASES.items():
            show(name, both(make))
        return
    for backward, label in ((False, "chain, forward"), (True, "chain, forward and backward")):
        runs = both(lambda e, b=backward: cases.chain(e, b))  # type: ignore[misc]
        runs["autograd"] = cases.hips_chain(backward)
        show(f"{label}, per op", runs, cases.CHAIN)
    full = lambda e: cases.chain(e, True)  # noqa: E731

    def recorded(name: str, per: int = 1) -> None:
        make, times = RECORDED[name]
        # Processor time: a block takes long enough to be interrupted, and a thread encodes.
        others = {"not recorded": _often(make(ours), times), "torch": _often(make(theirs), times)}
        for how, watched in (("recorded, not looked at", _waiting), ("recorded", _recorded)):
            runs = {"ag_visual": watched(make(ours), times), **others}
            found = cases.best(runs, options.seconds, options.turn, time.process_time)
            _print(f"{name}, {how}", found, per * times)

    recorded("chain", cases.CHAIN)
    show(
        "chain, source tracking on / off",
        {"ag_visual": full(ours), "untracked": _without_places(full, ours)},
        cases.CHAIN,
    )
    show("chain under no_grad, per op", both(cases.no_grad_chain), cases.CHAIN)
    show("double backward", both(cases.double_backward))
    show("RNN of 100 steps", both(cases.rnn))
    recorded("RNN of 100 steps")
    show("MLP step, 64 digits", both(cases.mlp))
    show("MLP step, nn and optim", both(cases.mlp_modules))
    recorded("MLP step")
    show("conv net step, 32 images", both(cases.conv_net))
    for kernel, stride, groups in ((3, 1, 1), (3, 2, 1), (1, 1, 1), (3, 1, 16)):
        label = f"convolution {kernel} x {kernel}, stride {stride}, groups {groups}"
        show(label, both(lambda e, a=(kernel, stride, groups): cases.convolution(e, *a)))  # type: ignore[misc]
    show("attention, 8 x 4 x 64 x 32", both(cases.attention))
    for shape in ((64, 128), (32, 64, 256)):
        told = " x ".join(map(str, shape))
        show(f"softmax, {told}", both(lambda e, s=shape: cases.softmax(e, *s)))  # type: ignore[misc]
        show(f"layer_norm, {told}", both(lambda e, s=shape: cases.layer_norm(e, *s)))  # type: ignore[misc]
    show("cross_entropy, 64 x 10", both(cases.cross_entropy))
    show("1M-element chain, per op", both(cases.large), cases.LARGE)
    show("retained 100,000-element chain", both(cases.retained), cases.RETAINED)
    if options.panel:
        from . import panel

        panel.main()


main()
