"""Interrupts, and what they leave behind: `python -m tests.machines.interrupts`.

A piece of work runs again and again until a signal ends it somewhere. After each one nothing may
count as running, no mode, gate or lock be left, and what was written be old or new, with its
version. Signals come from a timer, at random moments (`--count N` of them, or for `--minutes M`),
or with `--every` once at each moment at which Python looks for them, or with `--group NAME` so for
the kinds of a group that CI runs, each place once. `--kind`: only this one.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import Counter

from .every import Place, every, places, turned
from .kinds import ELSEWHERE, IN_CI, IN_TURNS, KINDS
from .timer import compare, run

ROUNDS = 25
"""Interrupts of a kind before the next one's turn."""


def at_random(kinds: list[str], turns: list[str], count: int, minutes: float, seed: int) -> bool:
    """Whether a timer's signals left nothing behind."""
    first, done = seed, 0
    end = time.monotonic() + minutes * 60
    found: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    left = {kind: [0, 0, 0] for kind in turns}
    while time.monotonic() < end if minutes else done < count:
        for kind in kinds:
            with contextlib.suppress(ImportError):
                found[kind] += run(kind, ROUNDS, seed)
                done += ROUNDS
        for kind in turns:
            with contextlib.suppress(ImportError):
                import torch

                pair = compare(kind, ROUNDS, seed, torch)
                left[kind] = [a + b for a, b in zip(left[kind], (ROUNDS, *pair), strict=True)]
                done += ROUNDS
        seed += 1
    for kind, told in found.items():
        for text, times in told.items():
            print(f"{kind}: {text}, {times} times")
    for kind, (times, ours, theirs) in left.items():
        print(f"{kind}: left on {ours} times in {times}, torch's {theirs} times")
    print(f"{done} interrupts, seeds {first} to {seed}")
    return not any(found.values())


def at_each(kinds: list[str], turns: list[str], met: set[Place] | None = None) -> bool:
    """Whether a signal at every point left nothing behind. met: as in `every`."""
    clean, points = True, 0
    for kind in kinds:
        with contextlib.suppress(ImportError):
            figures = every(kind, met=met)
            points += figures.points
            clean &= figures.points > 0
            print(
                f"{kind}: {figures.points} interrupts in {figures.places} places, {figures.lost} "
                f"of them in finalizers; {figures.missed} points not met again",
                flush=True,
            )
            for text, where in figures.found.items():
                clean = False
                print(f"    {text}, {where.total()} times, first at {next(iter(where))}")
    for kind in turns:
        with contextlib.suppress(ImportError):
            import torch

            import ag_visual as ag

            (ours, _), (theirs, _) = turned(kind, ag), turned(kind, torch)
            clean &= ours.total() <= theirs.total()
            print(f"{kind}: left on at {ours.total()} points, torch's at {theirs.total()}")
    print(f"{points} interrupts")
    return clean


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.machines.interrupts", description=__doc__
    )
    parser.add_argument("--count", type=int, default=2000, help="interrupts, of all kinds together")
    parser.add_argument("--minutes", type=float, default=0.0, help="so long, instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", action="store_true", help="at every moment, none at random")
    parser.add_argument("--group", choices=IN_CI)
    parser.add_argument("--kind", choices=[*KINDS, *IN_TURNS])
    options = parser.parse_args()
    kinds = [k for k in KINDS if options.kind in (None, k)]
    turns = [k for k in IN_TURNS if options.kind in (None, k)]
    if options.group:
        met = set[Place]().union(*map(places, ELSEWHERE.get(options.group, [])))
        clean = at_each(IN_CI[options.group], [], met)
    elif options.every:
        clean = at_each(kinds, turns)
    else:
        clean = at_random(kinds, turns, options.count, options.minutes, options.seed)
    sys.exit(not clean)


if __name__ == "__main__":
    main()
