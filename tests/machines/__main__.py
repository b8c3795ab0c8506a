"""`python -m tests.machines --minutes N --seed S`: random programs against the reference."""

from __future__ import annotations

import argparse
import time

from .run import EXAMPLES, run

parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
parser.add_argument("--minutes", type=float, default=1.0)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
end = time.monotonic() + options.minutes * 60
rounds = 0
while time.monotonic() < end:
    run(1, options.seed + rounds)
    rounds += 1
print(
    f"nothing found: {rounds * EXAMPLES} programs, seeds {options.seed} to {options.seed + rounds}"
)
