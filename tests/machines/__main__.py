"""`python -m tests.machines --minutes N --seed S`: random programs against the reference."""

from __future__ import annotations

import argparse

from .run import EXAMPLES, run

parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
parser.add_argument("--minutes", type=float, default=1.0)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
rounds = run(options.minutes * 60, options.seed)
print(
    f"nothing found: {rounds * EXAMPLES} programs, seeds {options.seed} to {options.seed + rounds}"
)
